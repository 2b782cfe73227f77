//go:build !purego

package pairs

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// callProducts bounds the multiply-adds of a call of kernels with AVX-512, which do twice as many
// at once, and of others.
func callProducts(isa tuning.ISA) int {
	if isa.Lanes16() {
		return kernel.CallProducts16
	}
	return kernel.CallProducts
}

// Flushes: kernels do without subnormal numbers, as sums are defined.
const Flushes = true

// ReadsLines: there are kernels of AccumulateLines.
const ReadsLines = true

// accumulateStep is accumulate of checked operands, in one call.
func accumulateStep(isa tuning.ISA, t kernel.Format, x *kernel.Sums, v *byte,
	b *kernel.PanelLayout) {
	o, p, rows, oStride, pStride := &x.O[0], &x.P[0], x.Rows, x.OStride, x.PStride
	switch wide := isa.Lanes16(); {
	case t == kernel.Pairs && wide:
		accumulatePairsAVX512(o, p, v, rows, oStride, pStride, b)
	case t == kernel.Pairs:
		accumulatePairsSIMD(o, p, v, rows, oStride, pStride, b)
	case t == kernel.BF16 && wide:
		accumulateHalvesAVX512(o, p, v, rows, oStride, pStride, b)
	case t == kernel.BF16:
		accumulateHalvesSIMD(o, p, v, rows, oStride, pStride, b)
	case wide:
		accumulateFloatsAVX512(o, p, v, rows, oStride, pStride, b)
	default:
		accumulateFloatsSIMD(o, p, v, rows, oStride, pStride, b)
	}
}

// accumulatePairsSIMD adds sums over pairs to outputs. It works like accumulateGeneric.
//
//go:noescape
func accumulatePairsSIMD(o, p *float32, v *byte, rows, oStride, pStride int, b *kernel.PanelLayout)

// accumulatePairsAVX512 is accumulatePairsSIMD with 16 lanes.
//
//go:noescape
func accumulatePairsAVX512(o, p *float32, v *byte, rows, oStride, pStride int,
	b *kernel.PanelLayout)

// roundPairsSIMD rounds numbers to bfloat16. It works like roundGeneric.
//
//go:noescape
func roundPairsSIMD(dst, x *float32, n int)

// putSome is putGroups of at most CallElements numbers.
func putSome(isa tuning.ISA, dst []uint16, x []float32, stride int) {
	if !isa.SIMD() {
		putGroupsGeneric(dst, x, stride)
		return
	}
	putGroupsSIMD(&dst[0], &x[0], len(x), stride)
}

// putGroupsSIMD rounds whole groups to bfloat16, stride numbers apart. It works like
// putGroupsGeneric.
//
//go:noescape
func putGroupsSIMD(dst *uint16, x *float32, n, stride int)

// round is Round of at most CallElements numbers.
func round(isa tuning.ISA, dst, x []float32) {
	if !isa.SIMD() {
		roundGeneric(dst, x)
		return
	}
	roundPairsSIMD(&dst[0], &x[0], len(x))
}

// ofPanel is OfPanel of at most CallElements numbers.
func ofPanel(isa tuning.ISA, dst []uint16, x []float32) {
	if !isa.SIMD() {
		ofPanelGeneric(dst, x)
		return
	}
	if isa.Lanes16() {
		ofPanelAVX512(&dst[0], &x[0], len(dst))
		return
	}
	ofPanelSIMD(&dst[0], &x[0], len(x))
}

// ofPanelSIMD makes a panel of pairs of whole pairs of inputs. It works like ofPanelGeneric.
//
//go:noescape
func ofPanelSIMD(dst *uint16, x *float32, n int)

// ofPanelAVX512 is ofPanelSIMD with 16 lanes.
//
//go:noescape
func ofPanelAVX512(dst *uint16, x *float32, n int)

// weigh is Weigh of checked operands.
func weigh(isa tuning.ISA, p, l, before, alpha []float32, rows int) {
	if !isa.SIMD() {
		weighPairsGeneric(p, l, before, alpha, rows)
		return
	}
	const most = kernel.CallElements / kernel.Block
	for r := 0; r < rows; r = kernel.NextPiece(r, most, rows) {
		at, n := &p[r*kernel.Block], min(most, rows-r)
		if isa.Lanes16() {
			weighPairsAVX512(at, &l[r], &before[r], &alpha[r], n)
		} else {
			weighPairsSIMD(at, &l[r], &before[r], &alpha[r], n)
		}
	}
}

// weighPairsSIMD rounds and sums weights. It works like weighPairsGeneric.
//
//go:noescape
func weighPairsSIMD(p, l, before, alpha *float32, rows int)

// weighPairsAVX512 is weighPairsSIMD with 16 lanes.
//
//go:noescape
func weighPairsAVX512(p, l, before, alpha *float32, rows int)

// accumulateHalvesSIMD adds sums of lines of BF16. It works like accumulateGeneric.
//
//go:noescape
func accumulateHalvesSIMD(o, p *float32, v *byte, rows, oStride, pStride int, b *kernel.PanelLayout)

// accumulateHalvesAVX512 is accumulateHalvesSIMD with 16 lanes.
//
//go:noescape
func accumulateHalvesAVX512(o, p *float32, v *byte, rows, oStride, pStride int,
	b *kernel.PanelLayout)

// accumulateFloatsSIMD adds sums of lines of float32. It works like accumulateGeneric.
//
//go:noescape
func accumulateFloatsSIMD(o, p *float32, v *byte, rows, oStride, pStride int, b *kernel.PanelLayout)

// accumulateFloatsAVX512 is accumulateFloatsSIMD with 16 lanes.
//
//go:noescape
func accumulateFloatsAVX512(o, p *float32, v *byte, rows, oStride, pStride int,
	b *kernel.PanelLayout)
