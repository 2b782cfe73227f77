package folder

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
)

// Config is the shape of a model, under the names of config.json.
type Config struct {
	ModelType  string    `json:"model_type"`
	Layers     int       `json:"num_hidden_layers"`
	Dim        int       `json:"hidden_size"`
	Heads      int       `json:"num_attention_heads"`
	KVHeads    int       `json:"num_key_value_heads"`
	HeadDim    int       `json:"head_dim"`
	FFN        int       `json:"intermediate_size"`
	Vocab      int       `json:"vocab_size"`
	Epsilon    float64   `json:"rms_norm_eps"`
	Tied       bool      `json:"tie_word_embeddings"`
	Activation string    `json:"hidden_act"`
	Window     *int      `json:"sliding_window"`
	UseWindow  *bool     `json:"use_sliding_window"`
	Stop       oneOrMore `json:"eos_token_id"`
	Theta      float64   `json:"rope_theta"`
	Scaling    *scaling  `json:"rope_scaling"`
	Rope       *scaling  `json:"rope_parameters"` // where newer files keep both
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

// oneOrMore is a number or a list of them.
type oneOrMore []int

func (o *oneOrMore) UnmarshalJSON(data []byte) error {
	var one *int
	if json.Unmarshal(data, &one) != nil {
		return json.Unmarshal(data, (*[]int)(o))
	}
	if one != nil {
		*o = oneOrMore{*one}
	}
	return nil
}

// LoadConfig reads config.json of a folder.
func LoadConfig(folder string) (*Config, error) {
	path := filepath.Join(folder, "config.json")
	c := &Config{Epsilon: 1e-6, Activation: "silu"}
	if err := readJSON(path, c); err != nil {
		return nil, err
	}
	if err := c.Complete(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func readJSON(path string, to any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("%s: want JSON as published models have it: %w", path, err)
	}
	return nil
}

// Complete fills in what may be left out, and refuses what this engine would compute wrongly.
func (c *Config) Complete() error {
	if c.KVHeads == 0 {
		c.KVHeads = c.Heads
	}
	if c.HeadDim == 0 && c.Heads > 0 {
		c.HeadDim = c.Dim / c.Heads
	}
	if c.Rope != nil {
		c.Scaling, c.Theta = c.Rope, c.Rope.Theta
	}
	if c.Theta == 0 {
		c.Theta = 10000
	}
	for _, s := range []struct {
		name string
		n    int
	}{{"num_hidden_layers", c.Layers}, {"hidden_size", c.Dim}, {"num_attention_heads", c.Heads}, {"num_key_value_heads", c.KVHeads},
		{"head_dim", c.HeadDim}, {"intermediate_size", c.FFN}, {"vocab_size", c.Vocab}} {
		if s.n < 1 || s.n > 1<<24 {
			return fmt.Errorf("%s is %d, want 1 to %d", s.name, s.n, 1<<24)
		}
	}
	switch c.ModelType {
	case "llama", "mistral", "qwen2":
	default:
		return fmt.Errorf("model_type is %q, want llama, mistral or qwen2", c.ModelType)
	}
	switch {
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("num_attention_heads is %d, want a multiple of num_key_value_heads, %d", c.Heads, c.KVHeads)
	case c.HeadDim%2 != 0:
		return fmt.Errorf("head_dim is %d, want an even number: rotations take pairs", c.HeadDim)
	case c.Activation != "silu":
		return fmt.Errorf("hidden_act is %q, want silu", c.Activation)
	case c.Window != nil && (c.UseWindow == nil || *c.UseWindow):
		return fmt.Errorf("sliding_window is %d, want null: this engine shows every token all before it", *c.Window)
	case !(c.Epsilon >= 0) || !(c.Theta > 0):
		return fmt.Errorf("rms_norm_eps is %v and rope_theta %v, want numbers above 0", c.Epsilon, c.Theta)
	}
	return c.Scaling.check()
}

func (s *scaling) check() error {
	if s == nil {
		return nil
	}
	if s.Type == "" {
		s.Type = s.OldType
	}
	switch {
	case s.Type == "" || s.Type == "default":
		return nil
	case s.Type != "llama3" && s.Type != "linear":
		return fmt.Errorf("rope_scaling is of type %q, want llama3 or linear", s.Type)
	case !(s.Factor > 0):
		return fmt.Errorf("rope_scaling has factor %v, want above 0", s.Factor)
	case s.Type == "llama3" && !(s.Low > 0 && s.High > s.Low && s.Original > 0):
		return fmt.Errorf("rope_scaling has low_freq_factor %v, high_freq_factor %v and original_max_position_embeddings %v, want numbers above 0, the second above the first",
			s.Low, s.High, s.Original)
	}
	return nil
}

// Frequencies are the angles by which a position turns each pair of a head's elements.
func (c *Config) Frequencies() []float64 {
	f := make([]float64, c.HeadDim/2)
	for i := range f {
		f[i] = c.Scaling.stretch(math.Pow(c.Theta, -2*float64(i)/float64(c.HeadDim)))
	}
	return f
}

func (s *scaling) stretch(f float64) float64 {
	switch {
	case s == nil || s.Type == "" || s.Type == "default":
		return f
	case s.Type == "linear":
		return f / s.Factor
	}
	turns := f * s.Original / (2 * math.Pi) // within the positions of the first training
	keep := min(max((turns-s.Low)/(s.High-s.Low), 0), 1)
	return (1-keep)*f/s.Factor + keep*f
}
