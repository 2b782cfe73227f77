package pairs

import (
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Attention in bfloat16: queries by keys, and weights by values, are sums over pairs of dimensions
// and of keys.

// LeastWeight is the least weight that is not 0: smaller ones are cut, so that no sum of weights
// and usual values has subnormal numbers.
const LeastWeight = 0x1p-60

// LeastOfWeights is LeastWeight, as the least magnitude of rows of weights.
const LeastOfWeights Least = (127 - 60) << 7

// PackPanel makes pairs of a panel of float32: its inputs, each a line of numbers, are rounded and
// brought together in pairs. What the last group lacks becomes 0.
func PackPanel(isa tuning.ISA, dst []byte, x []float32, inputs int) {
	to := kernel.Elements[uint16](dst)[:kernel.RoundUp(inputs, Group)*kernel.Panel]
	operand.Reads(x, inputs*kernel.Panel)
	operand.Writes(to, len(to))
	const line = 2 * kernel.Panel
	whole := inputs / 2 * line
	OfPanel(isa, to[:whole], x[:whole])
	clear(to[whole:])
	for c, e := range x[whole:][:inputs%2*kernel.Panel] { // an input alone
		to[whole+2*c] = f32.FlushedBF16(e)
	}
}

// Weigh rounds rows of Block weights to bfloat16, cuts those below LeastWeight, and makes l what it
// was before times alpha, plus the row's sum.
func Weigh(isa tuning.ISA, p, l, before, alpha []float32, rows int) {
	operand.Updates(p, rows*kernel.Block)
	operand.Writes(l, rows)
	operand.Reads(before, rows)
	operand.Reads(alpha, rows)
	weigh(isa, p, l, before, alpha, rows)
}

// weighPairsGeneric is Weigh.
func weighPairsGeneric(p, l, before, alpha []float32, rows int) {
	for r := range rows {
		var sum [16]float32
		row := p[r*kernel.Block:][:kernel.Block]
		for j, e := range row {
			w := f32.FromBF16(f32.FlushedBF16(e))
			if w < LeastWeight {
				w = 0
			}
			row[j] = w
			sum[j%16] += w
		}
		l[r] = f32.FMA(before[r], alpha[r], f32.Fold(sum[:]))
	}
}

// FinitePanels reports whether no number in bfloat16 is NaN or infinite.
func FinitePanels(x []byte) bool {
	const exponents, signs = 0x7f807f807f807f80, 0x8000800080008000
	for _, four := range kernel.Elements[uint64](x) {
		// only where all bits of the exponent are 1 the sum does not reach the sign
		if (^four&exponents+exponents)&signs != signs {
			return false
		}
	}
	return true
}

// CopyVisible copies panels of pairs of Block keys; keys that have no bit become 0.
func CopyVisible(dst, panels []byte, visible uint64) {
	to := kernel.Elements[uint16](dst)
	for i, e := range kernel.Elements[uint16](panels) {
		key := i/(2*kernel.Panel)%(kernel.Block/2)*2 + i%2
		if visible>>key&1 == 0 {
			e = 0
		}
		to[i] = e
	}
}
