package attn

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Pools and callers at all speeds: calls follow each other before, while and after workers stop watching. Each is computed, none waits for
// ever, and no goroutine is left.
func TestPoolRhythms(t *testing.T) {
	shareSmallCalls(t)
	cases := poolCases(t)
	before := runtime.NumGoroutine()
	pauses := []time.Duration{0, 0, 0, tuned.watch / 2, tuned.watch, 2 * tuned.watch, time.Millisecond}
	var all sync.WaitGroup
	for n := 2; n <= 5; n++ {
		p := NewPool(n)
		var callers sync.WaitGroup
		for i := range 3 {
			callers.Go(func() {
				r := random(fmt.Sprint("rhythms", n, i))
				for range budget(200) {
					if pause := pauses[r.IntN(len(pauses))]; r.IntN(2) == 0 {
						time.Sleep(pause)
					} else {
						compute(pause)
					}
					cases[r.IntN(len(cases))].check(t, fmt.Sprintf("%d workers, caller %d", n, i), p.Attend)
				}
			})
		}
		all.Go(func() { callers.Wait(); must(t, p.Close()) })
	}
	all.Wait()
	untilTrue(t, "the goroutines of closed pools end", func() bool { return runtime.NumGoroutine() <= before })
}

// Workers that have nothing to do stop watching, and a call that comes then is shared all the same.
func TestWatchEnds(t *testing.T) {
	shareSmallCalls(t)
	c := poolCases(t)[0]
	p := NewPool(3)
	defer p.Close()
	for range 3 {
		for range 2 * quickCalls {
			c.check(t, "quick call", p.Attend)
		}
		untilTrue(t, "workers sleep", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.watch.workers.Load() == 0 && p.watch.called == 0
		})
	}
}

// untilTrue waits for what happens soon.
func untilTrue(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 5000 {
		if is() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%s: not within 5 s", what)
}

// A worker watches if calls have been quick, and is not woken if it does.
func TestWatchingWorkerNeedsNoSignal(t *testing.T) {
	p := &Pool{size: 2}
	p.wake.L = &p.mu
	p.watch.limit = time.Hour
	p.watch.jobless.Store(1)
	p.watch.quick.Store(1)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))) // else none may watch
	took := make(chan bool)
	go func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		took <- p.next() // with the lock
	}()
	untilTrue(t, "the worker watches", func() bool { return p.watch.workers.Load() == 1 || watching.Load() >= int32(runtime.GOMAXPROCS(0)-1) })
	p.mu.Lock()
	p.jobs = append(p.jobs, &job{})
	called := p.watch.call(5)
	p.mu.Unlock()
	if called != 1 {
		t.Errorf("%d workers were watching, want 1", called)
	}
	if !<-took {
		t.Error("the worker found no job")
	}
	untilTrue(t, "nobody watches", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.watch.workers.Load() == 0 && p.watch.called == 0
	})
}

// Calls are quick if several in a row begin soon after another.
func TestWatchQuickCalls(t *testing.T) {
	w := watch{limit: time.Hour}
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

// Calls that are shared for nothing leave more and more of the next ones alone, but not long ones.
func TestWatchLeavesCallsAlone(t *testing.T) {
	cost := tuned.patience / 2
	var w watch
	futile := func(calls int) {
		for range calls {
			w.shared(cost, false)
		}
	}
	left := func() (n int) {
		for w.leftAlone(cost) {
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
	if w.leftAlone(tuned.longCall) {
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

// Watching takes no longer than its limit.
func TestWatchLimit(t *testing.T) {
	w := watch{limit: time.Millisecond}
	var x atomic.Int32
	if !w.zero(&x) {
		t.Error("0 is not 0")
	}
	x.Store(1)
	start := time.Now()
	if w.zero(&x) {
		t.Error("1 is 0")
	}
	if took := time.Since(start); took < w.limit {
		t.Errorf("watched for %v, want %v", took, w.limit)
	}
}

// A share is fair if the caller did about its part, and others did something.
func TestJobFair(t *testing.T) {
	for _, c := range []struct {
		own, helpers, units int
		want                bool
	}{
		{10, 1, 10, false}, // nobody came
		{0, 1, 10, false},  // the helper had the caller's core
		{1, 1, 10, false},
		{2, 1, 10, false}, // it came a little later
		{3, 1, 10, true},
		{9, 1, 10, true},
		{1, 1, 2, true},
		{2, 3, 16, true},
		{0, 3, 16, false},
	} {
		j := job{units: c.units}
		if got := j.fair(c.own, c.helpers); got != c.want {
			t.Errorf("%+v: fair is %t", c, got)
		}
	}
}
