package pool

import "runtime"

// Call is a call of a Pool: its jobs, one after another.
type Call[M Memory] struct {
	Memory M // the caller's
	pool   *Pool[M]
	job[M]
}

// End ends the call; a later call may use its memory again. The memory refers to the caller's cache
// or matrix until then and no longer, because a job ends only when its last worker has finished.
func (c *Call[M]) End() {
	c.work, c.mayPanic, c.value = nil, false, nil
	c.stopped.Store(false)
	c.pool.end(c)
}

// WorkersFor returns how many workers should share a call of about cost nanoseconds.
func (c *Call[M]) WorkersFor(cost float64) int { return c.pool.workersFor(cost) }

// Share computes all tasks of work on some workers, including the caller. They need about cost
// nanoseconds in all. Small work stays on the caller.
func (c *Call[M]) Share(x Work[M], workers, tasks int, cost float64) {
	if p := c.pool; p.size > 1 && cost < p.t.SmallCall {
		workers = 1
	}
	c.Do(x, workers, tasks, cost)
}

// Do is Share for work of any size.
func (c *Call[M]) Do(x Work[M], workers, tasks int, cost float64) {
	c.set(x, workers, tasks, cost)
	c.pool.run(&c.job, c.Memory)
}

// DoParts computes tasks that may panic or end their goroutine on all workers, and then panics or
// ends the caller's goroutine in the same way.
func (c *Call[M]) DoParts(x Work[M], tasks int) {
	p := c.pool
	c.mayPanic = true
	if p.size > 1 && tasks > 1 {
		p.spin.callBegins()
		defer p.spin.callEnds()
	}
	c.Do(x, p.size, int(min(int64(tasks), noTask)), 0) // more would run for a century
	switch {
	case !c.stopped.Load():
		return
	case c.value == nil:
		runtime.Goexit()
	}
	panic(c.value)
}
