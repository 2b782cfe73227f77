package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The natural exponential, f32.Exp and f32.ExpFlush, of the public functions and of tanh. Attention
// has powers of 2 instead: exp2.go. README.md says where all emitters are.

// expReduced replaces each x by r = x − n·ln 2; afterwards p = exp(r) by the polynomial and t = n +
// expBias. All vectors go through each step together, because each step waits for the one before
// it.
func expReduced(x, t, p []reg.VecVirtual) {
	log2E, bias := value("log2E"), value("expBias")
	withConstant(log2E, len(x), func(c Op, i int) { VMOVUPS(c, t[i]) })
	withConstant(bias, len(x), func(c Op, i int) { VFMADD213PS(c, x[i], t[i]) }) // x·log₂e + bias
	withConstant(bias, len(x), func(c Op, i int) { VSUBPS(c, t[i], p[i]) })      // n
	for _, name := range []string{"ln2Hi", "ln2Lo"} {
		withConstant(value(name), len(x), func(c Op, i int) { VFNMADD231PS(c, p[i], x[i]) })
	}
	horner(coefficients("expC", 1, 1), x, p)
}

// coefficients returns the coefficients of a polynomial of internal/f32/elementary.go, the leading
// one first, and after them fixed ones that have no name there. No emitter counts them, so the
// degree is changed in that file only.
func coefficients(prefix string, fixed ...float32) (c []Mem) {
	for _, name := range elementary.Polynomial(prefix) {
		c = append(c, value(name))
	}
	for _, x := range fixed {
		c = append(c, f32(x))
	}
	return c
}

// horner leaves in p the polynomial in x.
func horner(terms []Mem, x, p []reg.VecVirtual) {
	withConstant(terms[0], len(x), func(c Op, i int) { VMOVUPS(c, p[i]) })
	for _, c := range terms[1:] {
		withConstant(c, len(x), func(c Op, i int) { VFMADD213PS(c, x[i], p[i]) })
	}
}

// expFlush returns exp(x), +0 below expMin, for x ≤ 0 or NaN. x is used up.
func expFlush(x reg.VecVirtual) reg.VecVirtual {
	t, p, keep := YMM(), YMM(), YMM()
	VCMPPS(Imm(notLess), value("expMin"), x, keep)
	expReduced([]reg.VecVirtual{x}, []reg.VecVirtual{t}, []reg.VecVirtual{p})
	VPSLLD(Imm(23), t, t) // 2ⁿ
	VMULPS(t, p, p)
	VANDPS(keep, p, p)
	return p
}

// expFull returns exp(x) with gradual underflow: 2ⁿ in two factors. x is used up.
func expFull(x reg.VecVirtual) reg.VecVirtual {
	t, p, h := YMM(), YMM(), YMM()
	lo, hi := YMM(), YMM()
	VMOVUPS(value("expZero"), lo)
	VMAXPS(x, lo, x) // the second operand, here x, wins if it is NaN
	VMOVUPS(value("ExpInf"), hi)
	VMINPS(x, hi, x)
	expReduced([]reg.VecVirtual{x}, []reg.VecVirtual{t}, []reg.VecVirtual{p})
	VPSUBD(value("expBias"), t, t) // n
	VPSRAD(Imm(1), t, h)
	VPSUBD(h, t, t)
	for _, n := range []reg.VecVirtual{h, t} {
		VPADDD(u32(127), n, n)
		VPSLLD(Imm(23), n, n)
		VMULPS(n, p, p)
	}
	return p
}

func expKernel() {
	mapKernel("expSIMD", "func(dst, x *float32, n int)", "dst", "x", expFull)
}

// expSumKernel goes on with sums of exponentials in 16 lanes, two accumulators in turn, and returns
// them folded.
func expSumKernel(name string, keep bool) {
	signature := "func(lane, x *float32, n int, top float32) float32"
	if keep {
		signature = "func(lane, dst, x *float32, n int, top float32) float32"
	}
	TEXT(name, noSplit, signature)
	lane, x, n, top := param("lane"), param("x"), param("n"), broadcastParam("top")
	var dst reg.GPVirtual
	if keep {
		dst = param("dst")
	}
	even, odd := YMM(), YMM()
	VMOVUPS(Mem{Base: lane}, even)
	VMOVUPS(Mem{Base: lane, Disp: vector}, odd)
	part := func(sum, mask reg.VecVirtual) {
		v, limit := YMM(), YMM()
		loadLanes(Mem{Base: x}, mask, v)
		VSUBPS(top, v, v)
		VMOVUPS(value("ExpInf"), limit)
		VMINPS(v, limit, v) // v wins if it is NaN
		p := expFlush(v)
		if keep {
			storeLanes(p, mask, Mem{Base: dst})
			ADDQ(imm(vector), dst)
		}
		if mask != nil {
			VANDPS(mask, p, p)
		}
		VADDPS(p, sum, sum)
		ADDQ(imm(vector), x)
	}
	rest := func(sum reg.VecVirtual) {
		TESTQ(n, n)
		JE(LabelRef("fold"))
		part(sum, tailMask(n))
		JMP(LabelRef("fold"))
	}
	Label("loop")
	CMPQ(n, Imm(lanes))
	JL(LabelRef("evenRest"))
	part(even, nil)
	SUBQ(imm(lanes), n)
	CMPQ(n, Imm(lanes))
	JL(LabelRef("oddRest"))
	part(odd, nil)
	SUBQ(imm(lanes), n)
	JMP(LabelRef("loop"))
	Label("evenRest")
	rest(even)
	Label("oddRest")
	rest(odd)
	Label("fold")
	VMOVUPS(even, Mem{Base: lane})
	VMOVUPS(odd, Mem{Base: lane, Disp: vector})
	VADDPS(odd, even, even)
	returnFloat(foldAdd(even))
	finish()
}
