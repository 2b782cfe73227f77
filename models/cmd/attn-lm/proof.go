package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/seed-1415985d/attn"
)

const (
	proofPrompt = 150                // tokens, so that they are on several pages,
	longPrompt  = 2*attn.Segment + 9 // or in three parts of a sequence on a cluster
	proofSteps  = 4                  // tokens that are generated, whose logits are compared
)

// trial is one way to come to the same logits.
type trial struct {
	name           string
	workers, chunk int
	others         int  // prompts in the same batch,
	ahead          int  // which are that many steps ahead
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

// prove prints for each trial whether the logits have the same bits as those of the first. On a
// cluster all trials run, and a longer prompt; what they are compared with is computed without it.
// It is an error if any differ.
func prove(w io.Writer, m *model, s settings) error {
	if s.cluster == nil {
		return compareTrials(w, m, s, proofPrompt, trials[1:])
	}
	err := compareTrials(w, m, s, proofPrompt, trials)
	fmt.Fprintln(w)
	return errors.Join(err, compareTrials(w, m, s, longPrompt, trials[:1]))
}

// compareTrials compares trials with the first of all, without a cluster.
func compareTrials(w io.Writer, m *model, s settings, tokens int, list []trial) (different error) {
	prompt := make([]int, tokens)
	for i := range prompt {
		prompt[i] = i * i % m.Vocab
	}
	near, first, where := s, &trials[0], ", and"
	near.cluster, near.draft = nil, nil
	want, err := first.run(m, near, prompt)
	if err != nil {
		return fmt.Errorf("%s: %w", first.name, err)
	}
	if s.cluster != nil {
		where = ", in this process, and on the cluster"
	}
	fmt.Fprintf(w, "The logits after a prompt of %d tokens and %d generated ones (%d numbers, "+
		"checksum %08x): %s%s\n",
		len(prompt), proofSteps-1, len(want)/4, crc32.ChecksumIEEE(want), first.name, where)
	for _, t := range list {
		logits, err := t.run(m, s, prompt)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		if bytes.Equal(logits, want) {
			fmt.Fprintf(w, "  %-38s OK, same bits\n", t.name)
			continue
		}
		fmt.Fprintf(w, "  %-38s different\n", t.name)
		different = fmt.Errorf("%s: the logits have other bits", t.name)
	}
	return different
}

// run returns the bytes of the logits after a prompt and after some tokens that follow it.
func (t *trial) run(m *model, s settings, prompt []int) (logits []byte, err error) {
	s.workers, s.chunk, s.places, s.context = t.workers, t.chunk, t.others+1,
		2*len(prompt)+t.ahead+2*proofSteps
	e, err := newEngine(m, s)
	if err != nil {
		return nil, err
	}
	defer e.close()
	half := len(prompt) / 2
	if t.share {
		err = e.share(prompt[:half])
	}
	for i := 0; i < t.others && err == nil; i++ { // of other lengths
		source := rand.New(rand.NewPCG(uint64(i), 1))
		other := slices.Clone(prompt[:half])
		for range 1 + source.IntN(len(prompt)) {
			other = append(other, source.IntN(m.Vocab))
		}
		err = e.submit(&job{prompt: other, most: t.ahead + proofSteps, choose: greedy})
	}
	for i := 0; i < t.ahead && err == nil; i++ {
		err = e.step()
	}
	if err == nil {
		err = e.submit(&job{prompt: prompt, most: proofSteps, choose: func(x []float32) int {
			logits, _ = binary.Append(logits, binary.LittleEndian, x) // which cannot fail
			return greedy(x)
		}})
	}
	if err == nil {
		err = e.run(func() {})
	}
	return logits, err
}
