package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster"
)

// job is a prompt and what becomes of it.
type job struct {
	prompt []int
	most   int // tokens to generate
	choose func(logits []float32) int
	keep   bool // the sequence, for others to fork
	words  words

	tokens []int // the prompt and what was generated
	done   bool
	ended  bool // by the last token, which is not part of the answer
	seq    sequence
}

// settings are what no logits depend on, but for the types of weights and cache.
type settings struct {
	workers  int
	places   int             // for jobs that run
	chunk    int             // tokens of prompts in a step, so that who decodes does not wait for long
	context  int             // tokens of a sequence
	kind     attn.Format     // of the cache, of keys only if values have another one
	values   attn.Format     // 0 for the same
	integers bool            // matrices multiply integers, and attention where the cache has them
	cluster  *cluster.Client // that keeps keys and values; nil for none
	draft    *model          // guesses tokens; nil for none
	guesses  int             // at a time
}

// check refuses numbers that no engine runs with.
func (s *settings) check() error {
	for _, n := range []struct {
		flag string
		is   int
	}{{"workers", s.workers}, {"batch", s.places}, {"chunk", s.chunk}, {"context", s.context}} {
		if n.is < 1 {
			return fmt.Errorf("-%s is %d, want at least 1", n.flag, n.is)
		}
	}
	if s.workers > attn.MaxWorkers {
		return fmt.Errorf("-workers is %d, want at most %d", s.workers, attn.MaxWorkers)
	}
	return nil
}

// engine generates for several prompts at once (continuous batching): a prompt joins as soon as
// there is a place, while others decode.
type engine struct {
	runner
	settings
	prefix          []int    // what many prompts begin with; none at first,
	shared          sequence // in a sequence that they fork
	waiting, active []*job
	drafter         *drafter // nil for none
	meter
}

func newEngine(m *model, s settings) (*engine, error) {
	err := s.check()
	if err != nil {
		return nil, err
	}
	e := &engine{runner: runner{model: m, pool: attn.NewPool(s.workers)}, settings: s}
	if e.cache, err = newCache(m, &s, e.pool); err == nil {
		e.shared, err = e.cache.newSequence()
	}
	if err == nil && s.draft != nil {
		e.drafter, err = newDrafter(e, s)
	}
	if err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *engine) close() {
	if e.cache != nil {
		e.cache.close()
	}
	if e.drafter != nil {
		e.drafter.cache.close()
	}
	_ = e.pool.Close() // nobody uses it
}

// share computes a prefix once, which prompts that begin like it then share. It is for the time
// before other jobs. Where sequences cannot share tokens it does nothing, and each prompt computes
// its own.
func (e *engine) share(prefix []int) error {
	if !e.cache.forks() {
		return nil
	}
	j := &job{prompt: prefix, choose: greedy, keep: true}
	err := e.submit(j)
	if err == nil {
		err = e.run(func() {})
	}
	if err == nil {
		e.prefix, e.shared = prefix, j.seq
	}
	return err
}

// narrow keeps, of the prefix, the tokens with which the next prompt begins: layers with a window
// have no room for more beside a whole sequence.
func (e *engine) narrow(next []int) error {
	n := len(common([][]int{e.prefix, next}))
	shared, err := e.shared.fork(n)
	if err == nil {
		e.shared.release()
		e.prefix, e.shared = next[:n], shared
	}
	return err
}

// follow keeps, of what a job's sequence has, the tokens with which a next prompt begins, so that
// these are not computed again. The job was one that keeps its sequence.
func (e *engine) follow(j *job, next []int) (err error) {
	if !e.cache.forks() {
		j.seq.release()
		return nil
	}
	n := len(common([][]int{j.tokens[:j.seq.length()], next}))
	e.shared.release()
	e.shared, err = j.seq.fork(n)
	e.prefix = next[:n]
	j.seq.release()
	return err
}

// submit queues a job.
func (e *engine) submit(j *job) error {
	if err := e.checkPrompt(j.prompt, j.most); err != nil {
		return err
	}
	j.tokens = slices.Clone(j.prompt)
	e.waiting = append(e.waiting, j)
	return nil
}

// checkPrompt refuses prompts that no job can have, with the most tokens of their answers.
func (e *engine) checkPrompt(prompt []int, most int) error {
	if len(prompt) == 0 {
		return errors.New("a prompt has no tokens, want at least one")
	} else if n := len(prompt) + most; n > e.context {
		answer := ""
		if most > 0 {
			answer = fmt.Sprintf(" and its answer of -n %d", most)
		}
		return fmt.Errorf("a prompt of %d tokens%s may have %d, want at most -context %d",
			len(prompt), answer, n, e.context)
	}
	for _, token := range prompt {
		if token < 0 || token >= e.Vocab {
			return fmt.Errorf("a prompt has token %d, want 0 to %d, by vocab_size: others have no embedding",
				token, e.Vocab-1)
		}
	}
	return nil
}

// run is steps until all jobs are done. It says when there may be new tokens.
func (e *engine) run(stepped func()) (err error) {
	for err == nil && len(e.waiting)+len(e.active) > 0 {
		err = e.step()
		stepped()
	}
	return err
}

// step takes the next token of each job that decodes and some of the prompts through the model, in
// one batch.
func (e *engine) step() error {
	start, read, made := time.Now(), 0, 0
	if err := e.admit(); err != nil {
		return err
	}
	guesses, err := e.guess()
	if err != nil {
		return err
	}
	pieces, wanted, jobs := []piece{}, []int{}, []*job{}
	for _, j := range e.active {
		tokens := j.tokens[j.seq.length():] // which the model has not seen yet
		if len(j.tokens) > len(j.prompt) {
			tokens = slices.Concat(tokens, guesses[j])
		} else {
			tokens = tokens[:min(len(tokens), e.chunk-read)]
			read += len(tokens)
		}
		if len(tokens) > 0 {
			pieces, wanted = append(pieces, piece{j.seq, tokens}), append(wanted, 1+len(guesses[j]))
			jobs = append(jobs, j)
		}
	}
	logits, err := e.forwardLast(pieces, wanted)
	if err != nil {
		return err
	}
	e.peak = max(e.peak, e.cache.inUse())
	for i, j := range jobs {
		if j.seq.length() == len(j.tokens)+len(guesses[j]) {
			decodes := len(j.tokens) > len(j.prompt)
			if !decodes && j.keep && len(j.words.stops) > 0 {
				j.seq.mark() // the answer may end before its last tokens
			}
			n, err := e.take(j, guesses[j], logits[:wanted[i]])
			if err != nil {
				return err
			}
			if decodes {
				made += n
			}
		}
		if !j.keep && !j.done {
			j.seq.slide()
		}
		logits = logits[wanted[i]:]
	}
	e.count(read, made, time.Since(start))
	return nil
}

// guess asks the second model, if there is one, for tokens of the jobs that decode.
func (e *engine) guess() (map[*job][]int, error) {
	if e.drafter == nil {
		return nil, nil
	}
	var jobs []*job
	for _, j := range e.active {
		if len(j.tokens) > len(j.prompt) {
			j.seq.mark()
			jobs = append(jobs, j)
		}
	}
	return e.drafter.guess(jobs)
}

// take chooses tokens by logits, the next of which are used as long as guesses are what is chosen,
// and takes back what the sequence has of the others. It returns how many there are.
func (e *engine) take(j *job, guesses []int, logits [][]float32) (n int, err error) {
	for {
		e.advance(j, logits[n])
		if n++; j.done || n > len(guesses) || j.tokens[len(j.tokens)-1] != guesses[n-1] {
			break
		}
		e.drafter.accepted++
	}
	if len(guesses) > 0 && (!j.done || j.keep) {
		err = j.seq.back(min(j.seq.length(), len(j.tokens)-1))
	}
	if e.drafter != nil && err == nil {
		err = e.drafter.follow(j)
	}
	return n, err
}

// admit lets jobs that wait begin where there are places, each with what its prompt has in common
// with the prefix. One token at least is left to compute: the prefix's logits were not kept.
func (e *engine) admit() (err error) {
	for len(e.active) < e.places && len(e.waiting) > 0 {
		j, n := e.waiting[0], 0
		for n < min(len(e.prefix), len(j.prompt)-1) && e.prefix[n] == j.prompt[n] {
			n++
		}
		if j.seq, err = e.shared.fork(n); err != nil {
			return err
		}
		e.waiting, e.active = e.waiting[1:], append(e.active, j)
	}
	return nil
}

// advance chooses a job's next token, and ends the job if that is the last one.
func (e *engine) advance(j *job, logits []float32) {
	token := j.choose(logits)
	j.tokens = append(j.tokens, token)
	j.ended = slices.Contains(e.Stop, token)
	stopped := !j.ended && j.words.add(token)
	j.done = j.ended || stopped || len(j.tokens) >= len(j.prompt)+j.most
	if !j.done {
		return
	}
	e.active = slices.DeleteFunc(e.active, func(other *job) bool { return other == j })
	if !j.keep {
		j.seq.release()
	}
}
