package attn

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// workOf makes a Worker of a function.
type workOf func(part int)

func (f workOf) Work(part int) { f(part) }

// counts is how often each part was done.
type counts []atomic.Int32

func (c counts) Work(part int) { c[part].Add(1) }

// goroutineName tells goroutines apart: "goroutine 7 ".
func goroutineName() string {
	var text [64]byte
	name, _, _ := bytes.Cut(text[:runtime.Stack(text[:], false)], []byte("["))
	return string(name)
}

// Each part is done once, by any number of workers, and its writes are seen after Run.
func TestRunDoesEachPartOnce(t *testing.T) {
	for _, n := range []int{0, 1, 2, 5, 64} {
		var p *Pool
		if n > 0 {
			p = NewPool(n)
		}
		for _, parts := range []int{0, 1, 2, 3, 64, 1000} {
			done, plain := make(counts, parts), make([]int, parts)
			must(t, p.Run(parts, done))
			must(t, p.Run(parts, workOf(func(part int) { plain[part]++ })))
			for i := range done {
				if got := done[i].Load(); got != 1 || plain[i] != 1 {
					t.Fatalf("%d workers: part %d of %d was done %d and %d times", n, i, parts, got, plain[i])
				}
			}
		}
		must(t, p.Run(0, nil))
		mustFail(t, "parts", p.Run(-1, make(counts, 0)), ErrOption, "parts is -1, want at least 0")
		must(t, p.Close())
	}
}

// Without a pool, parts are done in order.
func TestRunOfNilPoolIsInOrder(t *testing.T) {
	var order []int
	must(t, (*Pool)(nil).Run(5, workOf(func(part int) { order = append(order, part) })))
	if fmt.Sprint(order) != "[0 1 2 3 4]" {
		t.Errorf("parts were done in the order %v", order)
	}
}

// All workers are offered parts, even if these take no time, and if calls were shared without use:
// here each part waits until all are at work.
func TestRunOffersPartsToAllWorkers(t *testing.T) {
	p := NewPool(5)
	defer p.Close()
	for round := range 20 {
		if round%2 == 0 {
			for range 10 {
				p.spin.Shared(tuned.LongCall, false)
			}
		}
		var all sync.WaitGroup
		all.Add(p.size)
		must(t, p.Run(p.size, workOf(func(int) {
			all.Done()
			all.Wait()
		})))
	}
}

// paused is work whose parts are at work together, and of which one misbehaves on the goroutine of
// the caller, or on another.
type paused struct {
	caller   string
	onCaller bool
	act      func()
	all      sync.WaitGroup // parts that have begun
	working  atomic.Int32
}

func (x *paused) Work(int) {
	x.working.Add(1)
	defer x.working.Add(-1)
	x.all.Done()
	x.all.Wait()
	if x.act != nil && (goroutineName() == x.caller) == x.onCaller {
		x.act()
	}
	time.Sleep(time.Millisecond) // so that others are at work
}

// A panic of a part is raised in the caller with its value, once no part is at work; a part that
// ends its goroutine ends the caller's. Then the pool goes on with as many workers.
func TestRunRaisesPanics(t *testing.T) {
	cause := errors.New("cause")
	p := NewPool(3)
	before := runtime.NumGoroutine()
	for _, onCaller := range []bool{true, false} {
		for name, act := range map[string]func(){
			"a string": func() { panic("value") },
			"an error": func() { panic(cause) },
			"nil":      func() { panic(nil) },
			"Goexit":   func() { runtime.Goexit() },
		} {
			what := fmt.Sprintf("%s, on the caller: %t", name, onCaller)
			var value any
			returned := false
			var caller sync.WaitGroup
			caller.Go(func() {
				x := &paused{caller: goroutineName(), onCaller: onCaller, act: act}
				x.all.Add(p.size)
				defer func() {
					value = recover()
					if n := x.working.Load(); n != 0 {
						t.Errorf("%s: %d parts are at work", what, n)
					}
				}()
				_ = p.Run(p.size, x)
				returned = true
			})
			caller.Wait()
			var want any
			switch name {
			case "a string":
				want = "value"
			case "an error":
				want = cause
			case "nil":
				if _, ok := value.(*runtime.PanicNilError); ok {
					want = value
				}
			}
			if returned || value != want {
				t.Errorf("%s: Run returned: %t, its panic was %v, want %v", what, returned, value, want)
			}
			together := new(paused)
			together.all.Add(p.size)
			must(t, p.Run(p.size, together)) // waits for ever for a worker that is no more
		}
	}
	must(t, p.Close())
	untilTrue(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() < before })
}

// After a panic parts that nobody has taken are not done, however many there are.
func TestRunStopsAfterPanic(t *testing.T) {
	const many = int(^uint(0) >> 1)
	for _, n := range []int{0, 1, 3} {
		var p *Pool
		if n > 0 {
			p = NewPool(n)
		}
		for range 10 {
			var done atomic.Int64
			func() {
				defer func() {
					if value := recover(); value != "enough" {
						t.Errorf("panic of %v", value)
					}
				}()
				_ = p.Run(many, workOf(func(int) {
					if done.Add(1) >= 1000 {
						panic("enough")
					}
				}))
			}()
			if done.Load() > 1000+64 {
				t.Errorf("%d workers: %d parts were done", n, done.Load())
			}
		}
		must(t, p.Close())
	}
}

// Work uses its pool, and waits for goroutines that use it, from any number of callers.
func TestRunUsesItsPool(t *testing.T) {
	shareSmallCalls(t)
	cases := poolCases(t)
	for _, n := range []int{1, 2, 4} {
		p := NewPool(n)
		work := func(part int) {
			c := cases[part%len(cases)]
			switch part % 3 {
			case 0:
				c.check(t, "inside a part", p.Attend)
			case 1:
				var other sync.WaitGroup
				other.Go(func() { c.check(t, "beside a part", p.Attend) })
				other.Go(func() {
					done := make(counts, 20)
					must(t, p.Run(len(done), done))
				})
				other.Wait()
			default:
				done := make(counts, 7)
				must(t, p.Run(2, workOf(func(int) { must(t, p.Run(len(done), done)) })))
				for i := range done {
					if done[i].Load() != 2 {
						t.Errorf("part %d was done %d times, want 2", i, done[i].Load())
					}
				}
			}
		}
		var callers sync.WaitGroup
		for range 3 {
			callers.Go(func() { must(t, p.Run(budget(30), workOf(work))) })
		}
		callers.Wait()
		must(t, p.Close())
	}
}

// A panic goes through calls within calls, and through one that a helper shares.
func TestRunPanicsThroughRuns(t *testing.T) {
	p := NewPool(3)
	for range 50 {
		func() {
			defer func() {
				if value := recover(); value != 5 {
					t.Errorf("panic of %v, want 5", value)
				}
			}()
			_ = p.Run(4, workOf(func(int) {
				_ = p.Run(9, workOf(func(part int) {
					if part == 5 {
						panic(part)
					}
				}))
			}))
			t.Error("Run returned")
		}()
	}
	must(t, p.Close())
}

// Close waits for Run; one that comes later is refused, even for no parts.
func TestCloseWaitsForRun(t *testing.T) {
	for _, n := range []int{1, 3} {
		p := NewPool(n)
		begun, end := make(chan struct{}, 2), make(chan struct{})
		var over atomic.Bool
		go func() {
			must(t, p.Run(2, workOf(func(int) {
				begun <- struct{}{}
				<-end
			})))
			over.Store(true)
		}()
		<-begun
		closed := make(chan bool)
		go func() {
			must(t, p.Close())
			closed <- over.Load()
		}()
		untilTrue(t, "Close has begun", func() bool { return errors.Is(p.Run(0, nil), ErrClosed) })
		close(end)
		if !<-closed { // p.Run returns after it was counted as over, so that over may come later
			untilTrue(t, "Run returns", over.Load)
		}
		for _, parts := range []int{0, 1, 5, -1} {
			done := make(counts, 5)
			mustFail(t, "Run", p.Run(parts, done), ErrClosed, "the pool was closed")
			for i := range done {
				if done[i].Load() != 0 {
					t.Errorf("a closed pool has done part %d", i)
				}
			}
		}
	}
}

// together is parts that wait until all of them are done by somebody.
type together struct {
	came  sync.WaitGroup
	parts atomic.Int32
}

func (x *together) Work(int) {
	x.parts.Add(1)
	x.came.Done()
	x.came.Wait()
}

// A call wakes few workers by itself, and yet all come.
func TestWorkersWakeWorkers(t *testing.T) {
	const size = 70
	p := NewPool(size)
	defer p.Close()
	for range 20 {
		x := new(together)
		x.came.Add(size)
		must(t, p.Run(size, x))
		if n := x.parts.Load(); n != size {
			t.Fatalf("%d parts were done, want %d", n, size)
		}
	}
	// none of the others is there to take it
	asleep := &Pool{size: size, wanted: 0}
	asleep.wake.L = &asleep.mu
	asleep.share(new(job), size-1)
	if got := asleep.wanted; got != size-1-wokenAtOnce {
		t.Errorf("a caller leaves %d workers for others to wake, want %d", got, size-1-wokenAtOnce)
	}
}
