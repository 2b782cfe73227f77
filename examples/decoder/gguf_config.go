package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/seed-1415985d/attn/embed/folder"
)

// generalKeys are the keys of a GGUF file under "general.".
type generalKeys struct {
	Architecture string `json:"architecture"`
}

// architectureKeys are those under the name of the architecture.
type architectureKeys struct {
	Layers      int      `json:"block_count"`
	Dim         int      `json:"embedding_length"`
	Heads       perLayer `json:"attention.head_count"`
	KVHeads     perLayer `json:"attention.head_count_kv"`
	KeyDim      *int     `json:"attention.key_length"`
	ValueDim    *int     `json:"attention.value_length"`
	FFN         perLayer `json:"feed_forward_length"`
	Vocab       *int     `json:"vocab_size"`
	Positions   float64  `json:"context_length"`
	Epsilon     *float64 `json:"attention.layer_norm_rms_epsilon"`
	Rotated     *int     `json:"rope.dimension_count"`
	Theta       *float64 `json:"rope.freq_base"`
	Window      *int     `json:"attention.sliding_window"`
	Sliding     sliding  `json:"attention.sliding_window_pattern"`
	ScalingType *string  `json:"rope.scaling.type"`
	Factor      *float64 `json:"rope.scaling.factor"`
	OldFactor   *float64 `json:"rope.scale_linear"`
	Original    float64  `json:"rope.scaling.original_context_length"`
	Magnitude   *float64 `json:"rope.scaling.attn_factor"`
	Fast        float64  `json:"rope.scaling.yarn_beta_fast"`
	Slow        float64  `json:"rope.scaling.yarn_beta_slow"`
}

// perLayer is a number for all layers, or a list of one for each; none if the file has no such key.
type perLayer []int

func (p *perLayer) UnmarshalJSON(data []byte) error {
	if data[0] == '[' {
		return json.Unmarshal(data, (*[]int)(p))
	}
	*p = make(perLayer, 1)
	return json.Unmarshal(data, &(*p)[0])
}

// of all layers is the one number, 0 for none.
func (p perLayer) of(layers int, key string) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(p) > 1 && len(p) != layers || len(slices.Compact(slices.Clone(p))) > 1 {
		return 0, fmt.Errorf("%s is %v, want one number, or the same for each of %d layers", key,
			[]int(p), layers)
	}
	return p[0], nil
}

// sliding says which layers have a window: of so many consecutive ones all but the last, or each
// layer for itself.
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

// readMetadata reads what the metadata of a GGUF file says of a model with some tokens.
func readMetadata(l *folder.Loader, v *folder.Vocabulary) config {
	var general generalKeys
	l.Metadata("general", &general, idleGeneral)
	name := general.Architecture
	if l.Err == nil && name != "llama" && name != "qwen2" && name != "qwen3" {
		l.Check("", fmt.Errorf("general.architecture is %q, want llama, qwen2 or qwen3", name))
	}
	if l.Err != nil {
		return config{}
	}
	var k architectureKeys
	l.Metadata(name, &k, idleArchitecture)
	l.CheckMetadata(idleElsewhere)
	c, err := k.config(name, len(v.Tokens))
	if err != nil {
		l.Check("", fmt.Errorf("%s.%w", name, err))
	}
	c.Tied, c.Stop = !l.Has(ggufNames.head+".weight"), v.Stop()
	return c
}

// config is the model that keys mean.
func (k *architectureKeys) config(name string, vocab int) (config, error) {
	heads, err := k.Heads.of(k.Layers, "attention.head_count")
	kvHeads, kvErr := k.KVHeads.of(k.Layers, "attention.head_count_kv")
	ffn, ffnErr := k.FFN.of(k.Layers, "feed_forward_length")
	if err = cmp.Or(err, kvErr, ffnErr); err != nil {
		return config{}, err
	}
	if k.KVHeads == nil {
		kvHeads = heads
	}
	c := config{Layers: k.Layers, Dim: k.Dim, Heads: heads, KVHeads: kvHeads,
		HeadDim: *cmp.Or(k.KeyDim, new(k.Dim/max(heads, 1))), FFN: ffn, Vocab: vocab,
		AnyBias: true, QKNorm: name == "qwen3", Interleaved: name == "llama",
		Theta: *cmp.Or(k.Theta, new(10000.0))}
	err = folder.Sizes([]string{"block_count", "embedding_length", "attention.head_count",
		"attention.head_count_kv", "attention.key_length", "feed_forward_length", "vocab_size"},
		c.Layers, c.Dim, c.Heads, c.KVHeads, c.HeadDim, c.FFN, c.Vocab)
	for _, step := range []func(*config) error{k.checkShape, k.windows, k.rotations} {
		if err == nil {
			err = step(&c)
		}
	}
	return c, err
}

func (k *architectureKeys) checkShape(c *config) error {
	if k.Epsilon == nil {
		return fmt.Errorf("attention.layer_norm_rms_epsilon is not there, want a number")
	}
	c.Epsilon = *k.Epsilon
	for _, same := range []struct {
		key  string
		said *int
		want int
	}{
		{"vocab_size", k.Vocab, c.Vocab}, // as many as tokenizer.ggml.tokens
		{"attention.value_length", k.ValueDim, c.HeadDim},
		{"rope.dimension_count", k.Rotated, c.HeadDim},
	} {
		if same.said != nil && *same.said != same.want {
			return fmt.Errorf("%s is %d, want %d", same.key, *same.said, same.want)
		}
	}
	return c.checkShape("attention.head_count", "attention.head_count_kv", "attention.key_length",
		"attention.layer_norm_rms_epsilon")
}

// windows says which layers have a window.
func (k *architectureKeys) windows(c *config) error {
	c.Windows = make([]int, c.Layers)
	if k.Window == nil || *k.Window == 0 {
		return nil // where others have no window, either, whatever the pattern
	}
	if *k.Window < 0 {
		return fmt.Errorf("attention.sliding_window is %d, want 0 or more", *k.Window)
	}
	if n := len(k.Sliding.layers); n > 0 && n != c.Layers {
		return fmt.Errorf("attention.sliding_window_pattern has %d layers, want block_count, %d", n,
			c.Layers)
	}
	for i := range c.Windows {
		slides := k.Sliding.period == 0 || i%k.Sliding.period < k.Sliding.period-1
		if k.Sliding.layers != nil {
			slides = k.Sliding.layers[i]
		}
		if slides {
			c.Windows[i] = *k.Window
		}
	}
	return nil
}

// rotations are those of rope.*. A factor without a type is linear.
func (k *architectureKeys) rotations(c *config) error {
	if c.Theta < 1 {
		return fmt.Errorf("rope.freq_base is %v, want 1 or more", c.Theta)
	}
	if k.Factor != nil && k.OldFactor != nil {
		return fmt.Errorf("rope.scaling.factor is %v, and rope.scale_linear %v, want one of them",
			*k.Factor, *k.OldFactor)
	}
	factor := *cmp.Or(k.Factor, k.OldFactor, new(1.0))
	if factor == 0 {
		factor = 1 // as others read it
	}
	s := &c.Scaling
	switch kind := *cmp.Or(k.ScalingType, new("linear")); kind {
	case "none":
		c.Trained = s.trained(k.Positions)
		return nil
	case "linear", "yarn":
		*s = scaling{Type: kind, Factor: factor, Original: k.Original, Fast: k.Fast, Slow: k.Slow}
	default:
		return fmt.Errorf("rope.scaling.type is %q, want none, linear or yarn", kind)
	}
	if err := s.complete(c.Theta, k.Positions); err != nil {
		return fmt.Errorf("rope.scaling %w", err)
	}
	c.Trained = s.trained(k.Positions)
	if k.Magnitude != nil {
		return k.magnify(s)
	}
	return nil
}

// magnify multiplies what yarn's rotations do to queries and keys.
func (k *architectureKeys) magnify(s *scaling) error {
	switch x := *k.Magnitude; {
	case s.Type != "yarn" && x != 1, !(x > 0):
		return fmt.Errorf("rope.scaling.attn_factor is %v and rope.scaling.type %q, want 1, or for yarn "+
			"a number above 0", x, s.Type)
	case s.Type == "yarn" && x != 1:
		// The logarithm may have other bits on another CPU.
		s.Magnitude = new(x * (0.1*math.Log(s.Factor) + 1))
	}
	return nil
}
