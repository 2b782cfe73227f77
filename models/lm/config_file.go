package lm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// configFile is config.json. Pointers are nil for null.
type configFile struct {
	ModelType     string            `json:"model_type"`
	Layers        int               `json:"num_hidden_layers"`
	Dim           int               `json:"hidden_size"`
	Heads         int               `json:"num_attention_heads"`
	KVHeads       *int              `json:"num_key_value_heads"`
	HeadDim       *int              `json:"head_dim"`
	FFN           int               `json:"intermediate_size"`
	Vocab         int               `json:"vocab_size"`
	Epsilon       float64           `json:"rms_norm_eps"`
	Tied          bool              `json:"tie_word_embeddings"`
	Activation    *string           `json:"hidden_act"`
	Activation2   *string           `json:"hidden_activation"` // of gemma, instead of hidden_act
	AttentionBias bool              `json:"attention_bias"`
	OutBias       *bool             `json:"attention_out_bias"`
	FFNBias       bool              `json:"mlp_bias"`
	NormEpsilon   *float64          `json:"norm_epsilon"`   // of StarCoder 2, instead of rms_norm_eps
	LayerEpsilon  *float64          `json:"layer_norm_eps"` // the same of Cohere
	LogitScale    *float64          `json:"logit_scale"`    // multiplies logits
	AllBias       *bool             `json:"use_bias"`
	Window        *int              `json:"sliding_window"`
	UseWindow     *bool             `json:"use_sliding_window"`
	FullLayers    int               `json:"max_window_layers"` // of qwen: first, without window
	LayerTypes    []string          `json:"layer_types"`
	Stop          weights.OneOrMore `json:"eos_token_id"`
	Positions     *float64          `json:"max_position_embeddings"`
	Theta         *float64          `json:"rope_theta"`
	Scaling       *scaling          `json:"rope_scaling"`
	Rope          *scaling          `json:"rope_parameters"` // newer files: base and scaling
	// keys that only some kinds have
	ScoreCap    *float64      `json:"attn_logit_softcapping"`
	LogitCap    *float64      `json:"final_logit_softcapping"`
	QueryScalar *float64      `json:"query_pre_attn_scalar"`
	Period      *windowPeriod `json:"sliding_window_pattern"`
	OldPeriod   *windowPeriod `json:"_sliding_window_pattern"`
	LocalTheta  *float64      `json:"rope_local_base_freq"`
	Original    *float64      `json:"original_max_position_embeddings"`
	Rotated     *float64      `json:"partial_rotary_factor"`
	RotatedIn   []int         `json:"no_rope_layers"`         // 0 for layers without rotations, otherwise 1
	Unrotated   *int          `json:"no_rope_layer_interval"` // without that list: the last of so many
	// of experts
	Experts      *int     `json:"num_experts"`
	LocalExperts *int     `json:"num_local_experts"` // the same in some kinds
	Used         *int     `json:"num_experts_per_tok"`
	ExpertFFN    *int     `json:"moe_intermediate_size"`
	SharedFFN    *int     `json:"shared_expert_intermediate_size"`
	Normalized   *bool    `json:"norm_topk_prob"`
	Step         *int     `json:"decoder_sparse_step"` // the last layer of that many has experts
	DenseLayers  []int    `json:"mlp_only_layers"`
	QKVBias      *bool    `json:"qkv_bias"`
	Routed       *int     `json:"n_routed_experts"` // of GLM, as are the next ones
	SharedCount  *int     `json:"n_shared_experts"`
	RouteScale   *float64 `json:"routed_scaling_factor"`
	FirstDense   *int     `json:"first_k_dense_replace"` // layers without experts
	FirstOnes    *int     `json:"num_dense_layers"`      // the same in LFM2
	ExpertBias   *bool    `json:"use_expert_bias"`       // of LFM2: see experts.Choosing
	Groups       *int     `json:"n_group"`
	UsedGroups   *int     `json:"topk_group"`
	Further      *int     `json:"num_nextn_predict_layers"` // which guess further tokens
	QKNorm       *bool    `json:"use_qk_norm"`
	Limit        *float64 `json:"swiglu_limit"`
	// of layers that keep states
	Interval      *int  `json:"full_attention_interval"` // the last layer of that many does not
	ConvWidth     *int  `json:"linear_conv_kernel_dim"`
	StateKeyDim   *int  `json:"linear_key_head_dim"`
	StateValueDim *int  `json:"linear_value_head_dim"`
	StateKeyHeads *int  `json:"linear_num_key_heads"`
	StateHeads    *int  `json:"linear_num_value_heads"`
	OutputGate    *bool `json:"attn_output_gate"`
	MTPLayers     *int  `json:"mtp_num_hidden_layers"` // which guess further tokens
	MTPEmbedding  *bool `json:"mtp_use_dedicated_embeddings"`

	// of Granite
	EmbeddingMul  *float64 `json:"embedding_multiplier"`
	LogitsDivisor *float64 `json:"logits_scaling"`
	ResidualMul   *float64 `json:"residual_multiplier"`  // of what is added to rows
	AttentionMul  *float64 `json:"attention_multiplier"` // of scores
	SharedWidth   *int     `json:"shared_intermediate_size"`
	PositionsBy   *string  `json:"position_embedding_type"` // rope, or others for no rotations
	// of its Mamba layers
	MambaHeads  *int  `json:"mamba_n_heads"`
	MambaDim    *int  `json:"mamba_d_head"` // nil: what mamba_expand implies
	MambaGroups *int  `json:"mamba_n_groups"`
	MambaState  *int  `json:"mamba_d_state"`
	MambaConv   *int  `json:"mamba_d_conv"`
	MambaExpand *int  `json:"mamba_expand"` // heads·dim is hidden_size times it
	MambaBias   *bool `json:"mamba_conv_bias"`
	// of LFM2: layers with a short convolution, and names and widths of its own
	ShortWidth *int     `json:"conv_L_cache"`
	FullOnes   []int    `json:"full_attn_idxs"`           // layers with attention, if layer_types is not there
	NormEps    *float64 `json:"norm_eps"`                 // instead of rms_norm_eps
	OldTied    *bool    `json:"tie_embedding"`            // instead of tie_word_embeddings
	OldTheta   *float64 `json:"theta"`                    // instead of rope_theta
	OldFFN     *int     `json:"block_ff_dim"`             // instead of intermediate_size
	Adjusted   *bool    `json:"block_auto_adjust_ff_dim"` // see adjust
	Multiplier *float64 `json:"block_ffn_dim_multiplier"`
	Multiple   *int     `json:"block_multiple_of"`

	// of Gemma 4: see byLayer
	FullHeadDim   *int  `json:"global_head_dim"`
	FullKVHeads   *int  `json:"num_global_key_value_heads"` // obeyed with KeysAreValues
	KeysAreValues *bool `json:"attention_k_eq_v"`
	SharedLayers  *int  `json:"num_kv_shared_layers"`
	Doubled       *bool `json:"use_double_wide_mlp"` // in these layers
	Inputs        *int  `json:"hidden_size_per_layer_input"`
	InputTokens   *int  `json:"vocab_size_per_layer_input"`
	Mixed         *bool `json:"enable_moe_block"`
	TopExperts    *int  `json:"top_k_experts"`

	// of ERNIE 4.5 with experts
	MoEExperts *int     `json:"moe_num_experts"`
	MoEUsed    *int     `json:"moe_k"`
	MoEShared  *int     `json:"moe_num_shared_experts"` // how many widths of an expert it has
	MoEFirst   *int     `json:"moe_layer_start_index"`  // layers with experts, from this one on,
	MoELast    *int     `json:"moe_layer_end_index"`    // to this one; -1: to the last layer
	MoEStep    *int     `json:"moe_layer_interval"`     // the last of so many
	MoEFloor   *float64 `json:"moe_norm_min"`           // see experts.Floor

	Alpha     *float64   `json:"swiglu_alpha"`
	Quantized *quantized `json:"quantization_config"`

	of         *architecture
	usualTheta float64
	usualRope  *scaling // without rope_scaling and rope_parameters
}

// quantized says how weights are stored.
type quantized struct {
	Method string   `json:"quant_method"`
	Not    []string `json:"modules_to_not_convert"`
}

func (q quantized) String() string { return fmt.Sprintf("{quant_method: %q}", q.Method) }

// readConfig reads config.json, and generation_config.json, which overrides the tokens that end an
// answer.
func readConfig(l *weights.Loader) (config, *tensorNames) {
	const file, generation = "config.json", "generation_config.json"
	var kind struct {
		ModelType string `json:"model_type"`
		Text      struct {
			ModelType string `json:"model_type"`
		} `json:"text_config"`
	}
	l.JSON(file, &kind, strictjson.AnyKey)
	a, err := architectureOf("model_type", kind.ModelType, (*architecture).kindName,
		(*architecture).wrapperName)
	if l.Check(file, err); l.Err != nil {
		return config{}, nil
	}
	var f configFile
	wrapped := a.wrapper == kind.ModelType
	if wrapped {
		f = readWrapper(l, file, a.withText(kind.Text.ModelType))
	} else {
		f = a.usual()
		l.JSON(file, &f, idleConfig)
	}
	c, err := f.config()
	c.Wrapped = wrapped
	l.Check(file, err)
	stop := c.checkStop()
	if stop != nil && l.Lacks(file, "eos_token_id") {
		stop = fmt.Errorf("%w; the key is not there, this is its default", stop)
	}
	l.Check(file, stop)
	said := struct {
		Stop weights.OneOrMore `json:"eos_token_id"`
	}{c.Stop}
	l.OptionalJSON(generation, &said, idleGeneration)
	if len(said.Stop) > 0 {
		c.Stop = said.Stop
		l.Check(generation, c.checkStop())
	}
	if l.Err != nil {
		return c, nil
	}
	return c, f.of.folder
}

// wrapper is the config.json of a model for images and texts. text_config is read.
type wrapper struct {
	ModelType string            `json:"model_type"`
	Text      *configFile       `json:"text_config"`
	Tied      *bool             `json:"tie_word_embeddings"`
	Stop      weights.OneOrMore `json:"eos_token_id"`
}

// readWrapper reads the configuration for texts.
func readWrapper(l *weights.Loader, file string, a *architecture) configFile {
	f := a.usual()
	f.ModelType = a.kind
	w := wrapper{Text: &f}
	l.JSON(file, &w, idleWrapper())
	if w.Text == nil || f.ModelType != a.kind {
		l.Check(file, fmt.Errorf("text_config is not there, or of model_type %q, want %s", f.ModelType,
			a.kind))
	}
	if w.Tied != nil {
		f.Tied = *w.Tied
	}
	if w.Stop != nil {
		f.Stop = w.Stop
	}
	return f
}

// checkStop refuses tokens outside the vocabulary, which never come.
func (c *config) checkStop() error {
	for _, token := range c.Stop {
		if token < 0 || token >= c.Vocab {
			return fmt.Errorf("eos_token_id is %d, want 0 to %d by vocab_size", token, c.Vocab-1)
		}
	}
	return nil
}

// config returns the model that a file describes. Anything that this engine would compute wrongly
// is an error.
func (f *configFile) config() (config, error) {
	a, err := architectureOf("model_type", f.ModelType, (*architecture).kindName)
	if err != nil {
		return config{}, err
	}
	if f.of = a; a.hybrid && f.LocalExperts != nil && *f.LocalExperts != 0 ||
		a.byLayer && f.Mixed != nil && *f.Mixed {
		f.of = a.withExperts((*architecture).kindName)
		a = f.of
	}
	if err := f.adjust(); err != nil {
		return config{}, err
	}
	c := config{Layers: f.Layers, Dim: f.Dim, Heads: f.Heads, KVHeads: f.Heads,
		HeadDim: f.Dim / max(f.Heads, 1), FFN: f.FFN, Vocab: f.Vocab, Epsilon: f.Epsilon, Tied: f.Tied,
		Stop: f.Stop, LessOne: a.lessOne, Interleaved: a.folderPairs}
	f.biases(&c)
	if f.KVHeads != nil {
		c.KVHeads = *f.KVHeads
	}
	if f.HeadDim != nil {
		c.HeadDim = *f.HeadDim
	}
	err = weights.Sizes([]string{"num_hidden_layers", "hidden_size", "num_attention_heads",
		"num_key_value_heads", "head_dim", f.widthKey(), "vocab_size"},
		c.Layers, c.Dim, c.Heads, c.KVHeads, c.HeadDim, c.FFN, c.Vocab)
	if err == nil {
		a.apply(&c)
	}
	for _, step := range []func(*config) error{f.checkShape, f.checkLayers, f.checkKeys, f.scores,
		f.experts, f.states, f.windows, f.byLayer, f.rotations, f.further} {
		if err == nil {
			err = step(&c)
		}
	}
	return c, err
}

// adjust sets what LFM2 and Granite 4 have under names of their own, and the width of networks.
func (f *configFile) adjust() error {
	f.Epsilon, f.Tied = *cmp.Or(f.NormEps, f.NormEpsilon, f.LayerEpsilon, &f.Epsilon),
		*cmp.Or(f.OldTied, &f.Tied)
	f.Theta, f.FFN = cmp.Or(f.OldTheta, f.Theta), *cmp.Or(f.OldFFN, &f.FFN)
	if f.SharedWidth != nil && f.of.mixture == noExperts {
		f.FFN = *f.SharedWidth
	}
	if f.Adjusted == nil || !*f.Adjusted || !f.of.shortConvs {
		return nil
	}
	by, multiple := *cmp.Or(f.Multiplier, new(1.0)), *cmp.Or(f.Multiple, new(0))
	if !(by > 0 && by*float64(f.FFN) <= 1<<24) || multiple < 1 || multiple > 1<<20 || f.FFN > 1<<24 {
		return fmt.Errorf("block_ffn_dim_multiplier is %v, block_multiple_of %d and the width of "+
			"networks %d, want a number above 0, 1 or more, and at most %d", by, multiple, f.FFN, 1<<24)
	}
	if f.FFN = 2 * f.FFN / 3; f.Multiplier != nil {
		f.FFN = (int(by*float64(f.FFN)) + multiple - 1) / multiple * multiple
	}
	return nil
}

// widthKey returns the key of the width of networks.
func (f *configFile) widthKey() string {
	switch {
	case f.SharedWidth != nil && f.of.mixture == noExperts:
		return "shared_intermediate_size"
	case f.OldFFN != nil:
		return "block_ff_dim"
	}
	return "intermediate_size"
}

// biases sets which matrices have biases.
func (f *configFile) biases(c *config) {
	all, said := *cmp.Or(f.AllBias, new(false)), f.AttentionBias && f.of.biasKey
	c.FFNBias = all || f.FFNBias && f.of.ffnBiasKey
	c.QKVBias = all || said || f.of.qkvBias && *cmp.Or(f.QKVBias, new(true))
	if c.OutBias = all || said && !f.of.plainOut; f.of.outBiasKey {
		c.OutBias = *cmp.Or(f.OutBias, new(false))
	}
}

func (f *configFile) checkShape(c *config) error {
	if err := checkWhole("max_position_embeddings", f.Positions); err != nil {
		return err
	}
	return c.checkShape("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
		"rms_norm_eps")
}

// mostLayers exceeds the layers of all models. More would cost memory before a tensor is missing.
const mostLayers = 1 << 12

// checkShape refuses shapes that do not fit. Its arguments are the file's names of the keys.
func (c *config) checkShape(layers, heads, kvHeads, headDim, epsilon string) error {
	switch {
	case c.Layers > mostLayers:
		return fmt.Errorf("%s is %d, want 1 to %d", layers, c.Layers, mostLayers)
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("%s is %d, want a multiple of %s, %d", heads, c.Heads, kvHeads, c.KVHeads)
	case c.HeadDim%2 != 0:
		return fmt.Errorf("%s is %d, want an even number: rotations take pairs", headDim, c.HeadDim)
	case !(c.Epsilon >= 0):
		return fmt.Errorf("%s is %v, want 0 or more", epsilon, c.Epsilon)
	}
	return nil
}

// isWhole reports whether a number may be a length of texts.
func isWhole(n float64) bool { return n >= 1 && n <= math.MaxInt32 && n == math.Trunc(n) }

// checkWhole refuses other numbers. nil is for none.
func checkWhole(key string, n *float64) error {
	if n != nil && !isWhole(*n) {
		return fmt.Errorf("%s is %v, want a whole number, 1 to %d", key, *n, math.MaxInt32)
	}
	return nil
}

// checkLayers refuses a list of other layers, and activations that this engine does not have.
func (f *configFile) checkLayers(c *config) error {
	if n := len(f.LayerTypes); f.LayerTypes != nil && n != c.Layers {
		return fmt.Errorf("layer_types has %d layers, want num_hidden_layers, %d", n, c.Layers)
	}
	said, key, want := f.Activation, "hidden_act", activationNames[f.of.activation]
	if f.of.queryScalar || f.of.byLayer { // these kinds ignore hidden_act
		said, key = f.Activation2, "hidden_activation"
	} else if f.Activation2 != nil {
		return fmt.Errorf("hidden_activation is %q, want it only for gemma", *f.Activation2)
	}
	if said != nil && *said != want {
		return fmt.Errorf("%s is %q, want %s", key, *said, want)
	}
	return nil
}

// checkKeys refuses keys that the kind of model does not have.
func (f *configFile) checkKeys(*config) error {
	isQwenMoE := f.of.mixture == sharedExperts || f.of.mixture == manyExperts
	isLFM2 := f.of.shortConvs && f.of.mixture == noExperts
	isSigmoid, isGLM := f.of.mixture == sigmoidExperts, f.of.glmExperts
	isBeside, isErnie := f.of.mixture == besideExperts, f.of.ernieExperts
	isLFM2MoE := isSigmoid && !isGLM && !isErnie
	for _, k := range []struct {
		key  string
		said any
		has  bool
	}{
		{"attn_logit_softcapping", valueOf(f.ScoreCap), f.of.scoreCap >= 0},
		{"final_logit_softcapping", valueOf(f.LogitCap), f.of.logitCap >= 0},
		{"query_pre_attn_scalar", valueOf(f.QueryScalar), f.of.queryScalar},
		{"sliding_window_pattern", valueOf(f.Period), f.of.window == windowOfPeriod},
		{"_sliding_window_pattern", valueOf(f.OldPeriod), f.of.window == windowOfPeriod},
		{"rope_local_base_freq", valueOf(f.LocalTheta), f.of.localTheta > 0 && !f.of.byLayer},
		{"original_max_position_embeddings", valueOf(f.Original), f.of.longRotation},
		{"use_bias", valueOf(f.AllBias), f.of.allBiasKey || isErnie && !*cmp.Or(f.AllBias, new(false))},
		{"attention_out_bias", valueOf(f.OutBias), f.of.outBiasKey},
		{"embedding_multiplier", valueOf(f.EmbeddingMul), f.of.multipliers},
		{"logits_scaling", valueOf(f.LogitsDivisor), f.of.multipliers},
		{"residual_multiplier", valueOf(f.ResidualMul), f.of.multipliers},
		{"attention_multiplier", valueOf(f.AttentionMul), f.of.multipliers},
		{"shared_intermediate_size", valueOf(f.SharedWidth),
			f.of.hybrid || f.of.sharedWidth},
		{"position_embedding_type", valueOf(f.PositionsBy),
			f.of.hybrid || f.of.parallel && *cmp.Or(f.PositionsBy, new("")) == "rope_gptj"},
		{"mamba_n_heads", valueOf(f.MambaHeads), f.of.hybrid},
		{"mamba_d_head", valueOf(f.MambaDim), f.of.hybrid},
		{"mamba_n_groups", valueOf(f.MambaGroups), f.of.hybrid},
		{"mamba_d_state", valueOf(f.MambaState), f.of.hybrid},
		{"mamba_d_conv", valueOf(f.MambaConv), f.of.hybrid},
		{"mamba_expand", valueOf(f.MambaExpand), f.of.hybrid},
		{"mamba_conv_bias", valueOf(f.MambaBias), f.of.hybrid},
		{"conv_L_cache", valueOf(f.ShortWidth), f.of.shortConvs},
		{"full_attn_idxs", valueOfList(f.FullOnes), f.of.shortConvs},
		{"norm_eps", valueOf(f.NormEps), f.of.shortConvs},
		{"norm_epsilon", valueOf(f.NormEpsilon), f.of.centered && !f.of.parallel},
		{"layer_norm_eps", valueOf(f.LayerEpsilon), f.of.parallel},
		{"logit_scale", valueOf(f.LogitScale), f.of.parallel},
		{"tie_embedding", valueOf(f.OldTied), f.of.shortConvs},
		{"theta", valueOf(f.OldTheta), isLFM2},
		{"block_ff_dim", valueOf(f.OldFFN), isLFM2},
		{"block_auto_adjust_ff_dim", valueOf(f.Adjusted), isLFM2},
		{"block_ffn_dim_multiplier", valueOf(f.Multiplier), isLFM2},
		{"block_multiple_of", valueOf(f.Multiple), isLFM2},
		{"no_rope_layers", valueOfList(f.RotatedIn), f.of.unrotated > 0},
		{"no_rope_layer_interval", valueOf(f.Unrotated), f.of.unrotated > 0},
		{"global_head_dim", valueOf(f.FullHeadDim), f.of.byLayer},
		{"num_global_key_value_heads", valueOf(f.FullKVHeads), f.of.byLayer},
		{"attention_k_eq_v", valueOf(f.KeysAreValues), f.of.byLayer},
		{"num_kv_shared_layers", valueOf(f.SharedLayers), f.of.byLayer},
		{"use_double_wide_mlp", valueOf(f.Doubled), f.of.byLayer},
		{"hidden_size_per_layer_input", valueOf(f.Inputs), f.of.byLayer},
		{"vocab_size_per_layer_input", valueOf(f.InputTokens), f.of.byLayer},
		{"enable_moe_block", valueOf(f.Mixed), f.of.byLayer},
		{"top_k_experts", valueOf(f.TopExperts), isBeside},
		{"num_experts", valueOf(f.Experts), isQwenMoE || isBeside || isLFM2MoE},
		{"num_dense_layers", valueOf(f.FirstOnes), isLFM2MoE},
		{"use_expert_bias", valueOf(f.ExpertBias), isLFM2MoE},
		{"moe_num_experts", valueOf(f.MoEExperts), isErnie},
		{"moe_k", valueOf(f.MoEUsed), isErnie},
		{"moe_num_shared_experts", valueOf(f.MoEShared), isErnie},
		{"moe_layer_start_index", valueOf(f.MoEFirst), isErnie},
		{"moe_layer_end_index", valueOf(f.MoELast), isErnie},
		{"moe_layer_interval", valueOf(f.MoEStep), isErnie},
		{"moe_norm_min", valueOf(f.MoEFloor), isErnie},
		{"num_local_experts", valueOf(f.LocalExperts),
			f.of.mixture > sharedExperts && !isSigmoid && !isBeside || f.of.hybrid},
		{"num_experts_per_tok", valueOf(f.Used),
			f.of.mixture > noExperts && !isBeside && !isErnie || f.of.hybrid},
		{"moe_intermediate_size", valueOf(f.ExpertFFN), isQwenMoE || isSigmoid || isBeside},
		{"n_routed_experts", valueOf(f.Routed), isGLM},
		{"n_shared_experts", valueOf(f.SharedCount), isGLM},
		{"routed_scaling_factor", valueOf(f.RouteScale), isSigmoid && !isErnie},
		{"first_k_dense_replace", valueOf(f.FirstDense), isGLM},
		{"n_group", valueOf(f.Groups), isGLM},
		{"topk_group", valueOf(f.UsedGroups), isGLM},
		{"num_nextn_predict_layers", valueOf(f.Further), isGLM || isErnie},
		{"use_qk_norm", valueOf(f.QKNorm), isGLM || f.of.parallel && !*cmp.Or(f.QKNorm, new(false))},
		{"shared_expert_intermediate_size", valueOf(f.SharedFFN), f.of.mixture == sharedExperts},
		{"norm_topk_prob", valueOf(f.Normalized),
			isQwenMoE || isSigmoid && !isErnie},
		{"decoder_sparse_step", valueOf(f.Step), isQwenMoE},
		{"qkv_bias", valueOf(f.QKVBias), f.of.mixture == sharedExperts},
		{"full_attention_interval", valueOf(f.Interval), f.of.states},
		{"linear_conv_kernel_dim", valueOf(f.ConvWidth), f.of.states},
		{"linear_key_head_dim", valueOf(f.StateKeyDim), f.of.states},
		{"linear_value_head_dim", valueOf(f.StateValueDim), f.of.states},
		{"linear_num_key_heads", valueOf(f.StateKeyHeads), f.of.states},
		{"linear_num_value_heads", valueOf(f.StateHeads), f.of.states},
		{"attn_output_gate", valueOf(f.OutputGate), f.of.states},
		{"mtp_num_hidden_layers", valueOf(f.MTPLayers), f.of.states},
		{"mtp_use_dedicated_embeddings", valueOf(f.MTPEmbedding), f.of.states},
		{"swiglu_limit", valueOf(f.Limit), f.of.limit > 0},
		{"swiglu_alpha", valueOf(f.Alpha), f.of.limit > 0},
		{"quantization_config", valueOf(f.Quantized), f.of.mixture == biasedExperts},
	} {
		if k.said != nil && !k.has {
			return fmt.Errorf("%s is %v, want no such key for model_type %s", k.key, k.said, f.of.kind)
		}
	}
	return nil
}

// valueOf returns the value of a key, nil if it is absent.
func valueOf[T any](x *T) any {
	if x == nil {
		return nil
	}
	return *x
}

// valueOfList returns a list, nil if it is absent.
func valueOfList(x []int) any {
	if x == nil {
		return nil
	}
	return x
}

// scores sets how scores and logits are scaled and capped.
func (f *configFile) scores(c *config) error {
	for _, s := range []struct {
		key  string
		said *float64
		to   *float32
	}{
		{"attn_logit_softcapping", f.ScoreCap, &c.ScoreCap},
		{"final_logit_softcapping", f.LogitCap, &c.LogitCap},
		{"query_pre_attn_scalar", f.QueryScalar, &c.ScoreScale},
	} {
		if s.said == nil {
			continue
		}
		if *s.to = float32(*s.said); !(*s.to > 0 && *s.to <= math.MaxFloat32) {
			return fmt.Errorf("%s is %v, want a number above 0", s.key, *s.said)
		}
	}
	if f.QueryScalar != nil {
		c.ScoreScale = float32(1 / math.Sqrt(*f.QueryScalar))
	}
	if f.LogitScale != nil {
		return c.scaleLogits(*f.LogitScale)
	}
	if !f.of.multipliers {
		return nil
	}
	return c.multiply([4]multiplier{{"embedding_multiplier", f.EmbeddingMul},
		{"attention_multiplier", f.AttentionMul}, {"residual_multiplier", f.ResidualMul},
		{"logits_scaling", f.LogitsDivisor}})
}

// hybrid sets which layers are Mamba layers, and which rotate.
func (f *configFile) hybrid(c *config) error {
	none := new(0)
	heads, expand := *cmp.Or(f.MambaHeads, none), *cmp.Or(f.MambaExpand, none)
	inner := min(max(expand, 0), 1<<6) * c.Dim
	dim := *cmp.Or(f.MambaDim, new(inner/max(heads, 1)))
	s := states{Layers: make([]bool, c.Layers), Width: *cmp.Or(f.MambaConv, none),
		KeyDim: *cmp.Or(f.MambaState, none), ValueDim: dim, KeyHeads: *cmp.Or(f.MambaGroups, none),
		Heads: heads, Biased: *cmp.Or(f.MambaBias, new(false))}
	for i := range s.Layers {
		s.Layers[i] = f.LayerTypes == nil || f.LayerTypes[i] == mambaLayer
		if f.LayerTypes != nil && !s.Layers[i] && f.LayerTypes[i] != attentionLayer {
			return fmt.Errorf("layer_types has %q, want %s or %s", f.LayerTypes[i], mambaLayer,
				attentionLayer)
		}
	}
	if f.LayerTypes = nil; f.PositionsBy == nil || *f.PositionsBy != "rope" {
		c.unrotate(1)
	}
	if slices.Contains(s.Layers, true) && heads*dim != inner {
		return fmt.Errorf("mamba_n_heads is %d and mamba_d_head %d, want a product of mamba_expand "+
			"times hidden_size, %d", heads, dim, inner)
	}
	return c.mambaShape(s, "mamba_d_conv", "mamba_d_state", "mamba_d_head", "mamba_n_groups",
		"mamba_n_heads")
}

// experts sets which layers have experts, and how many.
func (f *configFile) experts(c *config) error {
	if f.of.mixture == noExperts {
		return nil
	}
	none, e := new(0), &c.Experts
	if f.of.mixture == sigmoidExperts {
		return f.sigmoids(c)
	}
	e.Count, e.Used = *cmp.Or(f.Experts, f.LocalExperts, none), *cmp.Or(f.Used, f.TopExperts, none)
	if f.LocalExperts != nil && f.of.mixture == manyExperts {
		e.Count = *f.LocalExperts
	}
	e.FFN, e.Shared = *cmp.Or(f.ExpertFFN, &f.FFN), *cmp.Or(f.SharedFFN, f.SharedWidth, none)
	e.Normalized = *cmp.Or(f.Normalized, new(f.of.mixture >= biasedExperts))
	c.Limit = float32(*cmp.Or(f.Limit, &f.of.limit))
	c.Alpha = float32(*cmp.Or(f.Alpha, &f.of.alpha))
	if q := f.Quantized; f.of.mixture == biasedExperts && (q == nil || q.Method != "mxfp4") {
		return errors.New("quantization_config is there without quant_method mxfp4, or not there, " +
			"want experts in that type")
	}
	if q := f.Quantized; q != nil && (c.Dim%32 != 0 || e.FFN%32 != 0) {
		return fmt.Errorf("hidden_size is %d and intermediate_size %d, want multiples of 32, the "+
			"weights of a block", c.Dim, e.FFN)
	}
	if f.of.limit > 0 && !(c.Limit > 0 && c.Alpha > 0) {
		return fmt.Errorf("swiglu_limit is %v and swiglu_alpha %v, want numbers above 0", c.Limit,
			c.Alpha)
	}
	if e.Shared < 0 || e.Shared > 1<<24 || e.Count < 1 {
		count, shared := "num_experts", "shared_expert_intermediate_size"
		if f.LocalExperts != nil {
			count = "num_local_experts"
		}
		if f.SharedWidth != nil {
			shared = "shared_intermediate_size"
		}
		return fmt.Errorf("%s is %d and %s %d, want 1 or more, and 0 or more", count, e.Count, shared,
			e.Shared)
	}
	step := *cmp.Or(f.Step, new(1))
	if f.of.allExperts && (!e.Normalized || step != 1 || len(f.DenseLayers) > 0) {
		return fmt.Errorf("norm_topk_prob is %v, decoder_sparse_step %d and mlp_only_layers %v, want "+
			"true, 1 and none for model_type %s", e.Normalized, step, f.DenseLayers, f.of.kind)
	}
	if step < 1 {
		return fmt.Errorf("decoder_sparse_step is %d, want 1 or more", step)
	}
	e.Dense = make([]bool, c.Layers)
	for i := range e.Dense {
		e.Dense[i] = (i+1)%step != 0 || slices.Contains(f.DenseLayers, i)
	}
	switch {
	case e.Beside:
		return e.check("num_experts", "top_k_experts", "moe_intermediate_size")
	case f.of.mixture >= biasedExperts:
		return e.check("num_local_experts", "num_experts_per_tok", "intermediate_size")
	}
	return e.check("num_experts", "num_experts_per_tok", "moe_intermediate_size")
}

// sigmoids sets the experts of kinds whose routers have a sigmoid for each.
func (f *configFile) sigmoids(c *config) error {
	none, one := new(0), new(1)
	by, groups, used := *cmp.Or(f.RouteScale, new(1.0)), *cmp.Or(f.Groups, one),
		*cmp.Or(f.UsedGroups, one)
	first, shared := *cmp.Or(f.FirstDense, f.FirstOnes, f.MoEFirst, none),
		*cmp.Or(f.SharedCount, f.MoEShared, none)
	c.Experts = experts{Count: *cmp.Or(f.Routed, f.Experts, f.MoEExperts, none),
		Used: *cmp.Or(f.Used, f.MoEUsed, none),
		FFN:  *cmp.Or(f.ExpertFFN, none), Normalized: *cmp.Or(f.Normalized, new(true)),
		Choosing: *cmp.Or(f.ExpertBias, new(true))}
	if f.of.glmExperts {
		c.QKNorm, c.Further = *cmp.Or(f.QKNorm, new(false)), *cmp.Or(f.Further, none)
	}
	switch {
	case groups != 1 || used != 1:
		return fmt.Errorf("n_group is %d and topk_group %d, want 1", groups, used)
	case first < 0 || shared < 0 || shared > 1<<6 || c.Further < 0 || c.Further > 1<<10:
		return fmt.Errorf("layers without experts are %d, n_shared_experts %d and "+
			"num_nextn_predict_layers %d, want 0 or more, and at most 64 shared ones", first, shared,
			c.Further)
	}
	c.Experts.Shared = shared * c.Experts.FFN
	if err := c.weighBySigmoids(f.of, "routed_scaling_factor", by, first); err != nil {
		return err
	}
	if f.of.ernieExperts {
		return f.ernieExperts(c)
	}
	count := "num_experts"
	if f.of.glmExperts {
		count = "n_routed_experts"
	}
	return c.Experts.check(count, "num_experts_per_tok", "moe_intermediate_size")
}

// ernieExperts sets which layers of ERNIE have experts, and how these are weighted.
func (f *configFile) ernieExperts(c *config) error {
	last, step := *cmp.Or(f.MoELast, new(-1)), *cmp.Or(f.MoEStep, new(1))
	floor := *cmp.Or(f.MoEFloor, new(usualFloor))
	if last == -1 {
		last = c.Layers - 1
	}
	if last < 0 || step < 1 || !(floor >= 1e-30 && floor <= 1) {
		return fmt.Errorf("moe_layer_end_index is %d, moe_layer_interval %d and moe_norm_min %v, want "+
			"-1 or more, 1 or more, and 1e-30 to 1", last, step, floor)
	}
	c.weighBySoftmax(floor, step)
	for i := last + 1; i < c.Layers; i++ {
		c.Experts.Dense[i] = true
	}
	return c.Experts.check("moe_num_experts", "moe_k", "moe_intermediate_size")
}

// further sets how many layers guess further tokens.
func (f *configFile) further(c *config) error {
	c.GuessLayers, c.GuessKey = c.Further, "num_nextn_predict_layers"
	if f.of.states {
		c.GuessLayers, c.GuessKey = *cmp.Or(f.MTPLayers, new(-1)), "mtp_num_hidden_layers"
	}
	if n := f.MTPLayers; n != nil && *n < 0 {
		return fmt.Errorf("mtp_num_hidden_layers is %d, want 0 or more", *n)
	}
	c.OwnEmbedding = *cmp.Or(f.MTPEmbedding, new(false))
	return nil
}

// states sets which layers keep states, and their shape.
func (f *configFile) states(c *config) error {
	if f.of.shortConvs {
		return f.shortConvs(c)
	}
	if f.of.hybrid {
		return f.hybrid(c)
	}
	if !f.of.states {
		return nil
	}
	none, s := new(0), &c.States
	*s = states{Layers: make([]bool, c.Layers), Width: *cmp.Or(f.ConvWidth, none),
		KeyDim: *cmp.Or(f.StateKeyDim, none), ValueDim: *cmp.Or(f.StateValueDim, none),
		KeyHeads: *cmp.Or(f.StateKeyHeads, none), Heads: *cmp.Or(f.StateHeads, none)}
	interval := *cmp.Or(f.Interval, none)
	if interval < 1 || f.OutputGate != nil && !*f.OutputGate {
		return fmt.Errorf("full_attention_interval is %d and attn_output_gate %v, want 1 or more, and "+
			"true", interval, *cmp.Or(f.OutputGate, new(true)))
	}
	for i := range s.Layers {
		s.Layers[i] = (i+1)%interval != 0
		if f.LayerTypes == nil {
			continue
		}
		if kind := f.LayerTypes[i]; kind != fullLayer && kind != statesLayer {
			return fmt.Errorf("layer_types has %q, want %s or %s", kind, fullLayer, statesLayer)
		}
		s.Layers[i] = f.LayerTypes[i] == statesLayer
	}
	f.LayerTypes = nil // there are no windows
	return s.check("linear_conv_kernel_dim", "linear_key_head_dim", "linear_value_head_dim",
		"linear_num_key_heads", "linear_num_value_heads")
}

// shortConvs sets which layers have a short convolution.
func (f *configFile) shortConvs(c *config) error {
	c.States = states{Layers: make([]bool, c.Layers), Short: c.Dim,
		Width: *cmp.Or(f.ShortWidth, new(0))}
	for i := range c.States.Layers {
		c.States.Layers[i] = f.FullOnes != nil && !slices.Contains(f.FullOnes, i)
		if f.LayerTypes == nil {
			continue
		}
		if kind := f.LayerTypes[i]; kind != fullLayer && kind != convLayer {
			return fmt.Errorf("layer_types has %q, want %s or %s", kind, fullLayer, convLayer)
		}
		c.States.Layers[i] = f.LayerTypes[i] == convLayer
	}
	f.LayerTypes = nil // there are no windows
	return c.States.checkShort("conv_L_cache")
}

const (
	fullLayer, slidingLayer = "full_attention", "sliding_attention"
	statesLayer, convLayer  = "linear_attention", "conv"
	attentionLayer          = "attention"
	mambaLayer              = "mamba"
)

// windows sets which layers have a window, and its size.
func (f *configFile) windows(c *config) error {
	window, err := f.windowSize()
	if err != nil {
		return err
	}
	c.Windows = make([]int, c.Layers)
	kinds := make([]string, c.Layers)
	period := int(*cmp.Or(f.Period, f.OldPeriod, new(windowPeriod(f.of.period))))
	if period < 1 && f.of.window == windowOfPeriod && window > 0 {
		return fmt.Errorf("sliding_window_pattern is %d, want 1 or more", period)
	}
	for i := range kinds { // the kinds that config.json implies
		if kinds[i] = slidingLayer; window == 0 || f.of.window == windowOfLast && i < f.FullLayers ||
			f.of.window == windowOfPeriod && (i+1)%period == 0 {
			kinds[i] = fullLayer
		}
	}
	if f.of.byLayer {
		kinds[len(kinds)-1] = fullLayer
	}
	if err := f.chooseLayers(kinds, window > 0 && f.of.window > windowOfAll); err != nil {
		return err
	}
	for i, kind := range kinds {
		if kind == slidingLayer {
			c.Windows[i] = window
		}
	}
	if f.of.localOnly {
		c.unrotateFull(f.of.parallel)
	}
	return nil
}

// byLayer sets what layers of Gemma 4 have differently from each other.
func (f *configFile) byLayer(c *config) error {
	if !f.of.byLayer {
		return nil
	}
	none, b := new(0), &c.ByLayer
	*b = byLayer{HeadDim: *cmp.Or(f.FullHeadDim, none), KVHeads: c.KVHeads,
		Shared: *cmp.Or(f.SharedLayers, none), SharedFFN: c.FFN,
		KeysAreValues: *cmp.Or(f.KeysAreValues, new(false)), Inputs: *cmp.Or(f.Inputs, none)}
	if f.FullKVHeads != nil && b.KeysAreValues {
		b.KVHeads = *f.FullKVHeads
	}
	if f.Doubled != nil && *f.Doubled {
		b.SharedFFN = 2 * min(c.FFN, math.MaxInt32)
	}
	if n := *cmp.Or(f.InputTokens, &c.Vocab); b.Inputs > 0 && n != c.Vocab {
		return fmt.Errorf("vocab_size_per_layer_input is %d, want vocab_size, %d", n, c.Vocab)
	}
	if c.Windows[c.Layers-1] > 0 {
		return fmt.Errorf("layer_types ends with %s, want %s", slidingLayer, fullLayer)
	}
	return c.checkLayerShapes("global_head_dim", "num_global_key_value_heads",
		"num_kv_shared_layers", "intermediate_size", "hidden_size_per_layer_input")
}

// windowPeriod is how often a layer has no window: a number, or a text as LLLG for 4.
type windowPeriod int

func (p *windowPeriod) UnmarshalJSON(data []byte) error {
	if data[0] != '"' {
		return json.Unmarshal(data, (*int)(p))
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	if *p = windowPeriod(len(text)); text != strings.Repeat("L", max(len(text)-1, 0))+"G" {
		return fmt.Errorf("sliding_window_pattern is %q, want a number, or G after some L", text)
	}
	return nil
}

// windowSize returns the window of the layers that have one, 0 if none has.
func (f *configFile) windowSize() (int, error) {
	// use_sliding_window only matters for qwen.
	off := f.UseWindow != nil && !*f.UseWindow &&
		(f.of.window == noWindow || f.of.window == windowOfLast)
	if f.Window == nil || off {
		return 0, nil
	}
	if *f.Window < 1 || f.of.window == noWindow {
		return 0, fmt.Errorf("sliding_window is %d, want null, or for others than llama 1 or more",
			*f.Window)
	}
	return *f.Window, nil
}

// chooseLayers reads the kinds of layers from layer_types if the model may choose them; otherwise
// layer_types has to agree with the implied kinds.
func (f *configFile) chooseLayers(kinds []string, free bool) error {
	for i, kind := range f.LayerTypes {
		switch {
		case !free && kind != kinds[i]:
			return fmt.Errorf("layer_types has %q, want %s only: sliding_window and model_type say so",
				kind, kinds[i])
		case kind != fullLayer && kind != slidingLayer:
			return fmt.Errorf("layer_types has %q, want %s or %s", kind, fullLayer, slidingLayer)
		}
		kinds[i] = kind
	}
	return nil
}

// rotations reads rope_theta and its scaling, which files have in several places.
func (f *configFile) rotations(c *config) error {
	name, s := "rope_scaling", cmp.Or(f.Scaling, f.Rope, f.usualRope, &scaling{})
	switch {
	case f.Scaling != nil && f.Rope != nil && f.Scaling.Truncate == nil:
		return errors.New("rope_scaling and rope_parameters are both there, want one of them")
	case f.Rope != nil:
		name = "rope_parameters"
	}
	local, s, err := f.localRotations(name, s)
	if err != nil {
		return err
	}
	if f.Theta != nil && s.Theta != nil && *f.Theta != *s.Theta {
		return fmt.Errorf("rope_theta is %v, and %v beside its scaling, want one number", *f.Theta,
			*s.Theta)
	}
	usual := cmp.Or(f.usualTheta, 10000.0)
	if !f.of.states && (s.Sections != nil || s.Interleaved != nil) {
		return fmt.Errorf("%s has mrope_section %v, want it only for qwen3_5_text, where it changes "+
			"nothing in texts", name, s.Sections)
	}
	if s.QueryScale != nil && !f.of.queryScale {
		return fmt.Errorf("%s has llama_4_scaling_beta %v, want it only for ministral3", name,
			*s.QueryScale)
	}
	c.Scaling, c.Theta, c.LocalTheta = *s, *cmp.Or(f.Theta, s.Theta, &usual), local
	if f.of.localPlain && local == 0 {
		c.LocalTheta = c.Theta
	}
	if c.Theta < 1 {
		return fmt.Errorf("rope_theta is %v, want 1 or more", c.Theta)
	}
	if c.LocalTheta != 0 && c.LocalTheta < 1 {
		return fmt.Errorf("rope_local_base_freq is %v, want 1 or more", c.LocalTheta)
	}
	if err := f.partOfHeads(c); err != nil {
		return err
	}
	if f.of.longRotation {
		c.Scaling.beLong(*cmp.Or(f.Original, new(0.0)))
	}
	positions := *cmp.Or(f.Positions, new(0.0))
	if err := c.Scaling.complete(c.Theta, positions); err != nil {
		return fmt.Errorf("%s %w", name, err)
	}
	c.Trained = c.Scaling.trained(positions)
	if err := c.checkFactors(name); err != nil {
		return err
	}
	if err := c.scaleQueries(*cmp.Or(s.QueryScale, new(0.0))); err != nil {
		return fmt.Errorf("%s.llama_4_scaling_beta %w", name, err)
	}
	if f.of.unrotated == 0 {
		return nil
	}
	return f.unrotated(c)
}

// unrotated sets which layers have no rotations.
func (f *configFile) unrotated(c *config) error {
	step := *cmp.Or(f.Unrotated, &f.of.unrotated)
	if n := len(f.RotatedIn); step < 1 || f.RotatedIn != nil && n != c.Layers {
		return fmt.Errorf("no_rope_layer_interval is %d and no_rope_layers has %d layers, want 1 or "+
			"more, and num_hidden_layers, %d", step, n, c.Layers)
	}
	c.unrotate(step)
	for i, rotated := range f.RotatedIn {
		if rotated != 0 && rotated != 1 {
			return fmt.Errorf("no_rope_layers has %d, want 0 or 1", rotated)
		}
		c.Unrotated[i] = rotated == 0
	}
	return nil
}

// localRotations returns the base of layers with a window and the rotation of the others, which
// newer files have in one object.
func (f *configFile) localRotations(name string, s *scaling) (float64, *scaling, error) {
	base := *cmp.Or(f.LocalTheta, &f.of.localTheta)
	if s.Full == nil && s.Sliding == nil {
		return base, s, nil
	}
	if f.of.localTheta == 0 && !f.of.localPlain || s.Full == nil || s.Sliding == nil {
		return 0, nil, fmt.Errorf("%s has %s or %s, want both, and only for gemma3 "+
			"and olmo3", name, fullLayer,
			slidingLayer)
	}
	if kind := cmp.Or(s.Sliding.Type, s.Sliding.OldType, "default"); kind != "default" {
		return 0, nil, fmt.Errorf("%s.%s is of type %q, want default", name, slidingLayer, kind)
	}
	return *cmp.Or(s.Sliding.Theta, &base), s.Full, nil
}

// partOfHeads sets how many channels are rotated.
func (f *configFile) partOfHeads(c *config) error {
	if f.of.byLayer {
		return f.proportion(c)
	}
	part := *cmp.Or(c.Scaling.Rotated, f.Rotated, new(1.0))
	c.Rotated = int(part * float64(c.HeadDim))
	if !(part > 0 && part <= 1) || c.Rotated < 2 || c.Rotated%2 != 0 {
		return fmt.Errorf("partial_rotary_factor is %v, want a part of head_dim, %d, that is an even "+
			"number of channels", part, c.HeadDim)
	}
	if part != 1 && !f.of.partial {
		return fmt.Errorf("partial_rotary_factor is %v, want 1 or null for model_type %s", part,
			f.of.kind)
	}
	return nil
}

// proportion sets how many channels are rotated in layers of Gemma 4, and for layers without a
// window which of them by an angle.
func (f *configFile) proportion(c *config) error {
	s := &c.Scaling
	part := *cmp.Or(s.Rotated, f.Rotated, new(1.0))
	c.Rotated = c.ByLayer.HeadDim
	if s.Type != proportional && part == 1 {
		return nil
	}
	turned := int(part * float64(c.Rotated) / 2)
	if s.Type != proportional || !(part > 0 && part <= 1) || turned < 1 {
		return fmt.Errorf("partial_rotary_factor is %v and rope_type %q, want a part of "+
			"global_head_dim, %d, and %s", part, s.Type, c.Rotated, proportional)
	}
	s.Turned = turned
	return nil
}
