package matmul

import (
	"sync"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel/blockwise"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/kernel/pairs"
	"github.com/seed-1415985d/attn/internal/tuning"
	"github.com/seed-1415985d/attn/internal/views"
)

// Calls that workers share, and the memory of each worker.

// Memory is the scratch memory of a goroutine that multiplies. The caller's memory holds the call,
// too.
type Memory struct {
	k, s     []float32         // packed columns, and sums of products
	halves   []uint16          // packed columns on their way into pairs
	tiles    []float32         // sums of products by tiles
	rotated  []float32         // rows on their way into a product
	rounded  integers.Rows     // the same as integers
	scales   []float32         // and their scales
	blocks   []blockwise.Row   // rows on their way into a product by blocks
	pairs    pairs.Rows        // or into one in bfloat16
	routes   routes            // where they go, if they are of several matrices
	inputs   preparation       // prepared few rows, while the worker has a job
	unpacked *blockwise.Memory // of a panel of it

	multiplication multiplication
	products       products
}

var memories = sync.Pool{New: func() any { return new(Memory) }}

// blockMemory is memory for unpacked blocks.
func (w *Memory) blockMemory() *blockwise.Memory {
	if w.unpacked == nil {
		w.unpacked = new(blockwise.Memory)
	}
	return w.unpacked
}

// Forget clears references to the buffers of a caller whose tasks are done.
func (w *Memory) Forget() {
	if w.inputs.needs != 0 {
		w.inputs = preparation{}
	}
}

// Drop clears all references to the caller's buffers after a call.
func (w *Memory) Drop() {
	if w.multiplication.t != nil {
		w.multiplication = multiplication{}
	}
	w.products.drop()
}

// Work is divided into tasks; each worker has its own memory.
type Work interface {
	Begin(w *Memory) // is called before the first task of each worker
	Task(w *Memory, i int)
}

// Workers share the work of a call.
type Workers interface {
	// WorkersFor returns the number of workers for a call of about cost nanoseconds.
	WorkersFor(cost float64) int
	// Share runs all tasks of x on that many workers.
	Share(x Work, workers, tasks int, cost float64)
}

// MatMul is MatMul on workers.
func (w *Memory) MatMul(on Workers, t *tuning.Row, dst, a, b *views.Tensor, transposed bool) error {
	x := &w.multiplication
	*x = multiplication{t: t, dst: *dst, a: *a, b: *b, transposed: transposed}
	if err := x.check(); err != nil || x.dst.Empty() {
		return err
	}
	workers := on.WorkersFor(x.cost())
	x.partition(workers)
	on.Share(x, workers, x.tasks(), x.cost())
	return nil
}

// MulMatrix is the method MatMul of a matrix on workers.
func (w *Memory) MulMatrix(on Workers, t *tuning.Row, dst, a *views.Tensor, m *Matrix,
	bias []float32) error {
	if err := m.checkMatMul(dst, a, bias); err != nil {
		return err
	}
	ms := []*Matrix{m}
	w.products.set([]views.Tensor{*dst}, ms, [][]float32{bias})
	w.multiply(on, inputsOf(t, *a, ms))
	return nil
}

// MulMatrices is MulMatrices on workers.
func (w *Memory) MulMatrices(on Workers, t *tuning.Row, dsts []views.Tensor,
	a *views.Tensor, ms []*Matrix, biases [][]float32) error {
	if err := checkProducts(dsts, a, ms, biases); err != nil || len(ms) == 0 {
		return err
	}
	w.products.set(dsts, ms, biases)
	w.multiply(on, inputsOf(t, a.Checked(), ms))
	return nil
}

// MulExperts is MulExperts on workers.
func (w *Memory) MulExperts(on Workers, t *tuning.Row, dst, a *views.Tensor,
	ms []*Matrix, experts *views.View[int32], biases [][]float32) error {
	x := expertCall{t: t, dst: *dst, a: *a, ms: ms, chosen: *experts, biases: biases}
	if err := x.check(); err != nil || x.dst.Empty() {
		return err
	}
	x.route(&w.routes)
	w.products.set([]views.Tensor{x.dst}, ms, biases)
	w.multiply(on, x.inputs(&w.routes))
	return nil
}

// multiply computes the products of a call with valid arguments.
func (w *Memory) multiply(on Workers, inputs preparation) {
	q := &w.products
	q.inputs = inputs
	x := &q.inputs
	most, ok := x.atOnce(), false
	for *x, ok = x.next(w, most); ok; *x, ok = x.next(w, most) {
		cost := q.setProducts()
		workers := on.WorkersFor(cost)
		if q.own = x.short(); x.needs != 0 && !q.own {
			on.Share(x, workers, x.divide(workers), x.cost())
		}
		on.Share(q, workers, q.partition(workers), cost)
	}
}

// PackMatrixOn is PackMatrix on workers.
func PackMatrixOn(on Workers, t *tuning.Row, w *views.Tensor, c Config) (*Matrix,
	error) {
	x, err := newPacking(t, *w, c)
	if err != nil {
		return nil, err
	}
	workers := on.WorkersFor(x.cost())
	x.divide(workers)
	on.Share(x, workers, x.tasks(), x.cost())
	return x.matrix()
}

// PackBlocksOn is PackBlocks on workers.
func PackBlocksOn(on Workers, data []byte, t blocks.Type, outputs, inputs int,
	c Config) (*Matrix, error) {
	x, err := newBlockPacking(data, t, outputs, inputs, c)
	if err != nil {
		return nil, err
	}
	on.Share(x, on.WorkersFor(x.cost()), x.tasks(), x.cost())
	return x.matrix()
}
