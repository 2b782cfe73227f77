package floats

import (
	"math"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
)

// This file is the specification of the numeric contract: every assembly kernel returns the bits
// that these loops return. Each rounding is explicit, as float32(…) or f32.FMA, because compilers
// may fuse x·y + z into one operation. A chain is FMA after FMA, each adding to the one before;
// f32.Chains continues eight of them side by side.
//
// One block of keys goes through the kernels in this order: PackKeys and PackValues, unless rows
// are read in place; score; softcap, AddBias and alibi as the options say; softmax, or
// softmaxMasked where some row does not see some key; accumulate, or AccumulateMasked where such a
// key's value may be NaN or infinite. After the last block, normalize divides by the sums.
// clearMasked handles rows that have seen no score above −Inf.

// PackKeys transposes n ≤ Block keys of d dimensions into panels: dimension x of key j
// goes to dst[(j/panel*d + x)*panel + j%panel]. In the last panel, keys from n on
// become +0.
func packKeysGeneric(dst, k []float32, stride, n, d int) {
	for j := range kernel.RoundUp(n, kernel.Panel) {
		for x := range d {
			var e float32
			if j < n {
				e = k[j*stride+x]
			}
			dst[(j/kernel.Panel*d+x)*kernel.Panel+j%kernel.Panel] = e
		}
	}
}

// PackValues copies the values of n ≤ Block keys, d columns each, into panels: column c of key j
// goes to dst[(c/panel*Block + j)*panel + c%panel]. In the last panel, columns from d
// on become +0.
func packValuesGeneric(dst, v []float32, stride, n, d int) {
	for j := range n {
		for c := range kernel.RoundUp(d, kernel.Panel) {
			var e float32
			if c < d {
				e = v[j*stride+c]
			}
			dst[(c/kernel.Panel*kernel.Block+j)*kernel.Panel+c%kernel.Panel] = e
		}
	}
}

// score multiplies some rows of queries by the keys of packed panels: s[r*Block + j] = Σ_x q[r*d +
// x]·k[(j/panel*d + x)*panel + j%panel], a chain of FMAs from 0 in ascending x.
func scoreGeneric(s, q, k []float32, rows, d, panels int) {
	for r := range rows {
		for j := 0; j < panels*kernel.Panel; j += f32.Lanes {
			sum := (*[f32.Lanes]float32)(s[r*kernel.Block+j:])
			*sum = [f32.Lanes]float32{}
			f32.Chains(sum, q[r*d:][:d], k[j/kernel.Panel*d*kernel.Panel+j%kernel.Panel:], kernel.Panel)
		}
	}
}

// scoreMaxima is score that also returns the maxima of the rows, see FullTile.
func scoreMaximaGeneric(s, q, k, maxima []float32, rows, d, panels int) {
	scoreGeneric(s, q, k, rows, d, panels)
	maximaOf(maxima, s, rows, panels*kernel.Panel)
}

// maximaOf finds the maxima of rows of n scores, in lanes by index mod maximaLanes, NaN not
// counting.
func maximaOf(maxima, s []float32, rows, n int) {
	for r := range rows {
		top := maxima[r*kernel.MaximaLanes:][:kernel.MaximaLanes]
		for t := range top {
			top[t] = kernel.NegInf
		}
		for j, e := range s[r*kernel.Block:][:n] {
			if old := &top[j%kernel.MaximaLanes]; e > *old {
				*old = e
			}
		}
	}
}

// softmaxMaxima is softmax with known maxima of the scores, which this specification does not need.
func softmaxMaximaGeneric(s, m, l, alpha, maxima []float32, rows int, c float32) (masked bool) {
	return softmaxGeneric(s, m, l, alpha, rows, c)
}

// KeyRows is keys that lie in rows.
type KeyRows struct {
	K         []float32
	Stride, N int // from a key to the next, and how many there are
}

// ScoreRows is score on n keys in place, in rows that are stride apart. For few queries packing
// costs more than it saves.
func scoreRowsGeneric(s, q, k []float32, rows, d, stride, n int) {
	var part [kernel.Block * f32.Lanes]float32 // of some keys, side by side
	whole := n / f32.Lanes * f32.Lanes
	for j := 0; j < whole; j += f32.Lanes {
		for x := 0; x < d; x += kernel.Block {
			dims := min(kernel.Block, d-x)
			for i := range f32.Lanes {
				for y, e := range k[(j+i)*stride+x:][:dims] {
					part[y*f32.Lanes+i] = e
				}
			}
			for r := range rows {
				sum := (*[f32.Lanes]float32)(s[r*kernel.Block+j:])
				if x == 0 {
					*sum = [f32.Lanes]float32{}
				}
				f32.Chains(sum, q[r*d+x:][:dims], part[:], f32.Lanes)
			}
		}
	}
	for r := range rows {
		for j := whole; j < n; j++ {
			var sum float32
			for x, e := range k[j*stride:][:d] {
				sum = f32.FMA(q[r*d+x], e, sum)
			}
			s[r*kernel.Block+j] = sum
		}
	}
}

// softmax is one step of the online softmax, for rows that see all Block keys. It turns the scores
// into weights 2^((s − m)·c), updates the maximum m and the sum l, and sets alpha to the factor by
// which earlier sums must be multiplied. It reports whether some row has still seen no score above
// −Inf. Scores and maxima are in a unit u, and c = u·log₂e.
func softmaxGeneric(s, m, l, alpha []float32, rows int, c float32) (masked bool) {
	for r := range rows {
		if softmaxRow(s[r*kernel.Block:][:kernel.Block], &m[r], &l[r], &alpha[r], ^uint64(0), c) {
			masked = true
		}
	}
	return masked
}

// softmaxMasked is softmax where row r sees only the keys with a set bit in
// visible[r]. The weight of any other key becomes −0.
func softmaxMaskedGeneric(s, m, l, alpha []float32, visible []uint64, rows int,
	c float32) (masked bool) {
	for r := range rows {
		if softmaxRow(s[r*kernel.Block:][:kernel.Block], &m[r], &l[r], &alpha[r], visible[r], c) {
			masked = true
		}
	}
	return masked
}

// softmaxRow is softmaxMasked of one row.
func softmaxRow(s []float32, m, l, alpha *float32, visible uint64, c float32) (masked bool) {
	// m = max(m, max s_j) over visible keys; a NaN is not larger than anything. It reaches l below.
	old, top := *m, *m
	for j, e := range s {
		if visible>>j&1 != 0 && e > top {
			top = e
		}
	}
	top += 0 // −0 becomes +0, so it does not matter which zero came first
	// With no score above −Inf all weights must be 0, but −Inf − −Inf is NaN.
	base := top
	if top == kernel.NegInf {
		base = 0
	}
	// p_j = 2^((s_j − m)·c), summed in 16 lanes.
	var sum [16]float32
	for j, e := range s {
		if visible>>j&1 == 0 {
			s[j] = math.Float32frombits(kernel.NegZero)
			continue
		}
		s[j] = f32.Exp2(e-base, c)
		sum[j%16] += s[j]
	}
	*m = top
	*alpha = f32.Exp2(old-base, c)
	*l = f32.FMA(*l, *alpha, f32.Fold(sum[:]))
	return top == kernel.NegInf
}

// accumulate adds the values of keys, weighted, to outputs: o_rc = o_rc·alpha_r, then
// o_rc = FMA(p_rj, v_jc, o_rc) for ascending j. If b.overwrite, o_rc begins at 0. If alpha is nil,
// it begins with what is there: that is a matrix product.
func accumulateGeneric(x *kernel.Sums, v []float32, b *kernel.PanelLayout) {
	for r := range x.Rows {
		row := x.O[r*x.OStride:][:b.Cols]
		BeginOutputs(row, x.Alpha, r, b.Overwrite)
		AddValues(row, x.P[r*x.PStride:][:b.Keys], v, b.Stride, b.PanelStride)
	}
}

// BeginOutputs prepares the outputs of row r, to which the values of a block are added.
func BeginOutputs(o, alpha []float32, r int, overwrite bool) {
	switch {
	case overwrite:
		clear(o)
	case alpha != nil:
		for c := range o {
			o[c] *= alpha[r]
		}
	}
}

// AddValues is o_c = FMA(p_j, v_jc, o_c) for ascending j. PanelLayout describes where values are.
func AddValues(o, p, v []float32, stride, panelStride int) {
	for c := 0; c < len(o); c += f32.Lanes {
		from := v[c/kernel.Panel*panelStride+c%kernel.Panel:]
		if c+f32.Lanes <= len(o) {
			f32.Chains((*[f32.Lanes]float32)(o[c:]), p, from, stride)
			continue
		}
		for i := range o[c:] {
			for j, e := range p {
				o[c+i] = f32.FMA(e, from[j*stride+i], o[c+i])
			}
		}
	}
}

// AccumulateMasked is accumulate where a weight with its sign bit set marks a key that the row does
// not see: its value counts as 0, whatever it is.
func accumulateMaskedGeneric(x *kernel.Sums, v []float32, b *kernel.PanelLayout) {
	var zeros [kernel.Panel]float32
	for r := range x.Rows {
		row, weights := x.O[r*x.OStride:][:b.Cols], x.P[r*x.PStride:][:b.Keys]
		BeginOutputs(row, x.Alpha, r, b.Overwrite)
		for j := 0; j < b.Keys; {
			seen := j
			for seen < b.Keys && math.Float32bits(weights[seen])&kernel.NegZero == 0 {
				seen++
			}
			switch {
			case j < seen:
				AddValues(row, weights[j:seen], v[j*b.Stride:], b.Stride, b.PanelStride)
				j = seen
				continue
			case weights[j]-weights[j] != 0: // NaN or infinite, else nothing changes
				AddValues(row, weights[j:j+1], zeros[:], 0, 0)
			}
			j++
		}
	}
}

// scale is dst = x·f + 0, in which no zero is negative.
func scaleGeneric(dst, x []float32, f float32) {
	for i, e := range x {
		dst[i] = float32(e*f) + 0
	}
}

// normalize is dst_r = o_r·(1/l_r) + 0 for rows of n elements, and 0 for a row
// with the sum 0, which has seen no key.
func normalizeGeneric(dst, o, l []float32, rows, n, dstStride, oStride int) {
	for r := range rows {
		if l[r] == 0 {
			clear(dst[r*dstStride:][:n])
			continue
		}
		scaleGeneric(dst[r*dstStride:], o[r*oStride:][:n], 1/l[r])
	}
}

// merge is o = FMA(o, x, b·y), the outputs of two states merged.
func mergeGeneric(o, b []float32, x, y float32) {
	for i, e := range b {
		o[i] = f32.FMA(o[i], x, float32(e*y))
	}
}

// MergeSums merges the maxima and sums of two states, row by row, with M = max(m, m2): x = 2^((m −
// M)·c), y = 2^((m2 − M)·c), l = FMA(l, x, l2·y), m = M. Merge needs the factors x and y. A state
// that has seen no key (m = −Inf, l = 0) changes nothing.
func mergeSumsGeneric(m, l, m2, l2, x, y []float32, c float32) {
	for r := range m {
		top := m[r]
		if m2[r] > top {
			top = m2[r]
		}
		top += 0
		base := top
		if top == kernel.NegInf {
			base = 0
		}
		x[r] = f32.Exp2(m[r]-base, c)
		y[r] = f32.Exp2(m2[r]-base, c)
		l[r] = f32.FMA(l[r], x[r], float32(l2[r]*y[r]))
		m[r] = top
	}
}

// softcap is s = limit·tanh(s·factor), where factor is the unit of scores over limit.
func softcapGeneric(s []float32, limit, factor float32) {
	for i, e := range s {
		s[i] = float32(limit * f32.Tanh(float32(e*factor)))
	}
}

// alibi is s_j = FMA(slope, float32(first + j), s_j); first is the distance of
// the first key from the query.
func alibiGeneric(s []float32, slope float32, first int) {
	for j, e := range s {
		s[j] = f32.FMA(slope, float32(first+j), e)
	}
}

// AddBias is s = FMA(s, u, bias), u being the unit of scores, for n keys of each row. Rows of bias
// are stride apart; they apply to every step-th row of s. With a negative stride bias begins with
// the last row.
func addBiasGeneric(s, bias []float32, rows, step, stride, n int, u float32) {
	first := firstRow(rows, stride)
	for r := range rows {
		for j, e := range bias[first+r*stride:][:n] {
			at := &s[r*step*kernel.Block+j]
			*at = f32.FMA(*at, u, e)
		}
	}
}

// DistantRows is up to how many rows AddDistant changes.
const DistantRows = 16

// Distant is a call of AddDistant, which adds to n keys of each row a number by the distance of key
// and row:
//
//	dst_rj = dst_rj + table_(r·stride + j·pitch + index_(DistantRows−1 − r + j))
//
// Rows of dst are Block apart. Rows of the table, of width numbers, are for rows or for keys:
// pitch or stride is 0.
type Distant struct {
	Dst, Table                    []float32
	Index                         []int32
	Orders                        []uint64 // of Index, or nil if some are too far from the next ones
	Rows, Stride, Pitch, N, Width int
	Set                           bool // numbers replace dst
}

func addDistantGeneric(x *Distant) {
	for r := range x.Rows {
		for j, i := range x.Index[DistantRows-1-r:][:x.N] {
			e := x.Table[r*x.Stride+j*x.Pitch+int(i)]
			if !x.Set {
				e += x.Dst[r*kernel.Block+j]
			}
			x.Dst[r*kernel.Block+j] = e
		}
	}
}

// names declares the operands.
func (x *Distant) names() {
	operand.UpdatesRows(x.Dst, x.Rows, kernel.Block, x.N)
	operand.Reads(x.Index, DistantRows-1+x.N)
	if x.Orders != nil {
		operand.Reads(x.Orders, DistantRows-1+x.N)
	}
	operand.ReadsRows(x.Table, x.Rows, x.Stride, (x.N-1)*x.Pitch+x.Width)
}

// SetOrders describes 8 consecutive indices in each of the orders, which begin at the first index
// and those after it: where 8 numbers of a row begin that have all of these, and from bit 32 on a
// nibble for each, its place among them. Indices rise, or fall, by at most 1; rows have at least 8
// numbers.
func SetOrders(orders []uint64, index []int32, width int) {
	for i := range orders {
		x := index[i:][:8]
		first := min(x[0], x[7], int32(width-8))
		orders[i] = uint64(first)
		for k, e := range x {
			orders[i] |= uint64(e-first) << (32 + 4*k)
		}
	}
}

// firstRow returns the offset of the first of some rows that are stride apart.
func firstRow(rows, stride int) int { return max(0, -stride*(rows-1)) }

// MaskBias clears the bits of keys where a row's bias is −Inf, and reports whether it hid a key and
// whether some bias is neither −Inf nor ±0. Rows are n keys, the first of which is key lo of the
// block; they apply to every step-th row of visible. A negative stride is as in AddBias.
func maskBiasGeneric(bias []float32, visible []uint64, rows, step, stride, lo,
	n int) (hides, adds bool) {
	first := firstRow(rows, stride)
	for r := range rows {
		for j, e := range bias[first+r*stride:][:n] {
			if e == kernel.NegInf {
				visible[r*step] &^= 1 << (lo + j)
				hides = true
			} else if e != 0 {
				adds = true
			}
		}
	}
	return hides, adds
}

// MaskKeys clears the bits of keys where a row's mask is false, and returns the keys that all of
// these rows see. Rows and keys are as in MaskBias.
func maskKeysGeneric(mask []bool, visible []uint64, rows, step, stride, lo, n int) (every uint64) {
	every = ^uint64(0)
	for r := range rows {
		for j, ok := range mask[r*stride:][:n] {
			if !ok {
				visible[r*step] &^= 1 << (lo + j)
			}
		}
		every &= visible[r*step]
	}
	return every
}

// weights is dst_j = 2^((s_j − m)·c)·r, and +0 for keys without a bit in visible, including all
// keys from Block on.
func weightsGeneric(dst, s []float32, m, r, c float32, visible uint64) {
	for j := range dst {
		dst[j] = 0
		if visible>>j&1 != 0 {
			dst[j] = float32(f32.Exp2(s[j]-m, c) * r)
		}
	}
}

// AllFinite reports whether x holds no NaN and no infinity.
func allFiniteGeneric(x []float32) bool {
	for _, e := range x {
		if e-e != 0 {
			return false
		}
	}
	return true
}

// transposes tells a sanitizer what TransposeFloats and TransposeHalves read and write.
func transposes[T float32 | uint16](dst, k []T, d, cols, n int) {
	squares := kernel.RoundUp(n, kernel.Panel) / kernel.Panel
	operand.ReadsRows(k, squares, d*kernel.Panel, cols*kernel.Panel)
	operand.WritesRows(dst, kernel.RoundUp(cols, kernel.Panel)/kernel.Panel,
		kernel.Block*kernel.Panel, squares*kernel.Panel*kernel.Panel)
}

func transposeGeneric[T float32 | uint16](dst, k []T, d, cols, n int) {
	for c := range kernel.RoundUp(cols, kernel.Panel) {
		for first := 0; first < n; first += kernel.Panel {
			to := dst[(c/kernel.Panel*kernel.Block+first)*kernel.Panel+c%kernel.Panel:]
			if c >= cols {
				for j := range kernel.Panel {
					to[j*kernel.Panel] = 0
				}
				continue
			}
			for j, e := range k[first*d+c*kernel.Panel:][:kernel.Panel] {
				to[j*kernel.Panel] = e
			}
		}
	}
}

// transposeGroupsGeneric transposes channels [first, cols) of a panel of keys, and clears the
// columns behind.
func transposeGroupsGeneric(dst, k []byte, first, cols, width int) {
	for c := first; c < width; c++ {
		for j := range kernel.Panel {
			var e byte
			if c < cols {
				e = k[c/4*4*kernel.Panel+4*j+c%4]
			}
			dst[j/4*4*width+4*c+j%4] = e
		}
	}
}

func scaleColumnsGeneric(s, f []float32, rows, stride, n int) {
	for r := range rows {
		for j, e := range f[:n] {
			s[r*stride+j] *= e
		}
	}
}

func addColumnsGeneric(s, bias []float32, rows, stride, n int) {
	for r := range rows {
		for j, e := range bias[:n] {
			s[r*stride+j] += e
		}
	}
}

func scaleAddColumnsGeneric(s, f, bias []float32, rows, stride, n int) {
	scaleColumnsGeneric(s, f, rows, stride, n)
	addColumnsGeneric(s, bias, rows, stride, n)
}

func softmaxScaledGeneric(s, m, l, alpha, keys, values []float32, c float32) (masked bool) {
	scaleColumnsGeneric(s, keys, 1, kernel.Block, kernel.Block)
	masked = softmaxGeneric(s, m, l, alpha, 1, c)
	scaleColumnsGeneric(s, values, 1, kernel.Block, kernel.Block)
	return masked
}
