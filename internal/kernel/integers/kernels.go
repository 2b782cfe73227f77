package attn

import (
	"math"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
)

// Kernels in integers. Rows of integers meet integers of 8 bits in groups of four as
// kernel_typed.go says. Sums are exact, so they may be taken in any order.

// callIntegers bounds the products of one call of assembly: at 16 a cycle of 1.5 GHz, 44 µs.
const callIntegers = 1 << 20

// integerProducts reports whether there are kernels of weights and values in integers, and of rows
// of bytes.
func integerProducts() bool { return tuned.ISA.Integers() || tuned.DotProduct }

// int8Group inputs of a matrix have one scale: a sum of that many products is below 2²⁴, so float32
// holds it.
const int8Group = 128

// together reports whether kernels of such rows go on from one int8Group of inputs to the next.
func (x *integerRows) together() bool { return groupsTogether && x.words == nil }

// int8Groups is the number of scales of a row of inputs.
func int8Groups(inputs int) int { return (inputs + int8Group - 1) / int8Group }

// scoreInt8 is s_rj = float32(Σ q_rx·k_jx)·scale_j for the first n packed keys, in whole panels, of
// which d is the dimension. Few rows read panels in the order of memory if inOrder, else some side
// by side.
func scoreInt8(s []float32, q *integerRows, row int, k []byte, scales []float32, rows, d, n,
	ahead int, inOrder bool) {
	var b kernel.PanelLayout
	b.OfKeys(kernel.I8, d, roundUp(n, panel))
	b.Set(&tuned, ahead, ahead, inOrder)
	stride := roundUp(d, 4)
	q.reads(row, rows, stride, 1, stride, 1)
	operand.Reads(scales, b.Cols)
	operand.Writes(s, (rows-1)*Block+b.Cols)
	readsTyped(I8, k, &b)
	if !(tuned.ISA.Integers() || q.bytes != nil) {
		scoreInt8Generic(s, q.words[row*stride:], k, scales, rows, &b)
		return
	}
	all, cols := b.Cols, b.Cols
	if d*cols > callIntegers {
		cols = panel
	}
	step := max(1, callIntegers/(d*cols))
	for c := 0; c < all; c += cols {
		b.Cols = min(cols, all-c)
		for r := 0; r < rows; r += step {
			scoreInt8Step(&s[r*Block+c], q, row+r, &k[c/panel*b.PanelStride], &scales[c],
				min(step, rows-r), stride, &b)
		}
	}
}

// softmaxInt8 is an online-softmax step with a factor c for each row. It makes integers w, and a
// scale f for each row, of weights times the scales of their values, and uses up s. A nil visible
// means that rows see all keys.
func softmaxInt8(w []int16, f, s, m, l, alpha, c, scales []float32, visible []uint64, rows int) (
	masked bool) {
	operand.Writes(w, rows*Block)
	operand.Writes(f, rows)
	operand.Updates(s, rows*Block)
	operand.Updates(m, rows)
	operand.Updates(l, rows)
	operand.Writes(alpha, rows)
	operand.Reads(c, rows)
	operand.Reads(scales, Block)
	if visible != nil {
		operand.Reads(visible, rows)
	}
	if !integerProducts() {
		return softmaxInt8Generic(w, f, s, m, l, alpha, c, scales, visible, rows)
	}
	for r := 0; r < rows; r += kernel.SoftmaxRows {
		n := min(kernel.SoftmaxRows, rows-r)
		var seen *uint64
		if visible != nil {
			seen = &visible[r]
		}
		none, rare := softmaxInt8Step(&w[r*Block], &f[r], &s[r*Block], &m[r], &l[r], &alpha[r], &c[r],
			&scales[0], seen, n)
		if masked = masked || none; rare {
			integersOfProducts(w[r*Block:], f[r:], s[r*Block:], n)
		}
	}
	return masked
}

// accumulateInt8 is o_rc = FMA(float32(Σ w_rj·v_jc), f_r, o_rc·alpha_r), with 0 in the place of
// o_rc·alpha_r if b.overwrite, or o_rc if alpha is nil. Columns are whole panels. Words of w are
// 0 to 32767, of at most Block keys; with rows of 8 bits alpha is nil. These are products of a
// matrix, whose keys are inputs: each int8Group of them has its start and its f, which follow each
// other, and is added in turn, by kernels that take them together.
func accumulateInt8(o []float32, w *integerRows, v []byte, alpha, f []float32, rows, oStride,
	wStride, fStride int, b *kernel.PanelLayout) {
	operand.UpdatesRows(o, rows, oStride, b.Cols)
	groups := 1
	if w.together() {
		groups = int8Groups(b.Keys)
	}
	w.reads(0, rows, wStride, fStride, roundUp(b.Keys, 4), groups)
	operand.ReadsRows(f, rows, fStride, groups)
	if alpha != nil {
		operand.Reads(alpha, rows)
	}
	readsTyped(I8, v, b)
	if !integerProducts() {
		accumulateInt8Generic(o, w.words, v, alpha, f, rows, oStride, wStride, fStride, b)
		return
	}
	if w.words != nil && b.Keys > Block {
		panic("attn: more weights than a kernel has room for") // values that it widens, on its stack
	}
	all := b.Cols
	cols := max(4*panel, callIntegers/(rows*b.Keys)/panel*panel)
	step := max(1, callIntegers/(b.Keys*min(cols, all)))
	for c := 0; c < all; c += cols {
		b.Cols = min(cols, all-c) // and no copy of b, see prefetchHint.set
		for r := 0; r < rows; r += step {
			n, to, from := min(step, rows-r), &o[r*oStride+c], &v[c/panel*b.PanelStride]
			var a *float32
			if alpha != nil {
				a = &alpha[r]
			}
			accumulateInt8Step(to, w, r, from, a, &f[r*fStride], n, oStride, wStride, fStride, b)
		}
	}
	b.Cols = all
}

// put makes a row, or the group of one with that number, the elements from one on. What completes
// the last four is 0.
func (x *integerRows) put(at, group int, row []int8) {
	switch n := roundUp(len(row), 4); {
	case x.words != nil:
		inGroupOrder(x.words[at:][:n], row)
	case x.magnitudes != nil:
		x.starts[group] = magnitudes(x.magnitudes[2*at:][:2*n], row)
	default:
		to := x.bytes[at:][:n]
		clear(to[copy(to, row):])
		x.starts[group] = startOf(row)
	}
}

func magnitudesGeneric(dst, row []int8) (start int32) {
	clear(dst)
	for i, e := range row {
		group := dst[i/4*8:][:8]
		if group[i%4] = e; e < 0 {
			group[i%4], group[4+i%4] = -e, -1
			start -= int32(e)
		}
	}
	return start
}

// quantizeToken is dst = rint(x/scale), and returns the scale: NaN if some element is not finite.
func quantizeToken(dst []int8, x []float32) (scale float32) {
	top := largest(x)
	if !(top <= math.MaxFloat32) {
		clear(dst)
		return float32(math.NaN())
	}
	scale = scaleOf(top)
	quantize(dst, x, scale)
	return scale
}

// quantizeRows makes integers of rows of n elements like quantizeToken, and finds their scales and,
// unless starts is nil, −128 times their sums.
func quantizeRows(dst []int8, scales []float32, starts []int32, x []float32, rows, n, dstStride,
	xStride int) {
	operand.WritesRows(dst, rows, dstStride, n)
	operand.Writes(scales, rows)
	operand.ReadsRows(x, rows, xStride, n)
	if starts != nil {
		operand.Writes(starts, rows)
	}
	step := max(1, kernel.CallElements/n)
	for r := 0; r < rows; {
		if tuned.ISA.Integers() && n <= kernel.CallElements {
			var start *int32
			if starts != nil {
				start = &starts[r]
			}
			want := min(step, rows-r)
			done := quantizeRowsStep(&dst[r*dstStride], &scales[r], start, &x[r*xStride], want, n, dstStride,
				xStride)
			if r += done; done == want {
				continue
			}
		}
		row := dst[r*dstStride:][:n]
		scales[r] = quantizeToken(row, x[r*xStride:][:n])
		if starts != nil {
			starts[r] = startOf(row)
		}
		r++
	}
}

// quantizeGroups makes integers of rows of n elements, groups of four rows, like quantizeToken, and
// brings them to the order of a block's values like interleave. Columns from n on are 0. four is
// memory for a group.
func quantizeGroups(dst []int8, scales, x []float32, rows, n, cols, xStride int, four []int8) {
	operand.Writes(dst, rows*cols)
	operand.Writes(scales, rows)
	operand.ReadsRows(x, rows, xStride, n)
	if n < cols {
		clear(dst[:rows*cols])
	}
	step := max(4, kernel.CallElements/n/4*4)
	for r := 0; r < rows; {
		if tuned.ISA.Integers() && n <= kernel.CallElements {
			want := min(step, rows-r)
			done := quantizeGroupsStep(&dst[r*cols], &scales[r], &x[r*xStride], want, n, cols, xStride)
			if r += done; done == want {
				continue
			}
		}
		quantizeFourRows(dst[r*cols:], scales[r:], x[r*xStride:], n, cols, xStride, four)
		r += 4
	}
}

// quantizeFourRows is quantizeGroups of a group.
func quantizeFourRows(dst []int8, scales, x []float32, n, cols, xStride int, four []int8) {
	clear(four[:4*cols])
	for r := range 4 {
		scales[r] = quantizeToken(four[r*cols:][:n], x[r*xStride:][:n])
	}
	interleave(rawBytes(dst), rawBytes(four), cols, 4)
}

// quantize makes x, from an element and a group on, rows of n elements as quantizeRows does. What
// completes the last four of a row is 0. spare is memory for a row or several, and strides of x are
// n in whole fours.
func (x *integerRows) quantize(at, group int, scales, a []float32, rows, n, stride int,
	spare []int8) {
	width := roundUp(n, 4)
	if x.bytes == nil {
		together := len(spare) / n
		for r := 0; r < rows; r += together {
			m := min(together, rows-r)
			quantizeRows(spare, scales[r:], nil, a[r*stride:], m, n, n, stride)
			for i := range m {
				x.put(at+(r+i)*width, group+r+i, spare[i*n:][:n])
			}
		}
		return
	}
	if n < width {
		clear(x.bytes[at:][:rows*width])
	}
	quantizeRows(x.bytes[at:], scales, x.starts[group:], a, rows, n, width, stride)
}
