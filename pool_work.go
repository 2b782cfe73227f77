package attn

import (
	"sync/atomic"

	"github.com/seed-1415985d/attn/internal/matmul"
	"github.com/seed-1415985d/attn/internal/online"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/pool"
	"github.com/seed-1415985d/attn/internal/ragged"
)

// The tasks into which each kind of call is divided for the workers of a Pool.

// worker is the memory of a goroutine that does tasks of a Pool. The caller's memory holds the
// call, too.
type worker struct {
	scratch  scratch
	products matmul.Memory

	attention attention
	update    pooledUpdate
	writing   writing
	matrices  matrixCall
	parts     callerParts
}

// poolCall is a call of a Pool.
type poolCall = pool.Call[*worker]

func newWorker() *worker { return new(worker) }

// Forget clears references to the buffers of a caller whose tasks are done.
func (w *worker) Forget() { w.products.Forget() }

// Each kind of call clears its references to the caller's buffers when it ends.

// attention is a call of Attend that workers share: its tasks are chunks, or segments of chunks.
type attention struct {
	plan plan
	call ragged.Call // of a call over several sequences

	tasks, workers int
	segments       int // pieces of each chunk, 1 if it is whole

	once   packed.Blocks // keys and values of views, packed for all workers, in
	packed []float32     // memory of the call

	left   []int32   // for each chunk, segments that are not done yet
	states []float32 // for each chunk and segment its state, if chunks have several segments
}

// end ends a call, which may be an update.
func (a *attention) end(c *poolCall) {
	a.plan = plan{}
	a.call.Drop()
	c.Memory.update = pooledUpdate{}
	c.End()
}

// attend computes the validated call.
func (a *attention) attend(c *poolCall) {
	if !a.plan.dst.empty() {
		cost := a.plan.cost(&tuned)
		a.attendBy(c, c.WorkersFor(cost), cost)
	}
}

// attendBy is attend by some workers; cost is the call's nanoseconds on one core.
func (a *attention) attendBy(c *poolCall, workers int, cost float64) {
	a.schedule(workers)
	if x := &a.plan; x.packed == &a.once {
		c.Share(keyPacking{x}, workers, x.packingTasks(), x.packingCost(&tuned))
	}
	c.Do(a, workers, a.tasks, cost)
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

// scheduleSequences allocates the states of a call over sequences, whose items differ in segments.
func (a *attention) scheduleSequences(workers int) {
	p := &a.plan
	p.decideSequences(&tuned, workers)
	a.tasks = 0
	a.left = grow(a.left, p.chunks)
	size := 0
	for i := range p.sequences.Items {
		w := &p.sequences.Items[i]
		a.tasks += w.Chunks * w.Segments
		for index := range w.Chunks {
			a.left[w.Chunk+index] = int32(w.Segments)
		}
		if w.Segments > 1 {
			size = max(size, w.State+p.kvHeads*w.Segments*w.StateSize)
		}
	}
	a.states = grow(a.states, size)
}

// chunkOf returns the chunk of a task, its segment, and the number of segments of the chunk.
func (a *attention) chunkOf(task int) (index, segment, segments int) {
	if s := a.plan.sequences; s != nil {
		return s.Task(task)
	}
	return a.order(task / a.segments), a.plan.segment + task%a.segments, a.segments
}

func (a *attention) Begin(w *worker) { w.scratch.fit(&a.plan) }

// Task computes a chunk of the call, or a segment of one.
func (a *attention) Task(w *worker, i int) {
	index, segment, segments := a.chunkOf(i)
	if segments > 1 {
		a.segment(&w.scratch, index, segment)
		return
	}
	next, s := a.plan.chunks, a.plan.sequences
	if i+a.workers < a.tasks && (s == nil || s.Documents) { // a guess: other workers take one each
		next, _, _ = a.chunkOf(i + a.workers)
	}
	w.scratch.attendChunk(&a.plan, index, next)
}

// order puts chunks with many keys first: the last rows under a causal mask. Otherwise the chunks
// of a head are consecutive, which keeps its keys in the cache.
func (a *attention) order(i int) (index int) {
	p := &a.plan
	if p.causal == Full {
		return i
	}
	per := p.chunksPerHead
	heads := p.chunks / per
	return i%heads*per + per - 1 - i/heads
}

// segment computes the state of chunk i over one segment. The worker that finishes the last segment
// of a chunk merges all, from left to right as a single worker would.
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

// state returns the memory of the state of chunk i over a segment.
func (a *attention) state(i, segment int) online.State {
	size, rows := a.plan.stateSize(), a.plan.headsPerChunk*a.plan.chunkRows
	at := (i*a.segments + segment - a.plan.segment) * size
	if s := a.plan.sequences; s != nil {
		w := s.ItemOf(i, false)
		size, rows = w.StateSize, w.Rows
		at = w.State + ((i-w.Chunk)*w.Segments+segment-w.Segment)*size
	}
	x := a.states[at:][:size]
	return online.State{M: x[:rows], L: x[rows : 2*rows], O: x[2*rows:]}
}

// keyPacking packs the views of a call for all its chunks, before them: its tasks are runs of
// blocks.
type keyPacking struct{ *plan }

func (keyPacking) Begin(*worker) {}

func (x keyPacking) Task(w *worker, i int) { x.packKeys(&w.scratch.writer, i) }

// share writes the tokens, for which room was reserved, on the workers of a pool.
func (x *writing) share(c *poolCall) {
	c.Share(tokenWriting{x}, c.WorkersFor(x.cost()), x.tasks(), x.cost())
}

// end ends a call.
func (x *writing) end(c *poolCall) {
	*x = writing{}
	c.End()
}

// tokenWriting is the work of Append: its tasks are runs of tokens.
type tokenWriting struct{ *writing }

func (tokenWriting) Begin(*worker) {}

func (x tokenWriting) Task(w *worker, i int) { x.write(&w.scratch.writer, i) }

// addPooled is add by the workers of a pool.
func (s *State) addPooled(c *poolCall, seqs []*Sequence) (err error) {
	p, u := &c.Memory.attention.plan, &c.Memory.update
	if p.lk > 0 && !p.q.empty() {
		if u.stateUpdate, err = s.beginAdd(p, seqs); err != nil {
			return err
		}
		u.plan = p
		cost := p.cost(&tuned)
		workers := c.WorkersFor(cost)
		p.decide(&tuned, workers)
		c.Share(u, workers, p.chunks, cost)
		s.tree.Extend(s.keys, s.keys+p.lk)
	}
	s.countAdd(p)
	return nil
}

// pooledUpdate is an Update that workers share: its tasks are chunks.
type pooledUpdate struct {
	stateUpdate
	plan *plan
}

func (u *pooledUpdate) Begin(w *worker) { w.scratch.fit(u.plan) }

func (u *pooledUpdate) Task(w *worker, i int) { u.addChunk(&w.scratch, u.plan, i) }

// callerParts is the work of Run: its tasks are parts.
type callerParts struct{ Worker }

func (callerParts) Begin(*worker) {}

func (x *callerParts) Task(_ *worker, i int) { x.Work(i) }

// matrixCall is a call of products by matrices: the current work, and the memory of products.
type matrixCall struct {
	*poolCall
	work matmul.Work
}

// beginProducts begins a call, and returns it with its memory for products.
func (p *Pool) beginProducts() (*matrixCall, *matmul.Memory, error) {
	c, err := p.workers.Begin(newWorker)
	if err != nil {
		return nil, nil, err
	}
	x := &c.Memory.matrices
	x.poolCall = c
	return x, &c.Memory.products, nil
}

// end ends the call.
func (x *matrixCall) end() {
	x.Memory.products.Drop()
	x.work = nil
	x.End()
}

// Share computes all tasks of some work.
func (x *matrixCall) Share(of matmul.Work, workers, tasks int, cost float64) {
	x.work = of
	x.poolCall.Share(x, workers, tasks, cost)
}

func (x *matrixCall) Begin(w *worker) { x.work.Begin(&w.products) }

func (x *matrixCall) Task(w *worker, i int) { x.work.Task(&w.products, i) }
