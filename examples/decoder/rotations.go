package main

import (
	"cmp"
	"fmt"
	"math"
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

// turns are the angles by which a position rotates each pair of a head's elements, divided by
// factors if the model has some.
func (c *config) turns(factors []float32) []float64 {
	t := make([]float64, c.HeadDim/2)
	for i := range t {
		t[i] = math.Pow(c.Theta, -2*float64(i)/float64(c.HeadDim))
		if factors != nil {
			t[i] /= float64(factors[i])
		}
		t[i] = c.stretch(t[i], i)
	}
	return t
}

// stretch is how far a position turns pair i, which turned so far before.
func (c *config) stretch(turn float64, i int) float64 {
	s := &c.Scaling
	keep := 1.0
	switch s.Type {
	case "linear":
		keep = 0
	case "llama3":
		rounds := turn * s.Original / (2 * math.Pi) // within the positions of the first training
		keep = min(max((rounds-s.Low)/(s.High-s.Low), 0), 1)
	case "yarn":
		low, high := math.Floor(c.pairOf(s.Fast)), math.Ceil(c.pairOf(s.Slow))
		keep = 1 - min(max((float64(i)-low)/max(high-low, 0.001), 0), 1)
	default:
		return turn
	}
	return (1-keep)*turn/s.Factor + keep*turn
}

// pairOf is the pair that turns so many rounds within the positions of the first training.
func (c *config) pairOf(rounds float64) float64 {
	pair := float64(c.HeadDim) * math.Log(c.Scaling.Original/(rounds*2*math.Pi)) /
		(2 * math.Log(c.Theta))
	return min(max(pair, 0), float64(c.HeadDim-1))
}

// magnitude is by what rotations multiply queries and keys.
func (c *config) magnitude() float64 {
	if s := &c.Scaling; s.Type == "yarn" {
		return *s.Magnitude
	}
	return 1
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
	s.Magnitude = cmp.Or(s.Magnitude, new(0.1*math.Log(s.Factor)+1))
	if !(s.Slow > 0 && s.Fast > s.Slow && s.Original > 0 && *s.Magnitude > 0 && theta > 1) {
		return fmt.Errorf("of type yarn has beta_fast %v, beta_slow %v, "+
			"original_max_position_embeddings %v and attention_factor %v, and theta is %v, want numbers "+
			"above 0, the first above the second, and theta above 1", s.Fast, s.Slow, s.Original,
			*s.Magnitude, theta)
	}
	return nil
}
