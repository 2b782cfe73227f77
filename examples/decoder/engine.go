package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed-1415985d/attn"
)

// job is a prompt and what becomes of it.
type job struct {
	prompt []int
	most   int // tokens to generate
	choose func(logits []float32) int
	made   func(token int) // is told each token as soon as there is one,
	ended  func()          // and that there are no more

	tokens []int // the prompt and what was generated
	seq    sequence
}

// pending is the tokens that the model has not seen yet.
func (j *job) pending() []int { return j.tokens[j.seq.length():] }

// engine generates for several prompts at once (continuous batching): a prompt joins as soon as there is a place, while others decode.
type engine struct {
	runner
	places  int // for jobs that run
	chunk   int // tokens of prompts in a step, so that those that decode do not wait for long
	context int // tokens of a sequence

	prefix          []int    // what many prompts begin with,
	shared          sequence // in a sequence that they fork
	waiting, active []*job
	meter
}

// settings are what no logits depend on, but for the types of weights and cache.
type settings struct {
	workers, places, chunk, context int
	kind                            attn.CacheType // of the cache
	textbook                        bool
}

func newEngine(m *model, s settings) (*engine, error) {
	if s.workers < 1 || s.places < 1 || s.chunk < 1 || s.context < 1 {
		return nil, fmt.Errorf("workers, batch, chunk and context are %d, %d, %d and %d, want at least 1 each", s.workers, s.places, s.chunk, s.context)
	}
	e := &engine{runner: runner{model: m, pool: attn.NewPool(s.workers)}, places: s.places, chunk: s.chunk, context: s.context}
	if s.textbook {
		e.cache = newPlainCache(&m.Config, s.workers)
		return e, nil
	}
	c, err := newPagedCache(&m.Config, e.pool, s.kind, s.places+1, s.context) // one for the prefix
	if err != nil {
		_ = e.pool.Close() // nobody uses it
		return nil, err
	}
	e.cache = c
	return e, nil
}

func (e *engine) close() {
	e.cache.close()
	_ = e.pool.Close() // nobody uses it
}

// share computes a prefix once, which prompts that begin with it then share.
func (e *engine) share(prefix []int) error {
	if len(prefix) > e.context {
		return fmt.Errorf("the shared prompt has %d tokens, want at most %d, the context", len(prefix), e.context)
	}
	e.prefix, e.shared = prefix, e.cache.newSequence()
	for at := 0; at < len(prefix); at += e.chunk {
		start := time.Now()
		tokens := prefix[at:min(at+e.chunk, len(prefix))]
		if _, err := e.forward([]piece{{e.shared, tokens}}); err != nil {
			return err
		}
		e.count(len(tokens), 0, time.Since(start))
	}
	return nil
}

// submit queues a job.
func (e *engine) submit(j *job) error {
	if len(j.prompt) == 0 {
		return fmt.Errorf("a prompt has no tokens, want at least one")
	}
	if n := len(j.prompt) + j.most; n > e.context {
		return fmt.Errorf("a prompt and its answer may have %d tokens, want at most %d, the context", n, e.context)
	}
	for _, token := range j.prompt {
		if token < 0 || token >= e.Vocab {
			return fmt.Errorf("a prompt has token %d, want 0 to %d", token, e.Vocab-1)
		}
	}
	j.tokens = slices.Clone(j.prompt)
	e.waiting = append(e.waiting, j)
	return nil
}

// run is steps until all jobs are done.
func (e *engine) run() error {
	for len(e.waiting)+len(e.active) > 0 {
		if err := e.step(); err != nil {
			return err
		}
	}
	return nil
}

// step takes the next token of each job that decodes and some of the prompts through the model, in one batch.
func (e *engine) step() error {
	start := time.Now()
	e.admit()
	var pieces []piece
	var jobs []*job
	budget, made := e.chunk, 0
	for _, j := range e.active {
		tokens := j.pending()
		if len(j.tokens) > len(j.prompt) {
			made++
		} else {
			tokens = tokens[:min(len(tokens), budget)]
			budget -= len(tokens)
		}
		if len(tokens) > 0 {
			pieces, jobs = append(pieces, piece{j.seq, tokens}), append(jobs, j)
		}
	}
	logits, err := e.forward(pieces)
	if err != nil {
		return err
	}
	e.peak = max(e.peak, e.cache.inUse())
	for i, j := range jobs {
		if len(j.pending()) == 0 {
			e.advance(j, logits[i])
		}
	}
	e.count(e.chunk-budget, made, time.Since(start))
	return nil
}

// admit lets jobs that wait begin where there are places.
func (e *engine) admit() {
	for len(e.active) < e.places && len(e.waiting) > 0 {
		j := e.waiting[0]
		e.waiting = e.waiting[1:]
		// The prefix's logits were not kept, so that one token at least is left to compute.
		if n := len(e.prefix); n > 0 && len(j.prompt) > n && slices.Equal(j.prompt[:n], e.prefix) {
			j.seq = e.shared.fork()
		} else {
			j.seq = e.cache.newSequence()
		}
		e.active = append(e.active, j)
	}
}

// advance chooses a job's next token, and ends the job if that is the last one.
func (e *engine) advance(j *job, logits []float32) {
	token := j.choose(logits)
	j.tokens = append(j.tokens, token)
	j.made(token)
	if len(j.tokens) < len(j.prompt)+j.most && !slices.Contains(e.Stop, token) {
		return
	}
	j.ended()
	j.seq.release()
	e.active = slices.DeleteFunc(e.active, func(other *job) bool { return other == j })
}

// meter counts tokens and time: steps with parts of prompts apart from those that only decode.
type meter struct {
	read, beside int // tokens of prompts, and those that others decoded in the same steps
	made         int
	reading      time.Duration
	making       time.Duration
	peak         int // bytes of the cache in use
}

func (m *meter) count(read, made int, d time.Duration) {
	if read > 0 {
		m.read, m.beside, m.reading = m.read+read, m.beside+made, m.reading+d
	} else {
		m.made, m.making = m.made+made, m.making+d
	}
}
