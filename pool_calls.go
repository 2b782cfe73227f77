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
// A nil *Pool does all parts on the calling goroutine, in order. parts below 0 is [ErrOption], a
// closed pool [ErrClosed], for 0 parts, too.
func (p *Pool) Run(parts int, w Worker) error {
	if p == nil {
		return runAlone(parts, w)
	}
	j, err := p.takeJob()
	if err != nil {
		return err
	}
	defer p.putJob(j)
	if err := checkParts(parts); err != nil || parts == 0 {
		return err
	}
	j.kind, j.worker, j.workers, j.cost = runWork, w, p.size, 0
	j.units = int(min(int64(parts), noUnit)) // more would take a century
	j.next.Store(0)
	if p.size > 1 && parts > 1 {
		p.spin.CallBegins()
		defer p.spin.CallEnds()
	}
	p.run(j)
	switch {
	case !j.stopped.Load():
		return nil
	case j.value == nil:
		runtime.Goexit()
	}
	panic(j.value)
}

// runAlone is Run of a nil Pool.
func runAlone(parts int, w Worker) error {
	if err := checkParts(parts); err != nil {
		return err
	}
	for i := range parts {
		w.Work(i)
	}
	return nil
}

func checkParts(parts int) error {
	if parts < 0 {
		return fail(ErrOption, "parts is %d, want at least 0", parts)
	}
	return nil
}

// Attend works like the function [Attend], on all workers of the pool.
func (p *Pool) Attend(dst, q, k, v Tensor, opt *Options) error {
	if p == nil {
		return Attend(dst, q, k, v, opt)
	}
	j, err := p.takeJob()
	if err != nil {
		return err
	}
	j.plan = newPlan(dst, q, k, v, opt)
	if opt != nil && opt.Documents != nil {
		err = j.plan.initDocuments(&j.call, opt)
	} else {
		err = j.plan.init(opt)
	}
	if err == nil {
		p.attend(j)
	}
	p.putJob(j)
	return err
}

// AttendCache works like [Cache.Attend], on all workers of the pool.
func (p *Pool) AttendCache(dst, q Tensor, c *Cache, opt *Options) error {
	if p == nil {
		return c.Attend(dst, q, opt)
	}
	_ = c.length // a nil pointer panics before the call counts as running
	j, err := p.takeJob()
	if err != nil {
		return err
	}
	j.plan = newPlan(dst, q, Tensor{}, Tensor{}, opt)
	if err = c.plan(&j.plan, opt); err == nil {
		p.attend(j)
	}
	p.putJob(j)
	return err
}

// AttendSequences works like the function [AttendSequences], on all workers of the pool. The call
// is divided by how much work its sequences are.
func (p *Pool) AttendSequences(dst, q Tensor, seqs []*Sequence, opt *Options) error {
	if p == nil {
		return AttendSequences(dst, q, seqs, opt)
	}
	j, err := p.takeJob()
	if err != nil {
		return err
	}
	defer p.putJob(j)
	if err := beginCalls(seqs, inOneStore); err != nil {
		return err
	}
	defer endCalls(seqs)
	j.plan = newPlan(dst, q, Tensor{}, Tensor{}, opt)
	if err := j.plan.initSequences(&j.call, seqs, opt); err != nil {
		return err
	}
	p.attend(j)
	return nil
}

// attend computes the validated call of a job.
func (p *Pool) attend(j *job) {
	if j.plan.dst.empty() {
		return
	}
	cost := j.plan.cost(&tuned)
	p.attendBy(j, p.workersFor(cost), cost)
}

// attendBy is attend by some workers, of a call that takes some nanoseconds on one core.
func (p *Pool) attendBy(j *job, workers int, cost float64) {
	j.schedule(workers)
	if units, workers := j.units, j.workers; j.plan.packed == &j.once {
		p.runUnits(j, keysWork, workers, j.plan.packingCost(&tuned), j.plan.packingUnits())
		j.kind, j.units, j.workers = attendWork, units, workers
		j.next.Store(0)
	}
	j.cost = cost
	p.run(j)
}

// MatMul works like the function [MatMul], on all workers of the pool.
func (p *Pool) MatMul(dst, a, b Tensor) error {
	if p == nil {
		return MatMul(dst, a, b)
	}
	j, err := p.takeJob()
	if err != nil {
		return err
	}
	defer p.putJob(j)
	x := &j.multiplication
	*x = multiplication{dst: dst, a: a, b: b}
	if err := x.check(); err != nil || x.dst.empty() {
		return err
	}
	workers := p.workersFor(x.cost())
	x.partition(workers)
	p.runUnits(j, multiplyWork, workers, x.cost(), x.units())
	return nil
}

// MulMatrix works like [Matrix.MatMul], on all workers of the pool.
func (p *Pool) MulMatrix(dst, a Tensor, m *Matrix, bias []float32) error {
	if p == nil {
		return m.MatMul(dst, a, bias)
	}
	_ = m.cols // a nil pointer panics before the call counts as running
	j, err := p.takeJob()
	if err != nil {
		return err
	}
	defer p.putJob(j)
	if err := m.checkMatMul(&dst, &a, bias); err != nil {
		return err
	}
	ms := []*Matrix{m}
	j.products.set([]Tensor{dst}, ms, [][]float32{bias})
	p.multiply(j, inputsOf(a, ms))
	return nil
}

// MulMatrices works like the function [MulMatrices], on all workers of the pool, as one piece of
// work: workers that are done with a matrix go on with the next.
func (p *Pool) MulMatrices(dsts []Tensor, a Tensor, ms []*Matrix, biases [][]float32) error {
	if p == nil {
		return MulMatrices(dsts, a, ms, biases)
	}
	j, err := p.takeJob()
	if err != nil {
		return err
	}
	defer p.putJob(j)
	if err := checkProducts(dsts, a, ms, biases); err != nil || len(ms) == 0 {
		return err
	}
	j.products.set(dsts, ms, biases)
	p.multiply(j, inputsOf(a.checked(), ms))
	return nil
}

// MulExperts works like the function [MulExperts], on all workers of the pool, among which the
// products of all experts are divided as one piece of work.
func (p *Pool) MulExperts(dst, a Tensor, ms []*Matrix, experts View[int32],
	biases [][]float32) error {
	if p == nil {
		return MulExperts(dst, a, ms, experts, biases)
	}
	j, err := p.takeJob()
	if err != nil {
		return err
	}
	defer p.putJob(j)
	x := expertCall{dst: dst, a: a, ms: ms, chosen: experts, biases: biases}
	if err := x.check(); err != nil || x.dst.empty() {
		return err
	}
	x.route(&j.scratch.routes)
	j.products.set([]Tensor{x.dst}, ms, biases)
	p.multiply(j, x.inputs(&j.scratch.routes))
	return nil
}

// multiply computes the products of a job, whose arguments are valid.
func (p *Pool) multiply(j *job, inputs preparation) {
	q := &j.products
	q.inputs = inputs
	x := &q.inputs
	part, ok := x.part(), false
	for *x, ok = x.next(&j.scratch, part); ok; *x, ok = x.next(&j.scratch, part) {
		cost := q.take()
		workers := p.workersFor(cost)
		if q.own = x.short(); x.needs != 0 && !q.own {
			p.runUnits(j, prepareWork, workers, x.cost(), x.divide(workers))
		}
		p.runUnits(j, productWork, workers, cost, q.partition(workers))
	}
}

// runUnits lets workers compute units, which take some nanoseconds in all.
func (p *Pool) runUnits(j *job, work workKind, workers int, cost float64, units int) {
	j.kind, j.cost, j.units, j.workers = work, cost, units, workers
	if cost < tuned.SmallCall {
		j.workers = 1
	}
	j.next.Store(0)
	p.run(j)
}

// PackMatrix works like the function [PackMatrix], on all workers of the pool.
func (p *Pool) PackMatrix(w Tensor, c MatrixConfig) (*Matrix, error) {
	if p == nil {
		return PackMatrix(w, c)
	}
	j, err := p.takeJob()
	if err != nil {
		return nil, err
	}
	defer p.putJob(j)
	x, err := newPacking(w, c)
	if err != nil {
		return nil, err
	}
	workers := p.workersFor(x.cost())
	x.divide(workers)
	j.packing = x
	p.runUnits(j, packWork, workers, x.cost(), x.units())
	return x.finish()
}

// PackBlocks works like the function [PackBlocks], on all workers of the pool.
func (p *Pool) PackBlocks(data []byte, t BlockType, outputs, inputs int, c MatrixConfig) (*Matrix,
	error) {
	if p == nil {
		return PackBlocks(data, t, outputs, inputs, c)
	}
	j, err := p.takeJob()
	if err != nil {
		return nil, err
	}
	defer p.putJob(j)
	x, err := newBlockPacking(data, blocks.Type(t), outputs, inputs, c)
	if err != nil {
		return nil, err
	}
	j.blocks = x
	p.runUnits(j, packBlocksWork, p.workersFor(x.cost()), x.cost(), x.units())
	return x.finish()
}

// Update is [State.Update] on all workers of the pool.
func (p *Pool) Update(s *State, q, k, v Tensor, opt *Options) error {
	if p == nil {
		return s.Update(q, k, v, opt)
	}
	j, err := p.takeJob()
	if err != nil {
		return err
	}
	defer p.putJob(j)
	j.plan = newPlan(Tensor{}, q, k, v, opt)
	if err := j.plan.initKeys(); err != nil {
		return err
	}
	if err := s.initUpdate(&j.plan, opt); err != nil {
		return err
	}
	return s.addPooled(p, j, nil)
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
	j, err := p.takeJob()
	if err != nil {
		return err
	}
	defer p.putJob(j)
	j.plan = newPlan(Tensor{}, q, Tensor{}, Tensor{}, opt)
	j.plan.table, j.plan.first = &seq.table, seq.table.First()
	if err := s.initSequence(&j.plan, seq.store, seq.table.Len(), opt); err != nil {
		return err
	}
	return s.addPooled(p, j, nil)
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
	j, err := p.takeJob()
	if err != nil {
		return err
	}
	defer p.putJob(j)
	j.plan = newPlan(Tensor{}, q, Tensor{}, Tensor{}, opt)
	if err := s.initSequence(&j.plan, seqs[0].store, tokens, opt); err != nil {
		return err
	}
	return s.addPooled(p, j, seqs)
}

// addPooled is add by the workers of a pool.
func (s *State) addPooled(pool *Pool, j *job, seqs []*Sequence) (err error) {
	p := &j.plan
	if p.lk > 0 && !p.q.empty() {
		if j.update, err = s.beginAdd(p, seqs); err != nil {
			return err
		}
		cost := p.cost(&tuned)
		workers := pool.workersFor(cost)
		p.decide(&tuned, workers)
		pool.runUnits(j, updateWork, workers, cost, p.chunks)
		s.endAdd(p)
	}
	s.countAdd(p)
	return nil
}
