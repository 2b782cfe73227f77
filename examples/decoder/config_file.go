package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-1415985d/attn/embed/folder"
	"github.com/seed-1415985d/attn/strictjson"
)

// configFile is config.json. Pointers are nil for null.
type configFile struct {
	ModelType     string           `json:"model_type"`
	Architectures []string         `json:"architectures"`
	Layers        int              `json:"num_hidden_layers"`
	Dim           int              `json:"hidden_size"`
	Heads         int              `json:"num_attention_heads"`
	KVHeads       *int             `json:"num_key_value_heads"`
	HeadDim       *int             `json:"head_dim"`
	FFN           int              `json:"intermediate_size"`
	Vocab         int              `json:"vocab_size"`
	Epsilon       float64          `json:"rms_norm_eps"`
	Tied          bool             `json:"tie_word_embeddings"`
	Activation    string           `json:"hidden_act"`
	AttentionBias bool             `json:"attention_bias"`
	FFNBias       bool             `json:"mlp_bias"`
	Window        *int             `json:"sliding_window"`
	UseWindow     *bool            `json:"use_sliding_window"`
	FullLayers    int              `json:"max_window_layers"` // the first ones, of qwen2 and qwen3
	LayerTypes    []string         `json:"layer_types"`
	Stop          folder.OneOrMore `json:"eos_token_id"`
	Positions     float64          `json:"max_position_embeddings"`
	Theta         *float64         `json:"rope_theta"`
	Scaling       *scaling         `json:"rope_scaling"`
	Rope          *scaling         `json:"rope_parameters"` // where newer files keep both
}

// standard is what a type of model means by what its config.json leaves out.
func standard(modelType string) (f configFile, err error) {
	f = configFile{Epsilon: 1e-6, Activation: "silu"}
	switch modelType {
	case "llama":
		f.Stop = folder.OneOrMore{2}
	case "mistral":
		f.Stop, f.KVHeads, f.Window = folder.OneOrMore{2}, new(8), new(4096)
	case "qwen2", "qwen3":
		f.KVHeads, f.UseWindow, f.Window, f.FullLayers = new(32), new(false), new(4096), 28
		if modelType == "qwen3" {
			f.HeadDim = new(128)
		}
	default:
		err = fmt.Errorf("model_type is %q, want llama, mistral, qwen2 or qwen3", modelType)
	}
	return f, err
}

// readConfig reads config.json and what generation_config.json says instead of it.
func readConfig(l *folder.Loader) config {
	const file, generation = "config.json", "generation_config.json"
	var kind struct {
		ModelType string `json:"model_type"`
	}
	l.JSON(file, &kind, strictjson.AnyKey)
	f, err := standard(kind.ModelType)
	l.Check(file, err)
	l.JSON(file, &f, idleConfig)
	c, err := f.config()
	l.Check(file, err)
	l.Check(file, c.checkStop())
	said := struct {
		Stop folder.OneOrMore `json:"eos_token_id"`
	}{c.Stop}
	l.OptionalJSON(generation, &said, idleGeneration)
	if len(said.Stop) > 0 {
		c.Stop = said.Stop
		l.Check(generation, c.checkStop())
	}
	return c
}

// checkStop refuses tokens that never come.
func (c *config) checkStop() error {
	for _, token := range c.Stop {
		if token < 0 || token >= c.Vocab {
			return fmt.Errorf("eos_token_id is %d, want 0 to %d by vocab_size", token, c.Vocab-1)
		}
	}
	return nil
}

// config is the model that a file means. What this engine would compute wrongly is an error.
func (f *configFile) config() (config, error) {
	c := config{Layers: f.Layers, Dim: f.Dim, Heads: f.Heads, KVHeads: f.Heads,
		HeadDim: f.Dim / max(f.Heads, 1), FFN: f.FFN, Vocab: f.Vocab, Epsilon: f.Epsilon, Tied: f.Tied,
		Stop: f.Stop, Theta: 10000, FFNBias: f.FFNBias && f.ModelType == "llama",
		OutBias: f.AttentionBias && (f.ModelType == "llama" || f.ModelType == "qwen3"),
		QKNorm:  f.ModelType == "qwen3"}
	c.QKVBias = c.OutBias || f.ModelType == "qwen2"
	if f.KVHeads != nil {
		c.KVHeads = *f.KVHeads
	}
	if f.HeadDim != nil {
		c.HeadDim = *f.HeadDim
	}
	err := folder.Sizes([]string{"num_hidden_layers", "hidden_size", "num_attention_heads",
		"num_key_value_heads", "head_dim", "intermediate_size", "vocab_size"},
		c.Layers, c.Dim, c.Heads, c.KVHeads, c.HeadDim, c.FFN, c.Vocab)
	for _, step := range []func(*config) error{f.checkShape, f.checkLayers, f.windows, f.rotations} {
		if err == nil {
			err = step(&c)
		}
	}
	return c, err
}

func (f *configFile) checkShape(c *config) error {
	return c.checkShape("num_attention_heads", "num_key_value_heads", "head_dim", "rms_norm_eps")
}

// checkShape takes the names of keys in a file.
func (c *config) checkShape(heads, kvHeads, headDim, epsilon string) error {
	switch {
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("%s is %d, want a multiple of %s, %d", heads, c.Heads, kvHeads, c.KVHeads)
	case c.HeadDim%2 != 0:
		return fmt.Errorf("%s is %d, want an even number: rotations take pairs", headDim, c.HeadDim)
	case !(c.Epsilon >= 0):
		return fmt.Errorf("%s is %v, want 0 or more", epsilon, c.Epsilon)
	}
	return nil
}

// checkLayers refuses layers of other kinds.
func (f *configFile) checkLayers(*config) error {
	for _, name := range f.Architectures {
		// the second is in some of the oldest folders
		if !slices.Contains([]string{"LlamaForCausalLM", "LLaMAForCausalLM", "MistralForCausalLM",
			"Qwen2ForCausalLM", "Qwen3ForCausalLM"}, name) {
			return fmt.Errorf("architectures has %q, want LlamaForCausalLM, MistralForCausalLM, "+
				"Qwen2ForCausalLM or Qwen3ForCausalLM", name)
		}
	}
	if f.Activation != "silu" {
		return fmt.Errorf("hidden_act is %q, want silu", f.Activation)
	}
	return nil
}

func (f *configFile) isQwen() bool { return f.ModelType == "qwen2" || f.ModelType == "qwen3" }

const fullLayer, slidingLayer = "full_attention", "sliding_attention"

// windows says which layers have a window, and how large.
func (f *configFile) windows(c *config) error {
	window, err := f.window()
	if err != nil {
		return err
	}
	c.Windows = make([]int, c.Layers)
	kinds := make([]string, c.Layers)
	for i := range kinds { // what config.json implies
		if kinds[i] = slidingLayer; window == 0 || f.isQwen() && i < f.FullLayers {
			kinds[i] = fullLayer
		}
	}
	if err := f.chooseLayers(kinds, window > 0 && f.isQwen()); err != nil {
		return err
	}
	for i, kind := range kinds {
		if kind == slidingLayer {
			c.Windows[i] = window
		}
	}
	return nil
}

// window is that of the layers that have one, 0 if none has.
func (f *configFile) window() (int, error) {
	// Models of type mistral have their window whatever use_sliding_window says.
	off := f.UseWindow != nil && !*f.UseWindow && f.ModelType != "mistral"
	if f.Window == nil || off {
		return 0, nil
	}
	if *f.Window < 1 || f.ModelType == "llama" {
		return 0, fmt.Errorf("sliding_window is %d, want null, or for mistral, qwen2 and qwen3 1 or more",
			*f.Window)
	}
	return *f.Window, nil
}

// chooseLayers takes the kinds of layers from layer_types where the model lets them choose, and
// refuses others than are implied where it does not.
func (f *configFile) chooseLayers(kinds []string, free bool) error {
	if n := len(f.LayerTypes); n > 0 && n != len(kinds) {
		return fmt.Errorf("layer_types has %d layers, want num_hidden_layers, %d", n, len(kinds))
	}
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

// rotations takes rope_theta and its scaling from where a file has them.
func (f *configFile) rotations(c *config) error {
	name, s := "rope_scaling", cmp.Or(f.Scaling, f.Rope, &scaling{})
	switch {
	case f.Scaling != nil && f.Rope != nil:
		return errors.New("rope_scaling and rope_parameters are both there, want one of them")
	case f.Theta != nil && s.Theta != nil && *f.Theta != *s.Theta:
		return fmt.Errorf("rope_theta is %v, and %v beside its scaling, want one number", *f.Theta,
			*s.Theta)
	case f.Rope != nil:
		name = "rope_parameters"
	}
	c.Scaling, c.Theta = *s, *cmp.Or(f.Theta, s.Theta, new(10000.0))
	if c.Theta < 1 {
		return fmt.Errorf("rope_theta is %v, want 1 or more", c.Theta)
	}
	if err := c.Scaling.complete(c.Theta, f.Positions); err != nil {
		return fmt.Errorf("%s %w", name, err)
	}
	c.Trained = c.Scaling.trained(f.Positions)
	return nil
}
