//go:build !(amd64 || arm64) || purego

package floats

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Without assembly the generic code computes everything.

func PackKeys(_ *tuning.Row, dst, k []float32, stride, n, d int) {
	packKeysGeneric(dst, k, stride, n, d)
}

func PackValues(_ *tuning.Row, dst, v []float32, stride, n, d int) {
	packValuesGeneric(dst, v, stride, n, d)
}

func Score(_ *tuning.Row, s, q, k []float32, rows, d, panels int, next *kernel.PrefetchQueue) {
	scoreGeneric(s, q, k, rows, d, panels)
}

func ScoreRows(_ tuning.ISA, s, q []float32, keys KeyRows, rows, d int,
	next *kernel.PrefetchQueue) {
	scoreRowsGeneric(s, q, keys.K, rows, d, keys.Stride, keys.N)
}

func Softmax(_ *tuning.Row, s, m, l, alpha []float32, visible []uint64, rows int,
	c float32) (masked bool) {
	if visible == nil {
		return softmaxGeneric(s, m, l, alpha, rows, c)
	}
	return softmaxMaskedGeneric(s, m, l, alpha, visible, rows, c)
}

func Accumulate(_ *tuning.Row, x *kernel.Sums, v []float32, b *kernel.PanelLayout) {
	accumulateGeneric(x, v, b)
}

func AccumulateMasked(_ *tuning.Row, x *kernel.Sums, v []float32, b *kernel.PanelLayout) {
	accumulateMaskedGeneric(x, v, b)
}

func ScaleColumns(_ tuning.ISA, s, f []float32, rows, stride, n int) {
	scaleColumnsGeneric(s, f, rows, stride, n)
}

func AddColumns(_ tuning.ISA, s, bias []float32, rows, stride, n int) {
	addColumnsGeneric(s, bias, rows, stride, n)
}

func ScaleAddColumns(_ tuning.ISA, s, f, bias []float32, rows, stride, n int) {
	scaleAddColumnsGeneric(s, f, bias, rows, stride, n)
}

func AddBias(_ tuning.ISA, s, bias []float32, rows, step, stride, n int, u float32) {
	addBiasGeneric(s, bias, rows, step, stride, n, u)
}

func MaskBias(_ tuning.ISA, bias []float32, visible []uint64, rows, step, stride, lo,
	n int) (hides, adds bool) {
	return maskBiasGeneric(bias, visible, rows, step, stride, lo, n)
}

func MaskKeys(_ tuning.ISA, mask []bool, visible []uint64, rows, step, stride, lo,
	n int) (every uint64) {
	return maskKeysGeneric(mask, visible, rows, step, stride, lo, n)
}

func Scale(_ tuning.ISA, dst, x []float32, f float32) {
	scaleGeneric(dst, x, f)
}

func Normalize(_ tuning.ISA, dst, o, l []float32, rows, n, dstStride, oStride int) {
	normalizeGeneric(dst, o, l, rows, n, dstStride, oStride)
}

func Merge(_ tuning.ISA, o, b []float32, x, y float32) {
	mergeGeneric(o, b, x, y)
}

func MergeRows(_ tuning.ISA, o, b, x, y []float32, n int) {
	for r := range x {
		mergeGeneric(o[r*n:], b[r*n:][:n], x[r], y[r])
	}
}

func MergeSums(_ tuning.ISA, m, l, m2, l2, x, y []float32, c float32) {
	mergeSumsGeneric(m, l, m2, l2, x, y, c)
}

func Softcap(_ tuning.ISA, s []float32, limit, factor float32) {
	softcapGeneric(s, limit, factor)
}

func Alibi(_ tuning.ISA, s []float32, slope float32, first int) {
	alibiGeneric(s, slope, first)
}

func Weights(_ tuning.ISA, dst, s []float32, m, r, c float32, visible uint64) {
	weightsGeneric(dst, s, m, r, c, visible)
}

func AllFinite(_ tuning.ISA, x []float32) bool {
	return allFiniteGeneric(x)
}

// Add computes score, softmax and accumulate for rows of queries. It reports whether some row has
// still seen nothing above −Inf.
func (t *FullTile) Add(_ *tuning.Row, q, m, l, o *float32, rows int) (masked bool) {
	scores, alpha := unsafe.Slice(t.S, rows*kernel.Block), unsafe.Slice(t.Alpha, rows)
	keys := unsafe.Slice(t.K, kernel.Block*t.D)
	last := (t.Layout.Cols - 1) / kernel.Panel
	values := unsafe.Slice(t.V, last*t.Layout.PanelStride+(t.Layout.Keys-1)*t.Layout.Stride+
		t.Layout.Cols-last*kernel.Panel)
	outputs := unsafe.Slice(o, (rows-1)*t.OStride+t.Layout.Cols)
	scoreGeneric(scores, unsafe.Slice(q, rows*t.D), keys, rows, t.D, kernel.Block/kernel.Panel)
	masked = softmaxGeneric(scores, unsafe.Slice(m, rows), unsafe.Slice(l, rows), alpha, rows, t.C)
	accumulateGeneric(&kernel.Sums{O: outputs, P: scores, Alpha: alpha, Rows: rows,
		OStride: t.OStride, PStride: kernel.Block}, values, t.Layout)
	return masked
}

func TransposeFloats(_ tuning.ISA, dst, k []float32, d, cols, n int) {
	transposeGeneric(dst, k, d, cols, n)
}
