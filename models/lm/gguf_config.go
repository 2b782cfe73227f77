package lm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/seed-1415985d/attn/models/internal/tokenize"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// generalKeys are the keys of a GGUF file under "general.".
type generalKeys struct {
	Architecture string `json:"architecture"`
}

// architectureKeys are the keys under the name of the architecture.
type architectureKeys struct {
	Blocks        int      `json:"block_count"`
	Further       int      `json:"nextn_predict_layers"` // the last layers, which guess further tokens
	Dim           int      `json:"embedding_length"`
	Heads         perLayer `json:"attention.head_count"`
	KVHeads       perLayer `json:"attention.head_count_kv"`
	KeyDim        *int     `json:"attention.key_length"`
	ValueDim      *int     `json:"attention.value_length"`
	FFN           perLayer `json:"feed_forward_length"`
	Vocab         *int     `json:"vocab_size"`
	Positions     *float64 `json:"context_length"`
	Epsilon       *float64 `json:"attention.layer_norm_rms_epsilon"`
	LayerEpsilon  *float64 `json:"attention.layer_norm_epsilon"` // the same of LayerNorm
	Rotated       *int     `json:"rope.dimension_count"`
	Theta         *float64 `json:"rope.freq_base"`
	Window        *int     `json:"attention.sliding_window"`
	Sliding       sliding  `json:"attention.sliding_window_pattern"`
	ScalingType   *string  `json:"rope.scaling.type"`
	Factor        *float64 `json:"rope.scaling.factor"`
	OldFactor     *float64 `json:"rope.scale_linear"`
	Original      float64  `json:"rope.scaling.original_context_length"`
	Magnitude     *float64 `json:"rope.scaling.attn_factor"`
	Fast          float64  `json:"rope.scaling.yarn_beta_fast"`
	Slow          float64  `json:"rope.scaling.yarn_beta_slow"`
	LogMul        float64  `json:"rope.scaling.yarn_log_multiplier"`
	QueryScale    float64  `json:"attention.temperature_scale"`
	QueryLength   *float64 `json:"attention.temperature_length"`
	ScoreCap      *float64 `json:"attn_logit_softcapping"`
	LogitCap      *float64 `json:"final_logit_softcapping"`
	LocalTheta    *float64 `json:"rope.freq_base_swa"`
	Experts       int      `json:"expert_count"`
	Used          int      `json:"expert_used_count"`
	ExpertFFN     int      `json:"expert_feed_forward_length"`
	SharedFFN     int      `json:"expert_shared_feed_forward_length"`
	SharedCount   int      `json:"expert_shared_count"`
	FirstDense    int      `json:"leading_dense_block_count"` // layers without experts
	Gating        int      `json:"expert_gating_func"`        // 1 softmax, 2 sigmoid
	MoEStep       *int     `json:"interleave_moe_layer_step"` // the last of so many layers has experts
	RouteScale    *float64 `json:"expert_weights_scale"`
	Normalized    *bool    `json:"expert_weights_norm"`
	ConvWidth     int      `json:"ssm.conv_kernel"`
	Inner         int      `json:"ssm.inner_size"`
	StateDim      int      `json:"ssm.state_size"`
	StateHeads    int      `json:"ssm.time_step_rank"`
	KeyHeads      int      `json:"ssm.group_count"`
	EmbeddingMul  *float64 `json:"embedding_scale"`
	AttentionMul  *float64 `json:"attention.scale"`
	ResidualMul   *float64 `json:"residual_scale"`
	LogitsDivisor *float64 `json:"logit_scale"`
	Rotates       *bool    `json:"rope.scaling.finetuned"` // of granite
	ShortWidth    int      `json:"shortconv.l_cache"`
	Interval      *int     `json:"full_attention_interval"`
	Recurrent     []bool   `json:"attention.recurrent_layers"`
	Sections      []int    `json:"rope.dimension_sections"`
	LocalKeyDim   *int     `json:"attention.key_length_swa"` // of layers with a window
	LocalValueDim *int     `json:"attention.value_length_swa"`
	LocalRotated  *int     `json:"rope.dimension_count_swa"`
	SharedLayers  int      `json:"attention.shared_kv_layers"` // see byLayer
	Inputs        int      `json:"embedding_length_per_layer_input"`

	of *architecture
}

// perLayer is one number for all layers, or one for each; it is empty if the file has no such key.
type perLayer []int

func (p *perLayer) UnmarshalJSON(data []byte) error {
	if data[0] == '[' {
		return json.Unmarshal(data, (*[]int)(p))
	}
	*p = make(perLayer, 1)
	return json.Unmarshal(data, &(*p)[0])
}

// of returns the number that all layers have, 0 for none. Blocks that are not layers may have
// others.
func (p perLayer) of(layers, blocks int, key string) (int, error) {
	switch n := len(p); {
	case n == 0:
		return 0, nil
	case n > 1 && n != blocks:
		return 0, fmt.Errorf("%s has %d numbers, want one, or block_count, %d", key, n, blocks)
	}
	if of := p[:max(0, min(len(p), layers))]; len(slices.Compact(slices.Clone(of))) > 1 {
		return 0, fmt.Errorf("%s is %v, want one number, or the same for each of %d layers", key,
			[]int(of), layers)
	}
	return p[0], nil
}

// some returns the number of some layers, which in returns, if there is one for each of all blocks.
func (p perLayer) some(blocks int, key string, in func(layer int) bool) (int, error) {
	if len(p) != blocks {
		return p.of(blocks, blocks, key)
	}
	var with perLayer
	for i, n := range p {
		if in(i) {
			with = append(with, n)
		}
	}
	return with.of(len(with), len(with), key)
}

// sliding says which layers have a window: all except the last of each period, or a bool for each
// layer.
type sliding struct {
	period int
	layers []bool
}

func (s *sliding) UnmarshalJSON(data []byte) error {
	if data[0] == '[' {
		return json.Unmarshal(data, &s.layers)
	}
	err := json.Unmarshal(data, &s.period)
	if err == nil && s.period < 1 {
		err = fmt.Errorf("attention.sliding_window_pattern is %d, want 1 or more, or bools", s.period)
	}
	return err
}

// readMetadata reads the configuration of a model from the metadata of a GGUF file. v is its
// vocabulary.
func readMetadata(l *weights.Loader, v *tokenize.Vocabulary) (config, *tensorNames) {
	var general generalKeys
	l.Metadata("general", &general, idleGeneral)
	if l.Err != nil {
		return config{}, nil
	}
	name := general.Architecture
	a, err := architectureOf("general.architecture", name, (*architecture).ggufName)
	if l.Check("", err); err != nil {
		return config{}, nil
	}
	var k architectureKeys
	l.Metadata(name, &k, idleArchitecture)
	if k.of = a; k.Experts > 0 {
		k.of = a.withExperts((*architecture).ggufName)
	}
	l.CheckMetadata(idleElsewhere)
	c, err := k.config(len(v.Tokens))
	if err != nil {
		l.Check("", fmt.Errorf("%s.%w", name, err))
	}
	c.GuessLayers, c.GuessKey = k.Further, name+".nextn_predict_layers"
	c.Tied, c.Stop = !l.Has(k.of.file.head+".weight"), v.Stop()
	if k.of.glmExperts {
		c.QKNorm = l.Has("blk.0.attn_q_norm.weight")
	}
	if i := slices.Index(c.Windows, 0); k.of.byLayer && i >= 0 {
		c.ByLayer.KeysAreValues = !l.Has(fmt.Sprintf(k.of.file.layer, i) + k.of.file.v + ".weight")
	}
	return c, k.of.file
}

// config returns the model that the keys describe.
func (k *architectureKeys) config(vocab int) (config, error) {
	layers := k.Blocks - k.Further
	if k.Further < 0 || k.Further > 0 && layers < 1 {
		return config{}, fmt.Errorf("nextn_predict_layers is %d, want 0 or more, and less than "+
			"block_count, %d", k.Further, k.Blocks)
	}
	heads, err := k.Heads.of(layers, k.Blocks, "attention.head_count")
	kvHeads, kvErr := k.kvHeads(layers)
	ffn, ffnErr := k.ffn(layers)
	if err = cmp.Or(err, kvErr, ffnErr); err != nil {
		return config{}, err
	}
	if k.KVHeads == nil {
		kvHeads = heads
	}
	if k.FFN == nil && k.of.mixture != noExperts {
		ffn = k.ExpertFFN // every layer has experts, so this size is not used
	}
	c := config{Layers: layers, Further: k.Further, Dim: k.Dim, Heads: heads, KVHeads: kvHeads,
		HeadDim: *cmp.Or(k.LocalKeyDim, k.KeyDim, new(k.Dim/max(heads, 1))), FFN: ffn, Vocab: vocab,
		AnyBias: true, Interleaved: k.of.pairs}
	c.Theta = *cmp.Or(k.Theta, new(10000.0))
	err = weights.Sizes([]string{"block_count", "embedding_length", "attention.head_count",
		"attention.head_count_kv", "attention.key_length", "feed_forward_length", "vocab_size"},
		c.Layers, c.Dim, c.Heads, c.KVHeads, c.HeadDim, c.FFN, c.Vocab)
	if err == nil {
		k.of.apply(&c)
	}
	for _, step := range []func(*config) error{k.checkShape, k.scores, k.experts, k.states, k.windows,
		k.byLayer, k.rotations} {
		if err == nil {
			err = step(&c)
		}
	}
	return c, err
}

// kvHeads returns the number of heads of keys and values, which layers with a short convolution or
// of Mamba do not have.
func (k *architectureKeys) kvHeads(layers int) (int, error) {
	const key = "attention.head_count_kv"
	switch {
	case k.of.byLayer:
		return k.KVHeads.some(k.Blocks, key, k.slides)
	case k.of.shortConvs || k.of.hybrid:
		return k.KVHeads.some(k.Blocks, key, func(i int) bool { return k.KVHeads[i] != 0 })
	}
	return k.KVHeads.of(layers, k.Blocks, key)
}

// ffn returns the width of networks, of layers with keys and values of their own.
func (k *architectureKeys) ffn(layers int) (int, error) {
	const key = "feed_forward_length"
	if !k.of.byLayer {
		return k.FFN.of(layers, k.Blocks, key)
	}
	return k.FFN.some(k.Blocks, key, func(i int) bool { return i < layers-k.SharedLayers })
}

// slides reports whether a layer has a window.
func (k *architectureKeys) slides(layer int) bool {
	if k.Sliding.layers != nil {
		return layer < len(k.Sliding.layers) && k.Sliding.layers[layer]
	}
	period := cmp.Or(k.Sliding.period, k.of.period)
	return period == 0 || layer%period < period-1
}

// byLayer sets what layers of Gemma 4 have differently from each other.
func (k *architectureKeys) byLayer(c *config) error {
	if !k.of.byLayer {
		if k.LocalKeyDim != nil || k.LocalValueDim != nil || k.LocalRotated != nil ||
			k.SharedLayers != 0 || k.Inputs != 0 {
			return fmt.Errorf("attention.shared_kv_layers is %d and embedding_length_per_layer_input %d, "+
				"or attention.key_length_swa, attention.value_length_swa or rope.dimension_count_swa is "+
				"there, want these only for gemma4", k.SharedLayers, k.Inputs)
		}
		return nil
	}
	if k.KeyDim == nil || k.LocalKeyDim == nil || c.Windows[c.Layers-1] > 0 || k.Further > 0 {
		return fmt.Errorf("attention.key_length or attention.key_length_swa is not there, the last "+
			"layer has a window, or nextn_predict_layers is %d, want both keys, none, and 0", k.Further)
	}
	heads, err := k.KVHeads.some(k.Blocks, "attention.head_count_kv", func(i int) bool {
		return !k.slides(i)
	})
	ffn, ffnErr := k.FFN.some(k.Blocks, "feed_forward_length", func(i int) bool {
		return i >= c.Layers-k.SharedLayers
	})
	if err = cmp.Or(err, ffnErr); err != nil {
		return err
	}
	if k.KVHeads == nil {
		heads = c.KVHeads
	}
	c.ByLayer = byLayer{HeadDim: *k.KeyDim, KVHeads: heads, Shared: k.SharedLayers, SharedFFN: ffn,
		Inputs: k.Inputs}
	return c.checkLayerShapes("attention.key_length", "attention.head_count_kv",
		"attention.shared_kv_layers", "feed_forward_length", "embedding_length_per_layer_input")
}

func (k *architectureKeys) checkShape(c *config) error {
	if err := checkWhole("context_length", k.Positions); err != nil {
		return err
	}
	key, other := "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"
	epsilon, none := k.Epsilon, k.LayerEpsilon
	if c.Centered {
		key, other, epsilon, none = other, key, none, epsilon
	}
	if epsilon == nil {
		return fmt.Errorf("%s is not there, want a number", key)
	}
	if none != nil {
		return fmt.Errorf("%s is %v, want none for this architecture", other, *none)
	}
	c.Epsilon = *epsilon
	for _, same := range []struct {
		key  string
		said *int
		want int
	}{
		{"vocab_size", k.Vocab, c.Vocab}, // the same as in tokenizer.ggml.tokens
		{"attention.value_length", k.ValueDim, *cmp.Or(k.KeyDim, &c.HeadDim)},
		{"attention.value_length_swa", k.LocalValueDim, c.HeadDim},
		{"rope.dimension_count_swa", k.LocalRotated, c.HeadDim},
	} {
		if same.said != nil && *same.said != same.want {
			return fmt.Errorf("%s is %d, want %d", same.key, *same.said, same.want)
		}
	}
	err := c.checkShape("block_count", "attention.head_count",
		k.of.gguf+".attention.head_count_kv", "attention.key_length", key)
	if err == nil {
		c.unrotate(k.of.unrotated)
	}
	return err
}

// positions returns how many tokens the model was trained with, 0 if the file does not say it.
func (k *architectureKeys) positions() float64 { return *cmp.Or(k.Positions, new(0.0)) }

// states sets which layers keep states, and their shape.
func (k *architectureKeys) states(c *config) error {
	if k.ShortWidth != 0 && !k.of.shortConvs {
		return fmt.Errorf("shortconv.l_cache is %d, want none for this architecture", k.ShortWidth)
	}
	if k.of.hybrid && k.Interval == nil && k.Recurrent == nil && k.Sections == nil {
		return k.mamba(c)
	}
	if !k.of.states {
		if k.ConvWidth != 0 || k.Inner != 0 || k.StateDim != 0 || k.StateHeads != 0 ||
			k.KeyHeads != 0 || k.Interval != nil || k.Recurrent != nil || k.Sections != nil {
			return fmt.Errorf("ssm.conv_kernel is %d, or other keys of ssm, full_attention_interval, "+
				"attention.recurrent_layers or rope.dimension_sections are there, want none for this "+
				"architecture", k.ConvWidth)
		}
		if k.of.shortConvs {
			return k.shortConvs(c)
		}
		return nil
	}
	s, interval := &c.States, *cmp.Or(k.Interval, new(4))
	*s = states{Layers: make([]bool, c.Layers), Width: k.ConvWidth, KeyDim: k.StateDim,
		ValueDim: k.Inner / max(k.StateHeads, 1), KeyHeads: k.KeyHeads, Heads: k.StateHeads,
		Negated: true, Interleaved: k.of.file.ba == ""}
	if n := len(k.Recurrent); interval < 1 || k.Recurrent != nil && n != k.Blocks {
		return fmt.Errorf("full_attention_interval is %d and attention.recurrent_layers has %d, want 1 "+
			"or more, and block_count, %d", interval, n, k.Blocks)
	}
	for i := range s.Layers {
		if s.Layers[i] = (i+1)%interval != 0; k.Recurrent != nil {
			s.Layers[i] = k.Recurrent[i]
		}
	}
	return s.check("ssm.conv_kernel", "ssm.state_size", "ssm.inner_size", "ssm.group_count",
		"ssm.time_step_rank")
}

// mamba sets which layers are of Mamba: those without heads of keys and values.
func (k *architectureKeys) mamba(c *config) error {
	s := states{Layers: make([]bool, c.Layers), Width: k.ConvWidth, KeyDim: k.StateDim,
		ValueDim: k.Inner / max(k.StateHeads, 1), KeyHeads: k.KeyHeads, Heads: k.StateHeads,
		Negated: true, Biased: true}
	for i := range s.Layers {
		s.Layers[i] = len(k.KVHeads) == k.Blocks && k.KVHeads[i] == 0
	}
	if k.Inner != s.ValueDim*s.Heads {
		return fmt.Errorf("ssm.inner_size is %d, want a multiple of ssm.time_step_rank, %d", k.Inner,
			k.StateHeads)
	}
	return c.mambaShape(s, "ssm.conv_kernel", "ssm.state_size", "ssm.inner_size", "ssm.group_count",
		"ssm.time_step_rank")
}

// shortConvs sets which layers have a short convolution: those without heads of keys and values.
func (k *architectureKeys) shortConvs(c *config) error {
	c.States = states{Layers: make([]bool, c.Layers), Short: c.Dim, Width: k.ShortWidth}
	for i := range c.States.Layers {
		c.States.Layers[i] = len(k.KVHeads) == k.Blocks && k.KVHeads[i] == 0
	}
	return c.States.checkShort("shortconv.l_cache")
}

// experts sets how many experts a layer has. Defaults are those of llama.cpp.
func (k *architectureKeys) experts(c *config) error {
	kind, e := k.of.mixture, &c.Experts
	if step := *cmp.Or(k.MoEStep, new(0)); !k.of.ernieExperts && step != 0 && step != 1 {
		return fmt.Errorf("interleave_moe_layer_step is %d, want 0 or 1 for this architecture", step)
	}
	if kind == sigmoidExperts {
		return k.sigmoids(c)
	}
	if g, s := k.Gating, *cmp.Or(k.RouteScale, new(1.0)); g > 1 || g < 0 || s != 0 && s != 1 ||
		k.SharedCount != 0 || k.FirstDense != 0 || k.Normalized != nil {
		return fmt.Errorf("expert_gating_func is %d, expert_weights_scale %v, expert_shared_count %d, "+
			"leading_dense_block_count %d, or expert_weights_norm is there, want 1, 1, 0, 0 and no such "+
			"key for this architecture", g, s, k.SharedCount, k.FirstDense)
	}
	e.Count, e.Used, e.FFN = k.Experts, k.Used, cmp.Or(k.ExpertFFN, c.FFN/max(k.Used, 1))
	if kind == wideExperts {
		e.FFN = c.FFN
	}
	if kind == addedExperts && k.ExpertFFN == 0 {
		e.FFN = c.FFN
	}
	if kind == wideExperts && k.ExpertFFN != 0 {
		return fmt.Errorf("expert_feed_forward_length is %d, want 0", k.ExpertFFN)
	}
	e.Normalized = kind != sharedExperts || k.of.states
	if kind == addedExperts {
		e.Shared = k.SharedFFN
	} else if kind == sharedExperts {
		e.Shared = cmp.Or(k.SharedFFN, c.FFN)
	} else if k.SharedFFN != 0 {
		return fmt.Errorf("expert_shared_feed_forward_length is %d, want 0", k.SharedFFN)
	}
	if kind == noExperts && (e.Count != 0 || e.Used != 0 || k.ExpertFFN != 0) {
		return fmt.Errorf("expert_count is %d, expert_used_count %d and expert_feed_forward_length %d, "+
			"want 0 for this architecture", e.Count, e.Used, k.ExpertFFN)
	}
	if kind != noExperts && e.Count < 1 {
		return fmt.Errorf("expert_count is %d, want 1 or more", e.Count)
	}
	return e.check("expert_count", "expert_used_count", "expert_feed_forward_length")
}

// sigmoids sets the experts of kinds whose routers have a sigmoid for each.
func (k *architectureKeys) sigmoids(c *config) error {
	by := *cmp.Or(k.RouteScale, new(1.0))
	if by == 0 {
		by = 1 // as llama.cpp does
	}
	c.Experts = experts{Count: k.Experts, Used: k.Used, FFN: k.ExpertFFN, Choosing: true,
		Normalized: *cmp.Or(k.Normalized, new(!k.of.glmExperts)), Shared: k.SharedCount * k.ExpertFFN}
	if k.of.ernieExperts {
		return k.ernieExperts(c, by)
	}
	if k.Gating != 0 && k.Gating != 2 || k.SharedCount < 0 || k.SharedCount > 1<<6 ||
		k.SharedCount > 0 && !k.of.glmExperts || k.FirstDense < 0 || k.SharedFFN != 0 {
		return fmt.Errorf("expert_gating_func is %d, expert_shared_count %d, leading_dense_block_count "+
			"%d and expert_shared_feed_forward_length %d, want 2, 0 or more, for lfm2moe no shared ones, "+
			"0 or more, and 0", k.Gating, k.SharedCount, k.FirstDense, k.SharedFFN)
	}
	if err := c.weighBySigmoids(k.of, "expert_weights_scale", by, k.FirstDense); err != nil {
		return err
	}
	return c.Experts.check("expert_count", "expert_used_count", "expert_feed_forward_length")
}

// ernieExperts sets which layers of ERNIE have experts, and how these are weighted.
func (k *architectureKeys) ernieExperts(c *config, by float64) error {
	step := *cmp.Or(k.MoEStep, new(1))
	if k.Gating > 1 || k.Gating < 0 || k.FirstDense < 0 || k.SharedCount < 0 || k.SharedFFN < 0 ||
		k.SharedFFN > 1<<24 || step < 1 || by != 1 || k.Normalized != nil {
		return fmt.Errorf("expert_gating_func is %d, leading_dense_block_count %d, expert_shared_count "+
			"%d, expert_shared_feed_forward_length %d, interleave_moe_layer_step %d and "+
			"expert_weights_scale %v, or expert_weights_norm is there, want 0 or 1, 0 or more, 0 or more, "+
			"0 or more, 1 or more, 1, and no such key", k.Gating, k.FirstDense, k.SharedCount, k.SharedFFN,
			step, by)
	}
	if c.Experts.Normalized = true; k.SharedFFN > 0 {
		c.Experts.Shared = k.SharedFFN
	}
	if err := c.weighBySigmoids(k.of, "expert_weights_scale", by, k.FirstDense); err != nil {
		return err
	}
	c.weighBySoftmax(usualFloor, step)
	return c.Experts.check("expert_count", "expert_used_count", "expert_feed_forward_length")
}

// scores sets how scores and logits are scaled and capped.
func (k *architectureKeys) scores(c *config) error {
	if k.of.parallel {
		err := c.scaleLogits(*cmp.Or(k.LogitsDivisor, new(1.0)))
		if k.LogitsDivisor = nil; err != nil {
			return err
		}
	}
	all := [4]multiplier{{"embedding_scale", k.EmbeddingMul}, {"attention.scale", k.AttentionMul},
		{"residual_scale", k.ResidualMul}, {"logit_scale", k.LogitsDivisor}}
	for _, m := range all {
		if m.by != nil && !k.of.multipliers {
			return fmt.Errorf("%s is %v, want it only for granite", m.key, *m.by)
		}
	}
	if err := c.multiply(all); err != nil {
		return err
	}
	if k.of.multipliers && k.Rotates != nil && !*k.Rotates { // as llama.cpp understands it
		c.unrotate(1)
	}
	if n := k.of.largest; n > 0 && c.Layers == n { // as llama.cpp does
		c.ScoreScale = float32(1 / math.Sqrt(float64(c.Dim/c.Heads)))
	}
	for _, s := range []struct {
		key   string
		said  *float64
		usual float64
		to    *float32
	}{
		{"attn_logit_softcapping", k.ScoreCap, k.of.scoreCap, &c.ScoreCap},
		{"final_logit_softcapping", k.LogitCap, k.of.logitCap, &c.LogitCap},
	} {
		switch {
		case s.said == nil:
			*s.to = float32(max(s.usual, 0))
		case s.usual < 0 || !(*s.said >= 0 && *s.said <= math.MaxFloat32):
			return fmt.Errorf("%s is %v, want a number, 0 or more, and only for gemma", s.key, *s.said)
		default:
			*s.to = float32(*s.said)
		}
	}
	return nil
}

// windows sets which layers have a window.
func (k *architectureKeys) windows(c *config) error {
	c.Windows = make([]int, c.Layers)
	if n := len(k.Sliding.layers); k.Sliding.layers != nil && n != k.Blocks {
		return fmt.Errorf("attention.sliding_window_pattern has %d layers, want block_count, %d", n,
			k.Blocks)
	}
	if none := k.Window == nil || *k.Window == 0; none && k.of.parallel {
		return errors.New("attention.sliding_window is not there, want a number")
	} else if none {
		return nil // llama.cpp has no window here either, whatever the pattern
	}
	if *k.Window < 0 {
		return fmt.Errorf("attention.sliding_window is %d, want 0 or more", *k.Window)
	}
	for i := range c.Windows {
		if k.slides(i) {
			c.Windows[i] = *k.Window
		}
	}
	if k.of.localOnly {
		c.unrotateFull(k.of.parallel)
	}
	return nil
}

// rotations reads the keys rope.*. A factor without a type is linear.
func (k *architectureKeys) rotations(c *config) error {
	if c.Theta < 1 {
		return fmt.Errorf("rope.freq_base is %v, want 1 or more", c.Theta)
	}
	if err := k.localRotations(c); err != nil {
		return err
	}
	if k.Factor != nil && k.OldFactor != nil {
		return fmt.Errorf("rope.scaling.factor is %v, and rope.scale_linear %v, want one of them",
			*k.Factor, *k.OldFactor)
	}
	factor := *cmp.Or(k.Factor, k.OldFactor, new(1.0))
	if factor == 0 {
		factor = 1 // as llama.cpp does
	}
	if !k.of.queryScale && (k.LogMul != 0 || k.QueryScale != 0 || k.QueryLength != nil) {
		return fmt.Errorf("rope.scaling.yarn_log_multiplier is %v, want 0, and "+
			"attention.temperature_scale %v, or attention.temperature_length is there, want them only for "+
			"mistral3", k.LogMul, k.QueryScale)
	}
	s := &c.Scaling
	if k.of.longRotation {
		return k.longRotations(c)
	}
	switch kind := *cmp.Or(k.ScalingType, new("linear")); kind {
	case "none":
		c.Trained = s.trained(k.positions())
		return k.scaleQueries(c)
	case "linear", "yarn":
		*s = scaling{Type: kind, Factor: factor, Original: k.Original, Fast: k.Fast, Slow: k.Slow}
		if k.of.betweenPairs { // llama.cpp rounds to whole pairs, unlike the model's own definition
			s.Truncate = new(false)
		}
	default:
		return fmt.Errorf("rope.scaling.type is %q, want none, linear or yarn", kind)
	}
	if err := s.complete(c.Theta, k.positions()); err != nil {
		return fmt.Errorf("rope.scaling %w", err)
	}
	c.Trained = s.trained(k.positions())
	if err := k.scaleQueries(c); err != nil || k.Magnitude == nil {
		return err
	}
	return k.magnify(s)
}

// scaleQueries sets how much queries grow with their positions, and the magnitude of their
// rotations.
func (k *architectureKeys) scaleQueries(c *config) error {
	s := &c.Scaling
	if k.LogMul < 0 || k.LogMul > 0 && s.Type != "yarn" {
		return fmt.Errorf("rope.scaling.yarn_log_multiplier is %v, want 0, or with yarn more", k.LogMul)
	}
	if k.LogMul != 0 {
		s.Magnitude = new(yarnMagnitude(s.Factor, 1) / yarnMagnitude(s.Factor, k.LogMul))
	}
	if length := *cmp.Or(k.QueryLength, &s.Original); length != s.Original {
		return fmt.Errorf("attention.temperature_length is %v, want the same as "+
			"rope.scaling.original_context_length, %v", length, s.Original)
	}
	if err := c.scaleQueries(k.QueryScale); err != nil {
		return fmt.Errorf("attention.temperature_scale %w", err)
	}
	return nil
}

// localRotations reads the rotations of layers with a window, and of a part of the heads' channels.
func (k *architectureKeys) localRotations(c *config) error {
	dim := cmp.Or(c.ByLayer.HeadDim, c.HeadDim)
	c.Rotated = *cmp.Or(k.Rotated, &dim)
	if c.Rotated != dim && !k.of.partial || c.Rotated < 2 || c.Rotated%2 != 0 || c.Rotated > dim {
		return fmt.Errorf("rope.dimension_count is %d, want %d, or for phi3 an even number below",
			c.Rotated, dim)
	}
	c.LocalTheta = *cmp.Or(k.LocalTheta, &k.of.localTheta)
	if k.of.localPlain {
		c.LocalTheta = c.Theta
	}
	if k.LocalTheta != nil && (k.of.localTheta == 0 || c.LocalTheta < 1) {
		return fmt.Errorf("rope.freq_base_swa is %v, want 1 or more, and only for gemma3 and "+
			"gemma4", c.LocalTheta)
	}
	return nil
}

// longRotations reads rotations that are stretched by factors in tensors, if the file has them.
func (k *architectureKeys) longRotations(c *config) error {
	if kind := *cmp.Or(k.ScalingType, new(longRope)); kind != longRope && kind != "none" ||
		*cmp.Or(k.Factor, k.OldFactor, new(1.0)) > 1 {
		return fmt.Errorf("rope.scaling.type is %q and its factor %v, want longrope, and 1", kind,
			*cmp.Or(k.Factor, k.OldFactor, new(1.0)))
	}
	s := &c.Scaling
	s.Original, s.Magnitude = cmp.Or(k.Original, k.positions()), cmp.Or(k.Magnitude, new(1.0))
	c.Trained = s.trained(k.positions())
	if !(*s.Magnitude > 0 && *s.Magnitude < 1e9) {
		return fmt.Errorf("rope.scaling.attn_factor is %v, want a number above 0", *s.Magnitude)
	}
	return nil
}

// magnify multiplies the magnitude of yarn's rotations.
func (k *architectureKeys) magnify(s *scaling) error {
	switch x := *k.Magnitude; {
	case s.Type != "yarn" && x != 1, !(x > 0):
		return fmt.Errorf("rope.scaling.attn_factor is %v and rope.scaling.type %q, want 1, or for yarn "+
			"a number above 0", x, s.Type)
	case s.Type == "yarn" && k.of.ownMagnitude: // llama.cpp multiplies the usual one by it
		s.Magnitude = &x
	case s.Type == "yarn" && x != 1:
		s.Magnitude = new(x * yarnMagnitude(s.Factor, 1))
	}
	return nil
}
