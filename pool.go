package attn

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-1415985d/attn/internal/spin"
)

// workerPool is the workers of a Pool, which has their methods.
type workerPool struct {
	size    int // workers, counting one caller
	workers sync.WaitGroup
	spin    spin.Spinner

	mu     sync.Mutex
	wake   sync.Cond   // there is a job, or the pool was closed
	idle   sync.Cond   // the last call of a closed pool is over
	jobs   []*job      // with tasks that nobody has taken, oldest first
	free   []*poolCall // for reuse
	calls  int         // running
	wanted int         // workers that jobs want and that nobody has woken yet
	closed bool
}

// start starts n−1 workers.
func (p *workerPool) start(n int) {
	p.size = n
	p.spin.Init(tuned.Spin, spin.Costs{Backoff: tuned.Backoff, LongCall: tuned.LongCall})
	p.wake.L, p.idle.L = &p.mu, &p.mu
	for range n - 1 {
		p.workers.Go(p.work)
	}
}

// end waits for running calls and ends the workers.
func (p *workerPool) end() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return fail(ErrClosed, "the pool was closed")
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

// workersFor returns how many workers a call of some nanoseconds is for. A call that does not pay
// for waking workers is for those that spin, unless calls follow each other so fast that the next
// ones pay.
func (p *workerPool) workersFor(cost float64) int {
	if p.size == 1 || cost < tuned.SmallCall {
		return 1
	}
	quick := p.spin.CallBegins()
	switch {
	case p.spin.LeftAlone(cost):
		return 1
	case quick || cost >= tuned.WakingCall:
		return p.size
	}
	return min(p.size, 1+p.spin.Workers())
}

// takeCall registers a call and returns memory for it.
func (p *workerPool) takeCall() (*poolCall, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fail(ErrClosed, "the pool was closed")
	}
	p.calls++
	if last := len(p.free) - 1; last >= 0 {
		c := p.free[last]
		p.free = p.free[:last]
		return c, nil
	}
	c := new(poolCall)
	c.done = make(chan struct{}, 1)
	return c, nil
}

// putCall takes back the memory of a call that is over. Until then it holds the cache or the matrix
// of the call, whose memory lives no longer than they do: run does not leave the job before the
// last worker is done with it.
func (p *workerPool) putCall(c *poolCall) {
	c.drop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, c)
	p.calls--
	if p.closed && p.calls == 0 {
		p.idle.Signal()
	}
}

// run computes all tasks of a job, the caller's goroutine taking part with its scratch memory, and
// returns when all are done.
func (p *workerPool) run(j *job, w *scratch) {
	if helpers := min(p.size, j.tasks, j.workers) - 1; helpers > 0 {
		p.runWith(j, w, helpers)
	} else {
		j.take(w)
	}
	if p.size > 1 && j.cost >= tuned.SmallCall {
		p.spin.CallEnds()
	}
}

// runWith is run with helpers.
func (p *workerPool) runWith(j *job, w *scratch, helpers int) {
	p.offer(j, helpers)
	own := 0
	defer func() { p.join(j, own, helpers) }() // a part of Run may panic
	own = j.take(w)
}

// join waits for the helpers of a job of which the caller has computed its own tasks.
func (p *workerPool) join(j *job, own, helpers int) {
	j.next.Store(noTask) // unless it panicked, none was left
	p.mu.Lock()
	p.retire(j)
	p.mu.Unlock()
	inTime := p.spin.Zero(&j.helpers)
	if !inTime {
		p.await(j)
	}
	// one takes longer than a caller spins
	longTasks := j.cost > float64(j.tasks)*float64(p.spin.Limit())
	inTime = inTime || longTasks
	p.spin.Shared(j.cost, inTime && j.fair(own, helpers))
}

// fair reports whether helpers worked beside the caller: who has to take turns with them on its
// core has done little of its share, but for a task.
func (j *job) fair(own, helpers int) bool {
	return own < j.tasks && 4*(own+1)*(helpers+1) >= 3*j.tasks
}

// offer gives a job to some helpers: to workers that spin, and it wakes others.
func (p *workerPool) offer(j *job, helpers int) {
	p.mu.Lock()
	p.jobs = append(p.jobs, j)
	p.wanted += helpers - p.spin.Call(helpers)
	p.wakeSome()
	p.mu.Unlock()
}

// wokenAtOnce workers are woken by a caller, and by each worker that comes before it works: one
// goroutine would take longer to wake many than they take to come.
const wokenAtOnce = 4

// wakeSome wakes some of the workers that are wanted. It is called under the pool's lock.
func (p *workerPool) wakeSome() {
	n := min(p.wanted, wokenAtOnce)
	p.wanted -= n
	for range n {
		p.wake.Signal()
	}
}

// await blocks until no helper has the job, which nobody can take any more.
func (p *workerPool) await(j *job) {
	p.mu.Lock()
	wait := j.helpers.Load() > 0
	j.waiting = wait
	p.mu.Unlock()
	if wait {
		<-j.done
	}
}

// retire takes a job without tasks from the list.
func (p *workerPool) retire(j *job) {
	if i := slices.Index(p.jobs, j); i >= 0 {
		p.jobs = slices.Delete(p.jobs, i, i+1)
	}
	if len(p.jobs) == 0 {
		p.wanted = 0
		p.spin.Jobless()
	}
}

// work is the life of a worker.
func (p *workerPool) work() {
	w := new(scratch)
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.next() {
		p.help(p.jobs[0], w)
	}
}

// help computes tasks of a job beside its caller. It is called under the pool's lock, which it
// gives up for that.
func (p *workerPool) help(j *job, w *scratch) {
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
			p.workers.Go(p.work) // in the place of this goroutine
		}
	}()
	j.take(w)
	returned = true
}

// next waits for a job, or for the end of the pool.
func (p *workerPool) next() (ok bool) {
	for len(p.jobs) == 0 && !p.closed {
		if !p.spin.Expect(&p.mu) && len(p.jobs) == 0 && !p.closed {
			p.wake.Wait()
		}
	}
	return len(p.jobs) > 0
}

// leave is called when a worker has no more work in a job.
func (p *workerPool) leave(j *job) {
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

// work is what the tasks of a job are. Any worker may do any of them, and in any order.
type work interface {
	begin(w *scratch) // comes before the first task of each worker
	task(w *scratch, i int)
}

// noTask is a number that no task has.
const noTask = 1 << 62

// job is work that is shared: tasks that any worker may take.
type job struct {
	work     work
	cost     float64 // estimated nanoseconds
	tasks    int
	workers  int  // for how many it was divided
	mayPanic bool // it is the caller's work, which may panic or end its goroutine

	next atomic.Int64 // the first task that nobody has taken
	_    [56]byte     // keep the counter off the cache lines of what all workers read

	helpers atomic.Int32 // workers that have the job now, apart from the caller; written under Pool.mu
	waiting bool         // the caller sleeps until the helpers are done; guarded by Pool.mu
	done    chan struct{}

	stopped atomic.Bool // a part panicked on a helper,
	value   any         // with that, or nil if it ended its goroutine
}

// set makes the job work of some nanoseconds that is divided into tasks for some workers.
func (j *job) set(x work, workers, tasks int, cost float64) {
	j.work, j.cost, j.tasks, j.workers = x, cost, tasks, workers
	j.next.Store(0)
}

// stop leaves the tasks of a job that nobody has taken, because one panicked on a helper.
func (j *job) stop(value any) {
	if j.stopped.CompareAndSwap(false, true) {
		j.value = value
	}
	j.next.Store(noTask)
}

// take takes and computes tasks until none is left. It returns how many it took.
func (j *job) take(w *scratch) (taken int) {
	tasks := int64(j.tasks)
	i := j.next.Add(1) - 1
	if i >= tasks {
		return 0
	}
	j.work.begin(w)
	for ; i < tasks; i = j.next.Add(1) - 1 {
		j.work.task(w, int(i))
		taken++
	}
	w.forget()
	return taken
}
