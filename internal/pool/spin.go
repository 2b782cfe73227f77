package pool

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-1415985d/attn/internal/tuning"
)

// A caller and the workers learn of each other in less time than waking a goroutine takes, which is
// tens of microseconds: an idle goroutine that expects something soon spins for a bounded time
// before it parks. Nothing relies on it: what counts is written and read under the pool's lock.

const (
	// quickCalls is after how many quick calls in a row workers are woken for the next ones.
	quickCalls = 2

	// maxPenalty times spinner.backoff bounds spinner.penalty.
	maxPenalty = 128
)

// spinner is what one pool knows.
type spinner struct {
	limit time.Duration // how long a goroutine spins

	// Estimated nanoseconds of calls
	backoff  float64 // that are shared without use, before some calls are not shared
	longCall float64 // that are always shared

	_       [64]byte     // what spinning goroutines read has a cache line of its own
	jobless atomic.Int32 // 1 while the pool has no job
	_       [60]byte

	workers atomic.Int32 // that spin, less those called; written under the pool's lock
	called  int          // spinning workers that a call counts on; guarded by the pool's lock

	last  atomic.Int64 // when the last call ended that was worth sharing
	quick atomic.Int32 // how many in a row began so soon after another that spinning would have paid

	// Estimated nanoseconds of calls.
	futile  atomic.Int64 // that were shared without use since one was of use
	alone   atomic.Int64 // that stay on the caller's goroutine next
	penalty atomic.Int64 // that do the next time that calls have been shared without use
}

// spinning is how many workers spin, of all pools. They are fewer than GOMAXPROCS, so that they do
// not keep callers from running.
var spinning atomic.Int32

var epoch = time.Now()

// begin makes a spinner ready.
func (s *spinner) begin(t *tuning.Row) {
	s.limit, s.backoff, s.longCall = t.Spin, t.Backoff, t.LongCall
	s.jobless.Store(1)
}

// watching is how many workers spin and are not called.
func (s *spinner) watching() int { return int(s.workers.Load()) }

// idle reports whether no worker spins, and none is called. It is called under the pool's lock.
func (s *spinner) idle() bool { return s.workers.Load() == 0 && s.called == 0 }

// callBegins takes note of a call and reports whether calls follow each other quickly.
func (s *spinner) callBegins() bool {
	if time.Since(epoch)-time.Duration(s.last.Load()) >= s.limit {
		s.quick.Store(0)
		return false
	}
	n := s.quick.Load()
	if n < quickCalls {
		s.quick.Store(n + 1) // calls at the same time may count as one
	}
	return n+1 >= quickCalls
}

// callEnds is called after callBegins.
func (s *spinner) callEnds() { s.last.Store(int64(time.Since(epoch))) }

// leavesAlone reports whether a call of some nanoseconds is better not shared because others were
// shared without use. Then something else has the helpers' cores, which the program cannot see if
// it is another process; and helpers that are woken may even take the caller's.
func (s *spinner) leavesAlone(cost float64) bool {
	n := s.alone.Load()
	if n <= 0 || cost >= s.longCall {
		return false
	}
	s.alone.Store(n - int64(cost))
	return true
}

// shared takes note of whether sharing a call of some nanoseconds was of use.
func (s *spinner) shared(cost float64, useful bool) {
	penalty, backoff := s.penalty.Load(), int64(s.backoff)
	switch {
	case useful:
		s.futile.Store(0)
		s.penalty.Store(penalty / 2)
	case s.futile.Add(int64(cost)) >= backoff:
		s.futile.Store(0)
		penalty = min(max(backoff, 2*penalty), maxPenalty*backoff)
		s.penalty.Store(penalty)
		s.alone.Store(penalty)
	}
}

// call makes a new job known and returns how many of the workers wanted for it were spinning. It is
// called under the pool's lock.
func (s *spinner) call(wanted int) int {
	n := min(wanted, int(s.workers.Load()))
	s.workers.Add(int32(-n))
	s.called += n
	s.jobless.Store(0)
	return n
}

// becomesJobless is called under the pool's lock when it has no job left.
func (s *spinner) becomesJobless() { s.jobless.Store(1) }

// expect spins until there is a job, if there is reason to expect one, and reports whether there
// was one, which others may have done already. It is called under the pool's lock, which it gives
// up for that.
func (s *spinner) expect(lock sync.Locker) (came bool) {
	if s.quick.Load() == 0 {
		return false
	}
	if int(spinning.Add(1)) < runtime.GOMAXPROCS(0) {
		s.workers.Add(1)
		lock.Unlock()
		came = s.untilZero(&s.jobless)
		lock.Lock()
		if s.called > 0 {
			s.called--
		} else {
			s.workers.Add(-1)
		}
	}
	spinning.Add(-1)
	return came
}

// untilZero spins until x is 0. It reports whether it is.
func (s *spinner) untilZero(x *atomic.Int32) bool {
	if x.Load() == 0 {
		return true
	}
	// Reading the clock leaves most of a core to another thread of it.
	for start := time.Now(); time.Since(start) < s.limit; {
		if x.Load() == 0 {
			return true
		}
	}
	return false
}
