// Package spin is how a caller and the workers of a pool learn of each other in less time than
// waking a goroutine takes, which is tens of microseconds: an idle goroutine that expects something
// soon spins for a bounded time before it parks. Nothing relies on it: what counts is written and
// read under the pool's lock.
package spin

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// quickCalls is after how many quick calls in a row workers are woken for the next ones.
	quickCalls = 2

	// maxPenalty times Costs.Backoff bounds Spinner.penalty.
	maxPenalty = 128
)

// Costs are in estimated nanoseconds of calls.
type Costs struct {
	Backoff  float64 // that were shared without use, before some calls are not shared
	LongCall float64 // calls of at least that are always shared
}

// Spinner is what one pool knows.
type Spinner struct {
	limit time.Duration // how long a goroutine spins
	costs Costs

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

// Init makes a spinner ready, whose goroutines spin for at most limit.
func (s *Spinner) Init(limit time.Duration, c Costs) {
	s.limit, s.costs = limit, c
	s.jobless.Store(1)
}

// Limit is how long a goroutine spins.
func (s *Spinner) Limit() time.Duration { return s.limit }

// Workers is how many workers spin and are not called.
func (s *Spinner) Workers() int { return int(s.workers.Load()) }

// Idle reports whether no worker spins, and none is called. It is called under the pool's lock.
func (s *Spinner) Idle() bool { return s.workers.Load() == 0 && s.called == 0 }

// CallBegins takes note of a call and reports whether calls follow each other quickly.
func (s *Spinner) CallBegins() bool {
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

// CallEnds is called after CallBegins.
func (s *Spinner) CallEnds() { s.last.Store(int64(time.Since(epoch))) }

// LeftAlone reports whether a call of some nanoseconds is better not shared because others were
// shared without use. Then something else has the helpers' cores, which the program cannot see if
// it is another process; and helpers that are woken may even take the caller's.
func (s *Spinner) LeftAlone(cost float64) bool {
	n := s.alone.Load()
	if n <= 0 || cost >= s.costs.LongCall {
		return false
	}
	s.alone.Store(n - int64(cost))
	return true
}

// Shared takes note of whether sharing a call of some nanoseconds was of use.
func (s *Spinner) Shared(cost float64, useful bool) {
	penalty, backoff := s.penalty.Load(), int64(s.costs.Backoff)
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

// Call makes a new job known and returns how many of the workers wanted for it were spinning. It is
// called under the pool's lock.
func (s *Spinner) Call(wanted int) int {
	n := min(wanted, int(s.workers.Load()))
	s.workers.Add(int32(-n))
	s.called += n
	s.jobless.Store(0)
	return n
}

// Jobless is called under the pool's lock when it has no job left.
func (s *Spinner) Jobless() { s.jobless.Store(1) }

// Expect spins until there is a job, if there is reason to expect one, and reports whether there
// was one, which others may have done already. It is called under the pool's lock, which it gives
// up for that.
func (s *Spinner) Expect(lock sync.Locker) (came bool) {
	if s.quick.Load() == 0 {
		return false
	}
	if int(spinning.Add(1)) < runtime.GOMAXPROCS(0) {
		s.workers.Add(1)
		lock.Unlock()
		came = s.Zero(&s.jobless)
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

// Zero spins until x is 0. It reports whether it is.
func (s *Spinner) Zero(x *atomic.Int32) bool {
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
