package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/measure"
	"github.com/seed-1415985d/attn/models/embed"
)

// bench prints how long one text takes, and how many texts of mixed lengths become embeddings in a
// second, next to what the machine could do.
func bench(w io.Writer, open func(o embed.Options) (*embed.Model, error), o embed.Options,
	limit time.Duration) error {
	o.Cut = nil // bench cuts texts to size
	start := time.Now()
	m, err := open(o)
	if err != nil {
		return err
	}
	defer m.Close()
	opened := time.Since(start)
	fmt.Fprintf(w, "%v; kernels: %s, workers: %d, products in %s; opened in %.0f ms\n", m,
		attn.Implementation(), o.Workers, products(o), opened.Seconds()*1e3)
	top := newCeiling(m, o)
	fmt.Fprintln(w, "\none text, milliseconds, and what its multiply-adds take at least, and reading "+
		"the matrices\n  tokens     50 %     90 %     99 %  multiply  reading")
	for _, tokens := range []int{16, 128, 512} {
		if tokens > m.MaxTokens() {
			continue
		}
		times, err := oneText(m, tokens, limit, top)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "  %6d", tokens)
		for _, percent := range []int{50, 90, 99} {
			took := measure.Quantile(times, float64(percent)/100)
			fmt.Fprintf(w, " %8.2f", took.Seconds()*1e3)
		}
		fmt.Fprintf(w, " %9.2f %8.2f\n", top.multiply(m.MultiplyAdds(tokens))*1e3, top.reading()*1e3)
	}
	return manyTexts(w, m, limit, top)
}

// products names the arithmetic of matrix products.
func products(o embed.Options) string {
	switch {
	case o.Integers:
		return "integers"
	case o.BFloat16:
		return "bfloat16"
	}
	return "float32"
}

// textOf returns a text of some tokens, mostly words.
func textOf(m *embed.Model, tokens int) (string, error) {
	text := strings.Repeat("rain ", tokens)
	for {
		ids, err := m.Tokens(text)
		if err != nil || len(ids) <= tokens || len(text) < 6 {
			return text, err
		}
		text = text[:len(text)-5]
	}
}

// oneText measures a text alone, again and again.
func oneText(m *embed.Model, tokens int, limit time.Duration, top *ceiling) ([]time.Duration,
	error) {
	text, err := textOf(m, tokens)
	if err != nil {
		return nil, err
	}
	calls := 0
	return measure.Repeat(limit, 3, func() {
		if calls++; calls%8 == 1 {
			top.measure()
		}
	}, encode(m, []string{text}))
}

// encode returns a call that computes embeddings of texts.
func encode(m *embed.Model, texts []string) func() error {
	return func() error { _, err := m.Encode(texts); return err }
}

// manyTexts measures a batch of texts of 8 to 512 tokens, short ones more often.
func manyTexts(w io.Writer, m *embed.Model, limit time.Duration, top *ceiling) error {
	source := rand.New(rand.NewPCG(1, 2))
	var texts []string
	total, work := 0, 0
	for range 64 {
		n := min(8<<source.IntN(7), m.MaxTokens())
		text, err := textOf(m, n)
		if err != nil {
			return err
		}
		texts, total, work = append(texts, text), total+n, work+m.MultiplyAdds(n)
	}
	times, err := measure.Repeat(limit, 1, top.measure, encode(m, texts))
	if err != nil {
		return err
	}
	best := slices.Min(times)
	fmt.Fprintf(w, "\n%d texts of 8 to 512 tokens, %d in all: %.0f texts/s, %.0f tokens/s; "+
		"multiply-adds allow %.0f texts/s\n", len(texts), total, float64(len(texts))/best.Seconds(),
		float64(total)/best.Seconds(), float64(len(texts))/top.multiply(work))
	return nil
}
