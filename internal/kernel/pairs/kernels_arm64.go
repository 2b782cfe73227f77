//go:build !purego

package pairs

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Flushes: NEON finds what is subnormal before it rounds, so kernels flush nothing, and are for
// sums in which nothing is.
const Flushes = false

// callProducts bounds the multiply-adds of a call.
func callProducts(tuning.ISA) int { return kernel.CallProducts }

// ReadsLines: AccumulateLines has no kernels.
const ReadsLines = false

// accumulateStep is Accumulate of checked operands, in one call.
func accumulateStep(_ tuning.ISA, _ kernel.Format, x *kernel.Sums, v *byte,
	b *kernel.PanelLayout) {
	accumulatePairsSIMD(&x.O[0], &x.P[0], v, x.Rows, x.OStride, x.PStride, b)
}

// accumulatePairsSIMD adds sums over pairs to outputs. It works like accumulateGeneric where
// nothing is to be flushed.
//
//go:noescape
func accumulatePairsSIMD(o, p *float32, v *byte, rows, oStride, pStride int, b *kernel.PanelLayout)

// putSome is putGroups of at most CallElements numbers.
func putSome(_ tuning.ISA, dst []uint16, x []float32, stride int) {
	putGroupsGeneric(dst, x, stride)
}

// round is Round of at most CallElements numbers.
func round(isa tuning.ISA, dst, x []float32) {
	if !isa.SIMD() {
		roundGeneric(dst, x)
		return
	}
	roundPairsSIMD(&dst[0], &x[0], len(x))
}

// roundPairsSIMD rounds numbers to bfloat16. It works like roundGeneric.
//
//go:noescape
func roundPairsSIMD(dst, x *float32, n int)

// ofPanel is OfPanel of at most CallElements numbers.
func ofPanel(isa tuning.ISA, dst []uint16, x []float32) {
	if !isa.SIMD() {
		ofPanelGeneric(dst, x)
		return
	}
	ofPanelSIMD(&dst[0], &x[0], len(dst))
}

// ofPanelSIMD makes a panel of pairs of whole pairs of inputs. It works like ofPanelGeneric.
//
//go:noescape
func ofPanelSIMD(dst *uint16, x *float32, n int)

// weigh is Weigh of checked operands.
func weigh(_ tuning.ISA, p, l, before, alpha []float32, rows int) {
	weighPairsGeneric(p, l, before, alpha, rows)
}
