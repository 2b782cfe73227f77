package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/models/lm"
)

// trial is one way to compute the same logits.
type trial struct {
	name           string
	workers, chunk int
	others         int  // prompts answered at the same time
	half           bool // the first half of the prompt was computed before
}

// trials begins with the trial that the others are compared with.
var trials = []trial{
	{name: "alone, prompt in one piece", workers: 1, chunk: 1 << 20},
	{name: "half of the prompt shared", workers: 1, chunk: 1 << 20, half: true},
	{name: "with 15 others", workers: 1, chunk: 1 << 20, others: 15},
	{name: "prompt in pieces of 7", workers: 1, chunk: 7},
	{name: "prompt one token at a time", workers: 1, chunk: 1},
	{name: "2 workers", workers: 2, chunk: 1 << 20},
	{name: "2 workers, with 15 others", workers: 2, chunk: 1 << 20, others: 15},
	{name: "2 workers, pieces of 33, with 15 others that share half", workers: 2, chunk: 33,
		others: 15, half: true},
}

const (
	proofPrompt = 150 // tokens, on several pages
	proofSteps  = 4   // generated tokens whose logits are compared
)

// prove prints for each trial whether its logits have the same bits as in the first one.
func prove(args []string, _ io.Reader, out, errs io.Writer) error {
	var o modelFlags
	f := flags.New("attn-lm prove [flags]\n\nCompares the bits of logits of a prompt alone, " +
		"among others, in pieces, and on several threads.")
	o.register(f)
	err := flags.ParseAll(f, args, errs)
	if err == nil {
		err = o.check(f)
	}
	if err != nil {
		return err
	}
	var want uint32
	for i, t := range trials {
		got, err := t.run(o)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", t.name, err)
		case i == 0:
			want = got
			fmt.Fprintf(out, "The logits after a prompt of %d tokens and %d generated ones, %s: checksum "+
				"%08x\n", proofPrompt, proofSteps-1, t.name, want)
		case got != want:
			fmt.Fprintf(out, "  %-56s different\n", t.name)
			return fmt.Errorf("%s: the logits have other bits", t.name)
		default:
			fmt.Fprintf(out, "  %-56s the same bits\n", t.name)
		}
	}
	return nil
}

// run returns a checksum of the logits.
func (t *trial) run(o modelFlags) (uint32, error) {
	o.Workers, o.Chunk, o.Sequences, o.Context = t.workers, t.chunk, 16, 2*proofPrompt
	m, closing, err := o.open()
	if err != nil {
		return 0, err
	}
	defer closing()
	prompt := make([]int32, proofPrompt)
	for i := range prompt {
		prompt[i] = int32(i * i % m.Tokenizer().Size())
	}
	ctx, g := context.Background(), lm.Generation{MaxTokens: proofSteps}
	if t.half {
		if err := drain(m.Generate(ctx, prompt[:len(prompt)/2], g)); err != nil {
			return 0, err
		}
	}
	var wait sync.WaitGroup
	for i := range t.others {
		other := append(prompt[:len(prompt)-i:len(prompt)-i], int32(i), 1)
		wait.Go(func() { _ = drain(m.Generate(ctx, other, lm.Generation{MaxTokens: 1 + i})) })
	}
	sum := crc32.NewIEEE()
	g.Logits = func(_ []int32, logits []float32) error {
		return binary.Write(sum, binary.LittleEndian, logits)
	}
	err = drain(m.Generate(ctx, prompt, g))
	wait.Wait()
	return sum.Sum32(), err
}

// drain reads all of an answer.
func drain(answer func(func(lm.Token, error) bool)) (err error) {
	for _, err = range answer {
		if err != nil {
			return err
		}
	}
	return nil
}
