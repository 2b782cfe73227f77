package lm

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/seed-1415985d/attn/nn"
)

// scaling stretches rotations to more positions than a model was first trained with.
type scaling struct {
	Type     string   `json:"rope_type"`
	OldType  string   `json:"type"`
	Theta    *float64 `json:"rope_theta"`
	Factor   float64  `json:"factor"`
	Low      float64  `json:"low_freq_factor"`
	High     float64  `json:"high_freq_factor"`
	Original float64  `json:"original_max_position_embeddings"`
	// of yarn: pairs that turn at least Fast times within the original positions keep their
	// frequency, those that turn at most Slow times are stretched. Magnitude multiplies queries and
	// keys
	Fast      float64  `json:"beta_fast"`
	Slow      float64  `json:"beta_slow"`
	Magnitude *float64 `json:"attention_factor"`
	// instead of Magnitude, which is then a quotient of both
	Scale      *float64 `json:"mscale"`
	ScaleOfAll *float64 `json:"mscale_all_dim"`
	// queries are multiplied by 1 + QueryScale·ln(1 + ⌊position/Original⌋)
	QueryScale *float64 `json:"llama_4_scaling_beta"`
	// whether the ramp of yarn begins and ends at whole pairs; nil: it does
	Truncate *bool `json:"truncate"`
	// of longrope: divisors of each pair's frequency
	Short []float64 `json:"short_factor"`
	Long  []float64 `json:"long_factor"`
	// of proportional: how many pairs are rotated by an angle
	Turned int `json:"-"`
	// the part of a head that is rotated, in newer files
	Rotated *float64 `json:"partial_rotary_factor"`
	// pairs for each kind of position; in texts all kinds are the same
	Sections    []int `json:"mrope_section"`
	Interleaved *bool `json:"mrope_interleaved"`
	// of layers without and with a window, in newer files
	Full    *scaling `json:"full_attention"`
	Sliding *scaling `json:"sliding_attention"`
}

// types of scaling that only some kinds of models have
const longRope, proportional = "longrope", "proportional"

// still divides the frequency of pairs that do not turn. GGUF files have 1e30 for it.
var still = math.Inf(1)

// rotation returns the rotations of heads by positions. factors, if there are any, divide the
// frequencies.
func (c *config) rotation(factors []float32) (*nn.Rope, error) {
	s, rope := &c.Scaling, nn.RopeConfig{Dim: c.Rotated, Base: c.Theta,
		Interleaved: c.turnsNeighbours()}
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
		if s.Truncate != nil && !*s.Truncate {
			*to = c.ramp()
		}
	case proportional:
		to.Type, to.Factors = nn.LongRope, slices.Repeat([]float64{still}, c.Rotated/2)
		for i := range s.Turned {
			to.Factors[i] = max(s.Factor, 1)
		}
	case longRope:
		to.Type, to.Factors, to.AttentionFactor = nn.LongRope, s.Short, *s.Magnitude
		if c.long() {
			to.Factors = s.Long
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
			if to.Factors = append(to.Factors, float64(f)*all); f >= 1e30 {
				to.Factors[len(to.Factors)-1] = still
			}
		}
	}
	return nn.NewRope(rope)
}

// scaleQueries sets how much queries grow with their positions.
func (c *config) scaleQueries(by float64) error {
	if by == 0 {
		return nil
	}
	if c.QueryScale = by; !(by > 0 && by <= 1e9 && c.Scaling.Original >= 1) {
		return fmt.Errorf("is %v, and original_max_position_embeddings %v, want a number above 0, and 1 "+
			"or more", by, c.Scaling.Original)
	}
	return nil
}

// queryScale returns the number that multiplies the query of a position.
func (c *config) queryScale(position int32) float32 {
	texts := math.Floor(float64(position) / c.Scaling.Original) // as long as in training, before it
	return float32(1 + float64(c.QueryScale*nn.Log(1+texts)))
}

// long reports whether the longest sequence of the run exceeds the texts that the model was first
// trained with. All its sequences then have the rotations for long texts, so that answers do not
// depend on their length.
func (c *config) long() bool { return float64(c.Context) > c.Scaling.Original }

// local returns the rotations of layers with a window.
func (c *config) local() (*nn.Rope, error) {
	dim := c.Rotated
	if c.ByLayer.HeadDim > 0 {
		dim = c.HeadDim
	}
	return nn.NewRope(nn.RopeConfig{Dim: dim, Base: c.LocalTheta,
		Interleaved: c.turnsNeighbours()})
}

// complete sets the defaults of a scaling and refuses other ways to stretch rotations. positions is
// how many the model is for, if the file says it.
func (s *scaling) complete(theta, positions float64) error {
	if s.Type != "" && s.OldType != "" && s.Type != s.OldType {
		return fmt.Errorf("has rope_type %q and type %q, want one of them", s.Type, s.OldType)
	}
	s.Type = cmp.Or(s.Type, s.OldType)
	if !isWhole(s.Original) && s.Original != 0 {
		return fmt.Errorf("has original_max_position_embeddings %v, want a whole number, 1 or more",
			s.Original)
	}
	if s.Type != longRope && (s.Short != nil || s.Long != nil) {
		return fmt.Errorf("of type %q has short_factor or long_factor, want these for longrope only",
			s.Type)
	}
	if s.Type != "yarn" && (s.Scale != nil || s.ScaleOfAll != nil) {
		return fmt.Errorf("of type %q has mscale or mscale_all_dim, want these for yarn only", s.Type)
	}
	switch s.Type {
	case "", "default":
		if s.Type == "" && s.Factor != 0 {
			return fmt.Errorf("has factor %v without a rope_type, want llama3, linear or yarn", s.Factor)
		}
		return nil
	case longRope:
		return s.completeLong(positions)
	case proportional:
		if s.Turned == 0 || s.Factor != 0 && s.Factor < 1 {
			return fmt.Errorf("is of type %s with factor %v, want it for gemma4 only, and 1 or more", s.Type,
				s.Factor)
		}
		return nil
	case "llama3", "linear", "yarn":
	default:
		return fmt.Errorf("is of type %q, want llama3, linear or yarn, or for phi3 longrope", s.Type)
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

// trained returns how many positions a model of some positions knows with this scaling.
func (s *scaling) trained(positions float64) int {
	return int(min(max(positions, s.Factor*cmp.Or(s.Original, positions)), 1<<30))
}

func (s *scaling) completeYarn(theta, positions float64) error {
	s.Fast, s.Slow = cmp.Or(s.Fast, 32), cmp.Or(s.Slow, 1)
	s.Original = cmp.Or(s.Original, positions)
	one, other := *cmp.Or(s.Scale, new(0.0)), *cmp.Or(s.ScaleOfAll, new(0.0))
	if s.Magnitude == nil && one != 0 && other != 0 {
		s.Magnitude = new(yarnMagnitude(s.Factor, one) / yarnMagnitude(s.Factor, other))
	}
	magnitude := 1.0
	if s.Magnitude != nil { // otherwise nn computes it from the factor
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

// beLong converts the types in older files of phi3, and a key next to the scaling.
func (s *scaling) beLong(original float64) {
	for _, kind := range []*string{&s.Type, &s.OldType} {
		if *kind == "su" || *kind == "yarn" {
			*kind = longRope
		}
	}
	s.Original = original
}

// completeLong sets the magnitude for longer texts, √(1 + ln s/ln original) for s times the
// original positions.
func (s *scaling) completeLong(positions float64) error {
	if !(s.Original > 1) || s.Factor != 0 {
		return fmt.Errorf("of type longrope has original_max_position_embeddings %v and factor %v, want "+
			"a number above 1, and none", s.Original, s.Factor)
	}
	if s.Magnitude == nil {
		s.Magnitude = new(1.0)
		if positions > s.Original {
			*s.Magnitude = math.Sqrt(1 + nn.Log(positions/s.Original)/nn.Log(s.Original))
		}
	}
	if m := *s.Magnitude; !(m > 0 && m < 1e9) {
		return fmt.Errorf("of type longrope has attention_factor %v, want a number above 0", m)
	}
	return nil
}

// yarnMagnitude returns yarn's default factor of queries and keys, for times 1.
func yarnMagnitude(factor, times float64) float64 { return float64(0.1*times*nn.Log(factor)) + 1 }

// ramp returns yarn as gpt-oss has it, whose ramp begins and ends between pairs: as factors.
func (c *config) ramp() nn.RopeScaling {
	s := &c.Scaling
	pair := func(turns float64) float64 {
		turned := nn.Log(s.Original / (turns * 2 * math.Pi))
		return float64(c.Rotated) * turned / (2 * nn.Log(c.Theta))
	}
	low, high := max(pair(s.Fast), 0), min(pair(s.Slow), float64(c.Rotated-1))
	if low == high {
		high += 0.001 // avoids a division by 0
	}
	to := nn.RopeScaling{Type: nn.LongRope, AttentionFactor: yarnMagnitude(s.Factor, 1)}
	if s.Magnitude != nil {
		to.AttentionFactor = *s.Magnitude
	}
	for i := range c.Rotated / 2 {
		part := min(max((float64(i)-low)/(high-low), 0), 1) // the part that is stretched
		to.Factors = append(to.Factors, 1/(float64(part/s.Factor)+float64(1-part)))
	}
	return to
}

// checkFactors makes sure that there is a factor for each pair of channels.
func (c *config) checkFactors(name string) error {
	s := &c.Scaling
	if s.Type == longRope && (len(s.Short) != c.Rotated/2 || len(s.Long) != c.Rotated/2) {
		return fmt.Errorf("%s has %d numbers in short_factor and %d in long_factor, want %d, half of "+
			"the channels that are rotated", name, len(s.Short), len(s.Long), c.Rotated/2)
	}
	return nil
}
