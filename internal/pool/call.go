package pool

import "runtime"

// Call is a call of a Pool: its jobs, one after another.
type Call[M Memory] struct {
	Memory M // the caller's
	pool   *Pool[M]
	job[M]
}

// End is the end of a call, whose memory later calls use again. Until then it holds the cache or
// the matrix of the call, whose memory lives no longer than they do: no job is left before the last
// worker is done with it.
func (c *Call[M]) End() {
	c.work, c.mayPanic, c.value = nil, false, nil
	c.stopped.Store(false)
	c.pool.end(c)
}

// WorkersFor returns how many workers a call that takes about cost nanoseconds is for.
func (c *Call[M]) WorkersFor(cost float64) int { return c.pool.workersFor(cost) }

// Share computes all tasks of work, which take about cost nanoseconds in all, on some workers, the
// caller among them. Small work stays on the caller.
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

// DoParts computes tasks that may panic, or end their goroutine, on all workers, and does the same.
func (c *Call[M]) DoParts(x Work[M], tasks int) {
	p := c.pool
	c.mayPanic = true
	if p.size > 1 && tasks > 1 {
		p.spin.callBegins()
		defer p.spin.callEnds()
	}
	c.Do(x, p.size, int(min(int64(tasks), noTask)), 0) // more would take a century
	switch {
	case !c.stopped.Load():
		return
	case c.value == nil:
		runtime.Goexit()
	}
	panic(c.value)
}
