package attn

import (
	"math"
	"math/bits"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel/blockwise"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/stop"
)

// A product by a matrix has two phases, whose units workers share: rows of a are prepared, that is
// rotated and made integers, if the matrix is; and then multiplied. Matrices that are multiplied by
// the same rows share what they need alike.

// inputNeeds is a set of what rows of inputs have to become before they are multiplied.
type inputNeeds uint8

const (
	needsRotation inputNeeds = 1 << iota // rows by themselves, for what follows
	needsIntegers                        // with a scale for each int8Group, of rows by themselves
	needsBlocks                          // blockRows
)

// preparation is rows of inputs that are prepared.
type preparation struct {
	a        Tensor
	needs    inputNeeds
	rotation int // size of the Walsh–Hadamard matrix; 1: none

	unitRows int // of a unit of work

	first   int    // row of those at hand
	source  Tensor // rows of a at hand
	rotated Tensor // and what they become
	ints    integers.Rows
	scales  []float32
	blocks  []blockwise.Row
}

// preparedElements bounds the elements of a that are prepared at a time: 32 MiB.
const preparedElements = 1 << 23

// preparedRows rows are prepared as one unit, or fewer so that there is one for each worker.
const preparedRows = 8

// part is how many rows are prepared at a time: all, if there is nothing to do.
func (x *preparation) part() int {
	if x.needs == 0 {
		return max(1, x.a.L)
	}
	return max(1, min(x.a.L, preparedElements/max(1, x.a.B*x.a.H*x.a.D)))
}

// next is the preparation of the next rows, which get memory in the caller's scratch. There may be
// none left. (Through a pointer the caller's buffers would escape.)
func (x preparation) next(w *scratch, part int) (y preparation, ok bool) {
	x.first += x.rows()
	left := x.a.L - x.first
	if left <= 0 || x.a.empty() {
		return x, false
	}
	x.source = x.a
	x.source.L, x.source.Data = min(part, left), x.a.Data[x.first*x.a.SL:]
	rows, d := x.a.B*x.a.H*x.source.L, x.a.D
	if x.needs&needsRotation != 0 {
		w.rotated = grow(w.rotated, rows*d)
		x.rotated = BHLD(w.rotated, x.a.B, x.a.H, x.source.L, d)
	}
	if x.needs&needsIntegers != 0 {
		groups := rows * integers.Groups(d)
		// of a matrix, any number is enough
		w.rounded.Fit(&tuned, rows*integers.Pitch(d), groups, math.MaxInt)
		w.scales = grow(w.scales, groups)
		x.ints, x.scales = w.rounded, w.scales
	}
	if x.needs&needsBlocks != 0 {
		w.blocks = grow(w.blocks, rows*d/blocks.Inputs)
		x.blocks = w.blocks
	}
	return x, true
}

// rows is how many rows of each head are at hand.
func (x *preparation) rows() int { return x.source.L }

// short reports whether all rows are to be prepared, in a microsecond or two.
func (x *preparation) short() bool {
	return x.needs != 0 && x.a.B*x.a.H*x.a.L*x.a.D <= shortElements
}

// shortElements: more take as long as to wait for workers that share in it.
const shortElements = 1 << 15

// divide divides the rows at hand among workers, and returns the number of units.
func (x *preparation) divide(workers int) (units int) {
	if x.needs == 0 {
		return 0
	}
	rows := x.source.B * x.source.H * x.source.L
	x.unitRows = max(1, min(preparedRows, rows/workers))
	return partsOf(rows, x.unitRows)
}

// run prepares all rows at hand.
func (x *preparation) run() {
	for i := range x.divide(1) {
		x.unit(i)
	}
}

// unit prepares the rows of unit i.
func (x *preparation) unit(i int) {
	d, rows := x.a.D, x.source.B*x.source.H*x.source.L
	for r := i * x.unitRows; r < min((i+1)*x.unitRows, rows); r++ {
		from := x.source.row(r/x.source.L/x.source.H, r/x.source.L%x.source.H, r%x.source.L)
		if x.needs&needsBlocks != 0 {
			blockwise.Quantize(&tuned, x.blocks[r*(d/blocks.Inputs):], from)
		}
		if x.needs&needsRotation == 0 {
			continue
		}
		row := x.rotated.Data[r*d:][:d]
		if x.rotation > 1 {
			integers.Rotate(tuned.ISA, row, from, 1, d, d, d, x.rotation)
		} else {
			stop.Copy(row, from)
		}
		if x.needs&needsIntegers != 0 {
			x.quantize(r, row)
		}
	}
}

// quantize makes integers of row r, group by group. Where one has an element that is not finite,
// its scale and with it the products are NaN.
func (x *preparation) quantize(r int, row []float32) {
	var bytes [integers.Group]int8
	first, groups := r*integers.Pitch(len(row)), integers.Groups(len(row))
	scales := x.scales[r*groups:]
	whole := len(row) / integers.Group
	x.ints.Quantize(tuned.ISA, first, r*groups, scales, row, whole, integers.Group, integers.Group,
		bytes[:])
	if done := whole * integers.Group; done < len(row) {
		last := row[done:]
		x.ints.Quantize(tuned.ISA, first+done, r*groups+whole, scales[whole:], last, 1, len(last), 0,
			bytes[:])
	}
}

// cost estimates the nanoseconds of preparing on one core: additions for each power of two, and
// reading.
func (x *preparation) cost() float64 {
	n := float64(x.source.B) * float64(x.source.H) * float64(x.source.L) * float64(x.a.D)
	return tuned.Cost(2*n*float64(bits.Len(uint(x.rotation))), 4*n)
}
