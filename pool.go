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
	wake   sync.Cond // there is a job, or the pool was closed
	idle   sync.Cond // the last call of a closed pool is over
	jobs   []*job    // with units that nobody has taken, oldest first
	free   []*job    // for reuse
	calls  int       // running
	wanted int       // workers that jobs want and that nobody has woken yet
	closed bool
}

// NewPool starts a pool of n workers: n−1 goroutines and the caller's own. n ≤ 0
// means GOMAXPROCS. The goroutines live until Close.
func NewPool(n int) *Pool {
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
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

// takeJob registers a call and returns a job for it.
func (p *Pool) takeJob() (*job, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fail(ErrClosed, "the pool was closed")
	}
	p.calls++
	if last := len(p.free) - 1; last >= 0 {
		j := p.free[last]
		p.free = p.free[:last]
		return j, nil
	}
	return &job{done: make(chan struct{}, 1)}, nil
}

// putJob takes back the job of a call that is over. Until then the job, which run does not leave
// before the last worker is done with it, holds the cache or the matrix of the call, whose memory
// lives no longer than they do.
func (p *Pool) putJob(j *job) {
	// let go of the caller's buffers
	j.plan, j.update, j.multiplication = plan{}, stateUpdate{}, multiplication{}
	j.packing, j.blocks = nil, nil
	j.worker, j.value = nil, nil
	j.stopped.Store(false)
	j.products.drop()
	j.call.drop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, j)
	p.calls--
	if p.closed && p.calls == 0 {
		p.idle.Signal()
	}
}

// run computes all units of a job, the caller's goroutine taking part, and
// returns when all are done.
func (p *Pool) run(j *job) {
	if helpers := min(p.size, j.units, j.workers) - 1; helpers > 0 {
		p.runWith(j, helpers)
	} else {
		j.work(&j.scratch)
	}
	if p.size > 1 && j.cost >= tuned.SmallCall {
		p.spin.CallEnds()
	}
}

// runWith is run with helpers.
func (p *Pool) runWith(j *job, helpers int) {
	p.share(j, helpers)
	own := 0
	defer func() { p.join(j, own, helpers) }() // a part of Run may panic
	own = j.work(&j.scratch)
}

// join waits for the helpers of a job of which the caller has computed its own units.
func (p *Pool) join(j *job, own, helpers int) {
	j.next.Store(noUnit) // unless it panicked, none was left
	p.mu.Lock()
	p.retire(j)
	p.mu.Unlock()
	inTime := p.spin.Zero(&j.helpers)
	if !inTime {
		p.await(j)
	}
	// one takes longer than a caller spins
	longUnits := j.cost > float64(j.units)*float64(p.spin.Limit())
	inTime = inTime || longUnits
	p.spin.Shared(j.cost, inTime && j.fair(own, helpers))
}

// fair reports whether helpers worked beside the caller: who has to take turns with them on its
// core has done little of its part, but for a unit.
func (j *job) fair(own, helpers int) bool {
	return own < j.units && 4*(own+1)*(helpers+1) >= 3*j.units
}

// share gives a job to some helpers: to workers that spin, and it wakes others.
func (p *Pool) share(j *job, helpers int) {
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

// retire takes a job without units from the list.
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

// help computes units of a job beside its caller. It is called under the pool's lock, which it
// gives up for that.
func (p *Pool) help(j *job, w *scratch) {
	j.helpers.Add(1)
	p.wakeSome()
	p.mu.Unlock()
	returned := false
	defer func() {
		ends := false
		if !returned && j.kind == runWork {
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
	j.work(w)
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

// workKind is what the units of a job are.
type workKind uint8

const (
	attendWork     workKind = iota // chunks of a call, or segments of them
	updateWork                     // chunks of an Update, over keys of one segment
	keysWork                       // blocks of views that are packed once a call
	multiplyWork                   // blocks of a MatMul
	packWork                       // blocks of a Matrix that is packed
	packBlocksWork                 // panels of a Matrix of blocks that is packed
	prepareWork                    // rows of inputs of a product by a Matrix
	productWork                    // and its blocks
	runWork                        // parts of a Run
)

// noUnit is a number that no unit has.
const noUnit = 1 << 62

// job is one call whose work is shared: units that any worker may take.
type job struct {
	kind workKind

	plan           plan
	update         stateUpdate
	multiplication multiplication
	packing        *packing
	blocks         *blockPacking
	products       products
	worker         Worker

	cost     float64 // estimated nanoseconds
	units    int
	workers  int // for how many it was divided
	segments int // pieces that each chunk is divided into, 1 if it is whole

	next atomic.Int64 // the first unit that nobody has taken
	_    [56]byte     // keep the counter off the cache lines of what all workers read

	once   packed.Blocks // keys and values of views, packed for all workers, in
	packed []float32     // memory of the job

	left   []int32   // for each chunk, segments that are not done yet
	states []float32 // for each chunk and segment its state, if there are several segments

	scratch scratch      // the caller's
	call    sequenceCall // if it is over several sequences

	helpers atomic.Int32 // workers that have the job now, apart from the caller; written under Pool.mu
	waiting bool         // the caller sleeps until the helpers are done; guarded by Pool.mu
	done    chan struct{}

	stopped atomic.Bool // a part panicked on a helper,
	value   any         // with that, or nil if it ended its goroutine
}

// stop leaves the units of a job that nobody has taken, because one panicked on a helper.
func (j *job) stop(value any) {
	if j.stopped.CompareAndSwap(false, true) {
		j.value = value
	}
	j.next.Store(noUnit)
}

// schedule divides a call of Attend for some workers.
func (j *job) schedule(workers int) {
	p := &j.plan
	j.kind = attendWork
	if j.next.Store(0); p.sequences != nil {
		j.scheduleSequences(workers)
		return
	}
	p.once = &j.once
	p.decide(&tuned, workers)
	if p.packed == p.once {
		blocks := partsOf(p.lk, Block)
		j.packed = grow(j.packed, p.batch*p.kvHeads*blocks*p.packed.Size/4)
		p.packed.Place(rawBytes(j.packed), blocks)
	}
	j.units, j.workers, j.segments = p.chunks*p.segments, workers, p.segments
	if p.segments > 1 {
		j.states = grow(j.states, j.units*p.stateSize())
		j.left = grow(j.left, p.chunks)
		for i := range j.left {
			j.left[i] = int32(p.segments)
		}
	}
}

// scheduleSequences makes room for the states of a call over sequences, whose items are divided
// differently.
func (j *job) scheduleSequences(workers int) {
	p := &j.plan
	p.decideSequences(&tuned, workers)
	j.units, j.workers = 0, workers
	j.left = grow(j.left, p.chunks)
	size := 0
	for i := range p.sequences.items {
		w := &p.sequences.items[i]
		j.units += w.chunks * w.segments
		for index := range w.chunks {
			j.left[w.chunk+index] = int32(w.segments)
		}
		if w.segments > 1 {
			size = max(size, w.state+p.kvHeads*w.segments*w.stateSize)
		}
	}
	j.states = grow(j.states, size)
}

// chunkOf is the chunk of a unit, its segment, and how many segments the chunk is divided into.
func (j *job) chunkOf(unit int) (index, segment, segments int) {
	if s := j.plan.sequences; s != nil {
		return s.unit(unit)
	}
	return j.order(unit / j.segments), j.plan.segment + unit%j.segments, j.segments
}

// work takes and computes units until none is left. It returns how many it took.
func (j *job) work(w *scratch) (taken int) {
	units := int64(j.units)
	i := j.next.Add(1) - 1
	if i >= units {
		return 0
	}
	switch {
	case j.kind <= updateWork:
		w.fit(&j.plan)
	case j.kind == productWork:
		j.products.begin(w)
		defer w.forget()
	}
	for ; i < units; i = j.next.Add(1) - 1 {
		j.unit(w, int(i))
		taken++
	}
	return taken
}

// unit computes one unit.
func (j *job) unit(w *scratch, i int) {
	switch j.kind {
	case attendWork:
		j.attendUnit(w, i)
	case updateWork:
		j.update.unit(w, &j.plan, i)
	case keysWork:
		j.plan.packKeys(&w.writer, i)
	case multiplyWork:
		j.multiplication.unit(w, i)
	case packWork:
		j.packing.unit(w, i)
	case packBlocksWork:
		j.blocks.unit(i)
	case prepareWork:
		j.products.inputs.unit(i)
	case productWork:
		j.products.unit(w, i)
	case runWork:
		j.worker.Work(i)
	}
}

// attendUnit computes a chunk of a call, or a segment of one.
func (j *job) attendUnit(w *scratch, i int) {
	index, segment, segments := j.chunkOf(i)
	if segments > 1 {
		j.segment(w, index, segment)
		return
	}
	next, s := j.plan.chunks, j.plan.sequences
	if i+j.workers < j.units && (s == nil || s.documents) { // a guess: others take one each
		next, _, _ = j.chunkOf(i + j.workers)
	}
	w.attendChunk(&j.plan, index, next)
}

// order puts chunks with many keys first: the last rows under a causal mask.
// Otherwise the chunks of a head follow each other, which leaves its keys in
// the cache.
func (j *job) order(i int) (index int) {
	p := &j.plan
	if p.causal == Full {
		return i
	}
	per := p.chunksPerHead
	heads := p.chunks / per
	return i%heads*per + per - 1 - i/heads
}

// segment computes the state of chunk i over one segment. Whoever finishes the last segment of a
// chunk merges all, from left to right as one worker does it.
func (j *job) segment(w *scratch, i, segment int) {
	p := &j.plan
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
			st := j.state(i, segment)
			st.Reset(c.heads*c.rows, p.oStride)
			w.addSegment(p, &c, &st, first, end)
		}
	}
	if atomic.AddInt32(&j.left[i], -1) > 0 {
		return
	}
	p.clearRows(&c, padding)
	if c.rows > 0 {
		j.finish(w, &c, i)
	}
}

// finish merges the segments of chunk i and writes the results.
func (j *job) finish(w *scratch, c *chunk, i int) {
	p, rows := &j.plan, c.heads*c.rows
	w.loadQueries(p, c) // for weights, which need the scores again, and for the units of integers
	for first := c.lo; first < c.hi; first = (first/Segment + 1) * Segment {
		st := j.state(i, first/Segment)
		w.part.Copy(&st, rows, p.oStride)
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
func (j *job) state(i, segment int) online.State {
	size, rows := j.plan.stateSize(), j.plan.headsPerChunk*j.plan.chunkRows
	at := (i*j.segments + segment - j.plan.segment) * size
	if s := j.plan.sequences; s != nil {
		w := s.itemOf(i, false)
		size, rows = w.stateSize, w.rows
		at = w.state + ((i-w.chunk)*w.segments+segment-w.segment)*size
	}
	x := j.states[at:][:size]
	return online.State{M: x[:rows], L: x[rows : 2*rows], O: x[2*rows:]}
}
