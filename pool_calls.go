package attn

import (
	"runtime"

	"github.com/seed-1415985d/attn/internal/blocks"
)

// Worker is work in parts for [Pool.Run]: Work does the part of a number, 0 to parts − 1, on any
// goroutine, beside other parts.
type Worker interface{ Work(part int) }

// Run calls w.Work once for each part from 0 to parts − 1, on all workers of the pool, the calling
// goroutine among them, and returns when all parts are done: an engine's own loops, without a
// second set of goroutines. A worker takes the next part when it is done with one, in ascending
// order, so parts may differ in length; they are best of 10 µs or more. All workers are offered
// parts, whatever these cost: those that spin, and others are woken, as for other calls.
//
// What was written before Run is seen by all parts, and what parts write is seen after it. Run does
// not allocate if w is a pointer; a new struct as a Worker may be allocated by the caller.
//
// Work may call this Pool, which computes on that worker and others that have nothing to do, and
// may wait for other goroutines that do; but not for another part, which may have nobody to do it
// yet, nor for Close. If Work panics, Run panics with that value as soon as no part is at work;
// other parts may not have been done, and the pool goes on. If Work ends its goroutine by
// [runtime.Goexit], Run ends the caller's.
//
// A nil *Pool does all parts on the calling goroutine, in order. parts below 0 is [ErrOption], as is
// a nil w that has parts to do; a closed pool is [ErrClosed], for 0 parts, too.
func (p *Pool) Run(parts int, w Worker) error {
	if p == nil {
		return runAlone(parts, w)
	}
	pc, err := p.takeCall()
	if err != nil {
		return err
	}
	defer p.putCall(pc)
	if err := checkParts(parts, w); err != nil || parts == 0 {
		return err
	}
	pc.parts, pc.mayPanic = callerParts{w}, true
	pc.set(&pc.parts, p.size, int(min(int64(parts), noTask)), 0) // more would take a century
	if p.size > 1 && parts > 1 {
		p.spin.CallBegins()
		defer p.spin.CallEnds()
	}
	p.run(&pc.job, &pc.scratch)
	switch {
	case !pc.stopped.Load():
		return nil
	case pc.value == nil:
		runtime.Goexit()
	}
	panic(pc.value)
}

// callerParts is the work of Run: its tasks are parts.
type callerParts struct{ Worker }

func (callerParts) begin(*scratch) {}

func (x *callerParts) task(_ *scratch, i int) { x.Work(i) }

// runAlone is Run of a nil Pool.
func runAlone(parts int, w Worker) error {
	if err := checkParts(parts, w); err != nil {
		return err
	}
	for i := range parts {
		w.Work(i)
	}
	return nil
}

func checkParts(parts int, w Worker) error {
	if parts < 0 {
		return fail(ErrOption, "parts is %d, want at least 0", parts)
	}
	if parts > 0 && w == nil {
		return fail(ErrOption, "w is nil, want a Worker")
	}
	return nil
}

// Attend works like the function [Attend], on all workers of the pool.
func (p *Pool) Attend(dst, q, k, v Tensor, opt *Options) error {
	if p == nil {
		return Attend(dst, q, k, v, opt)
	}
	pc, err := p.takeCall()
	if err != nil {
		return err
	}
	pc.attention.plan = newPlan(dst, q, k, v, opt)
	if opt != nil && opt.Documents != nil {
		err = pc.attention.plan.initDocuments(&pc.attention.call, opt)
	} else {
		err = pc.attention.plan.init(opt)
	}
	if err == nil {
		p.attend(pc)
	}
	p.putCall(pc)
	return err
}

// AttendCache works like [Cache.Attend], on all workers of the pool.
func (p *Pool) AttendCache(dst, q Tensor, c *Cache, opt *Options) error {
	if p == nil {
		return c.Attend(dst, q, opt)
	}
	pc, err := p.takeCall()
	if err != nil {
		return err
	}
	pc.attention.plan = newPlan(dst, q, Tensor{}, Tensor{}, opt)
	if err = c.plan(&pc.attention.plan, opt); err == nil {
		p.attend(pc)
	}
	p.putCall(pc)
	return err
}

// AppendCache is [Cache.Append] on all workers of the pool.
func (p *Pool) AppendCache(c *Cache, k, v Tensor) error {
	if p == nil {
		return c.Append(k, v)
	}
	pc, err := p.takeCall()
	if err != nil {
		return err
	}
	defer p.putCall(pc)
	pc.writing = writing{k: k, v: v}
	if err := c.beginAppend(&pc.writing); err != nil {
		return err
	}
	p.write(pc)
	runtime.KeepAlive(c) // and with it its memory
	return nil
}

// AppendSequence is [Sequence.Append] on all workers of the pool.
func (p *Pool) AppendSequence(s *Sequence, k, v Tensor) error {
	if p == nil {
		return s.Append(k, v)
	}
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.endCall()
	pc, err := p.takeCall()
	if err != nil {
		return err
	}
	defer p.putCall(pc)
	pc.writing = writing{k: k, v: v}
	if err := s.beginAppend(&pc.writing); err != nil {
		return err
	}
	p.write(pc)
	return nil
}

// write writes the tokens of a call, for which there is room.
func (p *Pool) write(pc *poolCall) {
	x := &pc.writing
	p.share(pc, tokenWriting{x}, p.workersFor(x.cost()), x.cost(), x.tasks())
}

// tokenWriting is the work of Append: its tasks are runs of tokens.
type tokenWriting struct{ *writing }

func (tokenWriting) begin(*scratch) {}

func (x tokenWriting) task(w *scratch, i int) { x.write(&w.writer, i) }

// AttendSequences works like the function [AttendSequences], on all workers of the pool. The call
// is divided by how much work its sequences are.
func (p *Pool) AttendSequences(dst, q Tensor, seqs []*Sequence, opt *Options) error {
	if p == nil {
		return AttendSequences(dst, q, seqs, opt)
	}
	pc, err := p.takeCall()
	if err != nil {
		return err
	}
	defer p.putCall(pc)
	if err := beginCalls(seqs, inOneStore); err != nil {
		return err
	}
	defer endCalls(seqs)
	pc.attention.plan = newPlan(dst, q, Tensor{}, Tensor{}, opt)
	if err := pc.attention.plan.initSequences(&pc.attention.call, seqs, opt); err != nil {
		return err
	}
	p.attend(pc)
	return nil
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

// MatMul works like the function [MatMul], on all workers of the pool.
func (p *Pool) MatMul(dst, a, b Tensor) error {
	if p == nil {
		return MatMul(dst, a, b)
	}
	pc, err := p.takeCall()
	if err != nil {
		return err
	}
	defer p.putCall(pc)
	x := &pc.multiplication
	*x = multiplication{t: &tuned, dst: dst, a: a, b: b}
	if err := x.check(); err != nil || x.dst.empty() {
		return err
	}
	workers := p.workersFor(x.cost())
	x.partition(workers)
	p.share(pc, x, workers, x.cost(), x.tasks())
	return nil
}

// MulMatrix works like [Matrix.MatMul], on all workers of the pool.
func (p *Pool) MulMatrix(dst, a Tensor, m *Matrix, bias []float32) error {
	if p == nil {
		return m.MatMul(dst, a, bias)
	}
	pc, err := p.takeCall()
	if err != nil {
		return err
	}
	defer p.putCall(pc)
	if err := m.checkMatMul(&dst, &a, bias); err != nil {
		return err
	}
	ms := []*Matrix{m}
	pc.products.set(&tuned, []Tensor{dst}, ms, [][]float32{bias})
	p.multiply(pc, inputsOf(&tuned, a, ms))
	return nil
}

// MulMatrices works like the function [MulMatrices], on all workers of the pool, as one piece of
// work: workers that are done with a matrix go on with the next.
func (p *Pool) MulMatrices(dsts []Tensor, a Tensor, ms []*Matrix, biases [][]float32) error {
	if p == nil {
		return MulMatrices(dsts, a, ms, biases)
	}
	pc, err := p.takeCall()
	if err != nil {
		return err
	}
	defer p.putCall(pc)
	if err := checkProducts(dsts, a, ms, biases); err != nil || len(ms) == 0 {
		return err
	}
	pc.products.set(&tuned, dsts, ms, biases)
	p.multiply(pc, inputsOf(&tuned, a.checked(), ms))
	return nil
}

// MulExperts works like the function [MulExperts], on all workers of the pool, among which the
// products of all experts are divided as one piece of work.
func (p *Pool) MulExperts(dst, a Tensor, ms []*Matrix, experts View[int32],
	biases [][]float32) error {
	if p == nil {
		return MulExperts(dst, a, ms, experts, biases)
	}
	pc, err := p.takeCall()
	if err != nil {
		return err
	}
	defer p.putCall(pc)
	x := expertCall{t: &tuned, dst: dst, a: a, ms: ms, chosen: experts, biases: biases}
	if err := x.check(); err != nil || x.dst.empty() {
		return err
	}
	x.route(&pc.scratch.routes)
	pc.products.set(&tuned, []Tensor{x.dst}, ms, biases)
	p.multiply(pc, x.inputs(&pc.scratch.routes))
	return nil
}

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

// PackMatrix works like the function [PackMatrix], on all workers of the pool.
func (p *Pool) PackMatrix(w Tensor, c MatrixConfig) (*Matrix, error) {
	if p == nil {
		return PackMatrix(w, c)
	}
	pc, err := p.takeCall()
	if err != nil {
		return nil, err
	}
	defer p.putCall(pc)
	x, err := newPacking(&tuned, w, c)
	if err != nil {
		return nil, err
	}
	workers := p.workersFor(x.cost())
	x.divide(workers)
	p.share(pc, x, workers, x.cost(), x.tasks())
	return x.finish()
}

// PackBlocks works like the function [PackBlocks], on all workers of the pool.
func (p *Pool) PackBlocks(data []byte, t BlockType, outputs, inputs int, c MatrixConfig) (*Matrix,
	error) {
	if p == nil {
		return PackBlocks(data, t, outputs, inputs, c)
	}
	pc, err := p.takeCall()
	if err != nil {
		return nil, err
	}
	defer p.putCall(pc)
	x, err := newBlockPacking(data, blocks.Type(t), outputs, inputs, c)
	if err != nil {
		return nil, err
	}
	p.share(pc, x, p.workersFor(x.cost()), x.cost(), x.tasks())
	return x.finish()
}

// Update is [State.Update] on all workers of the pool.
func (p *Pool) Update(s *State, q, k, v Tensor, opt *Options) error {
	if p == nil {
		return s.Update(q, k, v, opt)
	}
	pc, err := p.takeCall()
	if err != nil {
		return err
	}
	defer p.putCall(pc)
	pc.attention.plan = newPlan(Tensor{}, q, k, v, opt)
	if err := pc.attention.plan.initKeys(); err != nil {
		return err
	}
	if err := s.initUpdate(&pc.attention.plan, opt); err != nil {
		return err
	}
	return s.addPooled(p, pc, nil)
}

// UpdateSequence is [State.UpdateSequence] on all workers of the pool.
func (p *Pool) UpdateSequence(s *State, q Tensor, seq *Sequence, opt *Options) error {
	if p == nil {
		return s.UpdateSequence(q, seq, opt)
	}
	if err := seq.beginUpdate(); err != nil {
		return err
	}
	defer seq.endCall()
	pc, err := p.takeCall()
	if err != nil {
		return err
	}
	defer p.putCall(pc)
	pc.attention.plan = newPlan(Tensor{}, q, Tensor{}, Tensor{}, opt)
	pc.attention.plan.table, pc.attention.plan.first = &seq.table, seq.table.First()
	if err := s.initSequence(&pc.attention.plan, seq.store, seq.table.Len(), opt); err != nil {
		return err
	}
	return s.addPooled(p, pc, nil)
}

// UpdateSequences is [State.UpdateSequences] on all workers of the pool.
func (p *Pool) UpdateSequences(s *State, q Tensor, seqs []*Sequence, opt *Options) error {
	if p == nil {
		return s.UpdateSequences(q, seqs, opt)
	}
	tokens, err := beginUpdates(seqs)
	if err != nil {
		return err
	}
	defer endCalls(seqs)
	pc, err := p.takeCall()
	if err != nil {
		return err
	}
	defer p.putCall(pc)
	pc.attention.plan = newPlan(Tensor{}, q, Tensor{}, Tensor{}, opt)
	if err := s.initSequence(&pc.attention.plan, seqs[0].store, tokens, opt); err != nil {
		return err
	}
	return s.addPooled(p, pc, seqs)
}

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
