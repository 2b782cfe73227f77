package lm

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed-1415985d/attn"
)

// settings are the parameters of an engine. Logits depend on the formats of keys and values and on
// integers, and on nothing else here.
type settings struct {
	workers  int
	places   int         // most jobs at a time
	chunk    int         // most tokens of prompts in a step, which others wait for
	context  int         // most tokens of a sequence
	memory   int64       // bytes of keys, values and states
	keys     attn.Format // of the cache
	values   attn.Format // 0: the same as keys
	integers bool        // matrices multiply in integers; attention, if the cache has them
	draft    *model      // guesses tokens; nil for none
	guesses  int         // at a time
	steady   bool        // the model's own layer always guesses so many
	cache    func(CacheConfig) (Cache, error)
}

// attendsInIntegers reports whether attention multiplies integers as matrices do: it does if keys
// and values are integers.
func (s *settings) attendsInIntegers() bool {
	return s.integers && s.keys >= attn.I8 && (s.values == 0 || s.values >= attn.I8)
}

// engine runs the jobs of any number of callers through a model, in steps of one batch each
// (continuous batching): a new prompt joins as soon as there is a place, while others decode. One
// goroutine runs the steps. It owns the sequences of all jobs that have begun; callers choose the
// tokens.
type engine struct {
	runner
	settings  settings
	pages     *pages // nil where keys and values are in a Cache
	prefixes  prefixes
	snapshots bool     // layers with windows or states cannot go back: prompts are kept at their end
	drafter   *drafter // nil for none
	guesser   *guesser // likewise
	active    []*job   // in the order of their arrival
	batch     batch
	meter     meter

	mu      sync.Mutex // guards the fields below, and the phases and tokens of jobs
	waiting []*job     // in the order of their arrival
	closing bool
	wake    chan struct{} // holds one: something changed for the goroutine of steps
	ended   chan struct{} // closed when that goroutine has ended
	late    *time.Timer
	buffer  int        // the current buffer of logits; two alternate while callers choose
	other   []float32  // the other buffer
	lent    [2]bool    // buffers that callers still read
	idle    []*Session // sessions with a sequence and without a call, the most recently used one last
	calls   int        // running calls of sessions
	freed   bool       // the engine's memory was freed
}

// newEngine starts the goroutine of steps.
func newEngine(m *model, s settings) (*engine, error) {
	e := &engine{runner: runner{model: m, pool: attn.NewPool(s.workers)}, settings: s,
		wake: make(chan struct{}, 1), ended: make(chan struct{}), late: time.NewTimer(time.Hour)}
	err := e.open()
	if err != nil {
		e.free()
		return nil, err
	}
	go e.computeSteps()
	return e, nil
}

// open creates the caches.
func (e *engine) open() (err error) {
	if e.settings.cache != nil {
		e.runner.cache, err = newRemote(e.model, &e.settings)
	} else if e.pages, err = newPages(e.model, &e.settings, e.pool); err == nil {
		e.runner.cache, e.snapshots = e.pages, e.pages.slots > 0
	}
	if err == nil && e.settings.draft != nil {
		e.drafter, err = newDrafter(e, e.settings)
	} else if err == nil && e.model.further != nil {
		e.guesser, err = newGuesser(e, &e.settings)
	}
	return err
}

// close ends the engine: waiting callers get ErrClosed. It reports false if the engine was closed
// before.
func (e *engine) close() bool {
	e.mu.Lock()
	before := e.closing
	e.closing = true
	e.mu.Unlock()
	if before {
		return false
	}
	e.signal()
	<-e.ended
	e.mu.Lock()
	defer e.mu.Unlock()
	e.freeUnused()
	return true
}

// enter begins a call of a session, which owns its sequence until exit.
func (e *engine) enter(s *Session) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return fmt.Errorf("%w: the model was closed", ErrClosed)
	}
	e.calls++
	e.idle = slices.DeleteFunc(e.idle, func(other *Session) bool { return other == s })
	return nil
}

// exit ends a call of a session. It wakes a job that may wait for the session's pages.
func (e *engine) exit(s *Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls--
	switch {
	case e.closing:
		e.freeUnused()
	case s.seq != nil:
		e.idle = append(e.idle, s)
	}
	e.signal()
}

// freeUnused frees the engine's memory when its goroutine and the calls of sessions have ended.
func (e *engine) freeUnused() {
	select {
	case <-e.ended:
	default:
		return
	}
	if e.calls == 0 && !e.freed {
		e.freed = true
		e.free()
	}
}

// dropIdle releases a sequence that is not in use: the least recently used prefix, or if there is
// none the sequence of a session, which computes its tokens again later. It reports whether there
// was one.
func (e *engine) dropIdle() bool {
	if e.prefixes.drop() {
		return true
	}
	if len(e.idle) == 0 {
		return e.dropWaiting()
	}
	e.idle[0].drop()
	e.idle = slices.Delete(e.idle, 0, 1)
	return true
}

// dropWaiting does the same with the sequence of a session whose call waits, unless a job runs that
// will give back its own: calls that wait for each other's pages would wait for ever.
func (e *engine) dropWaiting() bool {
	if len(e.active) > 0 {
		return false
	}
	for i := len(e.waiting) - 1; i > 0; i-- { // the first one is to run
		if j := e.waiting[i]; j.seq != nil {
			j.seq.release()
			j.seq = nil
			return true
		}
	}
	return false
}

// closed reports whether the engine is closed, or closing.
func (e *engine) closed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closing
}

func (e *engine) free() {
	if e.drafter != nil {
		e.drafter.cache.close()
	}
	if e.runner.cache != nil {
		e.runner.cache.close()
	}
	_ = e.pool.Close() // no call uses it
}

// signal wakes the goroutine of steps.
func (e *engine) signal() {
	select {
	case e.wake <- struct{}{}:
	default: // a signal is pending
	}
}

// batch is what one step computes.
type batch struct {
	jobs   []*job
	pieces []piece
	wanted []int // rows of logits wanted of each piece
	read   int   // tokens of prompts
	made   int   // jobs that decode
	most   int   // guesses of each of these; -1 if some have fewer
}

func (b *batch) clear() {
	clear(b.jobs)
	clear(b.pieces)
	b.jobs, b.pieces, b.wanted, b.read = b.jobs[:0], b.pieces[:0], b.wanted[:0], 0
	b.made = 0
}

// computeSteps computes steps until the engine is closed.
func (e *engine) computeSteps() {
	defer close(e.ended)
	for e.prepare() {
		if len(e.batch.jobs) == 0 {
			<-e.wake
			continue
		}
		start := time.Now()
		err := e.compute()
		took := time.Since(start)
		e.deliver(err, took)
		e.linger(took)
	}
	e.abandon()
}

// prepare determines what the next step computes. It reports whether the engine continues.
func (e *engine) prepare() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return false
	}
	e.applyDecisions()
	e.admit()
	e.gather()
	return true
}

// applyDecisions applies the decisions of callers since the last step.
func (e *engine) applyDecisions() {
	leaves := func(j *job) bool {
		if j.phase != leaving {
			return false
		}
		e.release(j)
		return true
	}
	e.waiting = slices.DeleteFunc(e.waiting, leaves)
	for _, j := range e.active {
		if j.seq != nil && j.phase != choosing && j.valid < j.seq.length() {
			j.refuse(j.seq.back(j.valid)) // guesses that were not chosen
		}
	}
	e.active = slices.DeleteFunc(e.active, leaves)
}

// gather makes the batch: the next token of each job that decodes and, in the order of arrival, as
// many tokens of prompts as a step may have.
func (e *engine) gather() {
	b := &e.batch
	b.clear()
	for _, j := range e.active {
		if j.phase != computing {
			continue
		}
		n, rows := len(j.tokens)-j.seq.length(), 1
		if !j.decodes() {
			n = min(n, e.settings.chunk-b.read)
			if j.all {
				rows = n
			}
			b.read += n
		} else {
			b.made++
		}
		if n > 0 {
			from := j.seq.length()
			b.jobs, b.wanted = append(b.jobs, j), append(b.wanted, rows)
			b.pieces = append(b.pieces, piece{seq: j.seq, tokens: j.tokens[from : from+n], trace: j.trace})
		}
	}
}

// compute runs the batch, with guesses of the next tokens.
func (e *engine) compute() error {
	if err := e.guess(); err != nil {
		return err
	}
	if e.lent[e.buffer] {
		e.logits, e.other, e.buffer = e.other, e.logits, 1-e.buffer
		if e.lent[e.buffer] {
			e.logits = nil
		}
	}
	err := e.forward(e.batch.pieces, e.batch.wanted)
	if err == nil && e.guesser != nil {
		err = e.guesser.follow(&e.runner, &e.batch)
	}
	return err
}

// guess lets the second model or the model's own layer for it, if there is one, guess tokens of the
// jobs that decode.
func (e *engine) guess() (err error) {
	b := &e.batch
	switch {
	case b.made == 0:
	case e.drafter != nil:
		err = e.drafter.guess(b.jobs)
	case e.guesser != nil:
		e.mu.Lock()
		b.most = e.guesser.pace.choose(b.made)
		e.mu.Unlock()
		err = e.guesser.guess(b.jobs, b.most)
	}
	if err != nil {
		return err
	}
	for i, j := range b.jobs {
		if j.decodes() && len(j.guesses) < b.most {
			b.most = -1
		}
		if len(j.guesses) > 0 {
			j.seq.mark()
			j.piece = append(append(j.piece[:0], b.pieces[i].tokens...), j.guesses...)
			b.pieces[i].tokens, b.wanted[i] = j.piece, 1+len(j.guesses)
		}
	}
	return nil
}

// deliver hands logits to the callers of their jobs, and lets all sequences drop tokens that no
// later token sees.
func (e *engine) deliver(err error, took time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.meter.count(&e.batch, took)
	if e.guesser != nil && err == nil && e.batch.read == 0 && e.batch.most >= 0 {
		e.guesser.pace.note(e.batch.made, e.batch.most, took)
	}
	logits := e.logits
	for i, j := range e.batch.jobs {
		rows := logits[:min(e.batch.wanted[i]*e.Vocab, len(logits))]
		logits = logits[len(rows):]
		if err != nil {
			j.refuse(err)
			continue
		}
		complete := j.seq.length() == len(j.tokens)+len(j.guesses)
		j.valid = j.seq.length() - len(j.guesses)
		if complete && !j.decodes() {
			e.snapshot(j)
		}
		if len(j.guesses) == 0 {
			j.seq.slide()
		}
		if complete || j.all {
			j.buffer = e.buffer
			j.refuse(checkLogits(rows, e.Vocab))
			j.offer(rows)
		}
	}
	e.meter.used = e.runner.cache.inUse()
	e.meter.peak = max(e.meter.peak, e.meter.used)
}

// linger waits a moment for callers that are choosing, so that all decode in one step. It does not
// wait for a reader that is busy with a token, or for a caller that was late the last time.
func (e *engine) linger(took time.Duration) {
	patience := min(max(took/8, time.Millisecond), 10*time.Millisecond)
	e.late.Reset(patience)
	for waits := true; waits && e.choosing(patience) > 0; {
		select {
		case <-e.wake:
		case <-e.late.C:
			waits = false
		}
	}
	e.late.Stop()
	e.signal() // what came in the meantime is not lost
}

// choosing returns the number of jobs whose callers choose their next token, and notes whether any
// has logits.
func (e *engine) choosing(patience time.Duration) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lent = [2]bool{}
	for _, j := range e.active {
		if j.phase == choosing {
			e.lent[j.buffer] = true
			if !j.away && j.err == nil && j.late <= patience {
				n++
			}
		}
	}
	return n
}

// abandon ends all jobs of an engine that is closing.
func (e *engine) abandon() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, j := range slices.Concat(e.waiting, e.active) {
		j.refuse(ErrClosed)
		e.release(j)
	}
	e.waiting, e.active, e.idle = nil, nil, nil
	e.prefixes.clear()
}

// release ends a job: its sequence returns to its session or becomes a prefix for others.
func (e *engine) release(j *job) {
	if e.drafter != nil {
		e.drafter.forget(j)
	}
	if j.seq != nil && !j.keep {
		e.keepPrefix(j)
		j.seq = nil
	}
	close(j.gone)
}

// keepPrefix keeps the sequence of a job for later jobs, or releases it.
func (e *engine) keepPrefix(j *job) {
	if n := min(j.valid, j.seq.length()); n > 0 && !j.alone && e.runner.cache.forks() && !e.closing {
		e.prefixes.add(j.tokens[:n], j.seq, !e.snapshots)
	} else {
		j.seq.release()
	}
}
