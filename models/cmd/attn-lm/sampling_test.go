package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// draws counts what a sampler draws n times.
func draws(n int, s sampling, logits []float32, tokens ...int) []int {
	counts, j := make([]int, len(logits)), &job{tokens: tokens}
	choose := s.chooser(j, 0)
	for range n {
		counts[choose(slices.Clone(logits))]++
	}
	return counts
}

// TestGreedy finds the first of the largest logits, and logits from which none can be chosen.
func TestGreedy(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, someLogits, someLogits + 1, 3*someLogits - 7} {
		for range 20 {
			logits := make([]float32, n)
			for i := range logits {
				logits[i] = float32(source.IntN(2*n)-2*n) / 2 // the largest is there several times, or −0
			}
			at := source.IntN(n)
			logits[at] = float32(math.Copysign(0, float64(at%2)-0.5))
			if got, want := greedy(logits), slices.Index(logits, slices.Max(logits)); got != want {
				t.Fatalf("of %d the largest is %d, want %d", n, got, want)
			}
			if err := checkLogits(logits, n); err != nil {
				t.Fatal(err)
			}
			bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[at%3]
			logits[at] = float32(bad)
			want := fmt.Sprintf("the logit of token %d is %v, want finite numbers", at%7, logits[at])
			if err := checkLogits(logits, 7); err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("error %v, want one that says %q", err, want)
			}
		}
	}
	if got := greedy([]float32{float32(math.Inf(-1)), float32(math.Inf(-1))}); got != 0 {
		t.Errorf("of −Inf the largest is %d, want 0", got)
	}
}

// TestSampler draws tokens as often as they are likely, among those that may be drawn.
func TestSampler(t *testing.T) {
	logits := []float32{0, float32(math.Log(2)), float32(math.Inf(-1)), float32(math.Log(5))}
	for _, c := range []struct {
		s      sampling
		tokens []int
		want   []int
	}{
		{sampling{temperature: 1}, nil, []int{1000, 2000, 0, 5000}},
		{sampling{temperature: 1, topK: 2}, nil, []int{0, 2286, 0, 5714}},
		{sampling{temperature: 1, topK: 9}, nil, []int{1000, 2000, 0, 5000}},
		{sampling{temperature: 1, topP: 0.6}, nil, []int{0, 0, 0, 8000}},
		{sampling{temperature: 1, topP: 0.63}, nil, []int{0, 2286, 0, 5714}},
		{sampling{temperature: 1, topK: 3, topP: 0.88}, nil, []int{1000, 2000, 0, 5000}},
		{sampling{temperature: 1, minP: 0.3}, nil, []int{0, 2286, 0, 5714}},
		{sampling{temperature: 1, minP: 0.1}, nil, []int{1000, 2000, 0, 5000}},
		{sampling{temperature: 1, topK: 2, minP: 0.5}, nil, []int{0, 0, 0, 8000}},
		{sampling{temperature: 0.5}, nil, []int{267, 1067, 0, 6667}},
		{sampling{temperature: 1, repetition: 2}, []int{3, 3, 0},
			[]int{1528, 3056, 0, 3416}}, // √5 for 5
		{sampling{}, nil, []int{0, 0, 0, 8000}},
		{sampling{repetition: 3}, []int{7 % 4}, []int{0, 8000, 0, 0}},
	} {
		if c.s.topP == 0 {
			c.s.topP = 1
		}
		if c.s.repetition == 0 {
			c.s.repetition = 1
		}
		c.s.seed = 3
		for i, n := range draws(8000, c.s, logits, c.tokens...) {
			if math.Abs(float64(n-c.want[i])) > 0.1*float64(c.want[i]) {
				t.Errorf("%+v after %v: token %d was drawn %d times, want about %d", c.s, c.tokens, i, n,
					c.want[i])
			}
		}
	}
	got := draws(8000, sampling{temperature: 1, topP: 1, repetition: 2, seed: 3}, []float32{0, -1}, 1)
	if share := float64(got[1]) / 8000; math.Abs(share-1/(1+math.Exp(2))) > 0.02 {
		t.Errorf("a negative logit that was there is drawn with %v", share)
	}
}

// TestLeastTemperatures takes the most likely token where the quotients of logits are infinite.
func TestLeastTemperatures(t *testing.T) {
	for _, temperature := range []float64{1e-37, 1e-38, 1e-39, 1e-45, 1e-46, 1e-300, 5e-324} {
		for _, s := range []sampling{{topP: 1}, {topK: 2, topP: 1}, {topP: 0.5}, {topP: 1, minP: 0.1},
			{topK: 3, topP: 0.9, minP: 0.1}} {
			s.temperature, s.repetition = temperature, 1
			for _, logits := range [][]float32{{1, 2, 9, 3, 9}, {-9, -8, -2, -3, -2}, {-1, -2, 0, -1, -3}} {
				if got := draws(50, s, logits); got[2]+got[4] != 50 || got[2] == 0 {
					t.Errorf("%+v: of %v tokens were drawn %v times, want the third", s, logits, got)
				}
			}
			s.repetition = 10
			if got := draws(50, s, []float32{1, 9, 8}, 1); got[2] != 50 {
				t.Errorf("%+v: with a penalty tokens were drawn %v times, want the last", s, got)
			}
		}
	}
}

// TestManyTokens needs more of the ranked tokens than it takes at first.
func TestManyTokens(t *testing.T) {
	logits := make([]float32, 5000)
	for i := range logits {
		logits[i] = float32(i%2) / 100
	}
	for _, s := range []sampling{{topP: 0.9}, {minP: 0.999, topP: 1}} {
		s.temperature, s.repetition = 1, 1
		different := 0
		for i, n := range draws(200, s, logits) {
			if n > 0 {
				different++
			}
			if s.minP > 0 && n > 0 && i%2 == 0 {
				t.Errorf("token %d was drawn, whose probability is too small", i)
			}
		}
		if different < 150 {
			t.Errorf("%+v: %d tokens were drawn, want many", s, different)
		}
	}
}

// TestSamplingFlags refuses what has no meaning.
func TestSamplingFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-temperature -1":                     "-temperature is -1, want 0 or more",
		"-temperature 1 -top-k -1":            "-top-k is -1, want 0 or more",
		"-temperature 1 -top-p 0":             "-top-p is 0, want more than 0",
		"-temperature 1 -min-p 1.5":           "-min-p is 1.5, want 0 to 1",
		"-repetition-penalty 0":               "-repetition-penalty is 0, want more than 0",
		"-top-k 3":                            "-temperature 0, which takes the most likely token",
		"-system x":                           "-system wants -chat",
		"-chat -system x -shared y":           "-system wants -chat, and no -shared",
		"-top_k 3":                            "flag provided but not defined: -top_k",
		"-temperature 1 -top-k 3 -min-p 0.05": "<nil>",
	} {
		if _, err := parse(strings.Fields(args), io.Discard); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	if _, err := parse([]string{"-stop", ""}, io.Discard); err == nil {
		t.Error("a text of nothing ends answers")
	}
}

// TestStopTexts ends answers at the first of some texts, and never prints a part of one that comes
// in pieces.
func TestStopTexts(t *testing.T) {
	for _, c := range []struct {
		stops []string
		parts []string
		want  []string // what may be printed after each part
	}{
		{nil, []string{"a", "b"}, []string{"a", "ab"}},
		{[]string{"bcd"}, []string{"ab", "c", "e", "bcdf"}, []string{"a", "a", "abce", "abce"}},
		{[]string{"xyz", "cd"}, []string{"abcde"}, []string{"ab"}},
		{[]string{"aab"}, []string{"a", "a", "a", "b"}, []string{"", "", "a", "a"}},
		{[]string{"é"}, []string{"\xc3", "\xa9"}, []string{"", ""}},
		{[]string{"ab"}, []string{"xa"}, []string{"x"}},
	} {
		w := words{stops: c.stops, decode: func(i int) string { return c.parts[i] }}
		for i := range c.parts {
			done := w.add(i)
			if got := w.shown(done); got != c.want[i] {
				t.Errorf("%q: after %q it shows %q, want %q", c.stops, c.parts[:i+1], got, c.want[i])
			}
		}
		if !w.ended && w.shown(true) != strings.Join(c.parts, "") {
			t.Errorf("%q: at the end it shows %q", c.stops, w.shown(true))
		}
	}
}
