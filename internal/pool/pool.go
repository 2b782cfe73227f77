// Package pool has the goroutines that share the calls of a Pool of package attn: each call is
// divided into tasks, which the caller and some workers take in turn.
package pool

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-1415985d/attn/internal/tuning"
	"github.com/seed-1415985d/attn/internal/views"
)

// Pool is workers that share the work of calls. M is the memory that a worker, or a caller,
// computes in. The zero value has no workers: callers do all tasks.
type Pool[M Memory] struct {
	size    int // workers, counting one caller; 0 for the zero value
	t       *tuning.Row
	workers sync.WaitGroup
	spin    spinner

	mu     sync.Mutex
	wake   sync.Cond  // there is a job, or the pool was closed
	idle   sync.Cond  // the last call of a closed pool is over
	jobs   []*job[M]  // with tasks that nobody has taken, oldest first
	free   []*Call[M] // for reuse
	calls  int        // running
	wanted int        // workers that jobs want and that nobody has woken yet
	closed bool
}

// Memory is what one goroutine computes in, from one job to the next.
type Memory interface {
	Forget() // lets go of the buffers of a caller, of whose job no task is left
}

// Start starts n−1 workers, whose memory is made by newMemory.
func (p *Pool[M]) Start(n int, t *tuning.Row, newMemory func() M) {
	p.size, p.t = n, t
	p.spin.begin(t)
	p.wake.L, p.idle.L = &p.mu, &p.mu
	for range n - 1 {
		p.workers.Go(func() { p.work(newMemory()) })
	}
}

// Size is how many workers there are, counting one caller.
func (p *Pool[M]) Size() int { return p.size }

// Close waits for running calls and ends the workers.
func (p *Pool[M]) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return errClosed()
	}
	p.closed = true
	for p.calls > 0 {
		p.idle.Wait()
	}
	p.wake.Broadcast()
	p.mu.Unlock()
	p.workers.Wait()
	return nil
}

func errClosed() error { return views.Fail(views.ErrClosed, "the pool was closed") }

// workersFor returns how many workers a call of some nanoseconds is for. A call that does not pay
// for waking workers is for those that spin, unless calls follow each other so fast that the next
// ones pay.
func (p *Pool[M]) workersFor(cost float64) int {
	if p.size <= 1 || cost < p.t.SmallCall {
		return 1
	}
	quick := p.spin.callBegins()
	switch {
	case p.spin.leavesAlone(cost):
		return 1
	case quick || cost >= p.t.WakingCall:
		return p.size
	}
	return min(p.size, 1+p.spin.watching())
}

// Begin registers a call, which has memory for itself until its End: that of a call before it, or
// of newMemory.
func (p *Pool[M]) Begin(newMemory func() M) (*Call[M], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed()
	}
	p.calls++
	if last := len(p.free) - 1; last >= 0 {
		c := p.free[last]
		p.free = p.free[:last]
		return c, nil
	}
	c := &Call[M]{Memory: newMemory(), pool: p}
	c.done = make(chan struct{}, 1)
	return c, nil
}

// end takes back the memory of a call that is over.
func (p *Pool[M]) end(c *Call[M]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, c)
	p.calls--
	if p.closed && p.calls == 0 {
		p.idle.Signal()
	}
}

// run computes all tasks of a job, the caller's goroutine taking part with its memory, and returns
// when all are done.
func (p *Pool[M]) run(j *job[M], m M) {
	if helpers := min(p.size, j.tasks, j.workers) - 1; helpers > 0 {
		p.runWith(j, m, helpers)
	} else {
		j.take(m)
	}
	if p.size > 1 && j.cost >= p.t.SmallCall {
		p.spin.callEnds()
	}
}

// runWith is run with helpers.
func (p *Pool[M]) runWith(j *job[M], m M, helpers int) {
	p.offer(j, helpers)
	own := 0
	defer func() { p.join(j, own, helpers) }() // a part of Run may panic
	own = j.take(m)
}

// join waits for the helpers of a job of which the caller has computed its own tasks.
func (p *Pool[M]) join(j *job[M], own, helpers int) {
	j.next.Store(noTask) // unless it panicked, none was left
	p.mu.Lock()
	p.retire(j)
	p.mu.Unlock()
	inTime := p.spin.untilZero(&j.helpers)
	if !inTime {
		p.await(j)
	}
	// one takes longer than a caller spins
	longTasks := j.cost > float64(j.tasks)*float64(p.spin.limit)
	inTime = inTime || longTasks
	p.spin.shared(j.cost, inTime && j.fair(own, helpers))
}

// fair reports whether helpers worked beside the caller: who has to take turns with them on its
// core has done little of its share, but for a task.
func (j *job[M]) fair(own, helpers int) bool {
	return own < j.tasks && 4*(own+1)*(helpers+1) >= 3*j.tasks
}

// offer gives a job to some helpers: to workers that spin, and it wakes others.
func (p *Pool[M]) offer(j *job[M], helpers int) {
	p.mu.Lock()
	p.jobs = append(p.jobs, j)
	p.wanted += helpers - p.spin.call(helpers)
	p.wakeSome()
	p.mu.Unlock()
}

// wokenAtOnce workers are woken by a caller, and by each worker that comes before it works: one
// goroutine would take longer to wake many than they take to come.
const wokenAtOnce = 4

// wakeSome wakes some of the workers that are wanted. It is called under the pool's lock.
func (p *Pool[M]) wakeSome() {
	n := min(p.wanted, wokenAtOnce)
	p.wanted -= n
	for range n {
		p.wake.Signal()
	}
}

// await blocks until no helper has the job, which nobody can take any more.
func (p *Pool[M]) await(j *job[M]) {
	p.mu.Lock()
	wait := j.helpers.Load() > 0
	j.waiting = wait
	p.mu.Unlock()
	if wait {
		<-j.done
	}
}

// retire takes a job without tasks from the list.
func (p *Pool[M]) retire(j *job[M]) {
	if i := slices.Index(p.jobs, j); i >= 0 {
		p.jobs = slices.Delete(p.jobs, i, i+1)
	}
	if len(p.jobs) == 0 {
		p.wanted = 0
		p.spin.becomesJobless()
	}
}

// work is the life of a worker.
func (p *Pool[M]) work(m M) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.next() {
		p.help(p.jobs[0], m)
	}
}

// help computes tasks of a job beside its caller. It is called under the pool's lock, which it
// gives up for that.
func (p *Pool[M]) help(j *job[M], m M) {
	j.helpers.Add(1)
	p.wakeSome()
	p.mu.Unlock()
	returned := false
	defer func() {
		ends := false
		if !returned && j.mayPanic {
			value := recover()
			j.stop(value)
			ends = value == nil // by runtime.Goexit, as of testing.T.FailNow
		}
		p.mu.Lock()
		p.leave(j)
		if ends {
			p.workers.Go(func() { p.work(m) }) // in the place of this goroutine
		}
	}()
	j.take(m)
	returned = true
}

// next waits for a job, or for the end of the pool.
func (p *Pool[M]) next() (ok bool) {
	for len(p.jobs) == 0 && !p.closed {
		if !p.spin.expect(&p.mu) && len(p.jobs) == 0 && !p.closed {
			p.wake.Wait()
		}
	}
	return len(p.jobs) > 0
}

// leave is called when a worker has no more work in a job.
func (p *Pool[M]) leave(j *job[M]) {
	p.retire(j)
	if j.helpers.Add(-1) > 0 || !j.waiting {
		return
	}
	j.waiting = false
	j.done <- struct{}{}
	p.mu.Unlock()
	runtime.Gosched() // the caller is next on this thread
	p.mu.Lock()
}

// Work is what the tasks of a job are. Any goroutine may do any of them, and in any order.
type Work[M Memory] interface {
	Begin(m M) // comes before the first task of each goroutine
	Task(m M, i int)
}

// noTask is a number that no task has.
const noTask = 1 << 62

// job is work that is shared: tasks that any worker may take.
type job[M Memory] struct {
	work     Work[M]
	cost     float64 // estimated nanoseconds
	tasks    int
	workers  int  // for how many it was divided
	mayPanic bool // it is the caller's work, which may panic or end its goroutine

	_    [64]byte     // keep the counter off the cache lines of what all workers read
	next atomic.Int64 // the first task that nobody has taken
	_    [56]byte

	helpers atomic.Int32 // workers that have the job now, apart from the caller; written under Pool.mu
	waiting bool         // the caller sleeps until the helpers are done; guarded by Pool.mu
	done    chan struct{}

	stopped atomic.Bool // a part panicked on a helper,
	value   any         // with that, or nil if it ended its goroutine
}

// set makes the job work of some nanoseconds that is divided into tasks for some workers.
func (j *job[M]) set(x Work[M], workers, tasks int, cost float64) {
	j.work, j.cost, j.tasks, j.workers = x, cost, tasks, workers
	j.next.Store(0)
}

// stop leaves the tasks of a job that nobody has taken, because one panicked on a helper.
func (j *job[M]) stop(value any) {
	if j.stopped.CompareAndSwap(false, true) {
		j.value = value
	}
	j.next.Store(noTask)
}

// take takes and computes tasks until none is left. It returns how many it took.
func (j *job[M]) take(m M) (taken int) {
	tasks := int64(j.tasks)
	i := j.next.Add(1) - 1
	if i >= tasks {
		return 0
	}
	j.work.Begin(m)
	for ; i < tasks; i = j.next.Add(1) - 1 {
		j.work.Task(m, int(i))
		taken++
	}
	m.Forget()
	return taken
}
