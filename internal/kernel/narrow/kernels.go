package attn

import (
	"math"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/sanitize"
	"github.com/seed-1415985d/attn/internal/stop"
)

// Kernels over keys and values of fewer bits. A key or value is widened in registers, which is
// exact, and goes into the same chains of multiply-adds as a float32 would. For more rows than
// maxTypedRows a block is widened once, and the ordinary kernels read it.
//
// Elements of 16 bits lie in panels as those of 32 do. Those of 8 bits lie in groups of four that
// belong to one product: step k of column c is at c/panel·panelStride + k/4·stride + c%panel·4 +
// k%4, so that integer products of four could be taken at once.
//
// A score is the same chain with the dimension in the place of keys, see scoreLayout.

// maxTypedRows is up to how many rows widen what they read for themselves.
const maxTypedRows = 8

// accumulateTyped is accumulate of values in a type of fewer bits: o_rc = o_rc·alpha_r, or 0 if
// b.overwrite, or what is there if alpha is nil; then o_rc = FMA(p_rj, v_jc, o_rc) for ascending j.
// Columns are whole panels.
func accumulateTyped(t Format, o, p []float32, v []byte, alpha []float32, rows, oStride,
	pStride int, b *kernel.PanelLayout) {
	operand.UpdatesRows(o, rows, oStride, b.Cols)
	operand.ReadsRows(p, rows, pStride, b.Keys)
	readsTyped(t, v, b)
	if alpha != nil {
		operand.Reads(alpha, rows)
	}
	if !tuned.ISA.SIMD() {
		accumulateTypedGeneric(t, o, p, v, alpha, rows, oStride, pStride, b)
		return
	}
	if kernel.ProductsOf(rows, b.Keys*b.Cols) > kernel.CallProducts {
		splitTyped(t, o, p, v, alpha, rows, oStride, pStride, b)
		return
	}
	var a *float32
	if alpha != nil {
		a = &alpha[0]
	}
	accumulateTypedStep(t, &o[0], &p[0], &v[0], a, rows, oStride, pStride, b)
}

// splitTyped takes fewer columns at a time, and of these fewer rows.
func splitTyped(t Format, o, p []float32, v []byte, alpha []float32, rows, oStride, pStride int,
	b *kernel.PanelLayout) {
	cols := max(panel, kernel.CallProducts/kernel.ProductsOf(rows, b.Keys)/panel*panel)
	step := max(1, min(rows, kernel.CallProducts/(b.Keys*min(cols, b.Cols))))
	part := *b
	for c := 0; c < b.Cols; c += cols {
		part.Cols = min(cols, b.Cols-c)
		for r := 0; r < rows; r += step {
			n, factors := min(step, rows-r), alpha
			if alpha != nil {
				factors = alpha[r:]
			}
			accumulateTyped(t, o[r*oStride+c:], p[r*pStride:],
				v[c/panel*b.PanelStride*formats[t].bytes:], factors, n, oStride, pStride, &part)
		}
	}
}

// scoreTyped is score of queries by n packed keys of a format of fewer bits, in whole panels.
func scoreTyped(t Format, s, q []float32, k []byte, rows, d, n int) {
	var layout kernel.PanelLayout
	layout.OfKeys(kernel.Format(t), d, roundUp(n, panel))
	layout.SetTyped(&tuned, kernel.Format(t), rows, layout.PanelStride*formats[t].bytes,
		formats[t].scaled)
	for x := 0; x < d; x += kernel.CallSteps {
		layout.Keys, layout.Overwrite = min(kernel.CallSteps, d-x), x == 0
		accumulateTyped(t, s, q[x:], k[x*panel*formats[t].bits/8:], nil, rows, Block, d, &layout)
	}
}

// widen is dst = v in float32, for panels of a number of steps: step k of column c goes to
// c/panel·dstStride + k·panel + c%panel.
func widen(t Format, dst []float32, v []byte, dstStride int, b *kernel.PanelLayout) {
	readsTyped(t, v, b)
	for c := 0; c < b.Cols; c = kernel.NextPiece(c, panel, b.Cols) {
		to, from := dst[c/panel*dstStride:][:b.Keys*panel], v[c/panel*b.PanelStride*formats[t].bytes:]
		operand.Writes(to, len(to))
		if !tuned.ISA.SIMD() {
			widenGeneric(t, to, from, b.Keys, b.Stride)
			continue
		}
		switch t {
		case F16:
			widenF16SIMD(&to[0], &from[0], b.Keys*panel)
		case BF16:
			widenBF16SIMD(&to[0], &from[0], b.Keys*panel)
		case I8:
			widenI8SIMD(&to[0], &from[0], b.Keys, b.Stride)
		}
	}
}

// narrow is dst = x in F16 or BF16.
func narrow(t Format, dst []uint16, x []float32) {
	operand.Reads(x, len(x))
	operand.Writes(dst, len(x))
	if !tuned.ISA.SIMD() || len(x) == 0 {
		narrowGeneric(t, dst, x)
		return
	}
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
		if t == F16 {
			narrowF16SIMD(&dst[from], &x[from], to-from)
		} else {
			narrowBF16SIMD(&dst[from], &x[from], to-from)
		}
	}
}

// largest is max |x_i|: NaN if one is NaN.
func largest(x []float32) float32 {
	operand.Reads(x, len(x))
	if !tuned.ISA.SIMD() || len(x) == 0 {
		return largestGeneric(x)
	}
	top := float32(0)
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
		e := largestSIMD(&x[from], to-from)
		if e != e {
			return e
		}
		top = max(top, e)
	}
	return top
}

// scaleOf is the scale of numbers of which the largest magnitude is top: top/127. Where that is
// subnormal and was rounded down, it is so much more that no number becomes more than 127. Where
// 127 scales would be infinite, it is the next smaller number.
func scaleOf(top float32) float32 {
	scale := top / 127
	for scale > 0 && top/scale >= 127.5 {
		scale = math.Nextafter32(scale, 1)
	}
	if top > 0 && scale == 0 {
		scale = math.SmallestNonzeroFloat32
	}
	if 127*scale > math.MaxFloat32 {
		scale = math.Nextafter32(scale, 0)
	}
	return scale
}

// quantize is dst = rint(x/scale), ties to even, and 0 if the scale is 0. No |x| is above
// 127·scale.
func quantize(dst []int8, x []float32, scale float32) {
	operand.Reads(x, len(x))
	operand.Writes(dst, len(x))
	if !tuned.ISA.SIMD() || len(x) == 0 || scale == 0 {
		quantizeGeneric(dst, x, scale)
		return
	}
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
		quantizeSIMD(&dst[from], &x[from], to-from, scale)
	}
}

// rotate multiplies rows of n elements by the orthonormal Walsh–Hadamard matrix of the size of a
// block, a power of two that divides n: for h = 1, 2, 4, …, a and b that are h apart become a + b
// and a − b; then all are multiplied by 1/√block, rounded once.
// Those of x go to dst, which may be the same.
func rotate(dst, x []float32, rows, n, dstStride, xStride, block int) {
	operand.ReadsRows(x, rows, xStride, n)
	operand.WritesRows(dst, rows, dstStride, n)
	if !tuned.ISA.SIMD() || rows == 0 || block == 1 || block > kernel.CallElements {
		for r := range rows {
			stop.Copy(dst[r*dstStride:][:n], x[r*xStride:])
		}
		rotateGeneric(dst, rows, dstStride, n, block)
		return
	}
	step := kernel.CallElements / block * block
	factor := float32(1 / math.Sqrt(float64(block)))
	together := max(1, step/n)
	for r := 0; r < rows; r = kernel.NextPiece(r, together, rows) {
		for c := 0; c < n; c = kernel.NextPiece(c, step, n) {
			rotateStep(&dst[r*dstStride+c], &x[r*xStride+c], min(together, rows-r), min(step, n-c),
				dstStride, xStride, block, factor)
		}
	}
}

// rotateAll rotates rows that follow each other: so do their blocks.
func rotateAll(x []float32, block int) { rotate(x, x, 1, len(x), len(x), len(x), block) }

// readsTyped: the values of a block, panel by panel.
func readsTyped(t Format, v []byte, b *kernel.PanelLayout) {
	steps := (b.Keys-1)*b.Stride + panel
	switch t {
	case I8:
		steps = (b.Keys-1)/4*b.Stride + 4*panel
	case I4:
		steps = (b.Keys-1)/8*b.Stride + 4*panel
	}
	last := (b.Cols - 1) / panel
	operand.Need(v, (last*b.PanelStride+steps)*formats[t].bytes)
	if sanitize.Enabled {
		for c := range last + 1 {
			operand.Reads(v[c*b.PanelStride*formats[t].bytes:], steps*formats[t].bytes)
		}
	}
}

// widenHalves widens n elements of F16 or BF16 of checked operands, whole panels of them.
func widenHalves(t Format, dst *float32, v *byte, n int) {
	if t == F16 {
		widenF16SIMD(dst, v, n)
	} else {
		widenBF16SIMD(dst, v, n)
	}
}

// widenIntegers widens the steps of a panel of I8 of checked operands.
func widenIntegers(dst *float32, v *byte, steps, stride int) { widenI8SIMD(dst, v, steps, stride) }
