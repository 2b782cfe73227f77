package attn

import (
	"sync/atomic"

	"github.com/seed-1415985d/attn/internal/online"
	"github.com/seed-1415985d/attn/internal/packed"
)

// What the workers of a Pool do: the tasks that each kind of call is divided into.

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

// attend computes the validated call of attention.
func (p *Pool) attend(pc *poolCall) {
	if pc.attention.plan.dst.empty() {
		return
	}
	cost := pc.attention.plan.cost(&tuned)
	p.attendBy(pc, p.workersFor(cost), cost)
}

// attendBy is attend by some workers, of a call that takes some nanoseconds on one core.
func (p *Pool) attendBy(pc *poolCall, workers int, cost float64) {
	a := &pc.attention
	a.schedule(workers)
	if x := &a.plan; x.packed == &a.once {
		p.share(pc, keyPacking{x}, workers, x.packingCost(&tuned), x.packingTasks())
	}
	pc.set(a, workers, a.tasks, cost)
	p.run(&pc.job, &pc.scratch)
}

// keyPacking is what comes before the chunks of a call over views that are packed for all: its
// tasks are blocks of these.
type keyPacking struct{ *plan }

func (keyPacking) begin(*scratch) {}

func (x keyPacking) task(w *scratch, i int) { x.packKeys(&w.writer, i) }

// write writes the tokens of a call, for which there is room.
func (p *Pool) write(pc *poolCall) {
	x := &pc.writing
	p.share(pc, tokenWriting{x}, p.workersFor(x.cost()), x.cost(), x.tasks())
}

// tokenWriting is the work of Append: its tasks are runs of tokens.
type tokenWriting struct{ *writing }

func (tokenWriting) begin(*scratch) {}

func (x tokenWriting) task(w *scratch, i int) { x.write(&w.writer, i) }

// addPooled is add by the workers of a pool.
func (s *State) addPooled(pool *Pool, pc *poolCall, seqs []*Sequence) (err error) {
	p := &pc.attention.plan
	if p.lk > 0 && !p.q.empty() {
		if pc.update.stateUpdate, err = s.beginAdd(p, seqs); err != nil {
			return err
		}
		pc.update.plan = p
		cost := p.cost(&tuned)
		workers := pool.workersFor(cost)
		p.decide(&tuned, workers)
		pool.share(pc, &pc.update, workers, cost, p.chunks)
		s.tree.Extend(s.keys, s.keys+p.lk)
	}
	s.countAdd(p)
	return nil
}

// pooledUpdate is an Update that workers share: its tasks are chunks, over keys of one segment.
type pooledUpdate struct {
	stateUpdate
	plan *plan
}

func (u *pooledUpdate) begin(w *scratch) { w.fit(u.plan) }

func (u *pooledUpdate) task(w *scratch, i int) { u.addChunk(w, u.plan, i) }

// callerParts is the work of Run: its tasks are parts.
type callerParts struct{ Worker }

func (callerParts) begin(*scratch) {}

func (x *callerParts) task(_ *scratch, i int) { x.Work(i) }

// multiply computes the products of a call, whose arguments are valid.
func (p *Pool) multiply(pc *poolCall, inputs preparation) {
	q := &pc.products
	q.inputs = inputs
	x := &q.inputs
	most, ok := x.atOnce(), false
	for *x, ok = x.next(&pc.scratch, most); ok; *x, ok = x.next(&pc.scratch, most) {
		cost := q.take()
		workers := p.workersFor(cost)
		if q.own = x.short(); x.needs != 0 && !q.own {
			p.share(pc, x, workers, x.cost(), x.divide(workers))
		}
		p.share(pc, q, workers, cost, q.partition(workers))
	}
}

// share lets workers do the tasks of some work, which take some nanoseconds in all.
func (p *Pool) share(pc *poolCall, x work, workers int, cost float64, tasks int) {
	if cost < tuned.SmallCall {
		workers = 1
	}
	pc.set(x, workers, tasks, cost)
	p.run(&pc.job, &pc.scratch)
}
