package cluster

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// What runs at the same time has a goroutine each; as many as may wait do so, and none when the
// staff is stopped.
func TestStaff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		c := newStaff(stop)
		before := runtime.NumGoroutine()
		for _, n := range []int{1, 3, 3 * mostIdle, 1} {
			hold := make(chan struct{})
			var running sync.WaitGroup
			done := 0
			var mu sync.Mutex
			for range n {
				running.Add(1)
				c.run(func() {
					defer running.Done()
					<-hold
					mu.Lock()
					done++
					mu.Unlock()
				})
			}
			synctest.Wait()
			if got := runtime.NumGoroutine() - before; got < n {
				t.Errorf("%d goroutines run %d functions that wait", got, n)
			}
			close(hold)
			running.Wait()
			synctest.Wait()
			if done != n || len(c.idle) > mostIdle {
				t.Errorf("%d of %d functions are done, %d goroutines wait", done, n, len(c.idle))
			}
		}
		if len(c.idle) != mostIdle {
			t.Errorf("%d goroutines wait, want %d", len(c.idle), mostIdle)
		}
		close(stop)
		synctest.Wait()
		if len(c.idle) != 0 {
			t.Errorf("%d goroutines wait after the end", len(c.idle))
		}
		c.run(func() {}) // and ends
	})
}

// A goroutine that has done something does the next, with the stack that has grown.
func TestStaffKeepsStacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		defer close(stop)
		c := newStaff(stop)
		names := map[string]bool{}
		for range 20 {
			c.run(func() {
				var text [64]byte
				names[string(text[:runtime.Stack(text[:], false)])] = true // "goroutine 7 [running]…"
			})
			synctest.Wait()
		}
		if len(names) != 1 {
			t.Errorf("%d goroutines did one thing after another, want one", len(names))
		}
	})
}
