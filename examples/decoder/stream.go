package main

import (
	"fmt"
	"io"
	"time"
)

// codec turns text into tokens and back.
type codec interface {
	Encode(text string) ([]int, error)
	Decode(token int) string
}

// numbers is the tokens of a random model, to which they mean nothing.
type numbers int

func (n numbers) Encode(text string) ([]int, error) {
	var ids []int
	for i := range len(text) {
		ids = append(ids, int(text[i])%int(n))
	}
	return ids, nil
}

func (n numbers) Decode(token int) string { return fmt.Sprint(" ", token) }

// stream prints the answers to several prompts one after the other, though they come at the same time: the first that has not ended as its
// tokens come, those after it when it is their turn.
type stream struct {
	out     io.Writer
	text    codec
	prompts []string
	answers [][]int
	done    []bool
	turn    int
	printed int // tokens of the answer whose turn it is
}

// made takes a token of an answer.
func (s *stream) made(i, token int) {
	s.answers[i] = append(s.answers[i], token)
	s.print()
}

// end says that an answer has no more tokens.
func (s *stream) end(i int) {
	s.done[i] = true
	s.print()
}

func (s *stream) print() {
	for s.turn < len(s.answers) {
		answer := s.answers[s.turn]
		if s.printed == 0 && len(answer) > 0 {
			fmt.Fprintf(s.out, "[%d] %s", s.turn+1, s.prompts[s.turn])
		}
		for ; s.printed < len(answer); s.printed++ {
			fmt.Fprint(s.out, s.text.Decode(answer[s.printed]))
		}
		if !s.done[s.turn] {
			return
		}
		fmt.Fprint(s.out, "\n\n")
		s.turn, s.printed = s.turn+1, 0
	}
}

// report prints what a run took.
func (e *engine) report(out io.Writer) {
	rate := func(n int, d time.Duration) float64 { return float64(n) / max(d.Seconds(), 1e-9) }
	fmt.Fprintf(out, "prefill: %d tokens, %.1f a second (%d more were decoded in the same steps)\n", e.read, rate(e.read, e.reading), e.beside)
	fmt.Fprintf(out, "decode:  %d tokens, %.1f a second\n", e.made, rate(e.made, e.making))
	fmt.Fprintf(out, "keys and values: %d KiB in use at most\n\n", e.peak>>10)
}
