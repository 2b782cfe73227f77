package pool

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-1415985d/attn/internal/tuning"
)

// The caller and the workers learn of each other faster by spinning than by waking a goroutine,
// which needs tens of microseconds: an idle goroutine that expects something soon spins for a
// bounded time before it parks. Correctness does not depend on it: all state that matters is read
// and written under the pool's lock.

const (
	// quickCalls is how many quick calls in a row there must be before workers are woken for the next
	// ones.
	quickCalls = 2

	// maxPenalty bounds spinner.penalty, in units of spinner.backoff.
	maxPenalty = 128
)

// spinner is what one pool knows about spinning.
type spinner struct {
	limit time.Duration // how long a goroutine spins

	// Estimated nanoseconds of calls:
	backoff  float64 // useless sharing after which some calls are not shared
	longCall float64 // a call that is always shared

	_       [64]byte     // fields that spinning goroutines read have a cache line of their own
	jobless atomic.Int32 // 1 while the pool has no job
	_       [60]byte

	workers atomic.Int32 // spinning workers, without those called; written under the pool's lock
	called  int          // spinning workers that a job counts on; guarded by the pool's lock

	last  atomic.Int64 // when the last call that was worth sharing ended
	quick atomic.Int32 // calls in a row that began so soon after another that spinning would have paid

	// Estimated nanoseconds of calls:
	futile  atomic.Int64 // shared without use since the last useful one
	alone   atomic.Int64 // still to come that stay on the caller's goroutine
	penalty atomic.Int64 // that will stay there the next time that sharing was useless
}

// spinning is how many workers of all pools spin. They are fewer than GOMAXPROCS, so that callers
// can run.
var spinning atomic.Int32

var epoch = time.Now()

// setLimits sets the limits of a spinner by a row of tunings.
func (s *spinner) setLimits(t *tuning.Row) {
	s.limit, s.backoff, s.longCall = t.Spin, t.Backoff, t.LongCall
	s.jobless.Store(1)
}

// watching returns how many workers spin and are not called.
func (s *spinner) watching() int { return int(s.workers.Load()) }

// idle reports whether no worker spins and none is called. The caller holds the pool's lock.
func (s *spinner) idle() bool { return s.workers.Load() == 0 && s.called == 0 }

// callBegins records that a call begins, and reports whether calls follow each other quickly.
func (s *spinner) callBegins() bool {
	if time.Since(epoch)-time.Duration(s.last.Load()) >= s.limit {
		s.quick.Store(0)
		return false
	}
	n := s.quick.Load()
	if n < quickCalls {
		s.quick.Store(n + 1) // simultaneous calls may count as one
	}
	return n+1 >= quickCalls
}

// callEnds records that a call ended. It is called after callBegins.
func (s *spinner) callEnds() { s.last.Store(int64(time.Since(epoch))) }

// leavesAlone reports whether a call of some nanoseconds should not be shared because sharing
// others was useless. Then other work has the helpers' cores, perhaps another process that the
// program cannot see, and woken helpers may even run on the caller's core.
func (s *spinner) leavesAlone(cost float64) bool {
	n := s.alone.Load()
	if n <= 0 || cost >= s.longCall {
		return false
	}
	s.alone.Store(n - int64(cost))
	return true
}

// shared records whether sharing a call of some nanoseconds was useful.
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

// call announces a new job and returns how many of the wanted workers were spinning. The caller
// holds the pool's lock.
func (s *spinner) call(wanted int) int {
	n := min(wanted, int(s.workers.Load()))
	s.workers.Add(int32(-n))
	s.called += n
	s.jobless.Store(0)
	return n
}

// becomesJobless records that the pool has no job left. The caller holds the pool's lock.
func (s *spinner) becomesJobless() { s.jobless.Store(1) }

// expect spins until there is a job, if one is expected soon, and reports whether there was one,
// which other workers may have finished by then. It is called with the pool's lock held and
// releases it while it spins.
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

// untilZero spins until x is 0, at most for the limit. It reports whether x is 0.
func (s *spinner) untilZero(x *atomic.Int32) bool {
	if x.Load() == 0 {
		return true
	}
	// Reading the clock leaves most of a core to its other hardware thread.
	for start := time.Now(); time.Since(start) < s.limit; {
		if x.Load() == 0 {
			return true
		}
	}
	return false
}
