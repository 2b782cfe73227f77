//go:build !(amd64 || arm64) || purego

package integers

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Without assembly the generic code computes everything.

func Score(_ *tuning.Row, s []float32, q *Rows, row int, k []byte, scales []float32, rows, d, n,
	ahead int,
	inOrder bool) {
	b := kernel.ScoreLayout(kernel.I8, d, kernel.RoundUp(n, kernel.Panel))
	scoreInt8Generic(s, q.Words[row*kernel.RoundUp(d, 4):], k, scales, rows, &b)
}

func Softmax(cpu *tuning.Row, w []int16, f, s, m, l, alpha, c, scales []float32, visible []uint64,
	rows int) (masked bool) {
	return softmaxInt8Generic(cpu, w, f, s, m, l, alpha, c, scales, visible, rows)
}

func Accumulate(_ *tuning.Row, x *Sums, v []byte, b *kernel.PanelLayout) {
	accumulateInt8Generic(x, v, b)
}

func Multiply(_ *tuning.Row, x *Sums, v []byte, b *kernel.PanelLayout) {
	accumulateInt8Generic(x, v, b)
}

func QuantizeRows(isa tuning.ISA, dst []int8, scales []float32, starts []int32, x []float32, rows,
	n,
	dstStride, xStride int) {
	for r := range rows {
		row := dst[r*dstStride:][:n]
		scales[r] = QuantizeToken(isa, row, x[r*xStride:][:n])
		if starts != nil {
			starts[r] = startOf(row)
		}
	}
}

func QuantizeGroups(isa tuning.ISA, dst []int8, scales, x []float32, rows, n, cols, xStride int,
	four []int8) {
	for r := 0; r < rows; r += 4 {
		quantizeFourRows(isa, dst[r*cols:], scales[r:], x[r*xStride:], n, cols, xStride, four)
	}
}

func Largest(_ tuning.ISA, x []float32) float32 {
	return largestGeneric(x)
}

func Quantize(_ tuning.ISA, dst []int8, x []float32, scale float32) {
	quantizeGeneric(dst, x, scale)
}

func Rotate(_ tuning.ISA, dst, x []float32, rows, n, dstStride, xStride, block int) {
	for r := range rows {
		copy(dst[r*dstStride:][:n], x[r*xStride:])
	}
	rotateGeneric(dst, rows, dstStride, n, block)
}
