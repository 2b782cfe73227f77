package attn

import "github.com/seed-1415985d/attn/internal/operand"

// The kernels that go through vectors, piece by piece, or through pairs of queries and keys: as in
// kernel.go.

func scale(dst, x []float32, f float32) {
	operand.Reads(x, len(x))
	operand.Writes(dst, len(x))
	if !tuned.ISA.SIMD() || len(x) == 0 {
		scaleGeneric(dst, x, f)
		return
	}
	for from, to := range pieces(len(x), callElements) {
		scaleSIMD(&dst[from], &x[from], to-from, f)
	}
}

func normalize(dst, o, l []float32, rows, n, dstStride, oStride int) {
	if rows == 0 || n == 0 {
		return
	}
	operand.WritesRows(dst, rows, dstStride, n)
	operand.ReadsRows(o, rows, oStride, n)
	operand.Reads(l, rows)
	if !tuned.ISA.SIMD() {
		normalizeGeneric(dst, o, l, rows, n, dstStride, oStride)
		return
	}
	step := max(1, callElements/roundUp(n, panel)) // a row takes some time, however short
	for r, end := range pieces(rows, step) {
		for c, to := range pieces(n, callElements) {
			normalizeStep(&dst[r*dstStride+c], &o[r*oStride+c], &l[r], end-r, to-c, dstStride, oStride)
		}
	}
}

func merge(o, b []float32, x, y float32) {
	operand.Updates(o, len(b))
	operand.Reads(b, len(b))
	if !tuned.ISA.SIMD() || len(b) == 0 {
		mergeGeneric(o, b, x, y)
		return
	}
	for from, to := range pieces(len(b), callElements) {
		mergeSIMD(&o[from], &b[from], to-from, x, y)
	}
}

func mergeSums(m, l, m2, l2, x, y []float32, c float32) {
	n := len(m)
	operand.Updates(m, n)
	operand.Updates(l, n)
	operand.Reads(m2, n)
	operand.Reads(l2, n)
	operand.Writes(x, n)
	operand.Writes(y, n)
	if !tuned.ISA.SIMD() || n == 0 {
		mergeSumsGeneric(m, l, m2, l2, x, y, c)
		return
	}
	for from, to := range pieces(n, callElements) {
		mergeSumsSIMD(&m[from], &l[from], &m2[from], &l2[from], &x[from], &y[from], to-from, c)
	}
}

func softcap(s []float32, limit, factor float32) {
	operand.Updates(s, len(s))
	if !tuned.ISA.SIMD() || len(s) == 0 {
		softcapGeneric(s, limit, factor)
		return
	}
	for from, to := range pieces(len(s), callSoftcaps) {
		softcapSIMD(&s[from], to-from, limit, factor)
	}
}

func alibi(s []float32, slope float32, first int) {
	operand.Updates(s, len(s))
	if !tuned.ISA.SIMD() || len(s) == 0 {
		alibiGeneric(s, slope, first)
		return
	}
	alibiSIMD(&s[0], len(s), slope, first)
}

func weights(dst, s []float32, m, r, c float32, visible uint64) {
	operand.Reads(s, len(dst))
	operand.Writes(dst, len(dst))
	if !tuned.ISA.SIMD() || len(dst) == 0 {
		weightsGeneric(dst, s, m, r, c, visible)
		return
	}
	weightsSIMD(&dst[0], &s[0], len(dst), m, r, c, visible)
}

func allFinite(x []float32) bool {
	operand.Reads(x, len(x))
	if !tuned.ISA.SIMD() || len(x) == 0 {
		return allFiniteGeneric(x)
	}
	for from, to := range pieces(len(x), callElements) {
		if !allFiniteSIMD(&x[from], to-from) {
			return false
		}
	}
	return true
}

func dot(a, b []float32) float32 {
	operand.Reads(a, len(a))
	operand.Reads(b, len(a))
	if !tuned.ISA.SIMD() || len(a) == 0 {
		return dotGeneric(a, b)
	}
	if len(a) <= callElements {
		return dotSIMD(&a[0], &b[0], len(a))
	}
	var lane [64]float32
	for from, to := range pieces(len(a), callElements) {
		addProducts(&lane, a[from:to], b[from:to])
	}
	return fold(lane[:]) + 0
}

func addProducts(lane *[64]float32, a, b []float32) {
	whole := len(a) / len(lane) * len(lane)
	operand.Reads(a, len(a))
	operand.Reads(b, len(a))
	if tuned.ISA.SIMD() && whole > 0 {
		addProductsSIMD(lane, &a[0], &b[0], whole)
		a, b = a[whole:], b[whole:]
	}
	addProductsGeneric(lane, a, b)
}

func maxOf(x []float32) float32 {
	operand.Reads(x, len(x))
	if !tuned.ISA.SIMD() || len(x) == 0 {
		return maxOfGeneric(x)
	}
	top := negInf
	for from, to := range pieces(len(x), callElements) {
		e := maxOfSIMD(&x[from], to-from)
		if e != e {
			return e
		}
		top = max(top, e)
	}
	return top
}

func exp(dst, x []float32) {
	operand.Reads(x, len(x))
	operand.Writes(dst, len(x))
	if !tuned.ISA.SIMD() || len(x) == 0 {
		expGeneric(dst, x)
		return
	}
	for from, to := range pieces(len(x), callElements) {
		expSIMD(&dst[from], &x[from], to-from)
	}
}

func expSum(dst, x []float32, top float32) float32 {
	operand.Reads(x, len(x))
	operand.Writes(dst, len(x))
	if !tuned.ISA.SIMD() || len(x) == 0 {
		return expSumGeneric(dst, x, top)
	}
	if len(x) <= callElements {
		return expSumSIMD(&dst[0], &x[0], len(x), top)
	}
	var sum lanes
	for from, to := range pieces(len(x), callElements) {
		expSumSIMD(&dst[from], &x[from], to-from, top)
		sum.add(dst[from:to])
	}
	return fold(sum[:])
}

func sumExp(x []float32, top float32) float32 {
	operand.Reads(x, len(x))
	if !tuned.ISA.SIMD() || len(x) == 0 {
		return sumExpGeneric(x, top)
	}
	if len(x) <= callElements {
		return sumExpSIMD(&x[0], len(x), top)
	}
	var sum lanes
	var buffer [1024]float32
	for from, to := range pieces(len(x), len(buffer)) {
		expSumSIMD(&buffer[0], &x[from], to-from, top)
		sum.add(buffer[:to-from])
	}
	return fold(sum[:])
}

// lanes are partial sums by index mod 16.
type lanes [16]float32

// add adds numbers whose index begins with a multiple of 16. FMA(1, e, sum) is
// e + sum, so accumulate adds rows of 16.
func (l *lanes) add(x []float32) {
	if rows := len(x) / len(l); rows > 0 {
		layout := panelLayout{keys: rows, cols: len(l), stride: len(l), panelStride: panel}
		accumulate(l[:], ones[:rows], x, nil, 1, len(l), rows, &layout)
	}
	for i, e := range x[len(x)/len(l)*len(l):] {
		l[i] += e
	}
}

var ones = func() (x [callElements / 16]float32) {
	for i := range x {
		x[i] = 1
	}
	return x
}()
