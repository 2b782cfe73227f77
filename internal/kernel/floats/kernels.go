package attn

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// The kernels of attention over float32: their names, argument order and dispatch, and how larger
// calls are split; those over fewer bits are in kernel_typed.go. What each
// computes is defined by its generic twin in kernel_generic.go. The functions here first say of
// each operand what is read and written: that checks that the slice is long enough, which assembly
// does not. Then they choose an implementation by a switch on one variable, because calls through
// func-typed variables would make the arguments escape to the heap.

// `go generate` in this folder writes all assembly, each file only when it is complete: gen/ and
// asm/ say how.

//go:generate go run ./gen -out kernel_amd64.s
//go:generate go run ./gen -out kernel_typed_amd64.s
//go:generate go run ./gen -out kernel_int8_amd64.s
//go:generate go run ./gen -out kernel_blocks_amd64.s
//go:generate go run ./gen -out kernel_int4_amd64.s
//go:generate go run ./asm -out kernel_arm64.s

func packKeys(dst, k []float32, stride, n, d int) {
	operand.Writes(dst, roundUp(n, panel)*d)
	operand.ReadsRows(k, n, stride, d)
	if !tuned.ISA.SIMD() {
		packKeysGeneric(dst, k, stride, n, d)
		return
	}
	if roundUp(n, panel)*d > kernel.CallCopies { // the last panel is filled up
		splitPackKeys(dst, k, stride, n, d)
		return
	}
	packKeysSIMD(&dst[0], &k[0], stride, n, d, tuned.Reads == tuning.SequentialReads)
}

// splitPackKeys takes a panel at a time, and of that fewer dimensions.
func splitPackKeys(dst, k []float32, stride, n, d int) {
	const step = kernel.CallCopies / panel
	inOrder := tuned.Reads == tuning.SequentialReads
	for j := 0; j < n; j = kernel.NextPiece(j, panel, n) {
		end := min(j+panel, n)
		for x := 0; x < d; x = kernel.NextPiece(x, step, d) {
			to := min(x+step, d)
			packKeysSIMD(&dst[j*d+x*panel], &k[j*stride+x], stride, end-j, to-x, inOrder)
		}
	}
}

func packValues(dst, v []float32, stride, n, d int) {
	operand.WritesRows(dst, roundUp(d, panel)/panel, Block*panel, n*panel)
	operand.ReadsRows(v, n, stride, d)
	if !tuned.ISA.SIMD() {
		packValuesGeneric(dst, v, stride, n, d)
		return
	}
	inOrder := tuned.Reads == tuning.SequentialReads
	step := kernel.CallCopies / n / panel * panel
	for c := 0; c < d; c = kernel.NextPiece(c, step, d) {
		to := min(c+step, d)
		packValuesSIMD(&dst[c*Block], &v[c], stride, n, to-c, inOrder)
	}
}

// scorePrefetch is scoreGeneric that prefetches what is next in a queue, or nothing if that is nil.
func scorePrefetch(s, q, k []float32, rows, d, panels int, next *kernel.PrefetchQueue) {
	operand.WritesRows(s, rows, Block, panels*panel)
	operand.Reads(q, rows*d)
	operand.Reads(k, panels*d*panel)
	if !tuned.ISA.SIMD() {
		scoreGeneric(s, q, k, rows, d, panels)
		return
	}
	if kernel.ProductsOf(rows, d*panels*panel) > kernel.CallProducts || d > kernel.CallInner {
		splitScore(s, q, k, rows, d, panels, next)
		return
	}
	scoreStep(&s[0], &q[0], &k[0], rows, d, panels, next)
}

// splitScore takes fewer rows at a time, or if these would be few, fewer panels.
func splitScore(s, q, k []float32, rows, d, panels int, next *kernel.PrefetchQueue) {
	switch {
	case d > kernel.CallInner:
		chainScore(s, q, k, rows, d, panels)
		return
	case rows <= kernel.CallRows:
		limit := kernel.CallInner / d
		calls := (panels + limit - 1) / limit
		step := (panels + calls - 1) / calls // two and two panels are faster than three and one
		for p := 0; p < panels; p += step {
			scorePrefetch(s[p*panel:], q, k[p*d*panel:], rows, d, min(step, panels-p), next)
			next.Advance(step * d * panel)
		}
		return
	}
	step := max(kernel.SplitRows,
		kernel.CallProducts/(d*panels*panel)/kernel.SplitRows*kernel.SplitRows)
	if step == kernel.SplitRows && panels > 1 { // half of the panels leave rows enough for 16 lanes
		half := (panels + 1) / 2
		for p := 0; p < panels; p += half {
			scorePrefetch(s[p*panel:], q, k[p*d*panel:], rows, d, min(half, panels-p), next)
			next.Advance(half * d * panel)
		}
		return
	}
	for r := 0; r < rows; r += step {
		scorePrefetch(s[r*Block:], q[r*d:], k, min(step, rows-r), d, panels, next)
	}
}

// chainScore takes a part of the dimension at a time. Packed keys have the form
// of values, with the dimension in the place of keys, so accumulate can go on
// with the chains where the part before has left them.
func chainScore(s, q, k []float32, rows, d, panels int) {
	const step = 512
	for x := 0; x < d; x += step {
		part := kernel.PanelLayout{Keys: min(step, d-x), Cols: panels * panel, Stride: panel,
			PanelStride: d * panel, Overwrite: x == 0}
		accumulate(s, q[x:], k[x*panel:], nil, rows, Block, d, &part)
	}
}

func scoreRows(s, q, k []float32, rows, d, stride, n int, next *kernel.PrefetchQueue) {
	operand.WritesRows(s, rows, Block, n)
	operand.Reads(q, rows*d)
	touched := 0 // of the rows after those of the call
	if next != nil && next.InOrder {
		touched = min(next.After, panel)
	}
	operand.ReadsRows(k, n+touched, stride, d)
	if !tuned.ISA.SIMD() {
		scoreRowsGeneric(s, q, k, rows, d, stride, n)
		return
	}
	if max(rows, inPlaceRows)*d*n > kernel.CallInPlaceProducts && d <= kernel.InPlaceDim {
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

// splitScoreRows takes fewer rows at a time, and of these fewer keys: whole panels, of which
// d ≤ inPlaceDim leaves at least one.
func splitScoreRows(s, q, k []float32, rows, d, stride, n int, next *kernel.PrefetchQueue) {
	if rows > inPlaceRows {
		for r := 0; r < rows; r += inPlaceRows {
			scoreRows(s[r*Block:], q[r*d:], k, min(inPlaceRows, rows-r), d, stride, n, next)
		}
		return
	}
	keys := kernel.CallInPlaceProducts / (inPlaceRows * d) / panel * panel
	for j := 0; j < n; j += keys {
		scoreRows(s[j:], q, k[j*stride:], rows, d, stride, min(keys, n-j), next)
		next.Advance(keys * d)
	}
}

// softmax with a nil visible is for rows that see all keys of a block.
func softmax(s, m, l, alpha []float32, visible []uint64, rows int, c float32) (masked bool) {
	operand.Updates(s, rows*Block)
	operand.Updates(m, rows)
	operand.Updates(l, rows)
	operand.Writes(alpha, rows)
	if visible != nil {
		operand.Reads(visible, rows)
	}
	switch every := visible == nil; {
	case !tuned.ISA.SIMD() && every:
		return softmaxGeneric(s, m, l, alpha, rows, c)
	case !tuned.ISA.SIMD():
		return softmaxMaskedGeneric(s, m, l, alpha, visible, rows, c)
	}
	for r := 0; r < rows; r += kernel.SoftmaxRows {
		var seen *uint64
		if visible != nil {
			seen = &visible[r]
		}
		if softmaxStep(&s[r*Block], &m[r], &l[r], &alpha[r], seen, min(kernel.SoftmaxRows, rows-r), c) {
			masked = true
		}
	}
	return masked
}

func accumulate(o, p, v, alpha []float32, rows, oStride, pStride int, b *kernel.PanelLayout) {
	operand.UpdatesRows(o, rows, oStride, b.Cols)
	operand.ReadsRows(p, rows, pStride, b.Keys)
	b.Reads(v)
	if !tuned.ISA.SIMD() {
		accumulateGeneric(o, p, v, alpha, rows, oStride, pStride, b)
		return
	}
	if kernel.ProductsOf(rows, b.Keys*b.Cols) > kernel.CallProducts {
		splitAccumulate(o, p, v, alpha, rows, oStride, pStride, b, false)
		return
	}
	var a *float32
	if alpha != nil {
		operand.Reads(alpha, rows)
		a = &alpha[0]
	}
	accumulateStep(&o[0], &p[0], &v[0], a, rows, oStride, pStride, b)
}

func accumulateMasked(o, p, v, alpha []float32, rows, oStride, pStride int, b *kernel.PanelLayout) {
	operand.UpdatesRows(o, rows, oStride, b.Cols)
	operand.ReadsRows(p, rows, pStride, b.Keys)
	b.Reads(v)
	operand.Reads(alpha, rows)
	if !tuned.ISA.SIMD() {
		accumulateMaskedGeneric(o, p, v, alpha, rows, oStride, pStride, b)
		return
	}
	if kernel.ProductsOf(rows, b.Keys*b.Cols) > kernel.CallMasked && (rows > 1 || b.Cols > panel) {
		splitAccumulate(o, p, v, alpha, rows, oStride, pStride, b, true)
		return
	}
	accumulateMaskedSIMD(&o[0], &p[0], &v[0], &alpha[0], rows, oStride, pStride, b)
}

// splitAccumulate takes fewer columns at a time, so that a panel of values stays
// in the cache for all rows, or one panel and fewer rows. There are at most callInner keys.
func splitAccumulate(o, p, v, alpha []float32, rows, oStride, pStride int, b *kernel.PanelLayout,
	masked bool) {
	limit := kernel.CallProducts
	if masked {
		limit = kernel.CallMasked
	}
	cols := max(panel, limit/kernel.ProductsOf(rows, b.Keys)/panel*panel)
	step := max(1, min(rows, limit/(b.Keys*min(cols, b.Cols))))
	if kernel.ProductsOf(1, b.Keys*min(cols, b.Cols)) > limit {
		step = 1 // masked, and more keys than a block has
	}
	part := *b
	for c := 0; c < b.Cols; c += cols {
		part.Cols = min(cols, b.Cols-c)
		if b.Pointer != 0 {
			part.Pointer = b.Pointer + uintptr(4*c*b.Keys)
		}
		if next := c + cols; b.After != 0 && next < b.Cols {
			part.After = operand.Address(v, next/panel*b.PanelStride)
		} else {
			part.After = b.After
		}
		values := v[c/panel*b.PanelStride:]
		for r := 0; r < rows; r += step {
			n, factors := min(step, rows-r), alpha
			if alpha != nil {
				factors = alpha[r:]
			}
			if masked {
				accumulateMasked(o[r*oStride+c:], p[r*pStride:], values, factors, n, oStride, pStride, &part)
			} else {
				accumulate(o[r*oStride+c:], p[r*pStride:], values, factors, n, oStride, pStride, &part)
			}
		}
	}
}

// scaleColumns is s_rj = s_rj·f_j for n columns of rows that are stride apart. Signs of zeros stay.
func scaleColumns(s, f []float32, rows, stride, n int) {
	operand.UpdatesRows(s, rows, stride, n)
	operand.Reads(f, n)
	if !tuned.ISA.SIMD() || rows == 0 || n == 0 {
		scaleColumnsGeneric(s, f, rows, stride, n)
		return
	}
	scaleColumnsSIMD(&s[0], &f[0], rows, stride, n)
}

func addBias(s, bias []float32, rows, step, stride, n int, u float32) {
	operand.UpdatesRows(s, rows, step*Block, n)
	operand.ReadsRows(bias, rows, stride, n)
	if !tuned.ISA.SIMD() || rows == 0 || n == 0 {
		addBiasGeneric(s, bias, rows, step, stride, n, u)
		return
	}
	addBiasSIMD(&s[0], &bias[0], rows, step, stride, n, u)
}

func maskBias(bias []float32, visible []uint64, rows, step, stride, lo, n int) (hides, adds bool) {
	operand.ReadsRows(bias, rows, stride, n)
	operand.UpdatesRows(visible, rows, step, 1)
	if !tuned.ISA.SIMD() || rows == 0 || n == 0 {
		return maskBiasGeneric(bias, visible, rows, step, stride, lo, n)
	}
	return maskBiasSIMD(&bias[0], &visible[0], rows, step, stride, lo, n)
}

func maskKeys(mask []bool, visible []uint64, rows, step, stride, lo, n int) (every uint64) {
	operand.ReadsRows(mask, rows, stride, n)
	operand.UpdatesRows(visible, rows, step, 1)
	if !tuned.ISA.SIMD() || rows == 0 || n == 0 {
		return maskKeysGeneric(mask, visible, rows, step, stride, lo, n)
	}
	return maskKeysSIMD(&mask[0], &visible[0], rows, step, stride, lo, n)
}

// The kernels that go through vectors, piece by piece, or through pairs of queries and keys.

func scale(dst, x []float32, f float32) {
	operand.Reads(x, len(x))
	operand.Writes(dst, len(x))
	if !tuned.ISA.SIMD() || len(x) == 0 {
		scaleGeneric(dst, x, f)
		return
	}
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
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
	step := max(1, kernel.CallElements/roundUp(n, panel)) // a row takes some time, however short
	for r := 0; r < rows; r = kernel.NextPiece(r, step, rows) {
		end := min(r+step, rows)
		for c := 0; c < n; c = kernel.NextPiece(c, kernel.CallElements, n) {
			to := min(c+kernel.CallElements, n)
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
	for from := 0; from < len(b); from = kernel.NextPiece(from, kernel.CallElements, len(b)) {
		to := min(from+kernel.CallElements, len(b))
		mergeSIMD(&o[from], &b[from], to-from, x, y)
	}
}

// mergeRows is merge of rows of n columns, which follow each other, with factors of their own.
func mergeRows(o, b, x, y []float32, n int) {
	if !tuned.ISA.SIMD() || n == 0 || n > kernel.CallElements {
		for r := range x {
			merge(o[r*n:], b[r*n:][:n], x[r], y[r])
		}
		return
	}
	operand.Updates(o, len(x)*n)
	operand.Reads(b, len(x)*n)
	step := kernel.CallElements / n
	for first := 0; first < len(x); first = kernel.NextPiece(first, step, len(x)) {
		for r := first; r < min(first+step, len(x)); r++ {
			mergeSIMD(&o[r*n], &b[r*n], n, x[r], y[r])
		}
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
	for from := 0; from < n; from = kernel.NextPiece(from, kernel.CallElements, n) {
		to := min(from+kernel.CallElements, n)
		mergeSumsSIMD(&m[from], &l[from], &m2[from], &l2[from], &x[from], &y[from], to-from, c)
	}
}

func softcap(s []float32, limit, factor float32) {
	operand.Updates(s, len(s))
	if !tuned.ISA.SIMD() || len(s) == 0 {
		softcapGeneric(s, limit, factor)
		return
	}
	for from := 0; from < len(s); from = kernel.NextPiece(from, kernel.CallSoftcaps, len(s)) {
		to := min(from+kernel.CallSoftcaps, len(s))
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
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
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
	if len(a) <= kernel.CallElements {
		return dotSIMD(&a[0], &b[0], len(a))
	}
	var lane [64]float32
	for from := 0; from < len(a); from = kernel.NextPiece(from, kernel.CallElements, len(a)) {
		to := min(from+kernel.CallElements, len(a))
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
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
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
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
		expSIMD(&dst[from], &x[from], to-from)
	}
}

func expSum(dst, x []float32, top float32) float32 {
	operand.Reads(x, len(x))
	operand.Writes(dst, len(x))
	if !tuned.ISA.SIMD() || len(x) == 0 {
		return expSumGeneric(dst, x, top)
	}
	if len(x) <= kernel.CallElements {
		return expSumSIMD(&dst[0], &x[0], len(x), top)
	}
	var sum lanes
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
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
	if len(x) <= kernel.CallElements {
		return sumExpSIMD(&x[0], len(x), top)
	}
	var sum lanes
	var buffer [1024]float32
	for from := 0; from < len(x); from += len(buffer) {
		to := min(from+len(buffer), len(x))
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
		layout := kernel.PanelLayout{Keys: rows, Cols: len(l), Stride: len(l), PanelStride: panel}
		accumulate(l[:], ones[:rows], x, nil, 1, len(l), rows, &layout)
	}
	for i, e := range x[len(x)/len(l)*len(l):] {
		l[i] += e
	}
}

var ones = func() (x [kernel.CallElements / 16]float32) {
	for i := range x {
		x[i] = 1
	}
	return x
}()
