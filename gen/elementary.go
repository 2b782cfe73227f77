package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// expReduced: x is replaced by r = x − n·ln 2; afterwards p = exp(r) by the
// polynomial and t = n + expBias.
func expReduced(x, t, p reg.VecVirtual) {
	n := YMM()
	VMOVUPS(value("log2E"), t)
	VFMADD213PS(value("expBias"), x, t) // t = x·log₂e + bias
	VSUBPS(value("expBias"), t, n)
	VFNMADD231PS(value("ln2Hi"), n, x)
	VFNMADD231PS(value("ln2Lo"), n, x)
	VMOVUPS(value("expC6"), p)
	for _, c := range []Mem{value("expC5"), value("expC4"), value("expC3"), value("expC2"), f32(1), f32(1)} {
		VFMADD213PS(c, x, p)
	}
}

// expFlush returns exp(x), +0 below expMin, for x ≤ 0 or NaN. x is used up.
func expFlush(x reg.VecVirtual) reg.VecVirtual {
	t, p, keep := YMM(), YMM(), YMM()
	VCMPPS(Imm(notLess), value("expMin"), x, keep)
	expReduced(x, t, p)
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
	VMOVUPS(value("expInf"), hi)
	VMINPS(x, hi, x)
	expReduced(x, t, p)
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

// tanh returns tanh(x). x is used up.
func tanh(x reg.VecVirtual) reg.VecVirtual {
	a, y, small := YMM(), YMM(), YMM()
	VANDPS(u32(bitsAbs), x, a)
	VXORPS(a, x, x) // the sign

	Comment("|x| ≥ 0.625: 1 − 2e/(1+e), e = exp(−2|x|)")
	m := YMM()
	VMULPS(f32(-2), a, m)
	e := expFlush(m)
	d := YMM()
	VADDPS(f32(1), e, d)
	VDIVPS(d, e, e)
	VMOVUPS(f32(-2), y)
	VFMADD213PS(f32(1), e, y)

	Comment("|x| < 0.625: x + x³·P(x²)")
	z, p := YMM(), YMM()
	VMULPS(a, a, z)
	VMOVUPS(value("c4"), p)
	for _, c := range []Mem{value("c3"), value("c2"), value("c1"), value("c0")} {
		VFMADD213PS(c, z, p)
	}
	VMULPS(a, z, z)
	VFMADD213PS(a, z, p)

	VCMPPS(Imm(lessThan), value("tanhCut"), a, small)
	VBLENDVPS(small, p, y, y)
	VORPS(x, y, y)
	return y
}

// Predicates of VCMPPS, all of them quiet.
const (
	equal      = 0x00
	unordered  = 0x03
	notEqual   = 0x04
	lessThan   = 0x11
	notLess    = 0x15
	notGreater = 0x1a
)
