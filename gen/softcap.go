package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// softcapWidth is how many vectors go through softcap together. Scores are mostly well below the
// cap, so that the half of tanh for |x| < 1 is enough for all of them.
const softcapWidth = 4

func softcapKernel() {
	TEXT("softcapSIMD", noSplit, "func(s *float32, n int, limit, factor float32)")
	s, n, limit, factor := param("s"), param("n"), broadcastParam("limit"), broadcastParam("factor")
	group := make([]Op, softcapWidth)
	for i := range group {
		group[i] = Mem{Base: s, Disp: i * vector}
	}
	SUBQ(imm(softcapWidth*lanes), n)
	JL(LabelRef("rest"))
	Label("group")
	x := scaledBy(group, factor)
	z, large := squaresOf(x), GP32()
	VMOVMSKPS(notBelowOne(z), large)
	TESTL(large, large)
	JNE(LabelRef("large"))
	storeCapped(limit, x, tanhSmall(x, z), group)
	Label("next")
	ADDQ(imm(softcapWidth*vector), s)
	SUBQ(imm(softcapWidth*lanes), n)
	JGE(LabelRef("group"))
	JMP(LabelRef("rest"))

	Comment("Some |x| ≥ 1.")
	Label("large")
	for i := range x {
		VMOVUPS(x[i], group[i]) // the two halves need the registers
	}
	storeCapped(limit, group, tanh(group), group)
	JMP(LabelRef("next"))

	Comment("Less than a group.")
	Label("rest")
	ADDQ(imm(softcapWidth*lanes), n)
	eachVector(n, func(mask reg.VecVirtual) {
		x := YMM()
		loadLanes(Mem{Base: s}, mask, x)
		VMULPS(factor, x, x)
		y := tanh([]Op{x})[0]
		capped(limit, x, y)
		storeLanes(y, mask, Mem{Base: s})
	}, func() { ADDQ(imm(vector), s) })
	finish()
}

// storeCapped stores limit·y, y with the sign of x.
func storeCapped(limit reg.VecVirtual, x []Op, y []reg.VecVirtual, to []Op) {
	for i := range y {
		capped(limit, x[i], y[i])
		VMOVUPS(y[i], to[i])
	}
}

// capped is y = limit·y, y with the sign of x.
func capped(limit reg.VecVirtual, x Op, y reg.VecVirtual) {
	sign := constant(u32(bitsSign))
	VANDPS(x, sign, sign)
	VORPS(sign, y, y)
	VMULPS(limit, y, y)
}

// tanh returns tanh(x), but for the sign. x stays in memory if it is there.
func tanh(x []Op) []reg.VecVirtual {
	y := tanhLarge(x)
	p := tanhSmall(x, squaresOf(x))
	a := absolutes(x)
	withConstant(f32(1), len(x), func(one Op, i int) { VCMPPS(Imm(lessThan), one, a[i], a[i]) })
	for i := range y {
		VBLENDVPS(a[i], p[i], y[i], y[i])
	}
	return y
}

// tanhSmall returns x + x³·P(x²), which is tanh(x) for |x| < 1, but for the sign
// of −0. z = x² is used up.
func tanhSmall(x []Op, z []reg.VecVirtual) []reg.VecVirtual {
	p := newVectors(len(x))
	horner(coefficients("tanhC"), z, p)
	for i := range x {
		VMULPS(x[i], z[i], z[i])
	}
	for i := range x {
		VFMADD213PS(x[i], z[i], p[i])
	}
	return p
}

// tanhLarge returns 1 − 2/(1+e²ᵃ), a = |x|, which is |tanh(x)| for |x| ≥ 1.
func tanhLarge(x []Op) []reg.VecVirtual {
	a, t, y := absolutes(x), newVectors(len(x)), newVectors(len(x))
	limit := constant(value("tanhOne"))
	for i := range a {
		VMINPS(a[i], limit, a[i]) // the second operand, here a, wins if it is NaN
		VADDPS(a[i], a[i], a[i])
	}
	expReduced(a, t, y)
	for i := range t {
		VPSLLD(Imm(23), t[i], t[i]) // 2ⁿ
	}
	withConstant(f32(1), len(x), func(one Op, i int) { VFMADD213PS(one, t[i], y[i]) })
	two := constant(f32(2))
	for i := range y {
		VDIVPS(y[i], two, y[i])
	}
	one := constant(f32(1))
	for i := range y {
		VSUBPS(y[i], one, y[i])
	}
	return y
}

// absolutes is |x|.
func absolutes(x []Op) []reg.VecVirtual {
	a := newVectors(len(x))
	for i := range a {
		VMOVUPS(x[i], a[i])
	}
	withConstant(u32(bitsAbs), len(x), func(abs Op, i int) { VANDPS(abs, a[i], a[i]) })
	return a
}

// scaledBy is x·factor.
func scaledBy(x []Op, factor reg.VecVirtual) []Op {
	y := make([]Op, len(x))
	for i := range y {
		v := YMM()
		VMULPS(x[i], factor, v)
		y[i] = v
	}
	return y
}

// squaresOf is x².
func squaresOf(x []Op) []reg.VecVirtual {
	z := newVectors(len(x))
	for i := range z {
		if x, ok := x[i].(reg.VecVirtual); ok {
			VMULPS(x, x, z[i])
			continue
		}
		VMOVUPS(x[i], z[i])
		VMULPS(z[i], z[i], z[i])
	}
	return z
}

// notBelowOne has ones in lanes where some z ≥ 1. It compares the bits as
// integers: in a maximum of floats a NaN could hide another vector's number.
func notBelowOne(z []reg.VecVirtual) reg.VecVirtual {
	top := YMM()
	VPMAXSD(z[0], z[1], top)
	for _, z := range z[2:] {
		VPMAXSD(z, top, top)
	}
	VPCMPGTD(u32(math.Float32bits(1)-1), top, top)
	return top
}
