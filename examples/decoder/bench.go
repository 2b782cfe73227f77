package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"time"

	"github.com/seed-1415985d/attn"
)

const (
	benchTime  = 6 * time.Second // for a case,
	benchTurns = 3               // but so many turns at least,
	benchMost  = 200             // and at most
)

// benchCase is calls for some sequences of new tokens after others.
type benchCase struct {
	name                  string
	batch, before, tokens int
	shared                bool // what is before is the same for all
}

var benchCases = []benchCase{
	{"prefill of 512 tokens", 1, 0, 512, false},
	{"decode after 2048 tokens", 1, 2048, 1, false},
	{"decode after 2048 tokens, batch of 16", 16, 2048, 1, false},
	{"decode after 2048 shared tokens, batch of 16", 16, 2048, 1, true},
}

// bench prints tokens a second with attn and with the textbook's attention, whose turns alternate.
func bench(w io.Writer, m *model, s settings, cases string) error {
	wanted, err := regexp.Compile(cases)
	if err != nil {
		return fmt.Errorf("-bench: %w", err)
	}
	fmt.Fprintf(w, "%-48s %10s %10s %7s\n", "tokens a second, median", "attn", "textbook", "ratio")
	for _, c := range benchCases {
		if !wanted.MatchString(c.name) {
			continue
		}
		rates, err := c.rates(m, s)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%-48s %10.2f %10.2f %7.2f\n", c.name, rates[0], rates[1], rates[0]/rates[1])
	}
	return nil
}

// rates are tokens a second with attn and the textbook.
func (c *benchCase) rates(m *model, s settings) (rates [2]float64, err error) {
	var sides [2]contender
	for i := range sides {
		s.textbook, s.places, s.context = i == 1, c.batch, c.before+max(c.tokens, benchMost)
		if sides[i].engine, err = newEngine(m, s); err != nil {
			return rates, err
		}
		defer sides[i].close()
		if err := sides[i].begin(c); err != nil {
			return rates, err
		}
	}
	for start, n := time.Now(), 0; n < benchTurns || time.Since(start) < benchTime && n < benchMost; n++ {
		for i := range sides {
			if err := sides[i].turn(c); err != nil {
				return rates, err
			}
		}
	}
	for i := range sides {
		slices.Sort(sides[i].seconds)
		rates[i] = float64(c.batch*c.tokens) / sides[i].seconds[len(sides[i].seconds)/2]
	}
	return rates, nil
}

// contender is one side of a case.
type contender struct {
	*engine
	pieces  []piece
	seconds []float64
}

// begin makes the sequences.
func (b *contender) begin(c *benchCase) error {
	source := rand.New(rand.NewPCG(1, 2))
	var s sequence
	for i := range c.batch {
		if i > 0 && c.shared {
			s = s.fork()
		} else {
			s = b.cache.newSequence()
			if err := b.fill(s, c.before, source); err != nil {
				return err
			}
		}
		p := piece{s, make([]int, c.tokens)}
		for t := range p.tokens {
			p.tokens[t] = source.IntN(b.Vocab)
		}
		b.pieces = append(b.pieces, p)
	}
	return nil
}

// turn is a new prompt, or one more token for each sequence.
func (b *contender) turn(c *benchCase) error {
	if c.before == 0 {
		b.pieces[0].seq.release()
		b.pieces[0].seq = b.cache.newSequence()
	}
	start := time.Now()
	_, err := b.forward(b.pieces)
	b.seconds = append(b.seconds, time.Since(start).Seconds())
	return err
}

// fill appends random keys and values, as if there had been a prompt: speed does not depend on what they are.
func (b *contender) fill(s sequence, n int, source *rand.Rand) error {
	if n == 0 {
		return nil
	}
	x := make([]float32, n*b.KVHeads*b.HeadDim)
	for i := range x {
		x[i] = 2*source.Float32() - 1
	}
	view := attn.BLHD(x, 1, n, b.KVHeads, b.HeadDim)
	for i := range b.layers {
		if err := b.cache.append(i, s, view, view); err != nil {
			return err
		}
	}
	return nil
}
