package attn

import (
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/sanitize"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// The kernels: their names, argument order and dispatch; those of which there are several variants
// are in kernel_variants.go, those over fewer bits in kernel_typed.go. What each computes is
// defined by its generic twin in kernel_generic.go. The functions here first say of each operand
// what is read and written: that checks that the slice is long enough, which assembly does not.
// Then they choose an implementation by a switch on one variable, because calls through func-typed
// variables would make the arguments escape to the heap.

// productsOf is how many multiply-adds a call counts as that goes through so many elements for each
// row.
func productsOf(rows, elements int) int { return max(rows, callRows) * elements }

// reads tells a sanitizer of the build that a kernel reads the values of a block, panel by panel.
func (b *panelLayout) reads(v []float32) {
	last := (b.cols - 1) / panel
	operand.Need(v, last*b.panelStride+(b.keys-1)*b.stride+b.cols-last*panel)
	if sanitize.Enabled {
		for c := 0; c < b.cols; c += panel {
			operand.ReadsRows(v[c/panel*b.panelStride:], b.keys, b.stride, min(panel, b.cols-c))
		}
	}
}

func packKeys(dst, k []float32, stride, n, d int) {
	operand.Writes(dst, roundUp(n, panel)*d)
	operand.ReadsRows(k, n, stride, d)
	if !tuned.ISA.SIMD() {
		packKeysGeneric(dst, k, stride, n, d)
		return
	}
	if roundUp(n, panel)*d > callCopies { // the last panel is filled up
		splitPackKeys(dst, k, stride, n, d)
		return
	}
	packKeysSIMD(&dst[0], &k[0], stride, n, d, tuned.Reads == tuning.SequentialReads)
}

func packValues(dst, v []float32, stride, n, d int) {
	operand.WritesRows(dst, roundUp(d, panel)/panel, Block*panel, n*panel)
	operand.ReadsRows(v, n, stride, d)
	if !tuned.ISA.SIMD() {
		packValuesGeneric(dst, v, stride, n, d)
		return
	}
	if n*d > callCopies {
		splitPackValues(dst, v, stride, n, d)
		return
	}
	packValuesSIMD(&dst[0], &v[0], stride, n, d, tuned.Reads == tuning.SequentialReads)
}

func score(s, q, k []float32, rows, d, panels int) {
	scorePrefetch(s, q, k, rows, d, panels, nil)
}

// scorePrefetch is score that prefetches what is next in a queue, or nothing if that is nil.
func scorePrefetch(s, q, k []float32, rows, d, panels int, next *prefetchQueue) {
	operand.WritesRows(s, rows, Block, panels*panel)
	operand.Reads(q, rows*d)
	operand.Reads(k, panels*d*panel)
	if !tuned.ISA.SIMD() {
		scoreGeneric(s, q, k, rows, d, panels)
		return
	}
	if productsOf(rows, d*panels*panel) > callProducts || d > callInner {
		splitScore(s, q, k, rows, d, panels, next)
		return
	}
	if chooseKernels(rows, d, 0).lanes16 {
		scoreAVX512(&s[0], &q[0], &k[0], rows, d, panels, next)
		return
	}
	scoreSIMD(&s[0], &q[0], &k[0], rows, d, panels, next)
}

func scoreRows(s, q, k []float32, rows, d, stride, n int, next *prefetchQueue) {
	operand.WritesRows(s, rows, Block, n)
	operand.Reads(q, rows*d)
	operand.ReadsRows(k, n+next.touched(), stride, d)
	if !tuned.ISA.SIMD() {
		scoreRowsGeneric(s, q, k, rows, d, stride, n)
		return
	}
	if max(rows, inPlaceRows)*d*n > callInPlaceProducts && d <= inPlaceDim {
		splitScoreRows(s, q, k, rows, d, stride, n, next)
		return
	}
	// single keys would be one chain each: rather some twice
	if n > inPlaceKeys && n%inPlaceKeys != 0 {
		scoreRowsSIMD(&s[0], &q[0], &k[0], rows, d, stride, n/inPlaceKeys*inPlaceKeys, next)
		last := n - inPlaceKeys
		scoreRowsSIMD(&s[last], &q[0], &k[last*stride], rows, d, stride, inPlaceKeys, nil)
		return
	}
	scoreRowsSIMD(&s[0], &q[0], &k[0], rows, d, stride, n, next)
}

func softmax(s, m, l, alpha []float32, rows int, c float32) (masked bool) {
	operand.Updates(s, rows*Block)
	operand.Updates(m, rows)
	operand.Updates(l, rows)
	operand.Writes(alpha, rows)
	if !tuned.ISA.SIMD() {
		return softmaxGeneric(s, m, l, alpha, rows, c)
	}
	for r := 0; r < rows; r += softmaxRows {
		n := min(softmaxRows, rows-r)
		if chooseKernels(n, 0, 0).softmax16 {
			masked = softmaxAVX512(&s[r*Block], &m[r], &l[r], &alpha[r], n, c) || masked
		} else {
			masked = softmaxSIMD(&s[r*Block], &m[r], &l[r], &alpha[r], n, c) || masked
		}
	}
	return masked
}

func softmaxMasked(s, m, l, alpha []float32, visible []uint64, rows int, c float32) (masked bool) {
	operand.Updates(s, rows*Block)
	operand.Updates(m, rows)
	operand.Updates(l, rows)
	operand.Writes(alpha, rows)
	operand.Reads(visible, rows)
	if !tuned.ISA.SIMD() {
		return softmaxMaskedGeneric(s, m, l, alpha, visible, rows, c)
	}
	for r := 0; r < rows; r += softmaxRows {
		n := min(softmaxRows, rows-r)
		if tuned.ISA.Lanes16() {
			masked = softmaxMaskedAVX512(&s[r*Block], &m[r], &l[r], &alpha[r], &visible[r], n, c) || masked
		} else {
			masked = softmaxMaskedSIMD(&s[r*Block], &m[r], &l[r], &alpha[r], &visible[r], n, c) || masked
		}
	}
	return masked
}

func accumulate(o, p, v, alpha []float32, rows, oStride, pStride int, b *panelLayout) {
	operand.UpdatesRows(o, rows, oStride, b.cols)
	operand.ReadsRows(p, rows, pStride, b.keys)
	b.reads(v)
	if !tuned.ISA.SIMD() {
		accumulateGeneric(o, p, v, alpha, rows, oStride, pStride, b)
		return
	}
	if productsOf(rows, b.keys*b.cols) > callProducts {
		splitAccumulate(o, p, v, alpha, rows, oStride, pStride, b, unmasked)
		return
	}
	var a *float32
	if alpha != nil {
		operand.Reads(alpha, rows)
		a = &alpha[0]
	}
	if chooseKernels(rows, 0, b.cols).lanes16 && b.cols >= panel {
		accumulatePanels(&o[0], &p[0], &v[0], a, rows, oStride, pStride, b)
		return
	}
	accumulateSIMD(&o[0], &p[0], &v[0], a, rows, oStride, pStride, b)
}

func accumulateMasked(o, p, v, alpha []float32, rows, oStride, pStride int, b *panelLayout) {
	operand.UpdatesRows(o, rows, oStride, b.cols)
	operand.ReadsRows(p, rows, pStride, b.keys)
	b.reads(v)
	operand.Reads(alpha, rows)
	if !tuned.ISA.SIMD() {
		accumulateMaskedGeneric(o, p, v, alpha, rows, oStride, pStride, b)
		return
	}
	if productsOf(rows, b.keys*b.cols) > callMasked && (rows > 1 || b.cols > panel) {
		splitAccumulate(o, p, v, alpha, rows, oStride, pStride, b, maskedValues)
		return
	}
	accumulateMaskedSIMD(&o[0], &p[0], &v[0], &alpha[0], rows, oStride, pStride, b)
}

func scale(dst, x []float32, f float32) {
	operand.Reads(x, len(x))
	operand.Writes(dst, len(x))
	if !tuned.ISA.SIMD() || len(x) == 0 {
		scaleGeneric(dst, x, f)
		return
	}
	if len(x) > callElements {
		splitScale(dst, x, f)
		return
	}
	scaleSIMD(&dst[0], &x[0], len(x), f)
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
	if rows*roundUp(n, panel) > callElements { // a row takes some time, however short
		splitNormalize(dst, o, l, rows, n, dstStride, oStride)
		return
	}
	normalizeSIMD(&dst[0], &o[0], &l[0], rows, n, dstStride, oStride)
}

func merge(o, b []float32, x, y float32) {
	operand.Updates(o, len(b))
	operand.Reads(b, len(b))
	if !tuned.ISA.SIMD() || len(b) == 0 {
		mergeGeneric(o, b, x, y)
		return
	}
	if len(b) > callElements {
		splitMerge(o, b, x, y)
		return
	}
	mergeSIMD(&o[0], &b[0], len(b), x, y)
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
	if n > callElements {
		splitMergeSums(m, l, m2, l2, x, y, c)
		return
	}
	mergeSumsSIMD(&m[0], &l[0], &m2[0], &l2[0], &x[0], &y[0], n, c)
}

func softcap(s []float32, limit, factor float32) {
	operand.Updates(s, len(s))
	if !tuned.ISA.SIMD() || len(s) == 0 {
		softcapGeneric(s, limit, factor)
		return
	}
	if len(s) > callSoftcaps {
		splitSoftcap(s, limit, factor)
		return
	}
	softcapSIMD(&s[0], len(s), limit, factor)
}

func alibi(s []float32, slope float32, first int) {
	operand.Updates(s, len(s))
	if !tuned.ISA.SIMD() || len(s) == 0 {
		alibiGeneric(s, slope, first)
		return
	}
	alibiSIMD(&s[0], len(s), slope, first)
}

func addBias(s, bias []float32, visible []uint64, rows, step, stride, lo, n int,
	u float32) (every uint64) {
	operand.UpdatesRows(s, rows, step*Block, n)
	operand.ReadsRows(bias, rows, stride, n)
	operand.UpdatesRows(visible, rows, step, 1)
	if !tuned.ISA.SIMD() || rows == 0 || n == 0 {
		return addBiasGeneric(s, bias, visible, rows, step, stride, lo, n, u)
	}
	return addBiasSIMD(&s[0], &bias[0], &visible[0], rows, step, stride, lo, n, u)
}

func maskKeys(mask []bool, visible []uint64, rows, step, stride, lo, n int) (every uint64) {
	operand.ReadsRows(mask, rows, stride, n)
	operand.UpdatesRows(visible, rows, step, 1)
	if !tuned.ISA.SIMD() || rows == 0 || n == 0 {
		return maskKeysGeneric(mask, visible, rows, step, stride, lo, n)
	}
	return maskKeysSIMD(&mask[0], &visible[0], rows, step, stride, lo, n)
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
	if len(x) > callElements {
		return splitAllFinite(x)
	}
	return allFiniteSIMD(&x[0], len(x))
}

func dot(a, b []float32) float32 {
	operand.Reads(a, len(a))
	operand.Reads(b, len(a))
	if !tuned.ISA.SIMD() || len(a) == 0 {
		return dotGeneric(a, b)
	}
	if len(a) > callElements {
		return splitDot(a, b)
	}
	return dotSIMD(&a[0], &b[0], len(a))
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
	if len(x) > callElements {
		return splitMaxOf(x)
	}
	return maxOfSIMD(&x[0], len(x))
}

func exp(dst, x []float32) {
	operand.Reads(x, len(x))
	operand.Writes(dst, len(x))
	if !tuned.ISA.SIMD() || len(x) == 0 {
		expGeneric(dst, x)
		return
	}
	if len(x) > callElements {
		splitExp(dst, x)
		return
	}
	expSIMD(&dst[0], &x[0], len(x))
}

func expSum(dst, x []float32, top float32) float32 {
	operand.Reads(x, len(x))
	operand.Writes(dst, len(x))
	if !tuned.ISA.SIMD() || len(x) == 0 {
		return expSumGeneric(dst, x, top)
	}
	if len(x) > callElements {
		return splitExpSum(dst, x, top)
	}
	return expSumSIMD(&dst[0], &x[0], len(x), top)
}

func sumExp(x []float32, top float32) float32 {
	operand.Reads(x, len(x))
	if !tuned.ISA.SIMD() || len(x) == 0 {
		return sumExpGeneric(x, top)
	}
	if len(x) > callElements {
		return splitSumExp(x, top)
	}
	return sumExpSIMD(&x[0], len(x), top)
}
