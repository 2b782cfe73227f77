package attn

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/views"
)

// products are products of the same rows by several matrices, as one piece of work.
type products struct {
	inputs  preparation
	experts expertCall   // if it is one of MulExperts; then all is empty
	all     []projection // each with all rows
	now     []projection // with the rows at hand
	ends    []int        // for each, the number of units of it and those before it
	runs    []productRun // of few rows by blocks the units of all; else none

	own     bool // each worker prepares the few rows for itself: that takes less than waiting for all
	workers int  // for how many all was divided
}

// add adds what a matrix needs.
func (x *preparation) add(m *Matrix) {
	x.needs |= m.needs()
	x.rotation = max(1, x.rotation, m.rotation) // of all that rotate their inputs
}

// productRun is some columns of a matrix, whose panels follow each other in memory.
type productRun struct{ which, first, cols int }

// leastRun is the bytes of the shortest runs: a worker reads them in about two microseconds.
const leastRun = 32 << 10

// take begins with the rows that are prepared next. It returns the nanoseconds of their products on
// one core.
func (q *products) take() (cost float64) {
	if q.inputs.routes != nil {
		return q.routeProducts()
	}
	q.now = append(q.now[:0], q.all...)
	for i := range q.now {
		q.now[i] = q.now[i].take(&q.inputs)
		cost += q.now[i].cost()
	}
	return cost
}

// partition divides all products among workers, and returns the number of units.
func (q *products) partition(workers int) (units int) {
	q.ends, q.runs, q.workers = q.ends[:0], q.runs[:0], workers
	if q.few() {
		q.divide(workers)
		return len(q.runs)
	}
	if q.inputs.routes != nil {
		return q.partitionExperts(workers)
	}
	for i := range q.now {
		q.now[i].partition(workers)
		units += q.now[i].units()
		q.ends = append(q.ends, units)
	}
	return units
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

// divide divides all panels into runs, each a part of what is left, so that workers read long
// streams first, and whoever came late leaves the others little to wait for.
func (q *products) divide(workers int) {
	left, part := 0, 2*workers
	if workers == 1 {
		part = 1
	}
	for i := range q.now {
		left += len(q.now[i].m.data)
	}
	for i := range q.now {
		p := &q.now[i]
		size := p.m.blockPanel()
		for first, cols := 0, 0; first < p.dst.D; first += cols {
			cols = max(1, max(left/part, leastRun)/size) * panel
			if rest := p.dst.D - first; 2*rest < 3*cols {
				cols = rest
			}
			q.runs = append(q.runs, productRun{i, first, cols})
			left -= partsOf(cols, panel) * size
		}
	}
}

// begin prepares what a worker needs before its first unit.
func (q *products) begin(w *scratch) {
	if q.own {
		x := q.inputs
		x.first, x.source = 0, Tensor{}
		w.inputs, _ = x.next(w, x.part())
		w.inputs.run()
	}
}

// unit computes one unit.
func (q *products) unit(w *scratch, i int) {
	if len(q.runs) > 0 {
		q.run(w, i)
		return
	}
	which, _ := slices.BinarySearch(q.ends, i+1)
	first := 0
	if which > 0 {
		first = q.ends[which-1]
	}
	p := q.of(w, which)
	p.unit(i - first)
}

// of is a product with the inputs that a worker reads.
func (q *products) of(w *scratch, which int) projection {
	if q.own {
		return q.now[which].reading(&w.inputs)
	}
	return q.now[which]
}

// run computes a run. After it the worker has another one, at a guess that which comes when all
// have taken one.
func (q *products) run(w *scratch, i int) {
	r := q.runs[i]
	p := q.of(w, r.which)
	if i += q.workers; i < len(q.runs) {
		after := q.runs[i]
		p.next = q.now[after.which].m.blockData(after.first/panel, 1)
	}
	p.compute(&productBlock{first: r.first, rows: p.dst.L, cols: r.cols})
}

// drop lets go of the caller's buffers.
func (q *products) drop() {
	clear(q.all)
	clear(q.now)
	q.inputs, q.experts, q.all, q.now = preparation{}, expertCall{}, q.all[:0], q.now[:0]
}

// MulMatrices computes dsts[i] = a·ms[i] + biases[i] for each of the matrices, as [Matrix.MatMul]
// does one by one and with the same bits: queries, keys and values of one input, or gate and up.
// Matrices may differ in format and outputs. What they need of a, rotated or in integers, is made
// once.
//
//	a        [B, H, L, K]
//	dsts[i]  [B, H, L, N of ms[i]]
//	biases   nil, or one for each matrix: nil, or as many as it has outputs
//
// Outputs that share elements are [ErrOverlap], and lists of different lengths [ErrLength]. If the
// arguments are invalid, nothing has been written.
func MulMatrices(dsts []Tensor, a Tensor, ms []*Matrix, biases [][]float32) error {
	if err := checkProducts(dsts, a, ms, biases); err != nil || len(ms) == 0 {
		return err
	}
	w := scratches.Get().(*scratch)
	inputs := preparation{a: a.checked()}
	for _, m := range ms {
		inputs.add(m)
	}
	part, ok := inputs.part(), false
	for inputs, ok = inputs.next(w, part); ok; inputs, ok = inputs.next(w, part) {
		inputs.run()
		for i, m := range ms {
			p := projection{dst: dsts[i].checked(), m: m, bias: biasOf(biases, i)}
			if i+1 < len(ms) {
				p.next = ms[i+1].data
			}
			p.multiplyAll(&inputs)
		}
	}
	scratches.Put(w)
	runtime.KeepAlive(ms) // and with them their memory
	return nil
}

// biasOf is the bias of a matrix.
func biasOf(biases [][]float32, i int) []float32 {
	if biases == nil {
		return nil
	}
	return biases[i]
}

// checkProducts validates the arguments of MulMatrices.
func checkProducts(dsts []Tensor, a Tensor, ms []*Matrix, biases [][]float32) error {
	switch {
	case len(dsts) != len(ms):
		return fail(ErrLength, "len(dsts) is %d, want %d as there are matrices", len(dsts), len(ms))
	case biases != nil && len(biases) != len(ms):
		return fail(ErrLength, "len(biases) is %d, want nil or %d as there are matrices", len(biases),
			len(ms))
	}
	for i, m := range ms {
		p := projection{dst: dsts[i], a: a, m: m, bias: biasOf(biases, i)}
		if err := p.check(); err != nil {
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

// checkOutputsApart makes sure that output i shares no memory with outputs and biases of others.
func checkOutputsApart(dsts []Tensor, biases [][]float32, i int) error {
	dst := dsts[i].checked()
	for j := range dsts {
		if j == i {
			continue
		}
		bias, other := biasOf(biases, j), dsts[j].checked()
		all := [...]views.Extent{extentOf("", &dst), extentOf("", &other),
			views.ExtentOfSlice("", bias)}
		for n, at := range [len(all)]uintptr{operand.Address(dsts[i].Data, 0),
			operand.Address(dsts[j].Data, 0), operand.Address(bias, 0)} {
			all[n].Begin = at
		}
		for n, what := range [...]string{"dsts", "biases"} {
			if all[0].Overlaps(&all[n+1]) {
				return fail(ErrOverlap, "dsts[%d] overlaps %s[%d], want separate memory", i, what, j)
			}
		}
	}
	return nil
}
