package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/measure"
	"github.com/seed-1415985d/attn/models/embed"
)

// subject is a model, and how to open it once more.
type subject struct {
	*embed.Model
	random bool
	open   func(o embed.Options) (*embed.Model, error)
	o      embed.Options
}

// notices prints which texts were cut, for the first few.
type notices struct {
	to   io.Writer
	seen int
	last int // text of cutOnce, from 1 on
}

func (n *notices) cut(text, tokens, left int) {
	const shown = 5
	switch n.seen++; {
	case n.seen <= shown:
		fmt.Fprintf(n.to, "attn-embed: text %d has %d tokens, and the model takes %d: the last %d of "+
			"its own are left out\n", text+1, tokens+left, tokens, left)
	case n.seen == shown+1:
		fmt.Fprintln(n.to, "attn-embed: more texts are cut, too")
	}
}

// cutOnce is cut for a text that is read several times in a row.
func (n *notices) cutOnce(text, tokens, left int) {
	if n.last != text+1 {
		n.last = text + 1
		n.cut(text, tokens, left)
	}
}

// report prints a model's results for texts.
func report(w io.Writer, s *subject, texts []string, embeddings [][]float32,
	limit time.Duration) error {
	if s.random {
		fmt.Fprintln(w, "The model is random: its similarities mean nothing.")
	}
	matrices, lookups := s.Memory()
	fmt.Fprintf(w, "%v; MB of matrices: %.1f, of embeddings: %.1f\n", s.Model, float64(matrices)/1e6,
		float64(lookups)/1e6)
	fmt.Fprintf(w, "\n%s similarity\n", s.Comparison())
	shown := embeddings[:min(len(embeddings), 12)]
	for i, a := range shown {
		for _, b := range shown {
			fmt.Fprintf(w, " %5.2f", s.Similarity(a, b))
		}
		fmt.Fprintf(w, "   %.60s\n", texts[i])
	}
	fmt.Fprintln(w, "\nsame bits")
	if err := sameBits(w, s, texts, embeddings); err != nil {
		return err
	}
	if err := speed(w, s, texts, limit); err != nil || !s.o.Integers && !s.o.BFloat16 {
		return err
	}
	return compare(w, s, texts, embeddings)
}

// speed prints how many texts become embeddings in a second.
func speed(w io.Writer, s *subject, texts []string, limit time.Duration) error {
	tokens := 0
	for _, text := range texts {
		ids, err := s.Tokens(text)
		if err != nil {
			return err
		}
		tokens += len(ids)
	}
	times, err := measure.Repeat(limit, 1, nil, encode(s.Model, texts))
	if err != nil {
		return err
	}
	best := slices.Min(times)
	fmt.Fprintf(w, "\n%.0f texts/s, %.0f tokens/s; kernels: %s, workers: %d\n",
		float64(len(texts))/best.Seconds(), float64(tokens)/best.Seconds(), attn.Implementation(),
		s.o.Workers)
	return nil
}

// compare prints how close embeddings in integers or in bfloat16 are to embeddings in
// float32.
func compare(w io.Writer, s *subject, texts []string, few [][]float32) error {
	o := s.o
	o.Integers, o.BFloat16 = false, false
	floats, err := s.open(o)
	if err != nil {
		return err
	}
	defer floats.Close()
	want, err := floats.Encode(texts)
	if err != nil {
		return err
	}
	least, sum := 1.0, 0.0
	for i := range want {
		c := float64(embed.Cosine(few[i], want[i]))
		least, sum = min(least, c), sum+c
	}
	fmt.Fprintf(w, "\ncosine with the embeddings in float32: mean %.5f, least %.5f\n",
		sum/float64(len(want)), least)
	return nil
}

// sameBits computes the embeddings in four ways.
func sameBits(w io.Writer, s *subject, texts []string, want [][]float32) error {
	for _, workers := range []int{1, 2} {
		o := s.o
		o.Workers = workers
		m, err := s.open(o)
		if err != nil {
			return err
		}
		defer m.Close()
		together, err := m.Encode(texts)
		if err != nil {
			return err
		}
		var alone [][]float32
		for _, text := range texts {
			one, err := m.Encode([]string{text})
			if err != nil {
				return err
			}
			alone = append(alone, one...)
		}
		fmt.Fprintf(w, "  %-9s  all texts in a batch, workers: %d\n", verdict(want, together), workers)
		fmt.Fprintf(w, "  %-9s  each text alone, workers: %d\n", verdict(want, alone), workers)
	}
	return nil
}

// verdict compares the bits of embeddings.
func verdict(want, got [][]float32) string {
	same := slices.EqualFunc(want, got, func(a, b []float32) bool {
		return slices.EqualFunc(a, b, func(x, y float32) bool {
			return math.Float32bits(x) == math.Float32bits(y)
		})
	})
	if !same {
		return "different"
	}
	return "OK"
}

// rerank prints texts in the order of their scores.
func rerank(w io.Writer, m *embed.Model, query string, texts []string) error {
	scores, err := m.Rerank(query, texts)
	if err != nil {
		return err
	}
	order := make([]int, len(texts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case scores[a] > scores[b]:
			return -1
		case scores[a] < scores[b]:
			return 1
		}
		return 0
	})
	for _, i := range order {
		fmt.Fprintf(w, "%8.4f  %s\n", scores[i], texts[i])
	}
	return nil
}
