package lm

import (
	"context"
	"time"
)

// phase says who works on a job.
type phase int

const (
	computing phase = iota // the engine: there are tokens to take through the model
	choosing               // its caller, who has logits or an error
	leaving                // nobody: its caller is done with it
)

// job is a sequence that a caller extends: an answer, or tokens of a [Session]. The engine owns it
// while it computes, its caller while it chooses.
type job struct {
	tokens []int32 // of the sequence: what was given, and what was chosen
	given  int     // tokens that were given: logits come after them
	shared int     // of these, tokens that another sequence had
	limit  int     // most tokens that the sequence may have, for which it has pages
	all    bool    // logits are wanted after each given token, not after the last one only
	keep   bool    // the sequence goes back to a session
	alone  bool    // shares no prefix and is not guessed, since its rows are traced
	trace  *tracer // nil for none

	seq     sequence // nil until the job begins
	guesses []int32  // of the last step: tokens after those of the job
	piece   []int32  // memory for them
	valid   int      // tokens of the sequence that the job has, too

	phase   phase
	away    bool // its reader is busy with a token
	offered time.Time
	late    time.Duration // how long the last choice took
	logits  []float32     // rows after the last tokens, len(guesses) + 1 of them unless all is set
	buffer  int           // of the engine's, which they are in
	err     error         // ends the job
	ready   chan struct{} // holds one: logits or an error are there
	gone    chan struct{} // closed when the engine has let go of the job
}

func newJob(tokens []int32, limit int) *job {
	return &job{tokens: tokens, given: len(tokens), limit: limit, ready: make(chan struct{}, 1),
		gone: make(chan struct{})}
}

// decodes reports whether the job's last token was chosen.
func (j *job) decodes() bool { return len(j.tokens) > j.given }

// refuse ends a job with an error, unless that is nil or not the first.
func (j *job) refuse(err error) {
	if err != nil && j.err == nil {
		j.err = err
		j.offer(nil)
	}
}

// offer hands logits, or an error, to the caller.
func (j *job) offer(logits []float32) {
	if j.phase != computing {
		return
	}
	j.logits, j.phase, j.offered = logits, choosing, time.Now()
	j.ready <- struct{}{}
}

// submit queues a job. Callers must let it leave, whatever comes.
func (e *engine) submit(j *job) error {
	if err := e.couldHold(j.limit); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return ErrClosed
	}
	e.waiting = append(e.waiting, j)
	e.signal()
	return nil
}

// await returns when the job's caller may choose.
func (e *engine) await(ctx context.Context, j *job) error {
	if ctx.Err() == nil {
		select {
		case <-j.ready:
			e.mu.Lock()
			defer e.mu.Unlock()
			return j.err
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// chose adds a token that the job's caller chose, of a sequence with some valid tokens; goOn lets
// the engine compute what comes after it.
func (e *engine) chose(j *job, token int32, valid int, goOn bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if valid > j.valid {
		e.meter.right++
	}
	j.late = time.Since(j.offered)
	j.tokens, j.valid = append(j.tokens, token), valid
	if goOn {
		e.goOn(j)
	}
}

// more goes on with tokens that the job has.
func (e *engine) more(j *job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.goOn(j)
}

func (e *engine) goOn(j *job) {
	j.guesses, j.phase = j.guesses[:0], computing
	if j.err != nil { // the engine was closed meanwhile
		j.offer(nil)
	}
	e.signal()
}

// leave ends a job. A sequence that is kept is its caller's afterwards.
func (e *engine) leave(j *job) {
	e.mu.Lock()
	j.phase = leaving
	e.signal()
	e.mu.Unlock()
	if j.keep {
		<-j.gone
	}
}

// reading notes that the reader of an answer is busy with a token, or back.
func (e *engine) reading(j *job, away bool) {
	e.mu.Lock()
	j.away = away
	e.mu.Unlock()
}
