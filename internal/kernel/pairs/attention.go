package pairs

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// MultiplySeen is Multiply of weights by values row by row, without those that a row does not see,
// which are NaN or infinite. seen is memory for the values of a row.
func (y *Products) MultiplySeen(cpu *tuning.Row, visible []uint64, weights []float32, seen []byte) {
	some := *y // of a row
	row := Rows{Pitch: kernel.Block}
	for r, bits := range visible {
		CopyVisible(seen, y.Panels, bits)
		row.Floats, some.O, some.Panels = weights[r*kernel.Block:], y.O[r*y.OStride:], seen
		row.Multiply(cpu, &some, 0, 1)
	}
}

// Softmax is floats.Softmax with weights in bfloat16, of which l is the sum. before is memory for
// l.
func Softmax(cpu *tuning.Row, s, m, l, alpha, before []float32, visible []uint64, rows int,
	c float32) (masked bool) {
	copy(before[:rows], l)
	masked = floats.Softmax(cpu, s, m, l, alpha, visible, rows, c)
	Weigh(cpu.ISA, s, l, before, alpha, rows)
	return masked
}

// WriteWeights writes the weights of a row's scores: in bfloat16 with the final maximum m, times r.
func WriteWeights(isa tuning.ISA, dst, s []float32, m, r, c float32, visible uint64) {
	floats.Weights(isa, dst, s, m, 1, c, visible)
	Round(isa, dst, dst)
	if r == r {
		floats.Scale(isa, dst, dst, r)
		return
	}
	for j := range dst { // hidden keys have no weight
		if visible>>j&1 != 0 {
			dst[j] = r
		}
	}
}
