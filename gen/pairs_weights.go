package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Attention in bfloat16: panels of pairs of panels of float32, and weights of rows.

// ofPanelKernel makes lines of pairs: of two lines of 16 numbers each, rounded, the first are
// the lower halves of 32 bits, the second the upper ones.
func ofPanelKernel() {
	TEXT("ofPanelSIMD", noSplit, "func(dst *uint16, x *float32, n int)")
	dst, x, n := param("dst"), param("x"), param("n")
	Label("lines")
	for at := 0; at < pairLine; at += vector {
		even, odd := YMM(), YMM()
		VMOVUPS(Mem{Base: x, Disp: at}, even)
		VMOVUPS(Mem{Base: x, Disp: pairLine + at}, odd)
		even, odd = roundedPairs(even), roundedPairs(odd)
		VPSRLD(Imm(16), even, even)
		VPOR(even, odd, odd)
		VMOVDQU(odd, Mem{Base: dst, Disp: at})
	}
	ADDQ(imm(2*pairLine), x)
	ADDQ(imm(pairLine), dst)
	SUBQ(imm(2*panel), n)
	JNE(LabelRef("lines"))
	finish()
}

// ofPanelAVX512Kernel is ofPanelKernel with 16 lanes.
func ofPanelAVX512Kernel() {
	TEXT("ofPanelAVX512", noSplit, "func(dst *uint16, x *float32, n int)")
	dst, x, n := param("dst"), param("x"), param("n")
	exponent, sign, upper := ZMM(), ZMM(), ZMM()
	VPBROADCASTD(u32(bitsUpper), upper) // of a NaN there is more
	VPBROADCASTD(u32(bitsExponent), exponent)
	VPBROADCASTD(u32(bitsSign), sign)
	Label("lines")
	var v [2]reg.VecVirtual
	for i := range v {
		small, spare := K(), ZMM()
		v[i] = ZMM()
		VMOVUPS(Mem{Base: x, Disp: i * pairLine}, v[i])
		VPTESTNMD(exponent, v[i], small)
		roundMantissa(v[i], spare)
		VPANDD(sign, v[i], small, v[i])
	}
	VPSRLD(Imm(16), v[0], v[0])
	VPTERNLOGD(Imm(0xec), upper, v[0], v[1])
	VMOVDQU32(v[1], Mem{Base: dst})
	ADDQ(imm(2*pairLine), x)
	ADDQ(imm(pairLine), dst)
	SUBQ(imm(2*panel), n)
	JNE(LabelRef("lines"))
	finish()
}

// bitsQuiet is a NaN.
const bitsQuiet = 0x7fc00000

// bitsLeastWeight is 2⁻⁶⁰.
const bitsLeastWeight = (127 - 60) << 23

// weighPairsKernel rounds the weights of rows to bfloat16, makes +0 of small ones, and sums each
// row in 16 lanes, which are folded; then l = FMA(before, alpha, sum).
func weighPairsKernel() {
	TEXT("weighPairsSIMD", noSplit, "func(p, l, before, alpha *float32, rows int)")
	p, l, before, alpha, rows := param("p"), param("l"), param("before"), param("alpha"),
		param("rows")
	left, sums := GP64(), [2]reg.VecVirtual{YMM(), YMM()}
	Label("row")
	for _, sum := range sums {
		VXORPS(sum, sum, sum)
	}
	MOVQ(U32(block/panel), left)
	Label("weights")
	for i, sum := range sums {
		w, small := YMM(), YMM()
		VMOVUPS(Mem{Base: p, Disp: i * vector}, w)
		w = roundedPairs(w)
		VCMPPS(Imm(lessThan), u32(bitsLeastWeight), w, small)
		VANDNPS(w, small, w)
		VMOVUPS(w, Mem{Base: p, Disp: i * vector})
		VADDPS(w, sum, sum)
	}
	ADDQ(imm(panelBytes), p)
	DECQ(left)
	JNE(LabelRef("weights"))
	VADDPS(sums[1], sums[0], sums[0])
	nextWeights(sums[0], l, before, alpha, rows)
}

// nextWeights ends a row of weights, whose sum has 8 lanes, and goes on with the next one.
func nextWeights(sum reg.VecVirtual, l, before, alpha, rows reg.GPVirtual) {
	total, a := foldAdd(sum).AsX(), XMM()
	VMOVSS(Mem{Base: before}, a)
	VFMADD132SS(Mem{Base: alpha}, total, a)
	VMOVSS(a, Mem{Base: l})
	for _, r := range []reg.GPVirtual{l, before, alpha} {
		ADDQ(Imm(4), r)
	}
	DECQ(rows)
	JNE(LabelRef("row"))
	finish()
}

// weighPairsAVX512Kernel is weighPairsKernel with 16 lanes: a row is four vectors. No weight is
// below 0, and without a sign only the integers of NaN are above the integer of infinity.
func weighPairsAVX512Kernel() {
	TEXT("weighPairsAVX512", noSplit, "func(p, l, before, alpha *float32, rows int)")
	p, l, before, alpha, rows := param("p"), param("l"), param("before"), param("alpha"),
		param("rows")
	constants := map[uint32]reg.VecVirtual{}
	for _, bits := range []uint32{bitsAbs, bitsQuiet, 1 << 16, 0x7fff, 1, bitsLeastWeight,
		bitsUpper} {
		constants[bits] = ZMM()
		VPBROADCASTD(u32(bits), constants[bits])
	}
	Label("row")
	sum := ZMM()
	for i := range block / panel {
		w, odd, kept, m := ZMM(), K(), K(), Mem{Base: p, Disp: i * panelBytes}
		VPANDD(m, constants[bitsAbs], w) // hidden keys have −0
		VPMINUD(w, constants[bitsQuiet], w)
		VPTESTMD(constants[1<<16], w, odd)
		VPADDD(constants[0x7fff], w, w)
		VPADDD(constants[1], w, odd, w)
		VPCMPUD(Imm(notBelow), constants[bitsLeastWeight], w, kept)
		VPANDD_Z(constants[bitsUpper], w, kept, w)
		VMOVUPS(w, m)
		if i == 0 {
			sum = w
		} else {
			VADDPS(w, sum, sum)
		}
	}
	upper := YMM()
	VEXTRACTF64X4(Imm(1), sum, upper)
	half := sum.AsY().(reg.VecVirtual)
	VADDPS(upper, half, half)
	ADDQ(imm(block*4), p)
	nextWeights(half, l, before, alpha, rows)
}
