//go:build (amd64 || arm64) && !purego

package integers

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Kernels in integers. Rows of integers, see [Rows], are multiplied by integers of 8 bits in groups
// of four. Sums are exact, so any order is allowed.

// Score is s_rj = float32(Σ q_rx·k_jx)·scale_j for the first n packed keys, in whole panels, of
// which d is the dimension. Few rows read panels in the order of memory if inOrder, else several
// side by side.
func Score(cpu *tuning.Row, s []float32, q *Rows, row int, k []byte, scales []float32, rows, d, n,
	ahead int, inOrder bool) {
	var b kernel.PanelLayout
	b.OfKeys(kernel.I8, d, kernel.RoundUp(n, kernel.Panel))
	b.Set(cpu, ahead, ahead, inOrder)
	stride := kernel.RoundUp(d, 4)
	q.Reads(row, rows, stride, 1, stride, 1)
	operand.Reads(scales, b.Cols)
	operand.Writes(s, (rows-1)*kernel.Block+b.Cols)
	kernel.ReadsTyped(kernel.I8, k, &b)
	if !(cpu.ISA.Integers() || q.Bytes != nil) {
		scoreInt8Generic(s, q.Words[row*stride:], k, scales, rows, &b)
		return
	}
	all, cols, most := b.Cols, b.Cols, callProducts(cpu, q, rows, false)
	if d*cols > most {
		cols = kernel.Panel
	}
	step := max(1, most/(d*cols))
	for c := 0; c < all; c += cols {
		b.Cols = min(cols, all-c)
		for r := 0; r < rows; r += step {
			scoreInt8Step(cpu, &s[r*kernel.Block+c], q, row+r, &k[c/kernel.Panel*b.PanelStride], &scales[c],
				min(step, rows-r), stride, &b)
		}
	}
}

// Softmax is an online-softmax step with a factor c for each row. It quantizes weights times the
// scales of their values to integers w with a scale f for each row, and overwrites s. A nil visible
// means that rows see all keys.
func Softmax(cpu *tuning.Row, w []int16, f, s, m, l, alpha, c, scales []float32, visible []uint64,
	rows int) (
	masked bool) {
	operand.Writes(w, rows*kernel.Block)
	operand.Writes(f, rows)
	operand.Updates(s, rows*kernel.Block)
	operand.Updates(m, rows)
	operand.Updates(l, rows)
	operand.Writes(alpha, rows)
	operand.Reads(c, rows)
	operand.Reads(scales, kernel.Block)
	if visible != nil {
		operand.Reads(visible, rows)
	}
	if !Products(cpu) {
		return softmaxInt8Generic(cpu, w, f, s, m, l, alpha, c, scales, visible, rows)
	}
	for r := 0; r < rows; r += kernel.SoftmaxRows {
		n := min(kernel.SoftmaxRows, rows-r)
		var seen *uint64
		if visible != nil {
			seen = &visible[r]
		}
		none, rare := softmaxInt8Step(cpu, &w[r*kernel.Block], &f[r], &s[r*kernel.Block], &m[r], &l[r],
			&alpha[r], &c[r],
			&scales[0], seen, n)
		if masked = masked || none; rare {
			integersOfProducts(w[r*kernel.Block:], f[r:], s[r*kernel.Block:], n)
		}
	}
	return masked
}

// Accumulate adds values that words of 0 to 32767 weigh, for at most Block keys, to whole panels of
// columns, which begin at 0 if b.Overwrite.
func Accumulate(cpu *tuning.Row, x *Sums, v []byte, b *kernel.PanelLayout) {
	x.operands(b, 1)
	kernel.ReadsTyped(kernel.I8, v, b)
	if !Products(cpu) {
		accumulateInt8Generic(x, v, b)
		return
	}
	if b.Keys > kernel.Block {
		panic("attn: more weights than a kernel has room for") // values that it widens, on its stack
	}
	c := x.cut(cpu, b, false)
	for c.next(x, b) {
		var call SumsCall
		call.Begin(x)
		call.Rows, call.B, call.V = c.rows, b, &v[c.col/kernel.Panel*b.PanelStride]
		call.O, call.F = &x.O[c.row*x.OStride+c.col], &x.F[c.row*x.FStride]
		if call.W, call.Starts = x.W.At(c.row*x.WStride, c.row*x.FStride); x.Alpha != nil {
			call.Alpha = &x.Alpha[c.row]
		}
		accumulateInt8Step(cpu, x.W, &call)
	}
}

// Multiply is Accumulate of rows of inputs by a matrix, without alpha: keys are inputs. Each Group
// of inputs has its start and its f, both contiguous, and groups are added in order, by kernels
// that handle several groups in a call.
func Multiply(cpu *tuning.Row, x *Sums, v []byte, b *kernel.PanelLayout) {
	groups := 1
	if x.W.Together() {
		groups = Groups(b.Keys)
	}
	x.operands(b, groups)
	kernel.ReadsTyped(kernel.I8, v, b)
	if !Products(cpu) {
		accumulateInt8Generic(x, v, b)
		return
	}
	c := x.cut(cpu, b, true)
	for c.next(x, b) {
		var call SumsCall
		call.Begin(x)
		call.Rows, call.B, call.V = c.rows, b, &v[c.col/kernel.Panel*b.PanelStride]
		call.O, call.F = &x.O[c.row*x.OStride+c.col], &x.F[c.row*x.FStride]
		call.W, call.Starts = x.W.At(c.row*x.WStride, c.row*x.FStride)
		multiplyInt8Step(cpu, x.W, &call)
	}
}

// cut divides sums into calls of bounded length, which callers make where they are, since each copy
// waits for the stores.
type cut struct {
	cols, steps, all int // columns and rows of a call, and all columns
	col, row, rows   int // where the current call begins, and its rows
}

func (x *Sums) cut(cpu *tuning.Row, b *kernel.PanelLayout, matrix bool) (c cut) {
	c.cols, c.steps = pieces(callProducts(cpu, x.W, x.Rows, matrix), x.Rows, b)
	c.all = b.Cols
	return c
}

// next moves on to the next call and sets b.Cols to its columns; if there is none, to all.
func (c *cut) next(x *Sums, b *kernel.PanelLayout) bool {
	if c.row += c.rows; c.row >= x.Rows && c.rows > 0 {
		c.col, c.row = c.col+c.cols, 0
	}
	if x.Rows == 0 || c.col >= c.all {
		b.Cols = c.all
		return false
	}
	b.Cols, c.rows = min(c.cols, c.all-c.col), min(c.steps, x.Rows-c.row)
	return true
}

// pieces returns the columns and rows of a call with at most that many products.
func pieces(most, rows int, b *kernel.PanelLayout) (cols, step int) {
	cols = max(4*kernel.Panel, kernel.ColumnsOf(most/(rows*b.Keys)))
	return cols, max(1, most/(b.Keys*min(cols, b.Cols)))
}

// QuantizeRows quantizes rows of n elements like QuantizeToken, and computes their scales and,
// unless starts is nil, −128 times their sums.
func QuantizeRows(isa tuning.ISA, dst []int8, scales []float32, starts []int32, x []float32, rows,
	n, dstStride,
	xStride int) {
	operand.WritesRows(dst, rows, dstStride, n)
	operand.Writes(scales, rows)
	operand.ReadsRows(x, rows, xStride, n)
	if starts != nil {
		operand.Writes(starts, rows)
	}
	step := max(1, kernel.CallElements/n)
	for r := 0; r < rows; {
		if isa.Integers() && n <= kernel.CallElements {
			var start *int32
			if starts != nil {
				start = &starts[r]
			}
			want := min(step, rows-r)
			done := quantizeRowsStep(isa, &dst[r*dstStride], &scales[r], start, &x[r*xStride], want, n,
				dstStride,
				xStride)
			if r += done; done == want {
				continue
			}
		}
		row := dst[r*dstStride:][:n]
		scales[r] = QuantizeToken(isa, row, x[r*xStride:][:n])
		if starts != nil {
			starts[r] = startOf(row)
		}
		r++
	}
}

// QuantizeGroups quantizes groups of four rows of n elements like QuantizeToken, and writes them in
// the order of a block's values like interleave. Columns from n on are 0. four is memory for a
// group.
func QuantizeGroups(isa tuning.ISA, dst []int8, scales, x []float32, rows, n, cols, xStride int,
	four []int8) {
	operand.Writes(dst, rows*cols)
	operand.Writes(scales, rows)
	operand.ReadsRows(x, rows, xStride, n)
	if n < cols {
		clear(dst[:rows*cols])
	}
	step := max(4, kernel.CallElements/n/4*4)
	for r := 0; r < rows; {
		if isa.Integers() && n <= kernel.CallElements {
			want := min(step, rows-r)
			done := quantizeGroupsStep(isa, &dst[r*cols], &scales[r], &x[r*xStride], want, n, cols, xStride)
			if r += done; done == want {
				continue
			}
		}
		quantizeFourRows(isa, dst[r*cols:], scales[r:], x[r*xStride:], n, cols, xStride, four)
		r += 4
	}
}
