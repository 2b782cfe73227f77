package attn

import (
	"math"

	"github.com/seed-1415985d/attn/internal/f32"
)

// This file is the specification of the numeric contract: every assembly
// kernel returns the bits that these loops return. Each rounding is explicit,
// as float32(…) or f32.FMA, because compilers may fuse x*y+z. What becomes of rows that have
// seen no score above −Inf is in block.go (markMasked, clearMasked).

// packKeys transposes n ≤ Block rows of d keys into panels: key j, dimension x
// goes to dst[(j/panel*d + x)*panel + j%panel]. Lanes of keys ≥ n in the last
// panel become +0.
func packKeysGeneric(dst, k []float32, stride, n, d int) {
	for j := range roundUp(n, panel) {
		for x := range d {
			var e float32
			if j < n {
				e = k[j*stride+x]
			}
			dst[(j/panel*d+x)*panel+j%panel] = e
		}
	}
}

// packValues copies n ≤ Block rows of d values into panels: key j, column c
// goes to dst[(c/panel*Block + j)*panel + c%panel]. Columns ≥ d of the last
// panel become +0.
func packValuesGeneric(dst, v []float32, stride, n, d int) {
	for j := range n {
		for c := range roundUp(d, panel) {
			var e float32
			if c < d {
				e = v[j*stride+c]
			}
			dst[(c/panel*Block+j)*panel+c%panel] = e
		}
	}
}

// score is the dot products of rows queries with the keys of packed panels:
// s[r*Block + p*panel + t] = Σ_x q[r*d + x]·k[(p*d + x)*panel + t].
func scoreGeneric(s, q, k []float32, rows, d, panels int) {
	for r := range rows {
		for j := range panels * panel {
			var sum float32
			for x := range d {
				sum = f32.FMA(q[r*d+x], k[(j/panel*d+x)*panel+j%panel], sum)
			}
			s[r*Block+j] = sum
		}
	}
}

// scoreMaxima is score, and leaves the tops of the rows.
func scoreMaximaGeneric(s, q, k, maxima []float32, rows, d, panels int) {
	scoreGeneric(s, q, k, rows, d, panels)
	maximaOf(maxima, s, rows, panels*panel)
}

// maximaOf finds the tops of rows of n scores, see maxima.go.
func maximaOf(maxima, s []float32, rows, n int) {
	least, top := maxima[:maximaLanes], maxima[maximaLanes:]
	clear(least)
	for r := range rows {
		for t := range maximaLanes {
			top[r*maximaLanes+t] = negInf
		}
		for j, e := range s[r*Block:][:n] {
			if old := &top[r*maximaLanes+j%maximaLanes]; e > *old {
				*old = e
			}
			if old := &least[j%maximaLanes]; math.Float32bits(e) > math.Float32bits(*old) {
				*old = e
			}
		}
	}
}

// softmaxMaxima is softmax: maxima say nothing new.
func softmaxMaximaGeneric(s, m, l, alpha, maxima []float32, rows int) (masked bool) {
	return softmaxGeneric(s, m, l, alpha, rows)
}

// scoreRows is score on n keys in rows as the caller has them, for when there
// are too few queries to make packing worth while.
func scoreRowsGeneric(s, q, k []float32, rows, d, stride, n int) {
	for r := range rows {
		for j := range n {
			var sum float32
			for x := range d {
				sum = f32.FMA(q[r*d+x], k[j*stride+x], sum)
			}
			s[r*Block+j] = sum
		}
	}
}

// softmax is one step of the online softmax for rows rows of Block live scores
// each. It turns the scores into weights exp(s−m), moves m to the new maximum,
// l to the new sum, and leaves in alpha the factor by which what was summed
// before must shrink. It reports whether some row has still seen nothing above −Inf.
func softmaxGeneric(s, m, l, alpha []float32, rows int) (masked bool) {
	for r := range rows {
		if softmaxRow(s[r*Block:][:Block], &m[r], &l[r], &alpha[r], ^uint64(0)) {
			masked = true
		}
	}
	return masked
}

// softmaxMasked is softmax where only keys with a set bit in live[r] exist.
// The weight of any other key becomes −0.
func softmaxMaskedGeneric(s, m, l, alpha []float32, live []uint64, rows int) (masked bool) {
	for r := range rows {
		if softmaxRow(s[r*Block:][:Block], &m[r], &l[r], &alpha[r], live[r]) {
			masked = true
		}
	}
	return masked
}

func softmaxRow(s []float32, m, l, alpha *float32, live uint64) (masked bool) {
	// m = max(m, max live s_j); a NaN is not larger than anything. It reaches l below.
	old, top := *m, *m
	for j, e := range s {
		if live>>j&1 != 0 && e > top {
			top = e
		}
	}
	top += 0 // −0 becomes +0: the order of the maximum cannot show
	// With no score above −Inf all weights must be 0, but −Inf − −Inf is NaN.
	base := top
	if top == negInf {
		base = 0
	}
	// p_j = exp(s_j − m), summed in 16 lanes.
	var sum [16]float32
	for j, e := range s {
		if live>>j&1 == 0 {
			s[j] = math.Float32frombits(negZero)
			continue
		}
		s[j] = f32.ExpFlush(e - base)
		sum[j%16] += s[j]
	}
	*m = top
	*alpha = f32.ExpFlush(old - base)
	*l = f32.FMA(*l, *alpha, fold(sum[:]))
	return top == negInf
}

// fold sums lanes in halves: 16→8→4→2→1, lane t with lane t+half.
func fold(lane []float32) float32 {
	for half := len(lane) / 2; half > 0; half /= 2 {
		for t := range half {
			lane[t] += lane[t+half]
		}
	}
	return lane[0]
}

// absorb is softmax and then accumulate, for a block whose keys all exist.
func softmaxValuesGeneric(s, m, l, alpha, o, v []float32, rows, oStride int, b *panelLayout) (masked bool) {
	masked = softmaxGeneric(s, m, l, alpha, rows)
	accumulateGeneric(o, s, v, alpha, rows, oStride, Block, b)
	return masked
}

// accumulate is o[r*oStride+c] = o·alpha[r], then FMA(p[r*pStride+j], v_jc, o)
// for ascending j. A nil alpha leaves o as it is: then it is a matrix product. For fresh
// values, o begins at 0.
func accumulateGeneric(o, p, v, alpha []float32, rows, oStride, pStride int, b *panelLayout) {
	for r := range rows {
		for c := range b.cols {
			e := &o[r*oStride+c]
			switch {
			case b.overwrite:
				*e = 0
			case alpha != nil:
				*e *= alpha[r]
			}
			for j := range b.keys {
				*e = f32.FMA(p[r*pStride+j], v[c/panel*b.panelStride+j*b.stride+c%panel], *e)
			}
		}
	}
}

// accumulateMasked is accumulate where a weight with its sign bit set marks a
// key that does not exist: its value is taken as 0, whatever it holds.
func accumulateMaskedGeneric(o, p, v, alpha []float32, rows, oStride, pStride int, b *panelLayout) {
	for r := range rows {
		for c := range b.cols {
			e := &o[r*oStride+c]
			*e *= alpha[r]
			if b.overwrite {
				*e = 0
			}
			for j := range b.keys {
				w, x := p[r*pStride+j], float32(0)
				if math.Float32bits(w)&negZero == 0 {
					x = v[c/panel*b.panelStride+j*b.stride+c%panel]
				}
				*e = f32.FMA(w, x, *e)
			}
		}
	}
}

// scale is dst = x·f + 0: no negative zero comes out of it.
func scaleGeneric(dst, x []float32, f float32) {
	for i, e := range x {
		dst[i] = float32(e*f) + 0
	}
}

// normalize is dst_r = o_r·(1/l_r) + 0 for rows of n elements, and 0 for a row
// that has summed nothing.
func normalizeGeneric(dst, o, l []float32, rows, n, dstStride, oStride int) {
	for r := range rows {
		if l[r] == 0 {
			clear(dst[r*dstStride:][:n])
			continue
		}
		scaleGeneric(dst[r*dstStride:], o[r*oStride:][:n], 1/l[r])
	}
}

// merge is o = FMA(o, x, b·y), the output of two states put together.
func mergeGeneric(o, b []float32, x, y float32) {
	for i, e := range b {
		o[i] = f32.FMA(o[i], x, float32(e*y))
	}
}

// mergeSums puts the running maxima and sums of two states together, row by
// row: m = max(m, m2), x = exp(m − max), y = exp(m2 − max), l = FMA(l, x, l2·y).
// x and y are the factors that merge needs. An empty state (m = −Inf, l = 0)
// is the identity.
func mergeSumsGeneric(m, l, m2, l2, x, y []float32) {
	for r := range m {
		top := m[r]
		if m2[r] > top {
			top = m2[r]
		}
		top += 0
		base := top
		if top == negInf {
			base = 0
		}
		x[r] = f32.ExpFlush(m[r] - base)
		y[r] = f32.ExpFlush(m2[r] - base)
		l[r] = f32.FMA(l[r], x[r], float32(l2[r]*y[r]))
		m[r] = top
	}
}

// softcap is s = c·tanh(s).
func softcapGeneric(s []float32, c float32) {
	for i, e := range s {
		s[i] = float32(c * f32.Tanh(e))
	}
}

// alibi is s_j = FMA(slope, float32(first + j), s_j); first is the distance of
// the first key from the query.
func alibiGeneric(s []float32, slope float32, first int) {
	for j, e := range s {
		s[j] = f32.FMA(slope, float32(first+j), e)
	}
}

// addBias is s = s + bias for n keys of each row; rows of bias are stride apart,
// those of s and live are every step-th. It clears bit lo+j of a row's live
// keys where a bias of −Inf masks key j, and returns the keys that are live in
// all of these rows.
func addBiasGeneric(s, bias []float32, live []uint64, rows, step, stride, lo, n int) (every uint64) {
	every = ^uint64(0)
	for r := range rows {
		for j, e := range bias[r*stride:][:n] {
			s[r*step*Block+j] += e
			if e == negInf {
				live[r*step] &^= 1 << (lo + j)
			}
		}
		every &= live[r*step]
	}
	return every
}

// maskKeys clears bit lo+j of a row's live keys where element j of its mask is
// false, and returns the keys that are live in all rows. Rows are apart as in addBias.
func maskKeysGeneric(mask []bool, live []uint64, rows, step, stride, lo, n int) (every uint64) {
	every = ^uint64(0)
	for r := range rows {
		for j, ok := range mask[r*stride:][:n] {
			if !ok {
				live[r*step] &^= 1 << (lo + j)
			}
		}
		every &= live[r*step]
	}
	return every
}

// weights is dst_j = exp(s_j − m)·r, +0 for keys without a bit in live. A key
// beyond Block does not exist.
func weightsGeneric(dst, s []float32, m, r float32, live uint64) {
	for j := range dst {
		dst[j] = 0
		if live>>j&1 != 0 {
			dst[j] = float32(f32.ExpFlush(s[j]-m) * r)
		}
	}
}

// allFinite reports whether x holds no NaN and no infinity.
func allFiniteGeneric(x []float32) bool {
	for _, e := range x {
		if e-e != 0 {
			return false
		}
	}
	return true
}

// dot sums FMA chains in 64 lanes by index mod 64, then folds the lanes.
func dotGeneric(a, b []float32) float32 {
	var lane [64]float32
	addProductsGeneric(&lane, a, b)
	return fold(lane[:]) + 0
}

// addProducts is lane_i%64 = FMA(a_i, b_i, lane_i%64), the chains of dot. Where it
// does not come last, the number of elements is a multiple of 64.
func addProductsGeneric(lane *[64]float32, a, b []float32) {
	for i, e := range a {
		lane[i%64] = f32.FMA(e, b[i], lane[i%64])
	}
}

// maxOf is the largest element, −Inf of none, NaN if an element is NaN.
func maxOfGeneric(x []float32) float32 {
	top := negInf
	for _, e := range x {
		if e != e {
			return float32(math.NaN())
		}
		if e > top {
			top = e
		}
	}
	return top + 0
}

// exp is dst = exp(x) with gradual underflow.
func expGeneric(dst, x []float32) {
	for i, e := range x {
		dst[i] = f32.Exp(e)
	}
}

// expSum is dst = exp(x − top), flushed below 2⁻¹²⁶, and its sum in 16 lanes.
// Above 88.37 the result is +Inf.
func expSumGeneric(dst, x []float32, top float32) float32 {
	var sum [16]float32
	for i, e := range x {
		dst[i] = f32.ExpFlush(atMostExpInf(e - top))
		sum[i%16] += dst[i]
	}
	return fold(sum[:])
}

func atMostExpInf(x float32) float32 {
	if x > f32.ExpInf {
		return f32.ExpInf
	}
	return x
}

// sumExp is expSum without the destination.
func sumExpGeneric(x []float32, top float32) float32 {
	var sum [16]float32
	for i, e := range x {
		sum[i%16] += f32.ExpFlush(atMostExpInf(e - top))
	}
	return fold(sum[:])
}
