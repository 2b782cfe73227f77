package lm

import (
	"context"
	"time"
)

// phase says who works on a job now.
type phase int

const (
	computing phase = iota // the engine: it has tokens to compute
	choosing               // the caller, who has logits or an error
	leaving                // nobody: the caller is done with it
)

// job extends a sequence for a caller: with an answer, or with tokens of a [Session]. The engine
// owns it while it computes, the caller while it chooses.
type job struct {
	tokens []int32 // of the sequence: given and chosen ones
	given  int     // the first tokens, which were given: logits follow them
	shared int     // given tokens that another sequence had
	limit  int     // most tokens that the sequence may have; pages are reserved for them
	all    bool    // logits are wanted after each given token, not only after the last
	keep   bool    // the sequence returns to a session
	alone  bool    // shares no prefix and gets no guesses, since its rows are traced
	trace  *tracer // nil for none

	seq     sequence // nil until the job begins
	guesses []int32  // of the last step: tokens that follow the job's
	piece   []int32  // memory for a piece
	valid   int      // first tokens of the sequence that are also the job's
	chosen  int      // tokens chosen by the logits of the last step

	phase   phase
	away    bool // the reader is busy with a token
	offered time.Time
	late    time.Duration // duration of the last choice
	logits  []float32     // rows after the last tokens, len(guesses) + 1 unless all is set
	buffer  int           // the engine's buffer of logits
	err     error         // ends the job
	ready   chan struct{} // holds one: there are logits or an error
	gone    chan struct{} // closed when the engine no longer uses the job
}

func newJob(tokens []int32, limit int) *job {
	return &job{tokens: tokens, given: len(tokens), limit: limit, ready: make(chan struct{}, 1),
		gone: make(chan struct{})}
}

// decodes reports whether the caller chose the job's last token.
func (j *job) decodes() bool { return len(j.tokens) > j.given }

// refuse ends a job with an error. A nil error and errors after the first are ignored.
func (j *job) refuse(err error) {
	if err != nil && j.err == nil {
		j.err = err
		j.offer(nil)
	}
}

// offer hands logits or an error to the caller.
func (j *job) offer(logits []float32) {
	if j.phase != computing {
		return
	}
	j.logits, j.phase, j.offered, j.chosen = logits, choosing, time.Now(), 0
	j.ready <- struct{}{}
}

// submit queues a job. The caller must call leave in any case.
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

// chose appends a token that the caller chose, to a sequence with some valid tokens; goOn lets the
// engine compute the logits after it.
func (e *engine) chose(j *job, token int32, valid int, goOn bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if valid > j.valid {
		e.meter.right++
	}
	if e.guesser != nil && j.chosen < len(j.guesses) {
		e.guesser.pace.saw(j.chosen, j.guesses[j.chosen] == token)
	}
	j.chosen++
	j.late = time.Since(j.offered)
	j.tokens, j.valid = append(j.tokens, token), valid
	if goOn {
		e.continueJob(j)
	}
}

// more lets the engine compute tokens that the job has.
func (e *engine) more(j *job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.continueJob(j)
}

func (e *engine) continueJob(j *job) {
	j.guesses, j.phase = j.guesses[:0], computing
	if j.err != nil { // the engine was closed in the meantime
		j.offer(nil)
	}
	e.signal()
}

// endJob ends a job. The caller owns its sequence afterwards if it is kept.
func (e *engine) endJob(j *job) {
	e.mu.Lock()
	j.phase = leaving
	e.signal()
	e.mu.Unlock()
	if j.keep {
		<-j.gone
	}
}

// reading notes whether the reader of an answer is busy with a token.
func (e *engine) reading(j *job, away bool) {
	e.mu.Lock()
	j.away = away
	e.mu.Unlock()
}
