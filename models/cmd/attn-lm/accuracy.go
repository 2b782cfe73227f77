package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

const (
	accuracySequences = 16 // of tokens at random
	accuracyPrompt    = 64 // tokens before the first logits that are compared
	accuracySteps     = 16 // logits of a sequence
)

// accuracyWays are what -accuracy compares, the first with the others.
var accuracyWays = []struct {
	name                  string
	weights, kind, values attn.Format
	integers              bool
}{
	{"f32", attn.F32, attn.F32, 0, false},
	{"cache f16", attn.F32, attn.F16, 0, false},
	{"cache i8", attn.F32, attn.I8, 0, false},
	{"cache i8,i4", attn.F32, attn.I8, attn.I4, false},
	{"cache i4", attn.F32, attn.I4, 0, false},
	{"weights and cache i8", attn.I8, attn.I8, 0, false},
	{"integers, cache f32", attn.I8, attn.F32, 0, true},
	{"integers, cache f16", attn.I8, attn.F16, 0, true},
	{"integers, cache i8", attn.I8, attn.I8, 0, true},
	{"integers, cache i8,i4", attn.I8, attn.I8, attn.I4, true},
	{"integers, cache i4", attn.I8, attn.I4, 0, true},
}

// compare prints how far logits of fewer bits are from those of float32. Integers are those of the
// blocks of a GGUF file, if the model is in one.
func (o *options) compare(out io.Writer) error {
	var exact [][]float32
	for _, way := range accuracyWays {
		one := *o
		one.weights, one.kind, one.values, one.integers = way.weights, way.kind, way.values, way.integers
		if way.integers && weights.IsGGUF(o.model) {
			one.weights = asStored
		}
		m, _, err := one.open()
		if err != nil {
			return err
		}
		logits, err := sampleLogits(m, one.settings)
		if err != nil {
			return err
		}
		if exact == nil {
			exact = logits
			fmt.Fprintf(out, "%d layers of %d, %d sequences, %d logits of each, against float32:\n\n",
				m.Layers, m.Dim, accuracySequences, accuracySteps)
			fmt.Fprintf(out, "| weights, cache and arithmetic | mean difference of logits, share of their "+
				"deviation | equal greedy tokens |\n|---|---:|---:|\n")
			continue
		}
		difference, equal := distance(exact, logits)
		fmt.Fprintf(out, "| %s | %.2f %% | %.1f %% |\n", way.name, 100*difference, 100*equal)
	}
	return nil
}

// sampleLogits are the logits after tokens at random, which are the same for every model.
func sampleLogits(m *model, s settings) ([][]float32, error) {
	s.places, s.chunk, s.context = accuracySequences, 1, accuracyPrompt+accuracySteps
	e, err := newEngine(m, s)
	if err != nil {
		return nil, err
	}
	defer e.close()
	source := rand.New(rand.NewPCG(3, 4))
	tokens := func(n int) []int {
		x := make([]int, n)
		for i := range x {
			x[i] = source.IntN(m.Vocab)
		}
		return x
	}
	var pieces []piece
	for range accuracySequences {
		s, err := e.cache.newSequence()
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, piece{s, tokens(accuracyPrompt)})
	}
	var all [][]float32
	for range accuracySteps {
		logits, err := e.forward(pieces)
		if err != nil {
			return nil, err
		}
		for i, x := range logits {
			all = append(all, slices.Clone(x))
			pieces[i].tokens = tokens(1)
		}
	}
	return all, nil
}

// distance is the mean of |b − a|, as a share of the standard deviation of a, and how often both
// have the same largest element.
func distance(a, b [][]float32) (mean, equal float64) {
	var sum, squares, differences, n float64
	for i, x := range a {
		for j, e := range x {
			sum += float64(e)
			squares += float64(e) * float64(e)
			differences += math.Abs(float64(b[i][j]) - float64(e))
			n++
		}
		if greedy(x) == greedy(b[i]) {
			equal++
		}
	}
	deviation := math.Sqrt(squares/n - sum/n*(sum/n))
	return differences / n / deviation, equal / float64(len(a))
}
