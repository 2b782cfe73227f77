//go:build !purego

package floats

import (
	"math"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// inPlaceKeys is the number of keys that ScoreRows handles together.
const inPlaceKeys = 8

// scoreMaximaSIMD multiplies queries, MaximaRows at a time and of at least MaximaDim dimensions, by
// packed keys, and prefetches. It works like scoreMaximaGeneric.
//
//go:noescape
func scoreMaximaSIMD(s, q, k, maxima *float32, rows, d, panels int, next *kernel.PrefetchQueue)

// softmaxSIMD is one online-softmax step. It works like softmaxGeneric; if maxima is not nil, like
// softmaxMaximaGeneric; and if visible is not nil, like softmaxMaskedGeneric. At most one of the
// two is not nil.
//
//go:noescape
func softmaxSIMD(s, m, l, alpha, maxima *float32, visible *uint64, rows int,
	c float32) (masked bool)

// scoreAVX512 is scoreSIMD for AVX-512 and at least 2 rows.
//
//go:noescape
func scoreAVX512(s, q, k *float32, rows, d, panels int, next *kernel.PrefetchQueue)

// accumulateAVX512 is accumulateSIMD for AVX-512, at least 2 rows and whole panels: it
// leaves out the last 8 columns if their number is odd.
//
//go:noescape
func accumulateAVX512(o, p, v, alpha *float32, rows, oStride, pStride int, b *kernel.PanelLayout)

// softmaxAVX512 is softmaxSIMD for AVX-512, without maxima.
//
//go:noescape
func softmaxAVX512(s, m, l, alpha *float32, visible *uint64, rows int, c float32) (masked bool)

// normalizeSIMD divides rows by their sums. It works like normalizeGeneric.
//
//go:noescape
func normalizeSIMD(dst, o, l *float32, rows, n, dstStride, oStride int)

// normalizeAVX512 is normalizeSIMD with 16 lanes.
//
//go:noescape
func normalizeAVX512(dst, o, l *float32, rows, n, dstStride, oStride int)

func AddDistant(isa tuning.ISA, x *Distant) {
	if x.names(); !isa.SIMD() || x.Pitch > maxGatherPitch {
		addDistantGeneric(x)
		return
	}
	dst, table, from := &x.Dst[0], &x.Table[0], 0
	if x.Orders != nil {
		orders := &x.Orders[0]
		if x.Set && x.Pitch == 0 {
			setNearRowsSIMD(dst, table, operand.At(orders, DistantRows-1), x.Rows, x.Stride, x.N)
			return
		}
		if from = x.N / square * square; from == 0 || x.Pitch == 0 || x.Rows == 1 {
			from = 0
		} else {
			for r := 0; r < x.Rows; r += square {
				addNearColumnsSIMD(operand.At(dst, r*kernel.Block), table,
					operand.At(orders, DistantRows-square-r), min(square, x.Rows-r), x.Pitch, from, x.Set)
			}
		}
	}
	for r := 0; r < x.Rows && from < x.N; r++ {
		to := x.Dst[r*kernel.Block+from:][:x.N-from]
		for i := 0; x.Set && i < len(to); i++ {
			to[i] = math.Float32frombits(1 << 31) // −0: added to it, a number is itself
		}
		addGatheredSIMD(&to[0], operand.At(table, r*x.Stride+from*x.Pitch),
			operand.At(&x.Index[0], DistantRows-1-r+from), len(to), x.Pitch)
	}
}

// square is how many rows and keys addNearColumnsSIMD transposes at once.
const square = 8

// maxGatherPitch keeps offsets of 8 rows within 32 bits.
const maxGatherPitch = 1 << 26

// addGatheredSIMD adds numbers of a table to one row. It works like addDistantGeneric.
//
//go:noescape
func addGatheredSIMD(dst, table *float32, index *int32, n, pitch int)

// setNearRowsSIMD sets rows to numbers of a table with rows for each; orders are those of the first
// row. It works like addDistantGeneric with set.
//
//go:noescape
func setNearRowsSIMD(dst, table *float32, orders *uint64, rows, stride, n int)

// addNearColumnsSIMD adds to up to 8 rows numbers of a table with rows for keys, a multiple of 8 of
// them; orders are those of row 7. It works like addDistantGeneric.
//
//go:noescape
func addNearColumnsSIMD(dst, table *float32, orders *uint64, rows, pitch, n int, set bool)

// addBiasSIMD adds biases. It works like addBiasGeneric.
//
//go:noescape
func addBiasSIMD(s, bias *float32, rows, step, stride, n int, u float32)

// maskBiasSIMD finds keys that a bias masks. It works like maskBiasGeneric.
//
//go:noescape
func maskBiasSIMD(bias *float32, visible *uint64, rows, step, stride, lo,
	n int) (hides, adds bool)

// maskKeysSIMD packs booleans into bits. It works like maskKeysGeneric.
//
//go:noescape
func maskKeysSIMD(mask *bool, visible *uint64, rows, step, stride, lo, n int) (every uint64)

// scoreStep is Score of checked operands, in one call.
func scoreStep(cpu *tuning.Row, s, q, k *float32, rows, d, panels int, next *kernel.PrefetchQueue) {
	if Choose(cpu, rows, d, next != nil && next.Packed).Lanes16 {
		scoreAVX512(s, q, k, rows, d, panels, next)
		return
	}
	scoreSIMD(s, q, k, rows, d, panels, next)
}

// SoftmaxStep is softmax of checked operands, in one call. A nil visible is for rows that see all.
func SoftmaxStep(cpu *tuning.Row, s, m, l, alpha *float32, visible *uint64, rows int,
	c float32) (masked bool) {
	lanes16 := cpu.ISA.Lanes16()
	if visible == nil {
		lanes16 = Choose(cpu, rows, 0, false).Softmax16
	}
	if lanes16 {
		return softmaxAVX512(s, m, l, alpha, visible, rows, c)
	}
	return softmaxSIMD(s, m, l, alpha, nil, visible, rows, c)
}

// accumulateStep is accumulate of checked operands, in one call.
func accumulateStep(cpu *tuning.Row, x *kernel.Sums, v *float32, b *kernel.PanelLayout) {
	var alpha *float32
	if x.Alpha != nil {
		alpha = &x.Alpha[0]
	}
	o, p := &x.O[0], &x.P[0]
	switch lanes16 := b.Cols >= kernel.Panel && Choose(cpu, x.Rows, 0, b.Packed).Lanes16; {
	case lanes16 && b.Cols%kernel.Panel == 0:
		accumulateAVX512(o, p, v, alpha, x.Rows, x.OStride, x.PStride, b)
	case lanes16:
		accumulatePanels(o, p, v, alpha, x.Rows, x.OStride, x.PStride, b)
	default:
		accumulateSIMD(o, p, v, alpha, x.Rows, x.OStride, x.PStride, b)
	}
}

// normalizeStep is normalize of checked operands, in one call.
func normalizeStep(isa tuning.ISA, dst, o, l *float32, rows, n, dstStride, oStride int) {
	if isa.Lanes16() {
		normalizeAVX512(dst, o, l, rows, n, dstStride, oStride)
		return
	}
	normalizeSIMD(dst, o, l, rows, n, dstStride, oStride)
}

// Add computes score, softmax and accumulate for rows of queries. It reports whether some row has
// still seen nothing above −Inf.
func (t *FullTile) Add(cpu *tuning.Row, q, m, l, o *float32, rows int) (masked bool) {
	use := Choose(cpu, rows, t.D, t.Layout.Packed)
	switch {
	case use.Lanes16 && t.Layout.Cols >= kernel.Panel:
		scoreAVX512(t.S, q, t.K, rows, t.D, kernel.Block/kernel.Panel, t.Queue)
		masked = softmaxAVX512(t.S, m, l, t.Alpha, nil, rows, t.C)
		if t.Layout.Cols%kernel.Panel == 0 {
			accumulateAVX512(o, t.S, t.V, t.Alpha, rows, t.OStride, kernel.Block, t.Layout)
		} else {
			accumulatePanels(o, t.S, t.V, t.Alpha, rows, t.OStride, kernel.Block, t.Layout)
		}
		return masked
	case use.Maxima:
		scoreMaximaSIMD(t.S, q, t.K, t.Maxima, rows, t.D, kernel.Block/kernel.Panel, t.Queue)
		masked = softmaxSIMD(t.S, m, l, t.Alpha, t.Maxima, nil, rows, t.C)
	case use.Softmax16:
		scoreSIMD(t.S, q, t.K, rows, t.D, kernel.Block/kernel.Panel, t.Queue)
		masked = softmaxAVX512(t.S, m, l, t.Alpha, nil, rows, t.C)
	default:
		scoreSIMD(t.S, q, t.K, rows, t.D, kernel.Block/kernel.Panel, t.Queue)
		masked = softmaxSIMD(t.S, m, l, t.Alpha, nil, nil, rows, t.C)
	}
	accumulateSIMD(o, t.S, t.V, t.Alpha, rows, t.OStride, kernel.Block, t.Layout)
	return masked
}

// accumulatePanels is accumulate of at least one panel: whole panels with 16 lanes, and the last 8
// columns, if their number is odd, with 8.
func accumulatePanels(o, p, v, alpha *float32, rows, oStride, pStride int, b *kernel.PanelLayout) {
	accumulateAVX512(o, p, v, alpha, rows, oStride, pStride, b)
	whole := b.Cols / kernel.Panel
	if whole*kernel.Panel == b.Cols {
		return
	}
	rest := *b
	rest.Cols -= whole * kernel.Panel
	accumulateSIMD(operand.At(o, whole*kernel.Panel), p, operand.At(v, whole*b.PanelStride), alpha,
		rows,
		oStride, pStride, &rest)
}

// Keys to values.

// SoftmaxScaled is softmax of one row that sees all keys of a block. Scores are first multiplied by
// the scales of their keys, and weights afterwards by the scales of their values.
func SoftmaxScaled(cpu *tuning.Row, s, m, l, alpha, keys, values []float32,
	c float32) (masked bool) {
	operand.Updates(s, kernel.Block)
	operand.Updates(m, 1)
	operand.Updates(l, 1)
	operand.Writes(alpha, 1)
	operand.Reads(keys, kernel.Block)
	operand.Reads(values, kernel.Block)
	if !cpu.ISA.SIMD() {
		ScaleColumns(cpu.ISA, s, keys, 1, kernel.Block, kernel.Block)
		masked = Softmax(cpu, s, m, l, alpha, nil, 1, c)
		ScaleColumns(cpu.ISA, s, values, 1, kernel.Block, kernel.Block)
		return masked
	}
	return softmaxScaledSIMD(&s[0], &m[0], &l[0], &alpha[0], &keys[0], &values[0], c)
}

// TransposeHalves is TransposeFloats for elements of 16 bits.
func TransposeHalves(isa tuning.ISA, dst, k []uint16, d, cols, n int) {
	transposes(dst, k, d, cols, n)
	if !isa.SIMD() {
		transposeGeneric(dst, k, d, cols, n)
		return
	}
	const step = kernel.CallCopies / kernel.Block / kernel.Panel
	squares, whole := kernel.RoundUp(n, kernel.Panel)/kernel.Panel, cols/kernel.Panel
	for c := 0; c < whole; c = kernel.NextPiece(c, step, whole) {
		transposeHalvesSIMD(&dst[c*kernel.Panel*kernel.Block], &k[c*kernel.Panel*kernel.Panel],
			d*kernel.Panel, squares, min(step, whole-c))
	}
	if last := whole * kernel.Panel; last < cols {
		transposeGeneric(dst[last*kernel.Block:], k[last*kernel.Panel:], d, cols-last, n)
	}
}

// TransposeGroups is TransposeFloats for integers in groups of four, see package narrow: groups of
// four channels of one key become groups of four keys of one channel. Values have width columns;
// columns after the last channel become 0.
func TransposeGroups(isa tuning.ISA, dst, k []byte, d, cols, width, n int) {
	panels, row := kernel.RoundUp(n, kernel.Panel)/kernel.Panel, kernel.RoundUp(d, 4)*kernel.Panel
	operand.ReadsRows(k, panels, row, kernel.RoundUp(cols, 4)*kernel.Panel)
	operand.Writes(dst, panels*kernel.Panel*width)
	whole := 0
	if isa.SIMD() {
		whole = cols / 4
	}
	const step = kernel.CallCopies / kernel.Block
	for j := range panels {
		from, to := k[j*row:], dst[j*kernel.Panel*width:][:kernel.Panel*width]
		for g := 0; g < whole; g = kernel.NextPiece(g, step, whole) {
			transposeGroupsSIMD(&to[g*16], &from[g*64], 4*width, min(step, whole-g))
		}
		transposeGroupsGeneric(to, from, 4*whole, cols, width)
	}
}

// transposeFloatsStep transposes whole panels of channels. It works like transposeGeneric, for some
// squares of 16 keys, stride apart.
func transposeFloatsStep(isa tuning.ISA, dst, k *float32, stride, squares, panels int) {
	if isa.Lanes16() {
		transposeFloatsAVX512(dst, k, stride, squares, panels)
		return
	}
	transposeFloatsSIMD(dst, k, stride, squares, panels)
}

// transposeFloatsAVX512 is transposeFloatsStep with registers of 16 keys.
//
//go:noescape
func transposeFloatsAVX512(dst, k *float32, stride, squares, panels int)

// transposeFloatsSIMD is transposeFloatsStep with registers of 8 channels.
//
//go:noescape
func transposeFloatsSIMD(dst, k *float32, stride, squares, panels int)

// transposeHalvesSIMD is transposeFloatsSIMD for elements of 16 bits.
//
//go:noescape
func transposeHalvesSIMD(dst, k *uint16, stride, squares, panels int)

// transposeGroupsSIMD transposes whole groups of channels of 16 keys. It works like
// transposeGroupsGeneric, with groups of keys stride apart.
//
//go:noescape
func transposeGroupsSIMD(dst, k *byte, stride, groups int)

// Over fewer bits.

// softmaxScaledSIMD is one online-softmax step of a row with scaled scores and weights. It works
// like softmaxScaledGeneric.
//
//go:noescape
func softmaxScaledSIMD(s, m, l, alpha, keyScales, scales *float32, c float32) (masked bool)

// In integers.

// mergeRowsAVX512 merges rows of whole panels. It works like mergeGeneric.
//
//go:noescape
func mergeRowsAVX512(o, b, x, y *float32, rows, n int)

// mergeRows is MergeRows of checked operands.
func mergeRows(isa tuning.ISA, o, b, x, y []float32, n int) {
	if isa.Lanes16() && n%kernel.Panel == 0 {
		mergeRowsAVX512(&o[0], &b[0], &x[0], &y[0], len(x), n)
		return
	}
	for r := range x {
		mergeSIMD(&o[r*n], &b[r*n], n, x[r], y[r])
	}
}
