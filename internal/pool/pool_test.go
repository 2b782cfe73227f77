package pool

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-1415985d/attn/internal/tuning"
)

// notes is the memory of a goroutine in these tests.
type notes struct{ begun, forgot int }

func newNotes() *notes { return new(notes) }

func (n *notes) Forget() { n.forgot++ }

// work is a function that computes one task.
type work func(i int)

func (work) Begin(n *notes) { n.begun++ }

func (w work) Task(n *notes, i int) {
	if n.begun != n.forgot+1 {
		panic("a task comes before Begin, or after Forget")
	}
	w(i)
}

// shared is a row of tunings under which calls of any length are shared.
func shared() *tuning.Row {
	row := tuning.Host()
	row.SmallCall, row.WakingCall = 0, 0
	return &row
}

func newPool(n int) *Pool[*notes] {
	p := new(Pool[*notes])
	p.Start(n, shared(), newNotes)
	return p
}

// call runs tasks as one call of a pool.
func call(t *testing.T, p *Pool[*notes], w work, tasks int) {
	t.Helper()
	c, err := p.Begin(newNotes)
	if err != nil {
		t.Fatal(err)
	}
	c.Share(w, c.WorkersFor(1), tasks, 1)
	c.End()
}

// untilTrue waits for a condition that comes true soon.
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

// TestTasks: each task runs once, and the memory is told when each job begins and ends.
func TestTasks(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		p := newPool(n)
		for range 100 {
			var done [50]atomic.Int32
			call(t, p, func(i int) { done[i].Add(1) }, len(done))
			for i := range done {
				if got := done[i].Load(); got != 1 {
					t.Fatalf("%d workers: task %d was done %d times", n, i, got)
				}
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if _, err := p.Begin(newNotes); err == nil {
			t.Error("a call of a closed pool begins")
		}
	}
}

// Callers of the zero value do all tasks.
func TestZeroPool(t *testing.T) {
	p, done := new(Pool[*notes]), 0
	call(t, p, func(int) { done++ }, 7)
	c, err := p.Begin(newNotes)
	if err != nil {
		t.Fatal(err)
	}
	c.DoParts(work(func(int) { done++ }), 3)
	if c.End(); done != 7+3 {
		t.Errorf("%d tasks were done, want 10", done)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// A call that is too small to share uses no workers.
func TestSmallWorkStaysOnCaller(t *testing.T) {
	p := newPool(2)
	p.t.SmallCall = 100
	c, err := p.Begin(newNotes)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock() // workers cannot proceed, and the caller would wait for ever if it offered the job
	done := 0
	c.Share(work(func(int) { done++ }), 2, 9, 99)
	p.mu.Unlock()
	if c.End(); done != 9 {
		t.Errorf("%d tasks were done, want 9", done)
	}
	_ = p.Close()
}

// Workers without work stop spinning, and a call after that is shared nonetheless.
func TestStopsSpinning(t *testing.T) {
	p := newPool(3)
	for range 3 {
		for range 2 * 2 {
			call(t, p, func(int) { time.Sleep(time.Microsecond) }, 9)
		}
		untilTrue(t, "workers sleep", p.idleWorkers)
	}
	_ = p.Close()
}

// idleWorkers reports whether no worker spins and none is called.
func (p *Pool[M]) idleWorkers() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spin.idle()
}

// A worker spins if calls have been quick, and a spinning worker is not woken by a signal.
func TestSpinningWorkerNeedsNoSignal(t *testing.T) {
	p := &Pool[*notes]{size: 2}
	p.wake.L = &p.mu
	p.spin.setLimits(shared())
	p.spin.limit = time.Hour
	p.spin.callEnds()
	p.spin.callBegins()                                                         // soon after a call
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))) // or none spins
	took := make(chan bool)
	go func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		took <- p.next() // returns with the lock
	}()
	untilTrue(t, "the worker spins", func() bool { return p.spin.watching() == 1 })
	p.mu.Lock()
	p.jobs = append(p.jobs, &job[*notes]{})
	called := p.spin.call(5)
	p.mu.Unlock()
	if called != 1 {
		t.Errorf("%d workers were spinning, want 1", called)
	}
	if !<-took {
		t.Error("the worker found no job")
	}
	untilTrue(t, "nobody spins", p.idleWorkers)
}

// A job is fair if the caller did about its share and others did some of it.
func TestJobFair(t *testing.T) {
	for _, c := range []struct {
		own, helpers, tasks int
		want                bool
	}{
		{10, 1, 10, false}, // no helper came
		{0, 1, 10, false},  // the helper ran on the caller's core
		{1, 1, 10, false},
		{2, 1, 10, false}, // the helper came a little later
		{3, 1, 10, true},
		{9, 1, 10, true},
		{1, 1, 2, true},
		{2, 3, 16, true},
		{0, 3, 16, false},
	} {
		j := job[*notes]{tasks: c.tasks}
		if got := j.fair(c.own, c.helpers); got != c.want {
			t.Errorf("%+v: fair is %t", c, got)
		}
	}
}

// All workers are offered parts, even if these need no time and if sharing calls was useless
// before: here each part waits until all run.
func TestPartsAreOfferedToAllWorkers(t *testing.T) {
	p := newPool(5)
	for round := range 20 {
		if round%2 == 0 {
			for range 10 {
				p.spin.shared(p.t.LongCall, false)
			}
		}
		var all sync.WaitGroup
		all.Add(p.Size())
		c, err := p.Begin(newNotes)
		if err != nil {
			t.Fatal(err)
		}
		c.DoParts(work(func(int) {
			all.Done()
			all.Wait()
		}), p.Size())
		c.End()
	}
	_ = p.Close()
}

// A caller wakes few workers itself; these wake the others.
func TestWakesFewWorkers(t *testing.T) {
	const size = 70
	p := &Pool[*notes]{size: size} // no other goroutine runs
	p.wake.L = &p.mu
	p.offer(new(job[*notes]), size-1)
	if got := p.wanted; got != size-1-wokenAtOnce {
		t.Errorf("a caller leaves %d workers for others to wake, want %d", got, size-1-wokenAtOnce)
	}
}
