package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/models/lm"
)

const (
	accuracySequences = 16 // of random tokens
	accuracyPrompt    = 64 // tokens before the first compared logits
	accuracySteps     = 16 // compared logits of a sequence
)

// accuracyWays are the configurations to compare: the first with each of the others.
var accuracyWays = []struct {
	name         string
	weights      lm.Format
	keys, values lm.Format
	products     lm.Products
	file         bool // matrices as they are in a GGUF file
}{
	{"f32", lm.F32, lm.F32, lm.Default, lm.Floats, false},
	{"cache f16", lm.F32, lm.F16, lm.Default, lm.Floats, false},
	{"cache i8", lm.F32, lm.I8, lm.Default, lm.Floats, false},
	{"cache i8,i4", lm.F32, lm.I8, lm.I4, lm.Floats, false},
	{"cache i4", lm.F32, lm.I4, lm.Default, lm.Floats, false},
	{"weights and cache i8", lm.I8, lm.I8, lm.Default, lm.Floats, false},
	{"bfloat16, cache f32", lm.BF16, lm.F32, lm.Default, lm.BFloat16, true},
	{"bfloat16, cache f16", lm.BF16, lm.F16, lm.Default, lm.BFloat16, true},
	{"integers, cache f32", lm.I8, lm.F32, lm.Default, lm.Integers, true},
	{"integers, cache f16", lm.I8, lm.F16, lm.Default, lm.Integers, true},
	{"integers, cache i8", lm.I8, lm.I8, lm.Default, lm.Integers, true},
	{"integers, cache i8,i4", lm.I8, lm.I8, lm.I4, lm.Integers, true},
	{"integers, cache i4", lm.I8, lm.I4, lm.Default, lm.Integers, true},
}

// accuracy prints how far logits of fewer bits are from logits of float32.
func accuracy(args []string, _ io.Reader, out, errs io.Writer) error {
	var o modelFlags
	f := flags.New("attn-lm accuracy [flags] [TEXT]\n\nCompares the logits of fewer bits with " +
		"logits " +
		"in float32: after each token of a text,\nor without one after random tokens.")
	o.register(f)
	err := flags.Parse(f, args, errs)
	if err == nil {
		_, err = flags.Texts("text", args, f.Args())
	}
	if err == nil {
		err = o.check(f)
	}
	if err == nil && f.NArg() > 1 {
		err = flags.Errorf("there are %d texts, want one or none", f.NArg())
	}
	if err != nil {
		return err
	}
	var exact [][]float32
	for _, way := range accuracyWays {
		logits, shape, err := o.logits(way.weights, way.keys, way.values, way.products, way.file,
			f.Arg(0))
		if err != nil {
			return err
		}
		if exact == nil {
			exact = logits
			fmt.Fprintf(out, "%d layers of %d, %d rows of logits, against float32:\n\n", shape.Layers,
				shape.Hidden, len(logits))
			fmt.Fprintf(out, "| weights, cache and arithmetic | mean difference of logits, share of their "+
				"deviation | equal greedy tokens |\n|---|---:|---:|\n")
			continue
		}
		difference, equal := distance(exact, logits)
		fmt.Fprintf(out, "| %s | %.2f %% | %.1f %% |\n", way.name, 100*difference, 100*equal)
	}
	return nil
}

// logits opens the model with some formats, and returns the logits after tokens of a text, or after
// random tokens.
func (m modelFlags) logits(weights, keys, values lm.Format, products lm.Products, file bool,
	text string) (rows [][]float32, shape lm.Sizes, err error) {
	m.Weights, m.Keys, m.Values, m.Products, m.Pack, m.draft = weights, keys, values, products, "", ""
	if file && strings.HasSuffix(m.path, ".gguf") {
		m.Weights = lm.Default
	}
	model, closing, err := m.open()
	if err != nil {
		return nil, shape, err
	}
	defer closing()
	sequences, err := samples(model, text)
	for _, tokens := range sequences {
		if err == nil {
			err = score(model, tokens, text == "", &rows)
		}
	}
	return rows, model.Sizes(), err
}

// samples returns the tokens of a text, or random tokens, which are the same for every model.
func samples(m *lm.Model, text string) ([][]int32, error) {
	if text != "" {
		tokens, err := m.Tokenizer().Prompt(text)
		return [][]int32{tokens}, err
	}
	source := rand.New(rand.NewPCG(3, 4))
	all := make([][]int32, accuracySequences)
	for i := range all {
		all[i] = make([]int32, accuracyPrompt+accuracySteps)
		for j := range all[i] {
			all[i][j] = source.Int32N(int32(m.Sizes().Vocab))
		}
	}
	return all, nil
}

// score appends the logits before each token; for random tokens only before the last ones.
func score(m *lm.Model, tokens []int32, last bool, rows *[][]float32) error {
	s, err := m.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Score(context.Background(), tokens, func(i int, logits []float32) error {
		if !last || i >= accuracyPrompt {
			*rows = append(*rows, slices.Clone(logits))
		}
		return nil
	})
}

// distance returns the mean of |b − a| divided by the standard deviation of a, and the part of rows
// in which both have the same largest element.
func distance(a, b [][]float32) (mean, equal float64) {
	var sum, squares, differences, n float64
	for i, x := range a {
		for j, e := range x {
			sum += float64(e)
			squares += float64(e) * float64(e)
			differences += math.Abs(float64(b[i][j]) - float64(e))
			n++
		}
		if largest(x) == largest(b[i]) {
			equal++
		}
	}
	deviation := math.Sqrt(squares/n - sum/n*(sum/n))
	return differences / n / deviation, equal / float64(len(a))
}

func largest(x []float32) int { return slices.Index(x, slices.Max(x)) }
