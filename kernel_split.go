package attn

import "github.com/seed-1415985d/attn/internal/operand"

// Assembly cannot be preempted, and the garbage collector waits for it. So no
// assembly call may last longer than 100 µs on the slowest CPU that the
// assembly is for: one with a single 4-lane FMA a cycle at 1.5 GHz, which reads 2 GB/s from
// memory. On arm64 it takes cycles of their own for loads, as small cores do that execute in
// order. The functions in this file split larger calls; where they do does not change a bit.
// callProducts, of each architecture, bounds the multiply-adds of one call: 87 µs on that CPU,
// on arm64 66.
//
// Not so if products or sums are subnormal: an Intel CPU then takes far longer for an
// operation, and a call up to 4 ms. To bound that, all calls would have to be so much shorter.
const (
	// callMasked bounds those with values that are masked one by one: NEON does that with two more
	// operations for each multiply-add.
	callMasked = callProducts / 4

	// callInPlaceProducts bounds those of scoreRows, which goes through keys in rows and transposes
	// them. Fewer than inPlaceRows rows count as so many: they wait for memory.
	callInPlaceProducts = 1 << 16

	// inPlaceDim is the dimension up to which keys are read in rows: there, a panel of
	// them times inPlaceRows queries is one call.
	inPlaceDim = callInPlaceProducts / panel / inPlaceRows

	// callCopies bounds the elements that one call writes packed, where it may have to read
	// them and what it overwrites from memory.
	callCopies = 1 << 14

	// callElements bounds the elements of a vector function, with up to eight
	// cycles for each: four times as many would do, if numbers were never subnormal.
	callElements = 1 << 12

	// callSoftcaps bounds those of softcap, whose squares are subnormal sooner.
	callSoftcaps = callElements / 8

	// callRows: fewer rows wait for memory and not for multiply-adds, so a call of them counts
	// as one of so many. It reads 2¹⁵ elements at most: 65 µs.
	callRows = 16

	// callSteps is the length of chains of few rows and a whole block that one call takes: more
	// panels side by side wait less than longer chains of one panel.
	callSteps = callProducts / callRows / Block

	// callInner bounds the length of a chain of multiply-adds, each of which waits
	// about four cycles for the one before, and is what a call with one panel may take.
	callInner = callProducts / callRows / panel

	// splitRows: calls are split at multiples of it where possible, so that all but
	// the last have whole tiles of registers.
	splitRows = 12
)

func splitPackKeys(dst, k []float32, stride, n, d int) {
	const step = callCopies / panel
	for j := 0; j < n; j += panel {
		for x := 0; x < d; x += step {
			packKeys(dst[j*d+x*panel:], k[j*stride+x:], stride, min(panel, n-j), min(step, d-x))
		}
	}
}

func splitPackValues(dst, v []float32, stride, n, d int) {
	const step = callCopies / Block
	for c := 0; c < d; c += step {
		packValues(dst[c*Block:], v[c:], stride, n, min(step, d-c))
	}
}

// splitScore takes fewer rows at a time, or if these would be few, fewer panels.
func splitScore(s, q, k []float32, rows, d, panels int, next *prefetchQueue) {
	switch {
	case d > callInner:
		chainScore(s, q, k, rows, d, panels)
		return
	case rows <= callRows:
		limit := callInner / d
		calls := (panels + limit - 1) / limit
		step := (panels + calls - 1) / calls // two and two panels are faster than three and one
		for p := 0; p < panels; p += step {
			scorePrefetch(s[p*panel:], q, k[p*d*panel:], rows, d, min(step, panels-p), next)
			next.advance(step * d * panel)
		}
		return
	}
	step := max(splitRows, callProducts/(d*panels*panel)/splitRows*splitRows)
	if step == splitRows && panels > 1 { // half of the panels leave rows enough for 16 lanes
		half := (panels + 1) / 2
		for p := 0; p < panels; p += half {
			scorePrefetch(s[p*panel:], q, k[p*d*panel:], rows, d, min(half, panels-p), next)
			next.advance(half * d * panel)
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
		part := panelLayout{keys: min(step, d-x), cols: panels * panel, stride: panel,
			panelStride: d * panel, overwrite: x == 0}
		accumulate(s, q[x:], k[x*panel:], nil, rows, Block, d, &part)
	}
}

// scoreFew is score of few rows by n packed keys, in whole panels, a part of the dimension at a
// time.
func scoreFew(s, q, k []float32, rows, d, n int) {
	part := panelLayout{cols: roundUp(n, panel), stride: panel, panelStride: d * panel}
	part.set(&tuned, 0, false)
	for x := 0; x < d; x += callSteps {
		part.keys, part.overwrite = min(callSteps, d-x), x == 0
		accumulate(s, q[x:], k[x*panel:], nil, rows, Block, d, &part)
	}
}

// splitScoreRows takes fewer rows at a time, and of these fewer keys: whole panels, of which
// d ≤ inPlaceDim leaves at least one.
func splitScoreRows(s, q, k []float32, rows, d, stride, n int, next *prefetchQueue) {
	if rows > inPlaceRows {
		for r := 0; r < rows; r += inPlaceRows {
			scoreRows(s[r*Block:], q[r*d:], k, min(inPlaceRows, rows-r), d, stride, n, next)
		}
		return
	}
	keys := callInPlaceProducts / (inPlaceRows * d) / panel * panel
	for j := 0; j < n; j += keys {
		scoreRows(s[j:], q, k[j*stride:], rows, d, stride, min(keys, n-j), next)
		next.advance(keys * d)
	}
}

// splitAccumulate takes fewer columns at a time, so that a panel of values stays
// in the cache for all rows, or one panel and fewer rows. There are at most callInner keys.
func splitAccumulate(o, p, v, alpha []float32, rows, oStride, pStride int, b *panelLayout,
	kernel accumulateKernel) {
	limit := callProducts
	if kernel == maskedValues {
		limit = callMasked
	}
	cols := max(panel, limit/productsOf(rows, b.keys)/panel*panel)
	step := max(1, min(rows, limit/(b.keys*min(cols, b.cols))))
	if productsOf(1, b.keys*min(cols, b.cols)) > limit {
		step = 1 // masked, and more keys than a block has
	}
	part := *b
	for c := 0; c < b.cols; c += cols {
		part.cols = min(cols, b.cols-c)
		if b.pointer != 0 {
			part.pointer = b.pointer + uintptr(4*c*b.keys)
		}
		if next := c + cols; b.after != 0 && next < b.cols {
			part.after = operand.Address(v, next/panel*b.panelStride)
		} else {
			part.after = b.after
		}
		values := v[c/panel*b.panelStride:]
		for r := 0; r < rows; r += step {
			n, factors := min(step, rows-r), alpha
			if alpha != nil {
				factors = alpha[r:]
			}
			if kernel == maskedValues {
				accumulateMasked(o[r*oStride+c:], p[r*pStride:], values, factors, n, oStride, pStride, &part)
			} else {
				accumulate(o[r*oStride+c:], p[r*pStride:], values, factors, n, oStride, pStride, &part)
			}
		}
	}
}

type accumulateKernel int

const (
	unmasked accumulateKernel = iota
	maskedValues
)

func splitScale(dst, x []float32, f float32) {
	for from := 0; from < len(x); from += callElements {
		to := min(len(x), from+callElements)
		scale(dst[from:], x[from:to], f)
	}
}

// splitNormalize takes fewer rows at a time, or parts of one row.
func splitNormalize(dst, o, l []float32, rows, n, dstStride, oStride int) {
	if step := callElements / roundUp(n, panel); step > 0 {
		for r := 0; r < rows; r += step {
			normalize(dst[r*dstStride:], o[r*oStride:], l[r:], min(step, rows-r), n, dstStride, oStride)
		}
		return
	}
	for r := range rows {
		for c := 0; c < n; c += callElements {
			normalize(dst[r*dstStride+c:], o[r*oStride+c:], l[r:], 1, min(callElements, n-c), dstStride,
				oStride)
		}
	}
}

func splitMerge(o, b []float32, x, y float32) {
	for from := 0; from < len(b); from += callElements {
		to := min(len(b), from+callElements)
		merge(o[from:], b[from:to], x, y)
	}
}

func splitMergeSums(m, l, m2, l2, x, y []float32, c float32) {
	for r := 0; r < len(m); r += callElements {
		to := min(len(m), r+callElements)
		mergeSums(m[r:to], l[r:to], m2[r:to], l2[r:to], x[r:to], y[r:to], c)
	}
}

func splitSoftcap(s []float32, limit, factor float32) {
	for from := 0; from < len(s); from += callSoftcaps {
		softcap(s[from:min(len(s), from+callSoftcaps)], limit, factor)
	}
}

func splitExp(dst, x []float32) {
	for from := 0; from < len(x); from += callElements {
		to := min(len(x), from+callElements)
		exp(dst[from:], x[from:to])
	}
}

func splitAllFinite(x []float32) bool {
	for from := 0; from < len(x); from += callElements {
		to := min(len(x), from+callElements)
		if !allFinite(x[from:to]) {
			return false
		}
	}
	return true
}

func splitDot(a, b []float32) float32 {
	var lane [64]float32
	for from := 0; from < len(a); from += callElements {
		to := min(len(a), from+callElements)
		addProducts(&lane, a[from:to], b[from:to])
	}
	return fold(lane[:]) + 0
}

func splitMaxOf(x []float32) float32 {
	top := negInf
	for from := 0; from < len(x); from += callElements {
		to := min(len(x), from+callElements)
		e := maxOf(x[from:to])
		if e != e {
			return e
		}
		top = max(top, e)
	}
	return top
}

func splitExpSum(dst, x []float32, top float32) float32 {
	var sum lanes
	for from := 0; from < len(x); from += callElements {
		to := min(len(x), from+callElements)
		expSum(dst[from:], x[from:to], top)
		sum.add(dst[from:to])
	}
	return fold(sum[:])
}

func splitSumExp(x []float32, top float32) float32 {
	var sum lanes
	var buffer [1024]float32
	for len(x) > 0 {
		n := min(len(x), len(buffer))
		expSum(buffer[:n], x[:n], top)
		sum.add(buffer[:n])
		x = x[n:]
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
