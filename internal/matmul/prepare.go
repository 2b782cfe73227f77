package matmul

import (
	"math"
	"math/bits"
	"slices"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/blockwise"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/kernel/pairs"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/tuning"
	"github.com/seed-1415985d/attn/internal/views"
)

// A product by a matrix has two phases, and workers share the tasks of both: rows of a are
// prepared, that is rotated and quantized like the matrix, and then multiplied. Matrices that need
// the same preparation of the same rows share it.

// inputNeeds is the set of preparations of rows of inputs before they are multiplied.
type inputNeeds uint8

const (
	needsRotation inputNeeds = 1 << iota // rows by themselves
	needsIntegers                        // of rotated rows, with a scale for each integers.Group
	needsBlocks                          // blockRows
	needsCopy                            // rows by themselves as they are, in another order
	needsPairs                           // rows in bfloat16

	needsAll = 1<<iota - 1
)

// preparation is rows of inputs that are prepared.
type preparation struct {
	t        *tuning.Row
	a        views.Tensor
	needs    inputNeeds
	rotation int // size of the Walsh–Hadamard matrix; 1: none

	routes *routes // rows go to places in this order; nil: all as they follow each other

	taskRows int // of a task

	first   int          // number of the first current row, or place
	source  views.Tensor // current rows of a
	rotated views.Tensor // and their prepared form
	ints    integers.Rows
	scales  []float32
	blocks  []blockwise.Row
	pairs   pairs.Rows
}

// preparedElements bounds the elements of a that are prepared at a time: 32 MiB.
const preparedElements = 1 << 23

// preparedRows rows are prepared as one task, or fewer so that there is one for each worker.
const preparedRows = panel

// atOnce returns the number of rows that are prepared at a time: all, if there is nothing to do.
func (x *preparation) atOnce() int {
	if x.routes != nil {
		return max(1, preparedElements/x.a.D)
	}
	if x.needs == 0 {
		return max(1, x.a.L)
	}
	return max(1, min(x.a.L, preparedElements/max(1, x.a.B*x.a.H*x.a.D)))
}

// next returns the preparation of the next rows, with memory from w. ok is false if none are left.
// (Through a pointer the caller's buffers would escape.)
func (x preparation) next(w *Memory, most int) (y preparation, ok bool) {
	x.first += x.rows()
	if x.routes != nil {
		if x.first == len(x.routes.offsets) {
			return x, false
		}
		x.source = views.Tensor{B: 1, H: 1, L: x.routes.placesFrom(x.first, most), D: x.a.D}
	} else {
		left := x.a.L - x.first
		if left <= 0 || x.a.Empty() {
			return x, false
		}
		x.source = x.a
		x.source.L, x.source.Data = min(most, left), x.a.Data[x.first*x.a.SL:]
	}
	rows, d := x.source.B*x.source.H*x.source.L, x.a.D
	if x.needs&(needsRotation|needsIntegers|needsCopy) != 0 {
		w.rotated = kernel.Grow(w.rotated, rows*d)
		x.rotated = views.Contiguous(w.rotated, x.source.B, x.source.H, x.source.L, d)
	}
	if x.needs&needsIntegers != 0 {
		groups := rows * integers.Groups(d)
		// of a matrix, any number is enough
		w.rounded.Fit(x.t, rows*integers.Pitch(d), groups, math.MaxInt)
		w.scales = kernel.Grow(w.scales, groups)
		x.ints, x.scales = w.rounded, w.scales
	}
	if x.needs&needsBlocks != 0 {
		w.blocks = kernel.Grow(w.blocks, rows*d/blocks.Inputs)
		x.blocks = w.blocks
	}
	if x.needs&needsPairs != 0 {
		w.pairs.Fit(x.t, rows, d)
		x.pairs = w.pairs
	}
	return x, true
}

// rows returns the number of current rows of each head.
func (x *preparation) rows() int { return x.source.L }

// short reports whether all rows are to be prepared, in a microsecond or two.
func (x *preparation) short() bool {
	rows := float64(x.a.B) * float64(x.a.H) * float64(x.a.L)
	if x.routes != nil {
		rows = max(rows, float64(len(x.routes.offsets))/copiesAsLong)
	}
	return x.needs != 0 && rows*float64(x.a.D) <= shortElements
}

// copiesAsLong copies of a row cost as much as preparing it.
const copiesAsLong = 4

// shortElements is the number of elements whose preparation costs as much as waiting for other
// workers to share it.
const shortElements = 1 << 15

// divide divides the current rows among workers, and returns the number of tasks.
func (x *preparation) divide(workers int) (tasks int) {
	if x.needs == 0 {
		return 0
	}
	rows := x.sourceRows()
	x.taskRows = max(1, min(preparedRows, rows/workers))
	return partsOf(rows, x.taskRows)
}

// sourceRows returns the number of rows that tasks divide: rows of a, if they go to places.
func (x *preparation) sourceRows() int {
	if x.routes != nil {
		return x.a.H * x.a.L
	}
	return x.source.B * x.source.H * x.source.L
}

// run prepares all current rows.
func (x *preparation) run() {
	for i := range x.divide(1) {
		x.Task(nil, i)
	}
}

func (x *preparation) Begin(*Memory) {}

// Task prepares the rows of task i.
func (x *preparation) Task(_ *Memory, i int) {
	end := min((i+1)*x.taskRows, x.sourceRows())
	for r := x.together(i*x.taskRows, end); r < end; r++ {
		if x.routes != nil {
			x.route(r)
			continue
		}
		x.prepare(r, x.source.Row(r/x.source.L/x.source.H, r/x.source.L%x.source.H, r%x.source.L),
			x.needs)
	}
}

// together quantizes the rows from r on, 16 at a time as far as there is a kernel for it, and
// returns the first row that is left.
func (x *preparation) together(r, end int) int {
	if x.routes != nil || x.needs != needsIntegers || x.rotation != integers.Group {
		return r
	}
	for ; r+panel <= end && r%x.source.L+panel <= x.source.L; r += panel {
		from := x.source.Data[x.source.Offset(r/x.source.L/x.source.H, r/x.source.L%x.source.H,
			r%x.source.L):]
		if !x.ints.PutRotated(x.t, r, x.scales, from, x.a.D, x.source.SL) {
			break
		}
	}
	return r
}

// prepare prepares a row as the current row r.
func (x *preparation) prepare(r int, from []float32, needs inputNeeds) {
	d := x.a.D
	if needs&needsBlocks != 0 {
		blockwise.Quantize(x.t, x.blocks[r*(d/blocks.Inputs):], from)
	}
	if needs&needsPairs != 0 {
		x.pairs.Put(x.t.ISA, r, from)
	}
	if needs&(needsRotation|needsIntegers|needsCopy) == 0 {
		return
	}
	row := x.rotated.Data[r*d:][:d]
	if needs&needsCopy == 0 && x.rotation > 1 {
		integers.Rotate(x.t.ISA, row, from, 1, d, d, d, x.rotation)
	} else {
		stop.Copy(row, from)
	}
	if needs&needsIntegers != 0 {
		x.quantize(r, row)
	}
}

// quantize quantizes row r, group by group. If a group has an element that is not finite, its scale
// and with it the products are NaN.
func (x *preparation) quantize(r int, row []float32) {
	var bytes [integers.Group]int8
	first, groups := r*integers.Pitch(len(row)), integers.Groups(len(row))
	scales := x.scales[r*groups:]
	whole := len(row) / integers.Group
	x.ints.Quantize(x.t.ISA, first, r*groups, scales, row, whole, integers.Group, integers.Group,
		bytes[:])
	if done := whole * integers.Group; done < len(row) {
		last := row[done:]
		x.ints.Quantize(x.t.ISA, first+done, r*groups+whole, scales[whole:], last, 1, len(last), 0,
			bytes[:])
	}
}

// routes says which rows of dst each matrix computes. Rows of the same matrix have adjacent places,
// in the order of tokens, and so have their prepared inputs.
type routes struct {
	offsets []int        // where in dst's data the row of each place begins
	needs   []inputNeeds // needs of the matrix of each place
	places  []int        // of each row of dst, token by token; −1 if no matrix computes it
	ends    []int        // for each matrix, where its places end
	each    int          // rows of dst for a row of a
}

// firstPlace returns the first place of a matrix.
func (r *routes) firstPlace(which int) int {
	if which == 0 {
		return 0
	}
	return r.ends[which-1]
}

// placesFrom returns the number of places from first on that are prepared next, at most most: all
// places of whole matrices, if they fit.
func (r *routes) placesFrom(first, most int) int {
	end := len(r.offsets)
	if end-first <= most {
		return end - first
	}
	i, _ := slices.BinarySearch(r.ends, first+most+1)
	if i > 0 && r.ends[i-1] > first {
		return r.ends[i-1] - first
	}
	return most
}

// share is the rows of a matrix among the prepared rows.
type share struct{ which, at, rows int }

// share returns the share of the first matrix in [which, matrices) that has rows.
func (x *preparation) share(which, matrices int) (s share, ok bool) {
	r := x.routes
	if r == nil {
		return share{which, 0, x.rows()}, which < matrices
	}
	for ; which < matrices; which++ {
		from, end := max(r.firstPlace(which), x.first), min(r.ends[which], x.first+x.rows())
		if from < end {
			return share{which, from - x.first, end - from}, true
		}
	}
	return share{}, false
}

// route prepares row i of a, counted token by token, for all its current places: once for each
// different need.
func (x *preparation) route(i int) {
	var done [needsAll + 1]int // for each need, 1 + the place with the row prepared so, or 0
	from := x.a.Row(0, i%x.a.H, i/x.a.H)
	for _, place := range x.routes.places[i*x.routes.each:][:x.routes.each] {
		to := place - x.first
		if place < 0 || to < 0 || to >= x.rows() {
			continue
		}
		needs := x.routes.needs[place]
		if at := done[needs]; at > 0 {
			x.again(to, at-1, needs)
			continue
		}
		x.prepare(to, from, needs)
		done[needs] = to + 1
	}
}

// again copies the prepared row from to row to.
func (x *preparation) again(to, from int, needs inputNeeds) {
	d := x.a.D
	switch {
	case needs&needsBlocks != 0:
		n := d / blocks.Inputs
		stop.Copy(x.blocks[to*n:][:n], x.blocks[from*n:][:n])
	case needs&needsPairs != 0:
		x.pairs.Copy(to, from)
	case needs&needsIntegers != 0:
		pitch, groups := integers.Pitch(d), integers.Groups(d)
		x.ints.Copy(to*pitch, from*pitch, pitch, to*groups, from*groups, groups)
		copy(x.scales[to*groups:][:groups], x.scales[from*groups:])
	default:
		stop.Copy(x.rotated.Data[to*d:][:d], x.rotated.Data[from*d:][:d])
	}
}

// cost estimates the nanoseconds of preparing on one core: additions for each power of two, and
// reading.
func (x *preparation) cost() float64 {
	n := float64(x.source.B) * float64(x.source.H) * float64(x.source.L) * float64(x.a.D)
	return x.t.Cost(2*n*float64(bits.Len(uint(x.rotation))), 4*n)
}
