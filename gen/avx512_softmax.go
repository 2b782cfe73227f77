package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// What softmaxProgram does otherwise with vectors of 16 lanes: a row is four of
// them, the 16 partial sums of a row are one, and mask registers say which keys are visible.

// avx512Constants are c and the constants of exp2 in registers: there is room for all.
type avx512Constants struct {
	scale, bias, zero, half reg.VecPhysical
	poly                    [5]reg.VecPhysical // C5 to C1
	gone                    reg.VecPhysical    // −0, if masked
}

var zmmOf = avx512Constants{
	scale: reg.Z0, bias: reg.Z1, zero: reg.Z2, half: reg.Z3,
	poly: [5]reg.VecPhysical{reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8},
	gone: reg.Z9,
}

var avx512Base, avx512Sum = reg.Z13, reg.Z14

// load takes from memory what exp2 needs.
func (c *avx512Constants) load(masked bool) {
	scale, err := Param("c").Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(scale.Addr, c.scale)
	VBROADCASTSS(value("exp2Bias"), c.bias)
	VBROADCASTSS(value("exp2Zero"), c.zero)
	VBROADCASTSS(value("exp2C0"), c.half)
	for i, name := range []string{"exp2C5", "exp2C4", "exp2C3", "exp2C2", "exp2C1"} {
		VBROADCASTSS(value(name), c.poly[i])
	}
	if masked {
		VBROADCASTSS(u32(bitsSign), c.gone)
	}
}

// avx512Maximum is maximum, with the halves of the vectors folded.
func (k *softmaxProgram) avx512Maximum(row int, floor reg.VecVirtual) reg.VecVirtual {
	top := ZMM()
	end := unique("maxOfRow")
	for v := range block / avx512Lanes {
		x, last := Mem{Base: k.s, Disp: row*blockBytes + v*avx512Vector}, top
		if v == 0 {
			last = floor
		}
		score := ZMM()
		if !k.masked {
			VMOVUPS(x, score)
			VMAXPS(last, score, top) // the old maximum wins if the score is NaN
			continue
		}
		if v == 0 {
			VMOVAPS(floor, top)
		} else {
			CMPQ(k.pairs, imm(v))
			JE(LabelRef(end))
		}
		visible := K()
		KMOVW(Mem{Base: k.visible, Disp: row*8 + 2*v}, visible)
		VMOVUPS_Z(x, visible, score)
		VMAXPS(top, score, visible, top)
	}
	Label(end)
	return foldHalves(VMAXPS, top)
}

// foldHalves is op(lane t, lane t+8).
func foldHalves(op func(ops ...Op), v reg.VecVirtual) reg.VecVirtual {
	hi, lo := YMM(), YMM()
	VEXTRACTF32X8(Imm(1), v, hi)
	op(hi, v.AsY(), lo)
	return lo
}

// avx512WeightRows is weightRows.
func (k *softmaxProgram) avx512WeightRows(name string, vectors int) {
	k.load("s", "rows")
	slot, bases := aligned(k.sumLanes), GP64()
	LEAQ(k.bases, bases)
	zmmOf.load(k.masked)
	Label(name)
	VBROADCASTSS(Mem{Base: bases}, avx512Base)
	if k.masked {
		VPXORD(avx512Sum, avx512Sum, avx512Sum)
	}
	k.avx512Row(vectors)
	hi := YMM()
	VEXTRACTF32X8(Imm(1), avx512Sum, hi)
	VADDPS(hi, avx512Sum.AsY(), hi)
	VMOVUPS(hi, Mem{Base: slot})
	ADDQ(imm(vector), slot)
	ADDQ(Imm(4), bases)
	k.nextRows(1)
	DECQ(k.n)
	JNE(LabelRef(name))
}

// avx512Exp is one vector of a row on its way: y, then f; t = n + exp2Bias, then
// 2ⁿ; p = n, then the polynomial.
type avx512Exp struct {
	y, t, p       reg.VecPhysical
	keep, visible reg.OpmaskPhysical
	score         Mem
}

var avx512Exps = [block / avx512Lanes]avx512Exp{
	{y: reg.Z16, t: reg.Z17, p: reg.Z18, keep: reg.K1, visible: reg.K5},
	{y: reg.Z19, t: reg.Z20, p: reg.Z21, keep: reg.K2, visible: reg.K6},
	{y: reg.Z22, t: reg.Z23, p: reg.Z24, keep: reg.K3, visible: reg.K7},
	{y: reg.Z25, t: reg.Z26, p: reg.Z27, keep: reg.K4, visible: reg.K5},
}

// avx512Row computes the weights of a row, step by step for all its vectors: the steps are
// those of expRow.
func (k *softmaxProgram) avx512Row(vectors int) {
	c, x := &zmmOf, avx512Exps[:vectors]
	each := func(step func(x *avx512Exp)) {
		for v := range x {
			x[v].score = Mem{Base: k.s, Disp: v * avx512Vector}
			step(&x[v])
		}
	}
	each(func(x *avx512Exp) { VSUBPS(x.score, avx512Base, x.y) })
	each(func(x *avx512Exp) {
		VBROADCASTSS(value("exp2Bias"), x.t)
		VFNMADD231PS(c.scale, x.y, x.t) // t = −y·c + bias
	})
	each(func(x *avx512Exp) { VSUBPS(c.bias, x.t, x.p) })        // n
	each(func(x *avx512Exp) { VFNMSUB213PS(x.p, c.scale, x.y) }) // f = −y·c − n
	each(func(x *avx512Exp) {
		VBROADCASTSS(value("exp2C5"), x.p)
		VFMADD213PS(c.poly[1], x.y, x.p)
	})
	for _, next := range []reg.VecPhysical{c.poly[2], c.poly[3], c.poly[4], c.half} {
		each(func(x *avx512Exp) { VFMADD213PS(next, x.y, x.p) })
	}
	each(func(x *avx512Exp) { VCMPPS(Imm(notAtMost), c.zero, x.t, x.keep) })
	each(func(x *avx512Exp) { VPSLLD(Imm(23), x.t, x.t) }) // 2ⁿ
	each(func(x *avx512Exp) { VMULPS_Z(x.t, x.p, x.keep, x.p) })
	for v := range x {
		k.avx512Store(&x[v], v)
	}
	for v := vectors; v < len(avx512Exps); v++ {
		VMOVUPS(c.gone, Mem{Base: k.s, Disp: v * avx512Vector})
	}
}

// avx512Store writes a vector of weights, −0 where no key is visible, and adds it to the sum.
func (k *softmaxProgram) avx512Store(x *avx512Exp, v int) {
	if k.masked {
		KMOVW(Mem{Base: k.visible, Disp: 2 * v}, x.visible)
		VBLENDMPS(x.p, zmmOf.gone, x.visible, x.p)
	}
	VMOVUPS(x.p, x.score)
	if v == 0 && !k.masked {
		VMOVAPS(x.p, avx512Sum)
		return
	}
	VADDPS(x.p, avx512Sum, avx512Sum)
}
