//go:build (amd64 || arm64) && !purego

package floats

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

func PackKeys(cpu *tuning.Row, dst, k []float32, stride, n, d int) {
	operand.Writes(dst, kernel.RoundUp(n, kernel.Panel)*d)
	operand.ReadsRows(k, n, stride, d)
	if !cpu.ISA.SIMD() {
		packKeysGeneric(dst, k, stride, n, d)
		return
	}
	if kernel.RoundUp(n, kernel.Panel)*d > kernel.CallCopies { // the last panel is filled up
		splitPackKeys(cpu, dst, k, stride, n, d)
		return
	}
	packKeysSIMD(&dst[0], &k[0], stride, n, d, cpu.Reads == tuning.SequentialReads)
}

// splitPackKeys packs a panel at a time, and fewer of its dimensions.
func splitPackKeys(cpu *tuning.Row, dst, k []float32, stride, n, d int) {
	const step = kernel.CallCopies / kernel.Panel
	inOrder := cpu.Reads == tuning.SequentialReads
	for j := 0; j < n; j = kernel.NextPiece(j, kernel.Panel, n) {
		end := min(j+kernel.Panel, n)
		for x := 0; x < d; x = kernel.NextPiece(x, step, d) {
			to := min(x+step, d)
			packKeysSIMD(&dst[j*d+x*kernel.Panel], &k[j*stride+x], stride, end-j, to-x, inOrder)
		}
	}
}

func PackValues(cpu *tuning.Row, dst, v []float32, stride, n, d int) {
	operand.WritesRows(dst, kernel.RoundUp(d, kernel.Panel)/kernel.Panel, kernel.Block*kernel.Panel,
		n*kernel.Panel)
	operand.ReadsRows(v, n, stride, d)
	if !cpu.ISA.SIMD() {
		packValuesGeneric(dst, v, stride, n, d)
		return
	}
	inOrder := cpu.Reads == tuning.SequentialReads
	step := kernel.CallCopies / n / kernel.Panel * kernel.Panel
	for c := 0; c < d; c = kernel.NextPiece(c, step, d) {
		to := min(c+step, d)
		packValuesSIMD(&dst[c*kernel.Block], &v[c], stride, n, to-c, inOrder)
	}
}

// Score is scoreGeneric that prefetches the next memory of a queue, or nothing if the queue is nil.
func Score(cpu *tuning.Row, s, q, k []float32, rows, d, panels int, next *kernel.PrefetchQueue) {
	operand.WritesRows(s, rows, kernel.Block, panels*kernel.Panel)
	operand.Reads(q, rows*d)
	operand.Reads(k, panels*d*kernel.Panel)
	if !cpu.ISA.SIMD() {
		scoreGeneric(s, q, k, rows, d, panels)
		return
	}
	if kernel.ProductsOf(rows, d*panels*kernel.Panel) > kernel.CallProducts || d > kernel.CallInner {
		splitScore(cpu, s, q, k, rows, d, panels, next)
		return
	}
	scoreStep(cpu, &s[0], &q[0], &k[0], rows, d, panels, next)
}

// splitScore computes fewer rows at a time, or if these would be few, fewer panels.
func splitScore(cpu *tuning.Row, s, q, k []float32, rows, d, panels int,
	next *kernel.PrefetchQueue) {
	switch {
	case d > kernel.CallInner:
		chainScore(cpu, s, q, k, rows, d, panels)
		return
	case rows <= kernel.CallRows:
		limit := kernel.CallInner / d
		calls := (panels + limit - 1) / limit
		step := (panels + calls - 1) / calls // two and two panels are faster than three and one
		for p := 0; p < panels; p += step {
			Score(cpu, s[p*kernel.Panel:], q, k[p*d*kernel.Panel:], rows, d, min(step, panels-p), next)
			next.Advance(step * d * kernel.Panel)
		}
		return
	}
	step := max(kernel.SplitRows,
		kernel.CallProducts/(d*panels*kernel.Panel)/kernel.SplitRows*kernel.SplitRows)
	if step == kernel.SplitRows && panels > 1 { // half of the panels leave rows enough for 16 lanes
		half := (panels + 1) / 2
		for p := 0; p < panels; p += half {
			Score(cpu, s[p*kernel.Panel:], q, k[p*d*kernel.Panel:], rows, d, min(half, panels-p), next)
			next.Advance(half * d * kernel.Panel)
		}
		return
	}
	for r := 0; r < rows; r += step {
		Score(cpu, s[r*kernel.Block:], q[r*d:], k, min(step, rows-r), d, panels, next)
	}
}

// chainScore computes a part of the dimensions at a time. Packed keys have the layout of values,
// with dimensions in the place of keys, so accumulate can continue the chains of the part before.
func chainScore(cpu *tuning.Row, s, q, k []float32, rows, d, panels int) {
	const step = 512
	for x := 0; x < d; x += step {
		part := kernel.PanelLayout{Keys: min(step, d-x), Cols: panels * kernel.Panel,
			Stride:      kernel.Panel,
			PanelStride: d * kernel.Panel, Overwrite: x == 0}
		sums := kernel.Sums{O: s, P: q[x:], Rows: rows, OStride: kernel.Block, PStride: d}
		Accumulate(cpu, &sums, k[x*kernel.Panel:], &part)
	}
}

// ScoreRows computes scores of keys in rows.
func ScoreRows(isa tuning.ISA, s, q []float32, keys KeyRows, rows, d int,
	next *kernel.PrefetchQueue) {
	k, stride, n := keys.K, keys.Stride, keys.N
	operand.WritesRows(s, rows, kernel.Block, n)
	operand.Reads(q, rows*d)
	touched := 0 // rows after the rows of the call
	if next != nil && next.InOrder {
		touched = min(next.After, kernel.Panel)
	}
	operand.ReadsRows(k, n+touched, stride, d)
	if !isa.SIMD() {
		scoreRowsGeneric(s, q, k, rows, d, stride, n)
		return
	}
	if max(rows, kernel.InPlaceRows)*d*n > kernel.CallInPlaceProducts && d <= kernel.InPlaceDim {
		splitScoreRows(isa, s, q, keys, rows, d, next)
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

// splitScoreRows computes fewer rows at a time, and fewer keys: whole panels, at least one since d
// ≤ inPlaceDim.
func splitScoreRows(isa tuning.ISA, s, q []float32, keys KeyRows, rows, d int,
	next *kernel.PrefetchQueue) {
	if rows > kernel.InPlaceRows {
		for r := 0; r < rows; r += kernel.InPlaceRows {
			ScoreRows(isa, s[r*kernel.Block:], q[r*d:], keys, min(kernel.InPlaceRows, rows-r), d, next)
		}
		return
	}
	most := kernel.CallInPlaceProducts / (kernel.InPlaceRows * d) / kernel.Panel * kernel.Panel
	for j := 0; j < keys.N; j += most {
		some := KeyRows{keys.K[j*keys.Stride:], keys.Stride, min(most, keys.N-j)}
		ScoreRows(isa, s[j:], q, some, rows, d, next)
		next.Advance(most * d)
	}
}

// Softmax with a nil visible is for rows that see all keys of a block.
func Softmax(cpu *tuning.Row, s, m, l, alpha []float32, visible []uint64, rows int,
	c float32) (masked bool) {
	operand.Updates(s, rows*kernel.Block)
	operand.Updates(m, rows)
	operand.Updates(l, rows)
	operand.Writes(alpha, rows)
	if visible != nil {
		operand.Reads(visible, rows)
	}
	switch every := visible == nil; {
	case !cpu.ISA.SIMD() && every:
		return softmaxGeneric(s, m, l, alpha, rows, c)
	case !cpu.ISA.SIMD():
		return softmaxMaskedGeneric(s, m, l, alpha, visible, rows, c)
	}
	for r := 0; r < rows; r += kernel.SoftmaxRows {
		var seen *uint64
		if visible != nil {
			seen = &visible[r]
		}
		if SoftmaxStep(cpu, &s[r*kernel.Block], &m[r], &l[r], &alpha[r], seen, min(kernel.SoftmaxRows,
			rows-r), c) {
			masked = true
		}
	}
	return masked
}

func Accumulate(cpu *tuning.Row, x *kernel.Sums, v []float32, b *kernel.PanelLayout) {
	operand.UpdatesRows(x.O, x.Rows, x.OStride, b.Cols)
	operand.ReadsRows(x.P, x.Rows, x.PStride, b.Keys)
	b.Reads(v)
	if x.Alpha != nil {
		operand.Reads(x.Alpha, x.Rows)
	}
	if !cpu.ISA.SIMD() {
		accumulateGeneric(x, v, b)
		return
	}
	if kernel.ProductsOf(x.Rows, b.Keys*b.Cols) > productsOf(cpu, x.Rows, b) {
		splitAccumulate(cpu, x, v, b, false)
		return
	}
	accumulateStep(cpu, x, &v[0], b)
}

func AccumulateMasked(cpu *tuning.Row, x *kernel.Sums, v []float32, b *kernel.PanelLayout) {
	operand.UpdatesRows(x.O, x.Rows, x.OStride, b.Cols)
	operand.ReadsRows(x.P, x.Rows, x.PStride, b.Keys)
	b.Reads(v)
	operand.Reads(x.Alpha, x.Rows)
	if !cpu.ISA.SIMD() {
		accumulateMaskedGeneric(x, v, b)
		return
	}
	if kernel.ProductsOf(x.Rows, b.Keys*b.Cols) > kernel.CallMasked && (x.Rows > 1 ||
		b.Cols > kernel.Panel) {
		splitAccumulate(cpu, x, v, b, true)
		return
	}
	accumulateMaskedSIMD(&x.O[0], &x.P[0], &v[0], &x.Alpha[0], x.Rows, x.OStride, x.PStride, b)
}

// productsOf bounds the multiply-adds of one call of accumulate. Few rows wait for memory.
func productsOf(cpu *tuning.Row, rows int, b *kernel.PanelLayout) int {
	if rows >= 2*kernel.CallRows && Choose(cpu, rows, 0, b.Packed).Lanes16 {
		return kernel.CallProducts16
	}
	return kernel.CallProducts
}

// splitAccumulate computes fewer columns at a time, so that a panel of values stays in the cache
// for all rows, or one panel and fewer rows. There are at most CallInner keys.
func splitAccumulate(cpu *tuning.Row, x *kernel.Sums, v []float32, b *kernel.PanelLayout,
	masked bool) {
	rows, limit := x.Rows, productsOf(cpu, x.Rows, b)
	if masked {
		limit = kernel.CallMasked
	}
	cols := kernel.ColumnsOf(limit / kernel.ProductsOf(rows, b.Keys))
	step := max(1, min(rows, limit/(b.Keys*min(cols, b.Cols))))
	if kernel.ProductsOf(1, b.Keys*min(cols, b.Cols)) > limit {
		step = 1 // masked, and more keys than a block has
	}
	part, some := *b, *x // in the loop they would escape to the heap
	for c := 0; c < b.Cols; c += cols {
		part.Cols = min(cols, b.Cols-c)
		if b.Pointer != 0 {
			part.Pointer = b.Pointer + uintptr(4*c*b.Keys)
		}
		if next := c + cols; b.After != 0 && next < b.Cols {
			part.After = operand.Address(v, next/kernel.Panel*b.PanelStride)
		} else {
			part.After = b.After
		}
		values := v[c/kernel.Panel*b.PanelStride:]
		for r := 0; r < rows; r += step {
			some = x.From(r, min(step, rows-r), c)
			if masked {
				AccumulateMasked(cpu, &some, values, &part)
			} else {
				Accumulate(cpu, &some, values, &part)
			}
		}
	}
}

// ScaleColumns is s_rj = s_rj·f_j for n columns of rows that are stride apart. Signs of zeros stay.
func ScaleColumns(isa tuning.ISA, s, f []float32, rows, stride, n int) {
	operand.UpdatesRows(s, rows, stride, n)
	operand.Reads(f, n)
	if !isa.SIMD() || rows == 0 || n == 0 {
		scaleColumnsGeneric(s, f, rows, stride, n)
		return
	}
	scaleColumnsSIMD(&s[0], &f[0], rows, stride, n)
}

// AddColumns is s_rj = s_rj + bias_j.
func AddColumns(isa tuning.ISA, s, bias []float32, rows, stride, n int) {
	operand.UpdatesRows(s, rows, stride, n)
	operand.Reads(bias, n)
	if !isa.SIMD() || rows == 0 || n == 0 {
		addColumnsGeneric(s, bias, rows, stride, n)
		return
	}
	addColumnsSIMD(&s[0], &bias[0], rows, stride, n)
}

// ScaleAddColumns is s_rj = s_rj·f_j + bias_j, each rounded.
func ScaleAddColumns(isa tuning.ISA, s, f, bias []float32, rows, stride, n int) {
	operand.UpdatesRows(s, rows, stride, n)
	operand.Reads(f, n)
	operand.Reads(bias, n)
	if !isa.SIMD() || rows == 0 || n == 0 {
		scaleAddColumnsGeneric(s, f, bias, rows, stride, n)
		return
	}
	scaleAddColumnsSIMD(&s[0], &f[0], &bias[0], rows, stride, n)
}

func AddBias(isa tuning.ISA, s, bias []float32, rows, step, stride, n int, u float32) {
	operand.UpdatesRows(s, rows, step*kernel.Block, n)
	operand.ReadsRows(bias, rows, max(stride, -stride), n)
	if !isa.SIMD() || rows == 0 || n == 0 {
		addBiasGeneric(s, bias, rows, step, stride, n, u)
		return
	}
	addBiasSIMD(&s[0], &bias[firstRow(rows, stride)], rows, step, stride, n, u)
}

func MaskBias(isa tuning.ISA, bias []float32, visible []uint64, rows, step, stride, lo,
	n int) (hides, adds bool) {
	operand.ReadsRows(bias, rows, max(stride, -stride), n)
	operand.UpdatesRows(visible, rows, step, 1)
	if !isa.SIMD() || rows == 0 || n == 0 {
		return maskBiasGeneric(bias, visible, rows, step, stride, lo, n)
	}
	return maskBiasSIMD(&bias[firstRow(rows, stride)], &visible[0], rows, step, stride, lo, n)
}

func MaskKeys(isa tuning.ISA, mask []bool, visible []uint64, rows, step, stride, lo,
	n int) (every uint64) {
	operand.ReadsRows(mask, rows, stride, n)
	operand.UpdatesRows(visible, rows, step, 1)
	if !isa.SIMD() || rows == 0 || n == 0 {
		return maskKeysGeneric(mask, visible, rows, step, stride, lo, n)
	}
	return maskKeysSIMD(&mask[0], &visible[0], rows, step, stride, lo, n)
}

// The kernels that go through vectors, piece by piece, or through pairs of queries and keys.

func Scale(isa tuning.ISA, dst, x []float32, f float32) {
	operand.Reads(x, len(x))
	operand.Writes(dst, len(x))
	if !isa.SIMD() || len(x) == 0 {
		scaleGeneric(dst, x, f)
		return
	}
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
		scaleSIMD(&dst[from], &x[from], to-from, f)
	}
}

func Normalize(isa tuning.ISA, dst, o, l []float32, rows, n, dstStride, oStride int) {
	if rows == 0 || n == 0 {
		return
	}
	operand.WritesRows(dst, rows, dstStride, n)
	operand.ReadsRows(o, rows, oStride, n)
	operand.Reads(l, rows)
	if !isa.SIMD() {
		normalizeGeneric(dst, o, l, rows, n, dstStride, oStride)
		return
	}
	// a row costs a minimum, however short it is
	step := max(1, kernel.CallElements/kernel.RoundUp(n, kernel.Panel))
	for r := 0; r < rows; r = kernel.NextPiece(r, step, rows) {
		end := min(r+step, rows)
		for c := 0; c < n; c = kernel.NextPiece(c, kernel.CallElements, n) {
			to := min(c+kernel.CallElements, n)
			normalizeStep(isa, &dst[r*dstStride+c], &o[r*oStride+c], &l[r], end-r, to-c, dstStride, oStride)
		}
	}
}

func Merge(isa tuning.ISA, o, b []float32, x, y float32) {
	operand.Updates(o, len(b))
	operand.Reads(b, len(b))
	if !isa.SIMD() || len(b) == 0 {
		mergeGeneric(o, b, x, y)
		return
	}
	for from := 0; from < len(b); from = kernel.NextPiece(from, kernel.CallElements, len(b)) {
		to := min(from+kernel.CallElements, len(b))
		mergeSIMD(&o[from], &b[from], to-from, x, y)
	}
}

// MergeRows merges contiguous rows of n columns, each with its own factors.
func MergeRows(isa tuning.ISA, o, b, x, y []float32, n int) {
	if !isa.SIMD() || n == 0 || n > kernel.CallElements {
		for r := range x {
			Merge(isa, o[r*n:], b[r*n:][:n], x[r], y[r])
		}
		return
	}
	operand.Updates(o, len(x)*n)
	operand.Reads(b, len(x)*n)
	step := kernel.CallElements / n
	for first := 0; first < len(x); first = kernel.NextPiece(first, step, len(x)) {
		end := min(first+step, len(x))
		mergeRows(isa, o[first*n:], b[first*n:], x[first:end], y[first:end], n)
	}
}

func MergeSums(isa tuning.ISA, m, l, m2, l2, x, y []float32, c float32) {
	n := len(m)
	operand.Updates(m, n)
	operand.Updates(l, n)
	operand.Reads(m2, n)
	operand.Reads(l2, n)
	operand.Writes(x, n)
	operand.Writes(y, n)
	if !isa.SIMD() || n == 0 {
		mergeSumsGeneric(m, l, m2, l2, x, y, c)
		return
	}
	for from := 0; from < n; from = kernel.NextPiece(from, kernel.CallElements, n) {
		to := min(from+kernel.CallElements, n)
		mergeSumsSIMD(&m[from], &l[from], &m2[from], &l2[from], &x[from], &y[from], to-from, c)
	}
}

func Softcap(isa tuning.ISA, s []float32, limit, factor float32) {
	operand.Updates(s, len(s))
	if !isa.SIMD() || len(s) == 0 {
		softcapGeneric(s, limit, factor)
		return
	}
	for from := 0; from < len(s); from = kernel.NextPiece(from, kernel.CallSoftcaps, len(s)) {
		to := min(from+kernel.CallSoftcaps, len(s))
		softcapSIMD(&s[from], to-from, limit, factor)
	}
}

func Alibi(isa tuning.ISA, s []float32, slope float32, first int) {
	operand.Updates(s, len(s))
	if !isa.SIMD() || len(s) == 0 {
		alibiGeneric(s, slope, first)
		return
	}
	alibiSIMD(&s[0], len(s), slope, first)
}

func Weights(isa tuning.ISA, dst, s []float32, m, r, c float32, visible uint64) {
	operand.Reads(s, len(dst))
	operand.Writes(dst, len(dst))
	if !isa.SIMD() || len(dst) == 0 {
		weightsGeneric(dst, s, m, r, c, visible)
		return
	}
	weightsSIMD(&dst[0], &s[0], len(dst), m, r, c, visible)
}

func AllFinite(isa tuning.ISA, x []float32) bool {
	operand.Reads(x, len(x))
	if !isa.SIMD() || len(x) == 0 {
		return allFiniteGeneric(x)
	}
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
		if !allFiniteSIMD(&x[from], to-from) {
			return false
		}
	}
	return true
}
