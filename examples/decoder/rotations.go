package main

import (
	"cmp"
	"fmt"

	"github.com/seed-1415985d/attn/nn"
)

// scaling stretches the rotations to more positions than a model was first trained with.
type scaling struct {
	Type     string   `json:"rope_type"`
	OldType  string   `json:"type"`
	Theta    *float64 `json:"rope_theta"`
	Factor   float64  `json:"factor"`
	Low      float64  `json:"low_freq_factor"`
	High     float64  `json:"high_freq_factor"`
	Original float64  `json:"original_max_position_embeddings"`
	// of yarn: how often pairs turn within those positions that are kept and that are stretched, and
	// by what queries and keys are multiplied
	Fast      float64  `json:"beta_fast"`
	Slow      float64  `json:"beta_slow"`
	Magnitude *float64 `json:"attention_factor"`
}

// rotation is that of heads by positions, with frequencies divided by factors if the model has
// some.
func (c *config) rotation(factors []float32) (*nn.Rope, error) {
	s, rope := &c.Scaling, nn.RopeConfig{Dim: c.HeadDim, Base: c.Theta}
	to := &rope.Scaling
	switch s.Type {
	case "linear":
		to.Type, to.Factor = nn.LinearScaling, s.Factor
	case "llama3":
		to.Type, to.Factor, to.Original = nn.Llama3, s.Factor, int(s.Original)
		to.LowFreqFactor, to.HighFreqFactor = s.Low, s.High
	case "yarn":
		to.Type, to.Factor, to.Original = nn.YaRN, s.Factor, int(s.Original)
		to.BetaFast, to.BetaSlow = s.Fast, s.Slow
		if s.Magnitude != nil {
			to.AttentionFactor = *s.Magnitude
		}
	}
	if factors != nil {
		all := 1.0
		switch to.Type {
		case nn.NoScaling:
		case nn.LinearScaling:
			all = s.Factor
		default:
			return nil, fmt.Errorf("rotations have factors of their own and scaling of type %s, want that "+
				"to be linear, or none", s.Type)
		}
		*to = nn.RopeScaling{Type: nn.LongRope}
		for _, f := range factors {
			to.Factors = append(to.Factors, float64(f)*all)
		}
	}
	return nn.NewRope(rope)
}

// complete sets what a scaling leaves out, and refuses rotations that are stretched in other ways.
// A file may say for how many positions the model is.
func (s *scaling) complete(theta, positions float64) error {
	if s.Type != "" && s.OldType != "" && s.Type != s.OldType {
		return fmt.Errorf("has rope_type %q and type %q, want one of them", s.Type, s.OldType)
	}
	s.Type = cmp.Or(s.Type, s.OldType)
	switch s.Type {
	case "", "default":
		if s.Type == "" && s.Factor != 0 {
			return fmt.Errorf("has factor %v without a rope_type, want llama3, linear or yarn", s.Factor)
		}
		return nil
	case "llama3", "linear", "yarn":
	default:
		return fmt.Errorf("is of type %q, want llama3, linear or yarn", s.Type)
	}
	switch llama3, yarn := s.Type == "llama3", s.Type == "yarn"; {
	case s.Factor < 1:
		return fmt.Errorf("of type %s has factor %v, want 1 or more", s.Type, s.Factor)
	case llama3 && !(s.Low > 0 && s.High > s.Low && s.Original > 0):
		return fmt.Errorf("of type llama3 has low_freq_factor %v, high_freq_factor %v and "+
			"original_max_position_embeddings %v, want numbers above 0, the second above the first", s.Low,
			s.High, s.Original)
	case yarn:
		return s.completeYarn(theta, positions)
	}
	return nil
}

// trained is how many positions a model of some knows with this scaling.
func (s *scaling) trained(positions float64) int {
	return int(min(max(positions, s.Factor*cmp.Or(s.Original, positions)), 1<<30))
}

func (s *scaling) completeYarn(theta, positions float64) error {
	s.Fast, s.Slow = cmp.Or(s.Fast, 32), cmp.Or(s.Slow, 1)
	s.Original = cmp.Or(s.Original, positions)
	magnitude := 1.0
	if s.Magnitude != nil { // else it is what nn makes of the factor
		magnitude = *s.Magnitude
	}
	if !(s.Slow > 0 && s.Fast > s.Slow && s.Original > 0 && magnitude > 0 && theta > 1) {
		return fmt.Errorf("of type yarn has beta_fast %v, beta_slow %v, "+
			"original_max_position_embeddings %v and attention_factor %v, and theta is %v, want numbers "+
			"above 0, the first above the second, and theta above 1", s.Fast, s.Slow, s.Original,
			magnitude, theta)
	}
	return nil
}
