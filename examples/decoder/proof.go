package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"slices"
)

// proofSteps tokens are generated for each trial, whose logits are compared.
const proofSteps = 4

// trial is one way to come to the same logits.
type trial struct {
	name           string
	workers, chunk int
	others         int  // prompts in the same batch,
	ahead          int  // which are so many steps ahead
	share          bool // the first half of the prompt is forked
}

var trials = []trial{
	{name: "alone, prompt in one piece", workers: 1, chunk: 1 << 20},
	{name: "2 workers", workers: 2, chunk: 1 << 20},
	{name: "prompt one token at a time", workers: 1, chunk: 1},
	{name: "prompt in pieces of 7", workers: 1, chunk: 7},
	{name: "prompt in pieces of 64", workers: 2, chunk: 64},
	{name: "in a batch of 16", workers: 2, chunk: 1 << 20, others: 15},
	{name: "in a batch of 16, in pieces of 50", workers: 1, chunk: 50, others: 15},
	{name: "joins 15 others that decode", workers: 2, chunk: 40, others: 15, ahead: 30},
	{name: "half of the prompt shared", workers: 1, chunk: 1 << 20, share: true},
	{name: "batch of 16, all sharing half of it", workers: 2, chunk: 33, others: 15, share: true},
}

// prove prints for each trial whether the logits have the same bits as those of the first, and returns how many have not.
func prove(w io.Writer, m *model, s settings, prompt []int) (different int, err error) {
	var first [][]float32
	for i, t := range trials {
		logits, err := t.run(m, s, prompt)
		if err != nil {
			return different, fmt.Errorf("%s: %w", t.name, err)
		}
		if i == 0 {
			first = logits
			fmt.Fprintf(w, "The logits after a prompt of %d tokens and %d generated ones (%d numbers, checksum %08x): %s, and\n",
				len(prompt), proofSteps-1, proofSteps*m.Vocab, checksum(logits), t.name)
			continue
		}
		verdict := "OK, same bits"
		if n := differences(first, logits); n > 0 {
			verdict = fmt.Sprintf("different: %d of the numbers", n)
			different++
		}
		fmt.Fprintf(w, "  %-38s %s\n", t.name, verdict)
	}
	return different, nil
}

// run returns the logits of a prompt and some steps after it.
func (t *trial) run(m *model, s settings, prompt []int) ([][]float32, error) {
	s.workers, s.chunk, s.places = t.workers, t.chunk, t.others+1
	s.context = 2*len(prompt) + t.ahead + 2*proofSteps
	e, err := newEngine(m, s)
	if err != nil {
		return nil, err
	}
	defer e.close()
	if t.share {
		if err := e.share(prompt[:len(prompt)/2]); err != nil {
			return nil, err
		}
	}
	for i := range t.others {
		if err := e.submit(t.other(i, m.Vocab, prompt)); err != nil {
			return nil, err
		}
	}
	for range t.ahead {
		if err := e.step(); err != nil {
			return nil, err
		}
	}
	var logits [][]float32
	err = e.submit(&job{prompt: prompt, most: proofSteps, made: func(int) {}, ended: func() {}, choose: func(x []float32) int {
		logits = append(logits, slices.Clone(x))
		return greedy(x)
	}})
	if err == nil {
		err = e.run()
	}
	return logits, err
}

// other is a prompt of another length beside the one that is looked at.
func (t *trial) other(i, vocab int, prompt []int) *job {
	source := rand.New(rand.NewPCG(uint64(i), 1))
	half := len(prompt) / 2
	tokens := slices.Clone(prompt[:half])
	for range 1 + source.IntN(len(prompt)) {
		tokens = append(tokens, source.IntN(vocab))
	}
	if !t.share {
		tokens = tokens[half:]
	}
	return &job{prompt: tokens, most: t.ahead + proofSteps, made: func(int) {}, ended: func() {}, choose: greedy}
}

// differences counts the numbers whose bits differ.
func differences(a, b [][]float32) int {
	n := max(len(a), len(b)) - min(len(a), len(b))
	for i := range min(len(a), len(b)) {
		for j := range a[i] {
			if math.Float32bits(a[i][j]) != math.Float32bits(b[i][j]) {
				n++
			}
		}
	}
	return n
}

// checksum is one number for all bits, to compare machines by.
func checksum(logits [][]float32) uint32 {
	sum := crc32.NewIEEE()
	for _, x := range logits {
		_ = binary.Write(sum, binary.LittleEndian, x) // which cannot fail
	}
	return sum.Sum32()
}
