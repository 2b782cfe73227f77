package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/limits"
	"github.com/seed-1415985d/attn/models/chat"
)

// greedy takes the most likely token, the first of several.
func greedy(logits []float32) int {
	most, at := attn.Max(logits[:1]), 0 // where the logits begin among which it is
	for first := 0; first < len(logits); first += someLogits {
		if x := attn.Max(logits[first:min(first+someLogits, len(logits))]); x > most {
			most, at = x, first
		}
	}
	return at + slices.Index(logits[at:], most)
}

// stream prints the answers to several prompts one after another, though they come at the same
// time: the first that has not ended as its tokens come, those after it when it is their turn.
type stream struct {
	out     io.Writer
	errs    io.Writer // for what the model thinks
	prompts []string
	chat    *chat.Template // answers are messages of their own; nil if they are not
	jobs    []*job
	turn    int
	begun   bool // the prompt whose turn it is was printed
	part    int  // of its answer that is being printed,
	printed int  // and bytes of that
}

// print prints what is new.
func (s *stream) print() {
	for ; s.turn < len(s.jobs); s.turn, s.begun, s.part, s.printed = s.turn+1, false, 0, 0 {
		j := s.jobs[s.turn]
		if len(j.tokens) > len(j.prompt) && !s.begun {
			fmt.Fprintf(s.out, "[%d] %s%s", s.turn+1, s.prompts[s.turn], s.between())
			s.begun = true
		}
		s.answer(j)
		if !j.done {
			return
		}
		fmt.Fprint(s.out, "\n\n")
	}
}

// answer prints what is new of an answer, and on errs what the model thinks.
func (s *stream) answer(j *job) {
	parts := s.parts(j)
	for ; s.part < len(parts); s.part, s.printed = s.part+1, 0 {
		p := parts[s.part]
		to, begin, end := s.out, "", "\n"
		if p.Thinking {
			to, begin, end = s.errs, "(Thinking: ", ")\n\n"
		}
		if s.printed == 0 {
			fmt.Fprint(to, begin)
		}
		fmt.Fprint(to, p.Text[s.printed:])
		s.printed = len(p.Text)
		last := s.part == len(parts)-1
		if last && !j.done {
			return
		}
		if p.Thinking || !last {
			fmt.Fprint(to, end)
		}
	}
}

// parts are what may be printed of an answer.
func (s *stream) parts(j *job) []chat.Part {
	text := j.words.shown(j.done)
	if s.chat == nil {
		return []chat.Part{{Text: text}}
	}
	return s.chat.Parts(j.words.opening+text, j.done)
}

// between stands between a prompt and its answer.
func (s *stream) between() string {
	if s.chat != nil {
		return "\n"
	}
	return ""
}

// meter counts tokens and time: steps with parts of prompts apart from those that only decode.
type meter struct {
	read, beside    int // tokens of prompts, and those that others decoded in the same steps
	made, steps     int // of steps that only decode
	reading, making time.Duration
	peak            int // bytes of the cache in use
}

func (m *meter) count(read, made int, d time.Duration) {
	if read > 0 {
		m.read, m.beside, m.reading = m.read+read, m.beside+made, m.reading+d
	} else {
		m.made, m.steps, m.making = m.made+made, m.steps+1, m.making+d
	}
}

// report prints what a run took.
func (e *engine) report(out io.Writer) {
	rate := func(n int, d time.Duration) float64 { return float64(n) / max(d.Seconds(), 1e-9) }
	fmt.Fprintf(out, "prefill: %d tokens, %.1f a second (%d more were decoded in the same steps)\n",
		e.read, rate(e.read, e.reading), e.beside)
	fmt.Fprintf(out, "decode:  %d tokens, %.1f a second\n", e.made, rate(e.made, e.making))
	if e.drafter != nil {
		e.drafter.report(out)
	}
	if e.steps > 0 && e.packed > limits.DRAM() {
		e.reportMemory(out, rate(e.steps, e.making))
	}
	where := ""
	if e.cluster != nil {
		where = ", in each copy on the cluster"
	}
	fmt.Fprintf(out, "keys and values: %d KiB in use at most%s\n", e.peak>>10, where)
	fmt.Fprintf(out, "memory: %d MiB, weights and these\n\n", (e.memory+e.peak)>>20)
}

// reportMemory prints how many steps a second there were, and how many if each took as long as
// memory takes for the bytes of all matrices.
func (e *engine) reportMemory(out io.Writer, steps float64) {
	memory := limits.NewMemory(limits.For(attn.Implementation()), e.workers, limits.DRAM())
	speed := 0.0
	for range 5 {
		speed = max(speed, memory.Read(), memory.ReadStreams())
	}
	fmt.Fprintf(out, "         %.1f steps a second; %.1f read the %.2f GB of all matrices at the "+
		"memory's %.1f GB/s\n", steps, speed/float64(e.packed), float64(e.packed)/1e9, speed/1e9)
}
