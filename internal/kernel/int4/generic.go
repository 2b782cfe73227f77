package int4

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/tuning"
)

func encodeGeneric(dst []byte, x []float32, scale float32) {
	for i, e := range x {
		if dst[i] = 0; scale != 0 {
			dst[i] = kernel.CodeOf(float32(e / scale))
		}
	}
}

// EncodeRows encodes rows of n finite elements, and finds their scales. The padding of rows to
// dstStride codes is 0.
func EncodeRows(isa tuning.ISA, dst []byte, scales, x []float32, rows, n, dstStride, xStride int) {
	for r := range rows {
		row, to := x[r*xStride:][:n], dst[r*dstStride:][:dstStride]
		scales[r] = integers.ScaleOf(integers.Largest(isa, row))
		Encode(isa, to[:n], row, scales[r])
		clear(to[n:])
	}
}

// CodeRows is up to how many rows look codes up in registers. For more, a block of codes
// becomes levels once, and so it does in float32 where there are kernels but none that look up.
const CodeRows = 4

// RowsOfCodes is up to how many rows, of integers or of float32, read codes.
func RowsOfCodes(isa tuning.ISA, inIntegers bool) int {
	if is := isa; inIntegers || is.Lanes16() || !is.SIMD() {
		return CodeRows
	}
	return 0
}

// scoreInt4Generic is s_rj = float32(Σ q_rx·k_jx)·scale_j.
func scoreInt4Generic(s []float32, q []int16, k []byte, scales []float32, rows int,
	b *kernel.PanelLayout) {
	integers.ScoreGeneric(kernel.I4, s, q, k, scales, rows, b)
}

// accumulateInt4Generic is accumulateInt8Generic of values that are codes.
func accumulateInt4Generic(x *integers.Sums, v []byte, b *kernel.PanelLayout) {
	integers.AccumulateGeneric(kernel.I4, x, v, b)
}

// LevelLayout says where levels are written, for rows of vectors of 64 bytes; distances are in
// bytes.
type LevelLayout struct {
	Rows, Vectors int // of a row
	Row           int // from the levels of a row to the next row's
	Step          int // from the levels of a vector's lower halves to the next vector's,
	Upper         int // and to the levels of its upper halves
}

func lookUpGeneric(dst, src []byte, l *LevelLayout) {
	for r := range l.Rows {
		for i := range l.Vectors {
			from, at := src[(r*l.Vectors+i)*64:][:64], r*l.Row+i*l.Step
			lower, upper := dst[at:][:64], dst[at+l.Upper:][:64]
			for j, codes := range from {
				lower[j], upper[j] = byte(kernel.Levels[codes&15]), byte(kernel.Levels[codes>>4])
			}
		}
	}
}
