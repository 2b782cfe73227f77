//go:build !purego

package floats

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// inPlaceKeys is the number of keys that ScoreRows handles together.
const inPlaceKeys = 16

// addBiasRowSIMD adds a bias to one row of n ≤ Block scores.
//
//go:noescape
func addBiasRowSIMD(s, bias *float32, n int, u float32)

// maskBiasRowSIMD returns bits of n ≤ Block keys: keys that a bias does not mask, and keys to which
// it adds something.
//
//go:noescape
func maskBiasRowSIMD(bias *float32, n int) (visible, adds uint64)

// maskRowSIMD returns a bit for each true element of n ≤ Block.
//
//go:noescape
func maskRowSIMD(mask *bool, n int) (visible uint64)

// normalizeStep goes row by row. It works like normalizeGeneric.
func normalizeStep(isa tuning.ISA, dst, o, l *float32, rows, n, dstStride, oStride int) {
	for r := range rows {
		to, sum := operand.At(dst, r*dstStride), *operand.At(l, r)
		if sum == 0 {
			clear(unsafe.Slice(to, n))
			continue
		}
		scaleSIMD(to, operand.At(o, r*oStride), n, 1/sum)
	}
}

// addBiasSIMD goes row by row. It works like addBiasGeneric.
func addBiasSIMD(s, bias *float32, rows, step, stride, n int, u float32) {
	for r := range rows {
		addBiasRowSIMD(operand.At(s, r*step*kernel.Block), operand.At(bias, r*stride), n, u)
	}
}

// maskBiasSIMD goes row by row. It works like maskBiasGeneric.
func maskBiasSIMD(bias *float32, visible *uint64, rows, step, stride, lo,
	n int) (hides, adds bool) {
	hidden, added := uint64(0), uint64(0)
	for r := range rows {
		seen, more := maskBiasRowSIMD(operand.At(bias, r*stride), n)
		*operand.At(visible, r*step) &^= (kernel.LowBits(n) &^ seen) << lo
		hidden |= kernel.LowBits(n) &^ seen
		added |= more
	}
	return hidden != 0, added != 0
}

// maskKeysSIMD goes row by row. It works like maskKeysGeneric.
func maskKeysSIMD(mask *bool, visible *uint64, rows, step, stride, lo, n int) (every uint64) {
	every = ^uint64(0)
	for r := range rows {
		bits := maskRowSIMD(operand.At(mask, r*stride), n)
		row := operand.At(visible, r*step)
		*row &^= (kernel.LowBits(n) &^ bits) << lo
		every &= *row
	}
	return every
}

// softmaxSIMD is one online-softmax step. It works like softmaxGeneric.
//
//go:noescape
func softmaxSIMD(s, m, l, alpha *float32, rows int, c float32) (masked bool)

// softmaxMaskedSIMD is one online-softmax step over visible keys. It works like
// softmaxMaskedGeneric.
//
//go:noescape
func softmaxMaskedSIMD(s, m, l, alpha *float32, visible *uint64, rows int, c float32) (masked bool)

// scoreStep is Score of checked operands, in one call.
func scoreStep(cpu *tuning.Row, s, q, k *float32, rows, d, panels int, next *kernel.PrefetchQueue) {
	scoreSIMD(s, q, k, rows, d, panels, next)
}

// SoftmaxStep is softmax of checked operands, in one call. A nil visible is for rows that see all.
func SoftmaxStep(cpu *tuning.Row, s, m, l, alpha *float32, visible *uint64, rows int,
	c float32) (masked bool) {
	if visible == nil {
		return softmaxSIMD(s, m, l, alpha, rows, c)
	}
	return softmaxMaskedSIMD(s, m, l, alpha, visible, rows, c)
}

// accumulateStep is accumulate of checked operands, in one call.
func accumulateStep(cpu *tuning.Row, x *kernel.Sums, v *float32, b *kernel.PanelLayout) {
	var alpha *float32
	if x.Alpha != nil {
		alpha = &x.Alpha[0]
	}
	o, p := &x.O[0], &x.P[0]
	accumulateSIMD(o, p, v, alpha, x.Rows, x.OStride, x.PStride, b)
}

// Add computes score, softmax and accumulate for rows of queries. It reports whether some row has
// still seen nothing above −Inf.
func (t *FullTile) Add(cpu *tuning.Row, q, m, l, o *float32, rows int) (masked bool) {
	scoreSIMD(t.S, q, t.K, rows, t.D, kernel.Block/kernel.Panel, t.Queue)
	masked = softmaxSIMD(t.S, m, l, t.Alpha, rows, t.C)
	accumulateSIMD(o, t.S, t.V, t.Alpha, rows, t.OStride, kernel.Block, t.Layout)
	return masked
}

// transposeFloatsStep transposes squares as keys are packed, a call for each.
func transposeFloatsStep(isa tuning.ISA, dst, k *float32, stride, squares, panels int) {
	for p := range panels {
		for j := range squares {
			to, from := operand.At(dst, (p*kernel.Block+j*kernel.Panel)*kernel.Panel), operand.At(k,
				p*kernel.Panel*kernel.Panel+j*stride)
			packKeysSIMD(to, from, kernel.Panel, kernel.Panel, kernel.Panel, false)
		}
	}
}

// Kernels in integers multiply four bytes at once.

// mergeRows is MergeRows of checked operands.
func mergeRows(_ tuning.ISA, o, b, x, y []float32, n int) {
	for r := range x {
		mergeSIMD(&o[r*n], &b[r*n], n, x[r], y[r])
	}
}
