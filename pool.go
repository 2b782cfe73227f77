package attn

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-1415985d/attn/internal/online"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/spin"
)

// Pool is a set of persistent workers that share the work of each call. The
// results are the bits of [Attend], [Cache.Attend], [MatMul] and [Matrix.MatMul],
// for any number of workers. A nil *Pool computes on the calling goroutine; its Close does nothing.
//
// A Pool may be used by any number of goroutines at the same time. A call that
// would take less than about 20 µs stays on the caller's goroutine.
//
// Where calls follow each other within 50 µs, workers spin for the next one for up to 50 µs before
// they sleep, and take it within a microsecond: two workers are then 1.7 times as fast or more from
// about 75 µs on. Each spinning worker keeps a core busy for that time. They are fewer than
// GOMAXPROCS in all pools together, and a caller spins as long for the last workers. Where calls
// are rarer, workers sleep from one to the next and take tens of microseconds to wake, so only
// calls of about 250 µs or more are shared. A pool that is not used costs no time.
//
// If workers come too late or not at all, because others use their cores, the next calls of less
// than a millisecond stay on the caller's goroutine, for at most some 40 ms until the workers are
// tried again.
//
// In the steady state a call does not allocate. Since other goroutines see the caller's buffers,
// these cannot live on the caller's stack: a local array that is passed to a Pool is allocated on
// the heap by the function that declares it. Options may: a literal &Options{…} beside the call
// costs no allocation.
type Pool struct {
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

// MaxWorkers is the most workers that a [Pool] has.
const MaxWorkers = 4096

// NewPool starts a pool of n workers: n−1 goroutines and the caller's own. n ≤ 0 means GOMAXPROCS,
// and a pool never has more than [MaxWorkers]. The goroutines live until Close.
func NewPool(n int) *Pool {
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	n = min(n, MaxWorkers)
	p := &Pool{size: n}
	p.spin.Init(tuned.Spin, spin.Costs{Backoff: tuned.Backoff, LongCall: tuned.LongCall})
	p.wake.L, p.idle.L = &p.mu, &p.mu
	for range n - 1 {
		p.workers.Go(p.work)
	}
	return p
}

// Close waits for running calls and ends the workers. Calls that begin later,
// Close among them, return [ErrClosed].
func (p *Pool) Close() error {
	if p == nil {
		return nil
	}
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
func (p *Pool) workersFor(cost float64) int {
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
func (p *Pool) takeCall() (*poolCall, error) {
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
func (p *Pool) putCall(c *poolCall) {
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
func (p *Pool) run(j *job, w *scratch) {
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
func (p *Pool) runWith(j *job, w *scratch, helpers int) {
	p.offer(j, helpers)
	own := 0
	defer func() { p.join(j, own, helpers) }() // a part of Run may panic
	own = j.take(w)
}

// join waits for the helpers of a job of which the caller has computed its own tasks.
func (p *Pool) join(j *job, own, helpers int) {
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
func (p *Pool) offer(j *job, helpers int) {
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
func (p *Pool) wakeSome() {
	n := min(p.wanted, wokenAtOnce)
	p.wanted -= n
	for range n {
		p.wake.Signal()
	}
}

// await blocks until no helper has the job, which nobody can take any more.
func (p *Pool) await(j *job) {
	p.mu.Lock()
	wait := j.helpers.Load() > 0
	j.waiting = wait
	p.mu.Unlock()
	if wait {
		<-j.done
	}
}

// retire takes a job without tasks from the list.
func (p *Pool) retire(j *job) {
	if i := slices.Index(p.jobs, j); i >= 0 {
		p.jobs = slices.Delete(p.jobs, i, i+1)
	}
	if len(p.jobs) == 0 {
		p.wanted = 0
		p.spin.Jobless()
	}
}

// work is the life of a worker.
func (p *Pool) work() {
	w := new(scratch)
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.next() {
		p.help(p.jobs[0], w)
	}
}

// help computes tasks of a job beside its caller. It is called under the pool's lock, which it
// gives up for that.
func (p *Pool) help(j *job, w *scratch) {
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
func (p *Pool) next() (ok bool) {
	for len(p.jobs) == 0 && !p.closed {
		if !p.spin.Expect(&p.mu) && len(p.jobs) == 0 && !p.closed {
			p.wake.Wait()
		}
	}
	return len(p.jobs) > 0
}

// leave is called when a worker has no more work in a job.
func (p *Pool) leave(j *job) {
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

// poolCall is a call of a Pool: its job, and memory for whatever the call is, which later calls use
// again.
type poolCall struct {
	job
	scratch scratch // the caller's

	attention      attention
	update         pooledUpdate
	writing        writing
	multiplication multiplication
	products       products
	parts          callerParts
}

// drop lets go of the caller's buffers.
func (c *poolCall) drop() {
	c.work, c.mayPanic, c.value = nil, false, nil
	c.stopped.Store(false)
	c.attention.plan, c.update, c.multiplication = plan{}, pooledUpdate{}, multiplication{}
	c.writing, c.parts = writing{}, callerParts{}
	c.products.drop()
	c.attention.call.drop()
}

// attention is a call of Attend that workers share: its tasks are chunks, or segments of these.
type attention struct {
	plan plan
	call sequenceCall // if it is over several sequences

	tasks, workers int
	segments       int // pieces that each chunk is divided into, 1 if it is whole

	once   packed.Blocks // keys and values of views, packed for all workers, in
	packed []float32     // memory of the call

	left   []int32   // for each chunk, segments that are not done yet
	states []float32 // for each chunk and segment its state, if there are several segments
}

// schedule divides the call for some workers.
func (a *attention) schedule(workers int) {
	p := &a.plan
	if a.workers = workers; p.sequences != nil {
		a.scheduleSequences(workers)
		return
	}
	p.once = &a.once
	p.decide(&tuned, workers)
	if p.packed == p.once {
		blocks := partsOf(p.lk, Block)
		a.packed = grow(a.packed, p.batch*p.kvHeads*blocks*p.packed.Size/4)
		p.packed.Place(rawBytes(a.packed), blocks)
	}
	a.tasks, a.segments = p.chunks*p.segments, p.segments
	if p.segments > 1 {
		a.states = grow(a.states, a.tasks*p.stateSize())
		a.left = grow(a.left, p.chunks)
		for i := range a.left {
			a.left[i] = int32(p.segments)
		}
	}
}

// scheduleSequences makes room for the states of a call over sequences, whose items are divided
// differently.
func (a *attention) scheduleSequences(workers int) {
	p := &a.plan
	p.decideSequences(&tuned, workers)
	a.tasks = 0
	a.left = grow(a.left, p.chunks)
	size := 0
	for i := range p.sequences.items {
		w := &p.sequences.items[i]
		a.tasks += w.chunks * w.segments
		for index := range w.chunks {
			a.left[w.chunk+index] = int32(w.segments)
		}
		if w.segments > 1 {
			size = max(size, w.state+p.kvHeads*w.segments*w.stateSize)
		}
	}
	a.states = grow(a.states, size)
}

// chunkOf is the chunk of a task, its segment, and how many segments the chunk is divided into.
func (a *attention) chunkOf(task int) (index, segment, segments int) {
	if s := a.plan.sequences; s != nil {
		return s.task(task)
	}
	return a.order(task / a.segments), a.plan.segment + task%a.segments, a.segments
}

func (a *attention) begin(w *scratch) { w.fit(&a.plan) }

// task computes a chunk of the call, or a segment of one.
func (a *attention) task(w *scratch, i int) {
	index, segment, segments := a.chunkOf(i)
	if segments > 1 {
		a.segment(w, index, segment)
		return
	}
	next, s := a.plan.chunks, a.plan.sequences
	if i+a.workers < a.tasks && (s == nil || s.documents) { // a guess: others take one each
		next, _, _ = a.chunkOf(i + a.workers)
	}
	w.attendChunk(&a.plan, index, next)
}

// order puts chunks with many keys first: the last rows under a causal mask.
// Otherwise the chunks of a head follow each other, which leaves its keys in
// the cache.
func (a *attention) order(i int) (index int) {
	p := &a.plan
	if p.causal == Full {
		return i
	}
	per := p.chunksPerHead
	heads := p.chunks / per
	return i%heads*per + per - 1 - i/heads
}

// segment computes the state of chunk i over one segment. Whoever finishes the last segment of a
// chunk merges all, from left to right as one worker does it.
func (a *attention) segment(w *scratch, i, segment int) {
	p := &a.plan
	var c chunk
	padding := 0
	if p.sequences != nil {
		w.prefix = p.sequenceChunk(i, &c, w.prefix)
	} else {
		padding = p.chunk(i, &c)
	}
	if c.rows > 0 {
		first, end := max(c.lo, segment*Segment), min(c.hi, (segment+1)*Segment)
		if first < end {
			w.loadQueries(p, &c)
			st := a.state(i, segment)
			st.Reset(c.heads*c.rows, p.oStride)
			w.addSegment(p, &c, &st, first, end)
		}
	}
	if atomic.AddInt32(&a.left[i], -1) > 0 {
		return
	}
	p.clearRows(&c, padding)
	if c.rows > 0 {
		a.finish(w, &c, i)
	}
}

// finish merges the segments of chunk i and writes the results.
func (a *attention) finish(w *scratch, c *chunk, i int) {
	p, rows := &a.plan, c.heads*c.rows
	w.loadQueries(p, c) // for weights, which need the scores again, and for the units of integers
	for first := c.lo; first < c.hi; first = (first/Segment + 1) * Segment {
		st := a.state(i, first/Segment)
		w.partial.Copy(&st, rows, p.oStride)
		w.push(p, first/Segment, rows)
	}
	if c.lo < c.hi {
		w.fold(p, rows)
	} else {
		w.total.Reset(rows, p.oStride)
	}
	w.finish(p, c)
}

// state is the memory for the state of chunk i over a segment.
func (a *attention) state(i, segment int) online.State {
	size, rows := a.plan.stateSize(), a.plan.headsPerChunk*a.plan.chunkRows
	at := (i*a.segments + segment - a.plan.segment) * size
	if s := a.plan.sequences; s != nil {
		w := s.itemOf(i, false)
		size, rows = w.stateSize, w.rows
		at = w.state + ((i-w.chunk)*w.segments+segment-w.segment)*size
	}
	x := a.states[at:][:size]
	return online.State{M: x[:rows], L: x[rows : 2*rows], O: x[2*rows:]}
}
