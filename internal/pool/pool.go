// Package pool has the goroutines that share the calls of a Pool of package attn. Each call is
// divided into tasks; the caller and some workers compute them, each taking the next one.
package pool

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-1415985d/attn/internal/tuning"
	"github.com/seed-1415985d/attn/internal/views"
)

// Pool is a group of workers that share the work of calls. M is the memory in which a worker or a
// caller computes. The zero value has no workers: callers do all tasks.
type Pool[M Memory] struct {
	size    int // workers, including one caller; 0 for the zero value
	t       *tuning.Row
	workers sync.WaitGroup
	spin    spinner

	mu     sync.Mutex
	wake   sync.Cond  // there is a job, or the pool was closed
	idle   sync.Cond  // the last call of a closed pool has ended
	jobs   []*job[M]  // jobs with unclaimed tasks, oldest first
	free   []*Call[M] // for reuse
	calls  int        // calls in progress
	wanted int        // workers that jobs want and that have not been woken yet
	closed bool
}

// Memory is the working memory of one goroutine, reused from job to job.
type Memory interface {
	Forget() // drops the caller's buffers; called when the goroutine is done with a job
}

// Start starts n−1 workers and gives each a memory from newMemory.
func (p *Pool[M]) Start(n int, t *tuning.Row, newMemory func() M) {
	p.size, p.t = n, t
	p.spin.setLimits(t)
	p.wake.L, p.idle.L = &p.mu, &p.mu
	for range n - 1 {
		p.workers.Go(func() { p.work(newMemory()) })
	}
}

// Size returns the number of workers, including one caller.
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

// workersFor returns how many workers should share a call of about cost nanoseconds. A call too
// short to wake workers for uses workers that spin, unless calls follow each other so fast that the
// next ones make up for waking.
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

// Begin registers a call and gives it memory until its End: the memory of an earlier call, or a new
// one from newMemory.
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

// end takes back the memory of a call that has ended.
func (p *Pool[M]) end(c *Call[M]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, c)
	p.calls--
	if p.closed && p.calls == 0 {
		p.idle.Signal()
	}
}

// run computes all tasks of a job and returns when all are done. The caller's goroutine computes
// some of them in m.
func (p *Pool[M]) run(j *job[M], m M) {
	if helpers := min(p.size, j.tasks, j.workers) - 1; helpers > 0 {
		p.runWith(j, m, helpers)
	} else {
		j.computeTasks(m)
	}
	if p.size > 1 && j.cost >= p.t.SmallCall {
		p.spin.callEnds()
	}
}

// runWith is run with at least one helper.
func (p *Pool[M]) runWith(j *job[M], m M, helpers int) {
	p.offer(j, helpers)
	own := 0
	defer func() { p.join(j, own, helpers) }() // a task may panic
	own = j.computeTasks(m)
}

// join waits for the helpers of a job after the caller has computed its own tasks.
func (p *Pool[M]) join(j *job[M], own, helpers int) {
	j.next.Store(noTask) // after a panic some tasks were left
	p.mu.Lock()
	p.retire(j)
	p.mu.Unlock()
	inTime := p.spin.untilZero(&j.helpers)
	if !inTime {
		p.await(j)
	}
	// a task takes longer than a caller spins
	longTasks := j.cost > float64(j.tasks)*float64(p.spin.limit)
	inTime = inTime || longTasks
	p.spin.shared(j.cost, inTime && j.fair(own, helpers))
}

// fair reports whether the helpers ran in parallel with the caller. If they had to share its core,
// the caller has computed only a small part of its share, give or take a task.
func (j *job[M]) fair(own, helpers int) bool {
	return own < j.tasks && 4*(own+1)*(helpers+1) >= 3*j.tasks
}

// offer offers a job to helpers: it counts on workers that spin and wakes others.
func (p *Pool[M]) offer(j *job[M], helpers int) {
	p.mu.Lock()
	p.jobs = append(p.jobs, j)
	p.wanted += helpers - p.spin.call(helpers)
	p.wakeSome()
	p.mu.Unlock()
}

// wokenAtOnce is how many workers a caller wakes, and how many each woken worker wakes before it
// starts. One goroutine that wakes many workers would be slower than a chain of them.
const wokenAtOnce = 4

// wakeSome wakes some of the workers that jobs want. The caller holds the pool's lock.
func (p *Pool[M]) wakeSome() {
	n := min(p.wanted, wokenAtOnce)
	p.wanted -= n
	for range n {
		p.wake.Signal()
	}
}

// await blocks until no helper works on the job. No task of it is left to take.
func (p *Pool[M]) await(j *job[M]) {
	p.mu.Lock()
	wait := j.helpers.Load() > 0
	j.waiting = wait
	p.mu.Unlock()
	if wait {
		<-j.done
	}
}

// retire removes a job without tasks from the list.
func (p *Pool[M]) retire(j *job[M]) {
	if i := slices.Index(p.jobs, j); i >= 0 {
		p.jobs = slices.Delete(p.jobs, i, i+1)
	}
	if len(p.jobs) == 0 {
		p.wanted = 0
		p.spin.becomesJobless()
	}
}

// work is the loop of a worker's goroutine.
func (p *Pool[M]) work(m M) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.next() {
		p.help(p.jobs[0], m)
	}
}

// help computes tasks of a job for its caller. It is called with the pool's lock held and releases
// it while it computes.
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
			ends = value == nil // by runtime.Goexit, which testing.T.FailNow calls
		}
		p.mu.Lock()
		p.leaveJob(j)
		if ends {
			p.workers.Go(func() { p.work(m) }) // replaces this goroutine
		}
	}()
	j.computeTasks(m)
	returned = true
}

// next waits until there is a job or the pool is closed.
func (p *Pool[M]) next() (ok bool) {
	for len(p.jobs) == 0 && !p.closed {
		if !p.spin.expect(&p.mu) && len(p.jobs) == 0 && !p.closed {
			p.wake.Wait()
		}
	}
	return len(p.jobs) > 0
}

// leaveJob ends a worker's part in a job.
func (p *Pool[M]) leaveJob(j *job[M]) {
	p.retire(j)
	if j.helpers.Add(-1) > 0 || !j.waiting {
		return
	}
	j.waiting = false
	j.done <- struct{}{}
	p.mu.Unlock()
	runtime.Gosched() // so that the caller runs next on this thread
	p.mu.Lock()
}

// Work computes the tasks of a job. Any goroutine may compute any of them, in any order.
type Work[M Memory] interface {
	Begin(m M) // called before the first task on each goroutine
	Task(m M, i int)
}

// noTask is a number that no task has.
const noTask = 1 << 62

// job is shared work: tasks that any worker may take.
type job[M Memory] struct {
	work     Work[M]
	cost     float64 // estimated nanoseconds
	tasks    int
	workers  int  // the number it was divided for
	mayPanic bool // the tasks are the caller's code, which may panic or end its goroutine

	_    [64]byte     // the counter has a cache line of its own: all workers read the fields above
	next atomic.Int64 // the first unclaimed task
	_    [56]byte

	helpers atomic.Int32 // workers on the job, without the caller; written under Pool.mu
	waiting bool         // the caller sleeps until the helpers are done; guarded by Pool.mu
	done    chan struct{}

	stopped atomic.Bool // a task panicked or ended its goroutine on a helper
	value   any         // the panic's value, nil for runtime.Goexit
}

// set sets the work of the job, its number of tasks, the workers it is divided for and its
// estimated nanoseconds.
func (j *job[M]) set(x Work[M], workers, tasks int, cost float64) {
	j.work, j.cost, j.tasks, j.workers = x, cost, tasks, workers
	j.next.Store(0)
}

// stop drops the unclaimed tasks of a job because a task panicked on a helper.
func (j *job[M]) stop(value any) {
	if j.stopped.CompareAndSwap(false, true) {
		j.value = value
	}
	j.next.Store(noTask)
}

// computeTasks claims and computes tasks until none is left. It returns how many it computed.
func (j *job[M]) computeTasks(m M) (taken int) {
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
