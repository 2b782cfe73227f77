package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"time"

	"github.com/seed-1415985d/attn"
)

// What -bench measures: a prompt, and decoding behind many tokens.
const (
	benchPrompt  = 512
	benchContext = 2048
	benchTime    = 3 * time.Second
	benchTurns   = 3 // at least
)

// bench prints tokens a second with attn and with the textbook's loop, whatever the settings say of that.
func bench(w io.Writer, m *model, s settings, cases string) error {
	wanted, err := regexp.Compile(cases)
	if err != nil {
		return fmt.Errorf("-bench: %w", err)
	}
	fmt.Fprintf(w, "%-52s %12s %12s %7s\n", "tokens a second, median", "attn", "textbook", "ratio")
	for _, c := range []struct {
		name                  string
		batch, before, tokens int
		shared                bool
	}{
		{"prefill of 512 tokens", 1, 0, benchPrompt, false},
		{"decode after 2048 tokens", 1, benchContext, 1, false},
		{"decode after 2048 tokens, batch of 16", 16, benchContext, 1, false},
		{"decode after 2048 shared tokens, batch of 16", 16, benchContext, 1, true},
	} {
		if !wanted.MatchString(c.name) {
			continue
		}
		var rate [2]float64
		for i := range rate {
			s.textbook, s.places, s.context = i == 1, c.batch, c.before+max(c.tokens, 256)
			if rate[i], err = benchRate(m, s, c.batch, c.before, c.tokens, c.shared); err != nil {
				return err
			}
		}
		fmt.Fprintf(w, "%-52s %12.2f %12.2f %7.2f\n", c.name, rate[0], rate[1], rate[0]/rate[1])
	}
	return nil
}

// benchRate is the tokens a second of calls for a batch of sequences.
func benchRate(m *model, s settings, batch, before, tokens int, shared bool) (float64, error) {
	defer runtime.GC() // what the textbook's cache was
	e, err := newEngine(m, s)
	if err != nil {
		return 0, err
	}
	defer e.close()
	source := rand.New(rand.NewPCG(1, 2))
	base := e.cache.newSequence()
	if err := e.fill(base, before, source); err != nil {
		return 0, err
	}
	var pieces []piece
	for i := range batch {
		p := piece{base, make([]int, tokens)}
		for t := range p.tokens {
			p.tokens[t] = source.IntN(m.Vocab)
		}
		switch {
		case shared:
			p.seq = base.fork()
		case i > 0 || tokens > 1:
			p.seq = e.cache.newSequence()
			if err := e.fill(p.seq, before, source); err != nil {
				return 0, err
			}
		}
		pieces = append(pieces, p)
	}
	var seconds []float64
	for start := time.Now(); len(seconds) < benchTurns || time.Since(start) < benchTime && len(seconds) < 200; {
		call := time.Now()
		if _, err := e.forward(pieces); err != nil {
			return 0, err
		}
		seconds = append(seconds, time.Since(call).Seconds())
		if tokens > 1 { // each turn is of a new prompt
			pieces[0].seq.release()
			pieces[0].seq = e.cache.newSequence()
		}
	}
	slices.Sort(seconds)
	return float64(batch*tokens) / seconds[len(seconds)/2], nil
}

// fill appends random keys and values, as if there had been a prompt: speed does not depend on what they are.
func (e *engine) fill(s sequence, n int, source *rand.Rand) error {
	size := n * e.KVHeads * e.HeadDim
	if size == 0 {
		return nil
	}
	x := make([]float32, size)
	for i := range x {
		x[i] = 2*source.Float32() - 1
	}
	view := attn.BLHD(x, 1, n, e.KVHeads, e.HeadDim)
	for i := range e.layers {
		if err := e.cache.append(i, s, view, view); err != nil {
			return err
		}
	}
	return nil
}
