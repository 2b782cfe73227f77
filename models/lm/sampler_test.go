package lm

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
)

// draw is the sampler as docs/semantics.md defines it, without any shortcut.
func draw(s Sampling, logits []float32, before, answer []int32) int32 {
	x := slices.Clone(logits)
	counts := map[int32]int{}
	for _, token := range answer {
		counts[token]++
	}
	seen := map[int32]bool{}
	for _, token := range slices.Concat(before, answer) {
		if r := s.Repetition; !seen[token] && r != 0 {
			if x[token] > 0 {
				x[token] = float32(x[token] / r)
			} else {
				x[token] = float32(x[token] * r)
			}
		}
		seen[token] = true
	}
	for token, n := range counts {
		x[token] = float32(x[token] - float32(s.Frequency*float32(n)))
		x[token] = float32(x[token] - s.Presence)
	}
	ranks := make([]int32, len(x)) // by falling logit, then by number
	for i := range ranks {
		ranks[i] = int32(i)
	}
	slices.SortStableFunc(ranks, func(a, b int32) int {
		switch {
		case x[a] > x[b]:
			return -1
		case x[a] < x[b]:
			return 1
		}
		return 0
	})
	if s.Temperature == 0 || math.IsInf(float64(x[ranks[0]]/s.Temperature), 0) {
		return ranks[0]
	}
	order := make([]int32, len(x))
	for i := range order {
		order[i] = int32(i)
	}
	if s.TopK > 0 && s.TopK < len(x) {
		order = ranks[:s.TopK]
	}
	p := make([]float32, len(order))
	for i, token := range order {
		p[i] = float32(x[token] / s.Temperature)
	}
	attn.Softmax(p, p)
	of := map[int32]float32{}
	for i, token := range order {
		of[token] = p[i]
	}
	if s.TopK > 0 || s.TopP > 0 && s.TopP < 1 || s.MinP > 0 {
		order = ranks[:len(order)]
	}
	if s.TopP > 0 && s.TopP < 1 {
		sum := 0.0
		for i, token := range order {
			if sum += float64(of[token]); sum >= float64(s.TopP) {
				order = order[:i+1]
				break
			}
		}
	}
	if s.MinP > 0 {
		order = slices.DeleteFunc(slices.Clone(order), func(token int32) bool {
			return float64(of[token]) < float64(s.MinP)*float64(of[ranks[0]])
		})
	}
	all := 0.0
	for _, token := range order {
		all += float64(of[token])
	}
	n := uint64(len(before) + len(answer))
	z := s.Seed + (n+1)*0x9E3779B97F4A7C15
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
	z = (z ^ (z >> 27)) * 0x94D049BB133111EB
	u, sum := float64((z^(z>>31))>>11)/(1<<53), 0.0
	for _, token := range order {
		if sum += float64(of[token]); sum > u*all {
			return token
		}
	}
	return order[len(order)-1]
}

// TestSampler compares draws with the definition.
func TestSampler(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	one := func() float32 { return r.Float32() }
	for range 3000 {
		s := Sampling{Temperature: 2 * one(), Seed: r.Uint64()}
		if r.IntN(2) == 0 {
			s.TopP = one()
		}
		if r.IntN(3) == 0 {
			s.MinP = 0.3 * one()
		}
		if r.IntN(2) == 0 {
			s.TopK = r.IntN(400)
		}
		if r.IntN(2) == 0 {
			s.Repetition = 0.5 + one()
		}
		if r.IntN(2) == 0 {
			s.Frequency, s.Presence = one()-0.5, one()-0.5
		}
		logits := make([]float32, 1+r.IntN(600))
		for i := range logits {
			logits[i] = float32(math.Round(float64(6*float32(r.NormFloat64())))) / 2 // with ties
		}
		before := make([]int32, r.IntN(10))
		for i := range before {
			before[i] = r.Int32N(int32(len(logits)))
		}
		d, answer := newSampler(s, before), []int32(nil)
		for range 6 {
			x := slices.Clone(logits)
			d.penalize(x)
			got := d.choose(x, len(before)+len(answer))
			if want := draw(s, logits, before, answer); got != want {
				t.Fatalf("%+v of %d logits after %d tokens: token %d, want %d", s, len(logits),
					len(before)+len(answer), got, want)
			}
			d.chose(got)
			answer = append(answer, got)
		}
	}
}

// vectors are the cases of docs/semantics.md: tokens drawn at positions 0 to 9.
var vectors = []struct {
	name   string
	s      Sampling
	logits func() []float32
}{
	{"four equal logits, TopP ¼", Sampling{Temperature: 1, TopP: 0.25, Seed: 1},
		func() []float32 { return make([]float32, 4) }},
	{"four equal logits, TopP ½", Sampling{Temperature: 1, TopP: 0.5, Seed: 1},
		func() []float32 { return make([]float32, 4) }},
	{"287 logits of −17 after one of 0, TopP 0.999995", Sampling{Temperature: 1, TopP: 0.999995,
		Seed: 2}, func() []float32 {
		x := make([]float32, 288)
		for i := range x[1:] {
			x[1+i] = -17
		}
		return x
	}},
	{"0 and ln 0.1, MinP 0.1", Sampling{Temperature: 1, MinP: 0.1, Seed: 8},
		func() []float32 { return []float32{0, float32(math.Log(0.1))} }},
	{"256 logits one ulp apart, Temperature 3, TopP 0.9", Sampling{Temperature: 3, TopP: 0.9, Seed: 4},
		func() []float32 {
			x := make([]float32, 256)
			for i := range x {
				x[i] = math.Float32frombits(math.Float32bits(1) + uint32(i))
			}
			return x
		}},
	{"0, 1, 2, 3; Temperature 0.7, TopK 3, Repetition 1.5, Frequency ½", Sampling{Temperature: 0.7,
		TopK: 3, Repetition: 1.5, Frequency: 0.5, Seed: 5}, func() []float32 {
		return []float32{0, 1, 2,
			3}
	}},
}

// TestSamplerVectors prints what docs/semantics.md shows, and compares.
func TestSamplerVectors(t *testing.T) {
	text := readFile(t, "../../docs/semantics.md")
	for _, v := range vectors {
		d, drawn := newSampler(v.s, nil), []string{}
		for position := range 10 {
			x := v.logits()
			d.penalize(x)
			token := d.choose(x, position)
			d.chose(token)
			drawn = append(drawn, fmt.Sprint(token))
		}
		row := fmt.Sprintf("| %s | %d | %d | %s |", v.name, v.s.Seed, len(d.weights),
			strings.Join(drawn, " "))
		if !strings.Contains(text, row) {
			t.Errorf("docs/semantics.md lacks the row\n%s", row)
		}
	}
	for _, seed := range []uint64{0, 1, math.MaxUint64} {
		row := fmt.Sprintf("| %d |", seed)
		for position := range 4 {
			row += fmt.Sprintf(" %x |", uniform(seed, position))
		}
		if !strings.Contains(text, row) {
			t.Errorf("docs/semantics.md lacks the row\n%s", row)
		}
	}
}

// TestSamplingDomain has parameters outside their domain.
func TestSamplingDomain(t *testing.T) {
	m, nan, inf := small(t, Options{}), float32(math.NaN()), float32(math.Inf(1))
	for want, s := range map[string]Sampling{
		"Sampling.Temperature is NaN": {Temperature: nan}, "Temperature is -1": {Temperature: -1},
		"Temperature is +Inf": {Temperature: inf}, "TopP is 1.5": {TopP: 1.5}, "TopP is NaN": {TopP: nan},
		"MinP is -0.5": {MinP: -0.5}, "Repetition is -1": {Repetition: -1},
		"Frequency is +Inf": {Frequency: inf}, "Presence is NaN": {Presence: nan},
		"TopK is -2": {TopK: -2},
	} {
		for _, err := range m.Generate(context.Background(), prompt32(3), Generation{Sampling: s}) {
			if got := fmt.Sprint(err); !strings.Contains(got, want) {
				t.Errorf("%+v: the error is %v, want %q in it", s, err, want)
			}
		}
	}
}
