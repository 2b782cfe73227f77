package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

const stepLogits = 8 // are printed

// steps takes as many tokens through the model as each line says, and prints seconds and logits:
// what comparisons with other programs need.
func steps(in io.Reader, out io.Writer, m *model, s settings) error {
	s.places, s.chunk = 1, s.context
	e, err := newEngine(m, s)
	if err != nil {
		return err
	}
	defer e.close()
	seq, err := e.cache.newSequence()
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		n, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
		switch {
		case err != nil || n < 0 || n > s.context-seq.length():
			return fmt.Errorf("a line says %q, want a number of tokens, at most the %d that the -context "+
				"of %d leaves, or 0", lines.Text(), s.context-seq.length(), s.context)
		case n == 0:
			seq.release()
			if seq, err = e.cache.newSequence(); err != nil {
				return err
			}
			fmt.Fprintln(out, 0)
			continue
		}
		start := time.Now()
		logits, err := e.forward([]piece{{seq, someTokens(seq.length(), n, m.Vocab)}})
		if err != nil {
			return err
		}
		fmt.Fprintln(out, time.Since(start).Seconds(), logits[0][:min(stepLogits, m.Vocab)])
		seq.slide()
	}
	return nil
}

// someTokens are those of n positions, all over the vocabulary.
func someTokens(first, n, vocab int) []int {
	x := make([]int, n)
	for i := range x {
		x[i] = (first + i) * 37 % vocab
	}
	return x
}
