package main

import (
	"cmp"
	"fmt"
	"math"

	"github.com/seed-1415985d/attn/examples/internal/folder"
)

// config is the shape of a model, under the names of config.json.
type config struct {
	ModelType  string           `json:"model_type"`
	Layers     int              `json:"num_hidden_layers"`
	Dim        int              `json:"hidden_size"`
	Heads      int              `json:"num_attention_heads"`
	KVHeads    int              `json:"num_key_value_heads"`
	HeadDim    int              `json:"head_dim"`
	FFN        int              `json:"intermediate_size"`
	Vocab      int              `json:"vocab_size"`
	Epsilon    float64          `json:"rms_norm_eps"`
	Tied       bool             `json:"tie_word_embeddings"`
	Activation string           `json:"hidden_act"`
	Window     *int             `json:"sliding_window"`
	UseWindow  *bool            `json:"use_sliding_window"`
	Stop       folder.OneOrMore `json:"eos_token_id"`
	Theta      float64          `json:"rope_theta"`
	Scaling    scaling          `json:"rope_scaling"`
	Rope       *scaling         `json:"rope_parameters"` // where newer files keep both
}

// scaling stretches the rotations to more positions than a model was first trained with.
type scaling struct {
	Type     string  `json:"rope_type"`
	OldType  string  `json:"type"`
	Theta    float64 `json:"rope_theta"`
	Factor   float64 `json:"factor"`
	Low      float64 `json:"low_freq_factor"`
	High     float64 `json:"high_freq_factor"`
	Original float64 `json:"original_max_position_embeddings"`
}

// complete fills in what may be left out, and refuses what this engine would compute wrongly.
func (c *config) complete() error {
	if c.Rope != nil {
		c.Scaling, c.Theta = *c.Rope, c.Rope.Theta
	}
	c.KVHeads, c.HeadDim = cmp.Or(c.KVHeads, c.Heads), cmp.Or(c.HeadDim, c.Dim/max(c.Heads, 1))
	c.Activation, c.Theta = cmp.Or(c.Activation, "silu"), cmp.Or(c.Theta, 10000)
	c.Scaling.Type = cmp.Or(c.Scaling.Type, c.Scaling.OldType)
	err := folder.Sizes([]string{"num_hidden_layers", "hidden_size", "num_attention_heads",
		"num_key_value_heads", "head_dim", "intermediate_size", "vocab_size"},
		c.Layers, c.Dim, c.Heads, c.KVHeads, c.HeadDim, c.FFN, c.Vocab)
	s := c.Scaling
	llama3, linear := s.Type == "llama3", s.Type == "linear"
	switch {
	case err != nil:
		return err
	case c.ModelType != "llama" && c.ModelType != "mistral" && c.ModelType != "qwen2":
		return fmt.Errorf("model_type is %q, want llama, mistral or qwen2", c.ModelType)
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("num_attention_heads is %d, want a multiple of num_key_value_heads, %d",
			c.Heads, c.KVHeads)
	case c.HeadDim%2 != 0:
		return fmt.Errorf("head_dim is %d, want an even number: rotations take pairs", c.HeadDim)
	case c.Activation != "silu":
		return fmt.Errorf("hidden_act is %q, want silu", c.Activation)
	case c.Window != nil && (c.UseWindow == nil || *c.UseWindow):
		return fmt.Errorf("sliding_window is %d, want null: this engine shows every token all before it",
			*c.Window)
	case !(c.Epsilon >= 0) || !(c.Theta > 0):
		return fmt.Errorf("rms_norm_eps is %v and rope_theta %v, want numbers above 0", c.Epsilon,
			c.Theta)
	case !llama3 && !linear && s.Type != "" && s.Type != "default":
		return fmt.Errorf("rope_scaling is of type %q, want llama3 or linear", s.Type)
	case (llama3 || linear) && !(s.Factor > 0), llama3 &&
		!(s.Low > 0 && s.High > s.Low && s.Original > 0):
		return fmt.Errorf("rope_scaling of type %s has factor %v, low_freq_factor %v, "+
			"high_freq_factor %v and original_max_position_embeddings %v, "+
			"want numbers above 0 (for linear the factor only), and the third above the second", s.Type,
			s.Factor, s.Low, s.High, s.Original)
	}
	return nil
}

// turns are the angles by which a position rotates each pair of a head's elements.
func (c *config) turns() []float64 {
	t := make([]float64, c.HeadDim/2)
	for i := range t {
		t[i] = c.Scaling.stretch(math.Pow(c.Theta, -2*float64(i)/float64(c.HeadDim)))
	}
	return t
}

func (s *scaling) stretch(turn float64) float64 {
	switch s.Type {
	case "linear":
		return turn / s.Factor
	case "llama3":
		rounds := turn * s.Original / (2 * math.Pi) // within the positions of the first training
		keep := min(max((rounds-s.Low)/(s.High-s.Low), 0), 1)
		return (1-keep)*turn/s.Factor + keep*turn
	}
	return turn
}
