package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/examples/internal/folder"
)

// report prints what a model makes of texts.
func report(w io.Writer, e *encoder, t *folder.WordPiece, texts []string,
	limit time.Duration) error {
	defer e.pool.Close()
	all, tokens := make([][]int, len(texts)), 0
	for i, text := range texts {
		all[i] = t.Encode(text)
		tokens += len(all[i])
	}
	embeddings, err := e.embed(all)
	if err != nil {
		return err
	}
	tables := 4 * (len(e.words) + len(e.positions) + len(e.types))
	buffers := 4 * (len(e.x) + len(e.y) + len(e.heads) + len(e.qkv) + len(e.middle))
	fmt.Fprintf(w, "%d layers of %d, %d heads; MB of matrices: %.1f, of embeddings: %.1f, of "+
		"buffers: %.1f\n",
		e.Layers, e.Hidden, e.Heads, float64(e.packed)/1e6, float64(tables)/1e6, float64(buffers)/1e6)
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
		float64(len(all))/best.Seconds(), float64(tokens)/best.Seconds(), attn.Implementation(),
		e.workers)
	return e.err
}

// compare prints how close embeddings in integers are to those in float32.
func compare(w io.Writer, ints, floats *encoder, t *folder.WordPiece, texts []string) error {
	defer ints.pool.Close()
	defer floats.pool.Close()
	var tokens [][]int
	for _, text := range texts {
		tokens = append(tokens, t.Encode(text))
	}
	got, err := ints.embed(tokens)
	if err != nil {
		return err
	}
	want, err := floats.embed(tokens)
	if err != nil {
		return err
	}
	least, sum := 1.0, 0.0
	for i := range want {
		cosine := float64(attn.Dot(got[i], want[i])) // embeddings have length 1
		least, sum = min(least, cosine), sum+cosine
	}
	fmt.Fprintf(w, "\ncosine with the embeddings in float32: mean %.5f, least %.5f\n",
		sum/float64(len(want)), least)
	return nil
}

// sameBits computes the embeddings in four ways.
func sameBits(w io.Writer, m *model, texts [][]int, want [][]float32) error {
	for _, workers := range []int{1, 2} {
		e := newEncoder(m, workers)
		defer e.pool.Close()
		together, _ := e.embed(texts)
		var alone [][]float32
		for i := range texts {
			one, _ := e.embed(texts[i : i+1])
			alone = append(alone, one...)
		}
		if e.err != nil {
			return e.err
		}
		fmt.Fprintf(w, "  %-9s  all texts in a batch, workers: %d\n", verdict(want, together), workers)
		fmt.Fprintf(w, "  %-9s  each text alone, workers: %d\n", verdict(want, alone), workers)
	}
	return nil
}

// verdict compares the bytes of embeddings.
func verdict(want, got [][]float32) string {
	for i := range want {
		a, _ := binary.Append(nil, binary.LittleEndian, want[i])
		b, _ := binary.Append(nil, binary.LittleEndian, got[i])
		if !bytes.Equal(a, b) {
			return "different"
		}
	}
	return "OK"
}
