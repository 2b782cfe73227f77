package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// softmaxScaledKernel is for a row of scores and weights that have scales.
func softmaxScaledKernel() {
	TEXT("softmaxScaledSIMD", noSplit,
		"func(s, m, l, alpha, keyScales, scales *float32, c float32) (masked bool)")
	k := softmaxProgram{scaled: true, fullyMasked: GP64()}
	k.keyScales, k.scales = param("keyScales"), param("scales")
	k.oneRow()
}

// unlessOne does the step of a single row that sees all keys, if there is only one, in one go. In
// decoding, memory waits meanwhile.
func (k *softmaxProgram) unlessOne() {
	k.load("rows")
	CMPQ(k.n, Imm(1))
	JNE(LabelRef("rows"))
	CMPQ(paramAddress("visible"), Imm(0))
	JNE(LabelRef("rows"))
	k.oneRow()
	Label("rows")
}

// oneRow keeps everything in registers: in loops over rows, the maximum, the factor and the sum go
// through memory, and each waits for the one before.
func (k *softmaxProgram) oneRow() {
	k.load("s", "m", "l", "alpha")
	old := YMM()
	VBROADCASTSS(Mem{Base: k.m}, old)
	top, base, masked := newMaximum(old, everyLane(VMAXPS, k.maximumOfRow()))
	VMOVSS(top.AsX(), Mem{Base: k.m})
	VMOVMSKPS(masked, k.fullyMasked.As32())
	TESTL(k.fullyMasked.As32(), k.fullyMasked.As32())
	SETNE(k.fullyMasked.As8())
	VSUBPS(base, old, old)
	c := k.rowFactor()
	if k.int8 {
		VBROADCASTSS(Mem{Base: k.cs}, c)
	}
	e := newExp2Row(c)
	alpha := exp2(old, c)
	VMOVSS(alpha.AsX(), Mem{Base: k.alpha})
	e.constants()
	score := func(v int) Mem { return Mem{Base: k.s, Disp: v * vector} }
	sum := e.weigh(score, base)
	switch {
	case k.int8:
		k.top = YMM()
		k.products(e, score, sum)
	case k.scaled:
		e.store = func(x *exp2Vector) {
			e.add(x, sum)
			VMULPS(Mem{Base: k.scales, Disp: x.number * vector}, x.p, x.p)
			VMOVUPS(x.p, score(x.number))
		}
	}
	e.emit(block / lanes)
	VADDPS(sum[1], sum[0], sum[0])
	total, l := foldAdd(sum[0]).AsX(), XMM()
	VMOVSS(Mem{Base: k.l}, l)
	VMOVSS(Mem{Base: k.alpha}, alpha.AsX()) // rather than a register for so long
	VFMADD213SS(total, alpha.AsX(), l)
	VMOVSS(l, Mem{Base: k.l})
	if k.int8 {
		k.integersOfOneRow()
	}
	Store(k.fullyMasked.As8(), ReturnIndex(0))
	finish()
}

// integersOfOneRow makes integers of the products of a single row.
func (k *softmaxProgram) integersOfOneRow() {
	scale, factor, rare, some := k.quotient(everyLane(VPMAXUD, k.top))
	VMOVSS(scale.AsX(), Mem{Base: param("f")})
	VMOVMSKPS(rare, some)
	TESTL(some, some)
	SETNE(some.As8())
	Store(some.As8(), ReturnIndex(1))
	k.integerRow(Mem{Base: param("w")}, factor)
}

// maximumOfRow is the largest score of the row, in some lane.
func (k *softmaxProgram) maximumOfRow() reg.VecVirtual {
	var top [2]reg.VecVirtual
	for v := range block / lanes {
		old := Op(u32(bitsNegInf))
		if v >= 2 {
			old = top[v%2]
		}
		x, score := YMM(), Mem{Base: k.s, Disp: v * vector}
		VMOVUPS(score, x)
		if k.scaled {
			VMULPS(Mem{Base: k.keyScales, Disp: v * vector}, x, x)
			VMOVUPS(x, score)
		}
		VMAXPS(old, x, x) // the old maximum wins if the score is NaN
		top[v%2] = x
	}
	VMAXPS(top[1], top[0], top[0])
	return top[0]
}

// everyLane is op over all lanes of v, in every lane.
func everyLane(op func(ops ...Op), v reg.VecVirtual) reg.VecVirtual {
	swapped := YMM()
	VPERM2F128(Imm(1), v, v, swapped)
	op(swapped, v, v)
	VPERMILPD(Imm(0b0101), v, swapped)
	op(swapped, v, v)
	VPERMILPS(Imm(0xb1), v, swapped)
	op(swapped, v, v)
	return v
}
