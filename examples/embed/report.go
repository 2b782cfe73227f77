package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/embed/folder"
)

// tokens are those of texts. What is left out of texts with more than the model takes is said, for
// each of the first ones.
func (m *model) tokens(t *folder.WordPiece, texts []string, notices io.Writer) (ids [][]int,
	err error) {
	const shown = 5
	cut := 0
	for i, text := range texts {
		text, left, err := t.Encode(m.prepare(text))
		if err != nil {
			return nil, fmt.Errorf("text %d: %w", i+1, err)
		}
		if ids = append(ids, text); left == 0 {
			continue
		}
		if cut++; cut <= shown {
			fmt.Fprintf(notices, "embed: text %d has %d tokens, and the model takes %d: the last %d of its "+
				"own are left out\n", i+1, len(text)+left, len(text), left)
		}
	}
	if cut > shown {
		fmt.Fprintf(notices, "embed: %d more texts are cut, too\n", cut-shown)
	}
	return ids, nil
}

// report prints what a model makes of texts.
func report(w io.Writer, e *encoder, texts []string, all [][]int, embeddings [][]float32,
	limit time.Duration) error {
	if e.random {
		fmt.Fprintln(w, "The model is random: its similarities mean nothing.")
	}
	tokens := 0
	for _, ids := range all {
		tokens += len(ids)
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
			fmt.Fprintf(w, " %5.2f", cosine(a, b))
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

// cosine is the similarity of two embeddings.
func cosine(a, b []float32) float64 { return float64(attn.Dot(unit(a), unit(b))) }

// compare prints how close embeddings in integers are to those in float32.
func compare(w io.Writer, floats *encoder, ids [][]int, ints [][]float32) error {
	defer floats.pool.Close()
	want, err := floats.embed(ids)
	if err != nil {
		return err
	}
	least, sum := 1.0, 0.0
	for i := range want {
		c := cosine(ints[i], want[i])
		least, sum = min(least, c), sum+c
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
