package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// expReduced replaces each x by r = x − n·ln 2; afterwards p = exp(r) by the
// polynomial and t = n + expBias. The vectors go together, step by step, because
// each step waits for the one before it.
func expReduced(x, t, p []reg.VecVirtual) {
	withConstant(value("log2E"), len(x), func(c Op, i int) { VMOVUPS(c, t[i]) })
	withConstant(value("expBias"), len(x), func(c Op, i int) { VFMADD213PS(c, x[i], t[i]) }) // x·log₂e + bias
	withConstant(value("expBias"), len(x), func(c Op, i int) { VSUBPS(c, t[i], p[i]) })      // n
	for _, name := range []string{"ln2Hi", "ln2Lo"} {
		withConstant(value(name), len(x), func(c Op, i int) { VFNMADD231PS(c, p[i], x[i]) })
	}
	withConstant(value("expC6"), len(x), func(c Op, i int) { VMOVUPS(c, p[i]) })
	for _, c := range []Mem{value("expC5"), value("expC4"), value("expC3"), value("expC2"), f32(1), f32(1)} {
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

// exp2 returns 2^(x·c), +0 where x·c is −125.5 or less, for x ≤ 0 or NaN. x is used up.
func exp2(x, c reg.VecVirtual) reg.VecVirtual {
	t, p, keep := YMM(), YMM(), YMM()
	VMOVAPS(x, t)
	VFMADD213PS(value("exp2Bias"), c, t) // x·c + bias
	VSUBPS(value("exp2Bias"), t, p)      // n
	VFMSUB213PS(p, c, x)                 // f = x·c − n
	VMOVUPS(value("exp2C5"), p)
	for _, c := range []Mem{value("exp2C4"), value("exp2C3"), value("exp2C2"), value("exp2C1"), value("exp2C0")} {
		VFMADD213PS(c, x, p)
	}
	VCMPPS(Imm(notAtMost), value("exp2Zero"), t, keep)
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

// Predicates of VCMPPS, all of them quiet.
const (
	equal     = 0x00
	unordered = 0x03
	notEqual  = 0x04
	lessThan  = 0x11
	atMost    = 0x12
	notLess   = 0x15
	notAtMost = 0x16
)
