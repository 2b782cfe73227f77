package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/seed-1415985d/attn"
)

// report prints what a model makes of texts.
func report(w io.Writer, e *encoder, t *tokenizer, texts []string, limit time.Duration) error {
	defer e.pool.Close()
	all, tokens := make([][]int, len(texts)), 0
	for i, text := range texts {
		all[i] = t.encode(text)
		tokens += len(all[i])
	}
	embeddings, err := e.embed(all)
	if err != nil {
		return err
	}
	matrices, other := e.memory()
	fmt.Fprintf(w, "%d layers of %d, %d heads: %.1f MB of matrices, %.1f MB of embeddings and buffers\n", e.Layers, e.Hidden, e.Heads, matrices, other)
	fmt.Fprintln(w, "\ncosine similarity")
	shown := embeddings[:min(len(embeddings), 12)]
	for i, a := range shown {
		for _, b := range shown {
			fmt.Fprintf(w, " %5.2f", attn.Dot(a, b)) // embeddings have length 1
		}
		fmt.Fprintf(w, "   %.60s\n", texts[i])
	}
	fmt.Fprintln(w, "\nsame bits")
	if err := sameBits(w, e.model, all, embeddings); err != nil {
		return err
	}
	best := time.Duration(math.MaxInt64)
	for begin := time.Now(); best == math.MaxInt64 || time.Since(begin) < limit; {
		start := time.Now()
		e.embed(all)
		best = min(best, time.Since(start))
	}
	fmt.Fprintf(w, "\n%.0f texts/s, %.0f tokens/s; kernels: %s, workers: %d\n",
		float64(len(all))/best.Seconds(), float64(tokens)/best.Seconds(), attn.Implementation(), e.workers)
	return e.err
}

// sameBits computes the embeddings in four ways.
func sameBits(w io.Writer, m *model, texts [][]int, want [][]float32) (err error) {
	for _, workers := range []int{1, 2} {
		e := newEncoder(m, workers)
		defer e.pool.Close()
		together, _ := e.embed(texts)
		var alone [][]float32
		for i := range texts {
			one, _ := e.embed(texts[i : i+1])
			alone = append(alone, one...)
		}
		for what, got := range map[string][][]float32{"all texts in a batch": together, "each text alone": alone} {
			word := "OK"
			if e.err != nil || !bytes.Equal(bits(want), bits(got)) {
				word, err = "different", errors.Join(errors.New("embeddings are different"), e.err)
			}
			fmt.Fprintf(w, "  %s  %s, workers: %d\n", word, what, workers)
		}
	}
	return err
}

// bits are the bytes of embeddings, one after the other.
func bits(embeddings [][]float32) (b []byte) {
	for _, x := range embeddings {
		b, _ = binary.Append(b, binary.LittleEndian, x)
	}
	return b
}
