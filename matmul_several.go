package attn

import (
	"fmt"
	"runtime"

	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/views"
)

// products are products of the same rows by several matrices, as one piece of work.
type products struct {
	inputs preparation
	all    []projection // each with all rows
	now    []projection // with the rows at hand
	ends   []int        // for each, the number of units of it and those before it
}

// take begins with the rows that are prepared next. It returns the nanoseconds of their products on
// one core.
func (q *products) take() (cost float64) {
	q.now = append(q.now[:0], q.all...)
	for i := range q.now {
		q.now[i] = q.now[i].take(&q.inputs)
		cost += q.now[i].cost()
	}
	return cost
}

// partition divides all products among workers, and returns the number of units.
func (q *products) partition(workers int) (units int) {
	q.ends = q.ends[:0]
	for i := range q.now {
		q.now[i].partition(workers)
		units += q.now[i].units()
		q.ends = append(q.ends, units)
	}
	return units
}

// unit computes one unit.
func (q *products) unit(i int) {
	which, first := 0, 0
	for ; i >= q.ends[which]; which++ {
		first = q.ends[which]
	}
	q.now[which].unit(i - first)
}

// drop lets go of the caller's buffers.
func (q *products) drop() {
	clear(q.all)
	clear(q.now)
	q.inputs, q.all, q.now = preparation{}, q.all[:0], q.now[:0]
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
	inputs := preparation{a: a}
	for _, m := range ms {
		inputs.add(m)
	}
	part, ok := inputs.part(), false
	for inputs, ok = inputs.next(w, part); ok; inputs, ok = inputs.next(w, part) {
		inputs.run()
		for i, m := range ms {
			projection{dst: dsts[i], a: a, m: m, bias: biasOf(biases, i)}.multiplyAll(&inputs)
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
	for j := range dsts {
		if j == i {
			continue
		}
		bias := biasOf(biases, j)
		all := [...]views.Extent{extentOf("", &dsts[i]), extentOf("", &dsts[j]),
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
