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

// bitsLeastWeight is 2⁻⁶⁰.
const bitsLeastWeight = (127 - 60) << 23

// weighPairsKernel rounds the weights of rows to bfloat16, makes +0 of small ones, and sums each
// row in 16 lanes, which are folded; then l = FMA(before, alpha, sum).
func weighPairsKernel() {
	TEXT("weighPairsSIMD", noSplit, "func(p, l, before, alpha *float32, rows int)")
	p, l, before, alpha, rows := param("p"), param("l"), param("before"), param("alpha"),
		param("rows")
	Label("row")
	var sums [2]reg.VecVirtual
	for i := range block / lanes {
		w, small := YMM(), YMM()
		VMOVUPS(Mem{Base: p, Disp: i * vector}, w)
		w = roundedPairs(w)
		VCMPPS(Imm(lessThan), u32(bitsLeastWeight), w, small)
		VANDNPS(w, small, w)
		VMOVUPS(w, Mem{Base: p, Disp: i * vector})
		if i < len(sums) {
			sums[i] = w
		} else {
			VADDPS(w, sums[i%2], sums[i%2])
		}
	}
	VADDPS(sums[1], sums[0], sums[0])
	sum := foldAdd(sums[0]).AsX()
	a := XMM()
	VMOVSS(Mem{Base: before}, a)
	VFMADD132SS(Mem{Base: alpha}, sum, a)
	VMOVSS(a, Mem{Base: l})
	ADDQ(imm(block*4), p)
	for _, r := range []reg.GPVirtual{l, before, alpha} {
		ADDQ(Imm(4), r)
	}
	DECQ(rows)
	JNE(LabelRef("row"))
	finish()
}
