package nn

import (
	"fmt"
	"math"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/views"
)

// RopeScalingType is a method of scaling frequencies for more positions than a model was trained
// on.
type RopeScalingType int

const (
	// NoScaling leaves frequencies as they are.
	NoScaling RopeScalingType = iota
	// LinearScaling divides frequencies by Factor (Chen et al. 2023).
	LinearScaling
	// NTK replaces the base by Base·s^(Dim/(Dim−2)), s = Factor·Length/Original − (Factor − 1), as
	// "dynamic" scaling of Transformers does for a sequence of Length. A Length below Original counts
	// as Original.
	NTK
	// YaRN divides slow frequencies by Factor and keeps fast ones (Peng et al. 2023). Between the
	// frequencies that turn BetaFast (0: 32) and BetaSlow (0: 1) times in Original positions it
	// interpolates. As in Transformers both ends of this ramp are clamped to existing pairs, even
	// where all pairs are fast or slow.
	YaRN
	// Llama3 divides frequencies that turn less than LowFreqFactor times in Original positions by
	// Factor, keeps frequencies that turn more than HighFreqFactor times, and interpolates between.
	Llama3
	// LongRope divides frequency i by Factors[i] (Ding et al. 2024): the short or the long ones, as
	// the caller chooses.
	LongRope

	scalingTypes
)

var scalingNames = [...]string{"NoScaling", "LinearScaling", "NTK", "YaRN", "Llama3", "LongRope"}

func (t RopeScalingType) String() string {
	if t < 0 || t >= scalingTypes {
		return fmt.Sprintf("RopeScalingType(%d)", int(t))
	}
	return scalingNames[t]
}

// RopeScaling has the fields of models' files. A field that Type does not use must be 0, else
// [attn.ErrOption]. AttentionFactor multiplies cosines and sines, for any type but NoScaling; 0
// means the type's default: 0.1·ln Factor + 1 for YaRN, 1 for others. Numbers are at most 1e9,
// Factor is at least 1; a factor of +Inf leaves its pair as it is (Gemma 4). Factors of another
// length are [attn.ErrLength]. Sections may be set for any type: the number of pairs that each kind
// of positions rotates, in order (M-RoPE of Qwen2-VL), Dim/2 in total. Without Sections, Interleave
// and Restart are [attn.ErrOption], as are both together.
//
// With Interleave the n kinds take turns (mrope_interleaved of Qwen3-VL and Qwen3.5): pair i
// rotates by kind i mod n where i is below n times that kind's number of pairs, else by kind 0.
// Sections that this cannot give are [attn.ErrOption].
//
// With Restart each section has frequencies of its own (2-D rotation of image encoders): pair i of
// a section of m pairs, counted from 0 in the section, has Base^(−i/m). Type then is NoScaling,
// LinearScaling, Llama3 or LongRope, whose Factors go on counting pairs of the whole row.
type RopeScaling struct {
	Type                                  RopeScalingType
	Factor, LowFreqFactor, HighFreqFactor float64
	BetaFast, BetaSlow, AttentionFactor   float64
	Original                              int // positions that the model was trained on
	Length                                int
	Factors                               []float64 // Dim/2
	Sections                              []int
	Interleave, Restart                   bool
}

// field is a field of RopeScaling.
type field int

const (
	factorField field = iota
	lowField
	highField
	fastField
	slowField
	attentionField
	originalField
	lengthField
	fields
)

var fieldNames = [...]string{"Factor", "LowFreqFactor", "HighFreqFactor", "BetaFast", "BetaSlow",
	"AttentionFactor", "Original", "Length"}

// uses lists the fields that each type uses.
var uses = [...][]field{
	NoScaling:     {},
	LinearScaling: {factorField, attentionField},
	NTK:           {factorField, originalField, lengthField, attentionField},
	YaRN:          {factorField, originalField, fastField, slowField, attentionField},
	Llama3:        {factorField, lowField, highField, originalField, attentionField},
	LongRope:      {attentionField},
}

func (s *RopeScaling) values() [fields]float64 {
	return [...]float64{s.Factor, s.LowFreqFactor, s.HighFreqFactor, s.BetaFast, s.BetaSlow,
		s.AttentionFactor, float64(s.Original), float64(s.Length)}
}

// checkUnused makes sure that nothing but Sections and Interleave is set, as tables need.
func (s *RopeScaling) checkUnused() error {
	if s.Type != NoScaling {
		return views.Fail(attn.ErrOption, "RopeScaling.Type is %v, want NoScaling with tables", s.Type)
	}
	if s.Restart {
		return views.Fail(attn.ErrOption, "RopeScaling.Restart is true, want false with tables")
	}
	return s.check(0)
}

// checkSections validates Sections for a number of pairs, and what depends on them.
func (s *RopeScaling) checkSections(pairs int) error {
	switch {
	case s.Sections == nil && (s.Interleave || s.Restart):
		return views.Fail(attn.ErrOption, "RopeScaling.Interleave is %v and Restart %v, want false "+
			"without Sections", s.Interleave, s.Restart)
	case s.Interleave && s.Restart:
		return views.Fail(attn.ErrOption, "RopeScaling.Interleave and Restart are true, want one of them")
	case s.Sections == nil:
		return nil
	}
	all := 0
	for i, n := range s.Sections {
		if n < 0 || n > pairs {
			return views.Fail(attn.ErrOption, "RopeScaling.Sections[%d] is %d, want 0 to Dim/2, %d", i, n,
				pairs)
		}
		all += n
		kinds := len(s.Sections)
		if limit := (pairs - i + kinds - 1) / kinds; s.Interleave && i > 0 && n > limit {
			return views.Fail(attn.ErrOption, "RopeScaling.Sections[%d] is %d, want at most %d, "+
				"which pairs %d, %d and so on below Dim/2, %d, are", i, n, limit, i, i+kinds, pairs)
		}
	}
	if all != pairs {
		return views.Fail(attn.ErrOption, "RopeScaling.Sections are %d pairs, want Dim/2, %d", all, pairs)
	}
	return nil
}

// check validates the fields for a number of pairs.
func (s *RopeScaling) check(pairs int) error {
	if s.Type < 0 || s.Type >= scalingTypes {
		return views.Fail(attn.ErrOption, "RopeScaling.Type is %v, want NoScaling to LongRope", s.Type)
	}
	values := s.values()
	var used [fields]bool
	for _, f := range uses[s.Type] {
		used[f] = true
	}
	for f, v := range values {
		zero := field(f) == fastField || field(f) == slowField || field(f) == attentionField
		switch {
		case !used[f] && v != 0:
			return views.Fail(attn.ErrOption, "RopeScaling.%s is %v, want 0 for %v", fieldNames[f], v,
				s.Type)
		case used[f] && !(v > 0 && v <= maxScaling) && !(zero && v == 0):
			return views.Fail(attn.ErrOption, "RopeScaling.%s is %v, want a positive number up to %g for %v",
				fieldNames[f], v, maxScaling, s.Type)
		}
	}
	switch {
	case used[factorField] && s.Factor < 1:
		return views.Fail(attn.ErrOption, "RopeScaling.Factor is %v, want 1 or more", s.Factor)
	case s.Type == Llama3 && s.HighFreqFactor <= s.LowFreqFactor:
		return views.Fail(attn.ErrOption, "RopeScaling.HighFreqFactor is %v, want more than "+
			"LowFreqFactor, %v", s.HighFreqFactor, s.LowFreqFactor)
	case s.Type == YaRN && !betasFall(s.betas()):
		fast, slow := s.betas()
		return views.Fail(attn.ErrOption, "RopeScaling.BetaFast is %v, want more than BetaSlow, %v", fast,
			slow)
	case s.Restart && (s.Type == NTK || s.Type == YaRN):
		return views.Fail(attn.ErrOption, "RopeScaling.Restart is true, want false for %v", s.Type)
	case s.Original > views.MaxLength || s.Length > views.MaxLength:
		return views.Fail(attn.ErrOption, "RopeScaling.Original is %d and Length %d, want at most %d",
			s.Original, s.Length, views.MaxLength)
	case s.Type != LongRope && s.Factors != nil:
		return views.Fail(attn.ErrOption, "RopeScaling.Factors has %d numbers, want nil for %v",
			len(s.Factors), s.Type)
	case s.Type == LongRope && len(s.Factors) != pairs:
		return views.Fail(attn.ErrLength, "len(RopeScaling.Factors) is %d, want Dim/2, %d",
			len(s.Factors), pairs)
	}
	for i, f := range s.Factors {
		if !(f > 0 && f <= maxScaling) && !math.IsInf(f, 1) {
			return views.Fail(attn.ErrOption, "RopeScaling.Factors[%d] is %v, want a positive number up to "+
				"%g, or +Inf", i, f, maxScaling)
		}
	}
	return nil
}

const (
	// maxBase keeps frequencies normal.
	maxBase = 1e300

	// maxScaling is the largest number of a scaling.
	maxScaling = 1e9

	// maxFrequency keeps angles within maxAngle.
	maxFrequency = maxAngle / maxPosition
)

// frequencies returns the scaled frequency of each pair, and the attention factor. from is what
// kinds returns.
func (c *RopeConfig) frequencies(from []int) (list []float64, attention float64, err error) {
	s := &c.Scaling
	pairs := c.Dim / 2
	if err := s.check(pairs); err != nil {
		return nil, 0, err
	}
	base := c.Base
	if s.Type == YaRN && base == 1 {
		return nil, 0, views.Fail(attn.ErrOption, "RopeConfig.Base is 1, want more for YaRN")
	}
	if s.Type == NTK && c.Dim > 2 { // a single pair has frequency 1 for any base
		base = s.ntkBase(base, c.Dim)
		if !(base <= maxBase) {
			return nil, 0, views.Fail(attn.ErrOption, "RopeScaling makes the base %v, want at most %g", base,
				maxBase)
		}
	}
	list = make([]float64, pairs)
	if !s.Restart {
		from = []int{0, pairs}
	}
	for k, first := range from[:len(from)-1] {
		section := list[first:from[k+1]]
		for i := range section {
			section[i] = power(base, -2*i, 2*len(section))
		}
	}
	switch s.Type {
	case LinearScaling:
		for i := range list {
			list[i] /= s.Factor
		}
	case YaRN:
		s.applyYaRN(list, c)
	case Llama3:
		s.applyLlama3(list)
	case LongRope:
		for i := range list {
			if list[i] /= s.Factors[i]; list[i] > maxFrequency {
				return nil, 0, views.Fail(attn.ErrOption, "RopeScaling.Factors[%d] is %v, want more: the "+
					"frequency is %v, above %v", i, s.Factors[i], list[i], float64(maxFrequency))
			}
		}
	}
	return list, s.attention(), nil
}

func (s *RopeScaling) attention() float64 {
	switch {
	case s.AttentionFactor != 0:
		return s.AttentionFactor
	case s.Type == YaRN:
		return float64(0.1*Log(s.Factor)) + 1
	}
	return 1
}

// ntkBase returns the base for NTK: base·scale^(Dim/(Dim−2)).
func (s *RopeScaling) ntkBase(base float64, dim int) float64 {
	length := max(s.Length, s.Original)
	scale := float64(float64(s.Factor*float64(length))/float64(s.Original)) - float64(s.Factor-1)
	return base * power(max(scale, 1), dim, dim-2)
}

func betasFall(fast, slow float64) bool { return fast > slow }

// betas returns YaRN's BetaFast and BetaSlow, with defaults filled in.
func (s *RopeScaling) betas() (fast, slow float64) {
	fast, slow = s.BetaFast, s.BetaSlow
	if fast == 0 {
		fast = 32
	}
	if slow == 0 {
		slow = 1
	}
	return fast, slow
}

// applyYaRN interpolates between each frequency and the same divided by Factor, by a ramp.
func (s *RopeScaling) applyYaRN(list []float64, c *RopeConfig) {
	fast, slow := s.betas()
	low := max(math.Floor(s.pairOf(fast, c)), 0)
	high := min(math.Ceil(s.pairOf(slow, c)), float64(c.Dim-1))
	if low == high {
		high += 0.001 // no division by 0
	}
	for i, f := range list {
		ramp := min(max(float64(float64(i)-low)/float64(high-low), 0), 1)
		list[i] = float64(float64(f/s.Factor)*ramp) + float64(f*float64(1-ramp))
	}
}

// pairOf returns the fractional index of the pair that turns a number of times in Original
// positions.
func (s *RopeScaling) pairOf(turns float64, c *RopeConfig) float64 {
	ratio := float64(s.Original) / float64(turns*twoPi)
	return float64(float64(c.Dim)*Log(ratio)) / float64(2*Log(c.Base))
}

const twoPi = 2 * math.Pi

// applyLlama3 divides slow frequencies by Factor and interpolates the ones between slow and fast.
func (s *RopeScaling) applyLlama3(list []float64) {
	original := float64(s.Original)
	for i, f := range list {
		wave := twoPi / f
		switch {
		case wave < float64(original/s.HighFreqFactor):
		case wave > float64(original/s.LowFreqFactor):
			list[i] = f / s.Factor
		default:
			smooth := float64(float64(original/wave)-s.LowFreqFactor) /
				float64(s.HighFreqFactor-s.LowFreqFactor)
			list[i] = float64(float64(float64(1-smooth)*f)/s.Factor) + float64(smooth*f)
		}
	}
}
