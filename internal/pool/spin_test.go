package pool

import (
	"sync/atomic"
	"testing"
	"time"
)

// Calls are quick if several in a row begin soon after another.
func TestQuickCalls(t *testing.T) {
	w := spinner{limit: time.Hour}
	w.callEnds()
	for i := 1; i <= quickCalls+1; i++ {
		if got, want := w.callBegins(), i >= quickCalls; got != want {
			t.Errorf("call %d: quick %t, want %t", i, got, want)
		}
		w.callEnds()
	}
	w.limit = 0
	if w.callBegins() || w.quick.Load() != 0 {
		t.Error("a call long after the last one counts as quick")
	}
}

// The more calls are shared without use, the more of the next ones are not shared; long ones are
// shared always.
func TestLeavesCallsAlone(t *testing.T) {
	cost := 150e3
	w := spinner{backoff: 300e3, longCall: 1e6}
	futile := func(calls int) {
		for range calls {
			w.shared(cost, false)
		}
	}
	left := func() (n int) {
		for w.leavesAlone(cost) {
			n++
		}
		return n
	}
	for _, want := range []int{1, 2, 4, 8, 16, 32, 64, 128, 128} {
		if futile(1); left() != 0 {
			t.Error("calls are left alone before workers can have come")
		}
		futile(1)
		if got := left(); got != 2*want {
			t.Errorf("%d calls are left alone, want %d", got, 2*want)
		}
	}
	futile(2)
	if w.leavesAlone(1e6) {
		t.Error("a long call is left alone")
	}
	left()
	w.shared(cost, true)
	w.shared(cost, true)
	futile(2)
	if got := left(); got != 128 {
		t.Errorf("after two useful ones %d calls are left alone, want %d", got, 128)
	}
	futile(1)
	w.shared(cost, true)
	futile(1)
	if got := left(); got != 0 {
		t.Errorf("%d calls are left alone, though a useful one was between those shared for nothing", got)
	}
}

// Spinning ends at its limit.
func TestSpinLimit(t *testing.T) {
	w := spinner{limit: time.Millisecond}
	var x atomic.Int32
	if !w.untilZero(&x) {
		t.Error("0 is not 0")
	}
	x.Store(1)
	start := time.Now()
	if w.untilZero(&x) {
		t.Error("1 is 0")
	}
	if took := time.Since(start); took < w.limit {
		t.Errorf("spun for %v, want %v", took, w.limit)
	}
}
