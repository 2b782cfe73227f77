package attn

import (
	"runtime"
	"sync/atomic"
	"time"
)

// watch is how the goroutines of a Pool learn of each other in less time than waking one takes, which is tens of microseconds: who expects
// something soon watches for it before it sleeps, for a bounded time. Nobody relies on it: what counts is written and read under Pool.mu.
type watch struct {
	limit time.Duration // how long a goroutine watches

	_       [64]byte     // what is watched has a cache line of its own
	jobless atomic.Int32 // 1 while Pool.jobs is empty
	_       [60]byte

	workers atomic.Int32 // that watch, less those called; written under Pool.mu
	called  int          // watching workers that a call counts on; guarded by Pool.mu

	last  atomic.Int64 // when the last call ended that was worth sharing
	quick atomic.Int32 // how many of these in a row began so soon after another that watching would have paid, up to quickCalls

	// Estimated nanoseconds of calls.
	futile  atomic.Int64 // that were shared for nothing since one was not
	alone   atomic.Int64 // that stay on the caller's goroutine next
	penalty atomic.Int64 // that do the next time that calls have been shared for nothing
}

const (
	// quickCalls is after how many quick calls in a row workers are woken for the next ones.
	quickCalls = 2

	// mostPenalty times tuning.patience bounds watch.penalty.
	mostPenalty = 128
)

// watching is how many workers watch, of all pools. They are fewer than GOMAXPROCS, so that they do not keep callers from running.
var watching atomic.Int32

var epoch = time.Now()

func (w *watch) init(t *tuning) {
	w.limit = t.watch
	w.jobless.Store(1)
}

// callBegins takes note of a call and reports whether calls follow each other quickly.
func (w *watch) callBegins() bool {
	if time.Since(epoch)-time.Duration(w.last.Load()) >= w.limit {
		w.quick.Store(0)
		return false
	}
	n := w.quick.Load()
	if n < quickCalls {
		w.quick.Store(n + 1) // calls at the same time may count as one
	}
	return n+1 >= quickCalls
}

// callEnds is called after callBegins.
func (w *watch) callEnds() { w.last.Store(int64(time.Since(epoch))) }

// leftAlone reports whether a call of some nanoseconds is better not shared because others were shared for nothing. Then something else has the
// helpers' cores, which the program cannot see if it is another process; and helpers that are woken may even take the caller's.
func (w *watch) leftAlone(cost float64) bool {
	n := w.alone.Load()
	if n <= 0 || cost >= tuned.longCall {
		return false
	}
	w.alone.Store(n - int64(cost))
	return true
}

// shared takes note of whether sharing a call of some nanoseconds was of use.
func (w *watch) shared(cost float64, useful bool) {
	penalty := w.penalty.Load()
	switch {
	case useful:
		w.futile.Store(0)
		w.penalty.Store(penalty / 2)
	case w.futile.Add(int64(cost)) >= int64(tuned.patience):
		w.futile.Store(0)
		penalty = min(max(int64(tuned.patience), 2*penalty), mostPenalty*int64(tuned.patience))
		w.penalty.Store(penalty)
		w.alone.Store(penalty)
	}
}

// call makes a new job known and returns how many of the workers wanted for it were watching. It is called under Pool.mu.
func (w *watch) call(wanted int) int {
	n := min(wanted, int(w.workers.Load()))
	w.workers.Add(int32(-n))
	w.called += n
	w.jobless.Store(0)
	return n
}

// expectCall watches for a job, if there is reason to expect one, and reports whether there was one, which others may have done
// already. It is called under Pool.mu, which it gives up for that.
func (p *Pool) expectCall() (came bool) {
	w := &p.watch
	if w.quick.Load() == 0 {
		return false
	}
	if int(watching.Add(1)) < runtime.GOMAXPROCS(0) {
		w.workers.Add(1)
		p.mu.Unlock()
		came = w.zero(&w.jobless)
		p.mu.Lock()
		if w.called > 0 {
			w.called--
		} else {
			w.workers.Add(-1)
		}
	}
	watching.Add(-1)
	return came
}

// zero watches until x is 0. It reports whether it is.
func (w *watch) zero(x *atomic.Int32) bool {
	if x.Load() == 0 {
		return true
	}
	for start := time.Now(); time.Since(start) < w.limit; { // reading the clock leaves most of a core to another thread of it
		if x.Load() == 0 {
			return true
		}
	}
	return false
}
