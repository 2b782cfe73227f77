package matmul

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
	"github.com/seed-1415985d/attn/internal/views"
)

// targets are the matrices of a call, and for each its output and bias. If rows choose matrices,
// all share one output.
type targets struct {
	dsts   []views.Tensor
	ms     []*Matrix
	biases [][]float32 // or none
}

// multiply computes all products on the calling goroutine.
func (q *targets) multiply(x preparation) {
	w := memories.Get().(*Memory)
	most, ok := x.atOnce(), false
	for x, ok = x.next(w, most); ok; x, ok = x.next(w, most) {
		x.run()
		for s, more := x.share(0, len(q.ms)); more; {
			p := q.product(&x, s)
			if s, more = x.share(s.which+1, len(q.ms)); more {
				p.next = q.ms[s.which].data
			}
			p.partition(1)
			for i := range p.tasks() {
				p.task(i)
			}
		}
	}
	memories.Put(w)
}

// product returns the product of a share of the prepared rows.
func (q *targets) product(x *preparation, s share) projection {
	p := projection{inputs: x, at: s.at, m: q.ms[s.which], bias: biasOf(q.biases, s.which)}
	if x.routes == nil {
		p.dst = q.dsts[s.which].Checked() // again, where it was: outputs repeat no elements
		p.dst.L, p.dst.Data = s.rows, p.dst.Data[x.first*p.dst.SL:]
		return p
	}
	p.offsets, p.gathered = x.routes.offsets[x.first+s.at:][:s.rows], true
	p.dst = views.Tensor{Data: q.dsts[0].Data, B: 1, H: 1, L: s.rows, D: q.dsts[0].D}
	if s.rows == 1 { // where it is
		p.dst.Data, p.dst.SL = p.dst.Data[p.offsets[0]:], p.dst.D
		p.offsets, p.gathered = nil, false
	}
	return p
}

// products is a call by a Pool, as one piece of work.
type products struct {
	targets // copies of the caller's lists
	inputs  preparation
	now     []projection // of the current rows
	ends    []int        // for each, the number of blocks or quarters up to its end
	runs    []productRun // of few rows by blocks the tasks of all; else none
	tasks   []int        // ends of the tasks among the quarters; none if a task is a block

	own     bool // each worker prepares the few rows itself, which is faster than to wait
	workers int  // for how many all was divided
}

// set copies the targets of a call, whose lists may be on the caller's stack.
func (q *products) set(dsts []views.Tensor, ms []*Matrix, biases [][]float32) {
	q.dsts, q.ms = append(q.dsts[:0], dsts...), append(q.ms[:0], ms...)
	q.biases = append(q.biases[:0], biases...)
}

// add adds the needs of a matrix.
func (x *preparation) add(m *Matrix) {
	x.needs |= m.needs()
	x.rotation = max(1, x.rotation, m.rotation) // of all that rotate their inputs
}

// productRun is some columns of a matrix; their panels are consecutive in memory.
type productRun struct{ which, first, cols int }

// leastRun is the bytes of the shortest runs: a worker reads them in about two microseconds.
const leastRun = 32 << 10

// setProducts sets now to the products of the current rows, and returns their nanoseconds on one
// core.
func (q *products) setProducts() (cost float64) {
	clear(q.now) // there may be fewer than before
	q.now = q.now[:0]
	for s, more := q.inputs.share(0, len(q.ms)); more; s, more = q.inputs.share(s.which+1, len(q.ms)) {
		p := q.product(&q.inputs, s)
		cost += p.cost()
		q.now = append(q.now, p)
	}
	return cost
}

// partition divides all products among workers, and returns the number of tasks.
func (q *products) partition(workers int) (tasks int) {
	q.ends, q.runs, q.tasks, q.workers = q.ends[:0], q.runs[:0], q.tasks[:0], workers
	if q.few() {
		q.divide(workers)
		return len(q.runs)
	}
	if q.inputs.routes != nil {
		return q.partitionExperts(workers)
	}
	all, steps := 0, 0.
	for i := range q.now {
		p := &q.now[i]
		p.partition(workers)
		all += quarters * p.tasks()
		steps += float64(p.dst.B) * float64(p.dst.H) * float64(p.dst.L) * float64(p.dst.D)
		q.ends = append(q.ends, all)
	}
	steps *= float64(q.inputs.a.D) / float64(all)
	least := max(1, min(quarters, int(leastSteps/steps)))
	for at := 0; at < all; {
		n := nextStretch(all-at, least, workers)
		for i := 0; i < workers && at < all; i++ { // one each
			at = min(at+n, all)
			q.tasks = append(q.tasks, at)
		}
	}
	return len(q.tasks)
}

// leastSteps is the multiply-adds of the shortest tasks: a microsecond or two of the fastest tiles.
const leastSteps = 1 << 20

// nextStretch returns how many of the quarters left become the next task of each worker: a part of
// its share, so that a worker reads consecutive panels and the last tasks are short, which keeps
// the wait for the last worker short. Once a share is a block or two, most of it is one task,
// because pieces of blocks take longer in all.
func nextStretch(left, least, workers int) int {
	n := left / (2 * workers)
	switch {
	case workers == 1:
		return left
	case n >= quarters: // whole blocks
		return n / quarters * quarters
	}
	return max(min(3*left/(4*workers), quarters), least)
}

// tasksOfExperts is how many tasks a worker should find at least in the products of all
// experts: these are of different length.
const tasksOfExperts = 2 * tuning.TasksPerWorker

// partitionExperts divides the products of all experts among workers, none into tasks longer than a
// part of all, and returns the number of tasks.
func (q *products) partitionExperts(workers int) (tasks int) {
	all := 0.
	for i := range q.now {
		all += q.now[i].cost()
	}
	longest := all / float64(workers*tasksOfExperts)
	for i := range q.now {
		p := &q.now[i]
		p.partition(1)
		for cost := p.cost(); workers > 1 && p.cols > minCols; {
			if cost <= longest*float64(p.tasks()) {
				break
			}
			p.cols = kernel.RoundUp(p.cols/2, panel)
		}
		tasks += p.tasks()
		q.ends = append(q.ends, tasks)
	}
	return tasks
}

// few reports whether all products are of few rows by blocks, which wait for memory.
func (q *products) few() bool {
	for i := range q.now {
		if p := &q.now[i]; !p.few() || p.dst.B*p.dst.H > 1 {
			return false
		}
	}
	return true
}

// divide divides all panels into runs, each a part of the rest, so that workers read long streams
// first and the last runs are short, in case a worker started late.
func (q *products) divide(workers int) {
	left, divisor := 0, 2*workers
	if workers == 1 {
		divisor = 1
	}
	for i := range q.now {
		left += len(q.now[i].m.data)
	}
	for i := range q.now {
		p := &q.now[i]
		size := p.m.blockPanel()
		for first, cols := 0, 0; first < p.dst.D; first += cols {
			cols = max(1, max(left/divisor, leastRun)/size) * panel
			if rest := p.dst.D - first; 2*rest < 3*cols {
				cols = rest
			}
			q.runs = append(q.runs, productRun{i, first, cols})
			left -= partsOf(cols, panel) * size
		}
	}
}

// Begin prepares the few rows of a worker before its first task.
func (q *products) Begin(w *Memory) {
	if q.own {
		x := q.inputs
		x.first, x.source = 0, views.Tensor{}
		w.inputs, _ = x.next(w, x.atOnce())
		w.inputs.run()
	}
}

// Task computes one task.
func (q *products) Task(w *Memory, i int) {
	if len(q.runs) > 0 {
		q.run(w, i)
		return
	}
	if len(q.tasks) == 0 {
		which, first := q.find(i)
		p := q.of(w, which)
		p.task(i - first)
		return
	}
	from, end := 0, q.tasks[i]
	if i > 0 {
		from = q.tasks[i-1]
	}
	for from < end {
		which, first := q.find(from)
		p, to := q.of(w, which), min(end, q.ends[which])
		p.stretch(from-first, to-first)
		from = to
	}
}

// find returns the product of block or quarter i, and the number of blocks or quarters before it.
func (q *products) find(i int) (which, before int) {
	if which, _ = slices.BinarySearch(q.ends, i+1); which > 0 {
		before = q.ends[which-1]
	}
	return which, before
}

// of returns a product with the inputs of a worker.
func (q *products) of(w *Memory, which int) projection {
	p := q.now[which]
	if q.own {
		p.inputs = &w.inputs
	}
	return p
}

// run computes a run, and prefetches the run that the worker probably gets next: the one after one
// run for each worker.
func (q *products) run(w *Memory, i int) {
	r := q.runs[i]
	p := q.of(w, r.which)
	if i += q.workers; i < len(q.runs) {
		after := q.runs[i]
		p.next = q.now[after.which].m.blockData(after.first/panel, 1)
	}
	p.compute(productBlock{first: r.first, outputBlock: outputBlock{Rows: p.dst.L, Cols: r.cols}})
}

// drop clears all references to the caller's buffers.
func (q *products) drop() {
	clear(q.dsts)
	clear(q.ms)
	clear(q.biases)
	clear(q.now)
	q.inputs = preparation{}
}

// MulMatrices computes dsts[i] = a·ms[i] + biases[i], as package attn says.
func MulMatrices(t *tuning.Row, dsts []views.Tensor, a *views.Tensor, ms []*Matrix,
	biases [][]float32) error {
	if err := checkProducts(dsts, a, ms, biases); err != nil || len(ms) == 0 {
		return err
	}
	q := targets{dsts, ms, biases}
	q.multiply(inputsOf(t, a.Checked(), ms))
	runtime.KeepAlive(ms) // and with them their memory
	return nil
}

// inputsOf returns the preparation of a checked view of inputs for matrices.
func inputsOf(t *tuning.Row, a views.Tensor, ms []*Matrix) preparation {
	x := preparation{t: t, a: a}
	for _, m := range ms {
		x.add(m)
	}
	return x
}

// biasOf returns the bias of a matrix, or nil.
func biasOf(biases [][]float32, i int) []float32 {
	if len(biases) == 0 {
		return nil
	}
	return biases[i]
}

// checkProducts validates the arguments of MulMatrices.
func checkProducts(dsts []views.Tensor, a *views.Tensor, ms []*Matrix, biases [][]float32) error {
	switch {
	case len(dsts) != len(ms):
		return views.Fail(views.ErrLength, "len(dsts) is %d, want %d as there are matrices", len(dsts),
			len(ms))
	case biases != nil && len(biases) != len(ms):
		return views.Fail(views.ErrLength, "len(biases) is %d, want nil or %d as there are matrices",
			len(biases), len(ms))
	}
	for i, m := range ms {
		if !m.isOpen() {
			return errListed(ms, i)
		}
		dst, in := dsts[i], *a
		if err := m.checkMatMul(&dst, &in, biasOf(biases, i)); err != nil {
			return fmt.Errorf("%w (dsts[%d] and ms[%d])", err, i, i)
		}
	}
	for i := range dsts {
		if err := checkOutputsApart(dsts, biases, i); err != nil {
			return err
		}
	}
	return nil
}

// checkOutputsApart verifies that output i shares no memory with the other outputs and their
// biases.
func checkOutputsApart(dsts []views.Tensor, biases [][]float32, i int) error {
	dst := dsts[i].Checked()
	for j := range dsts {
		if j == i {
			continue
		}
		bias, other := biasOf(biases, j), dsts[j].Checked()
		all := [...]views.Extent{dst.Extent(""), other.Extent(""),
			views.ExtentOfSlice("", bias)}
		for n, at := range [len(all)]uintptr{operand.Address(dsts[i].Data, 0),
			operand.Address(dsts[j].Data, 0), operand.Address(bias, 0)} {
			all[n].Begin = at
		}
		for n, what := range [...]string{"dsts", "biases"} {
			if all[0].Overlaps(&all[n+1]) {
				return views.Fail(views.ErrOverlap, "dsts[%d] overlaps %s[%d], want separate memory", i, what,
					j)
			}
		}
	}
	return nil
}
