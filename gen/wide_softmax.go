package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// What softmaxProgram does otherwise with vectors of 16 lanes: a row is four of
// them, the 16 partial sums of a row are one, and mask registers hold what is live.

// wideConstants are the constants of exp in registers: there is room for all.
type wideConstants struct {
	bias, log2E, ln2Hi, ln2Lo, one reg.VecPhysical
	c                              [5]reg.VecPhysical // C6 to C2
	gone                           reg.VecPhysical    // −0, if masked
	least, negInf                  reg.VecPhysical    // −expMin and −∞, unless plain
}

var wide = wideConstants{
	bias: reg.Z0, log2E: reg.Z1, ln2Hi: reg.Z2, ln2Lo: reg.Z3, one: reg.Z4,
	c:    [5]reg.VecPhysical{reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9},
	gone: reg.Z10, least: reg.Z11, negInf: reg.Z12,
}

var wideBase, wideSum = reg.Z13, reg.Z14

// load takes from memory what exp needs; plain is as in expRow.
func (c *wideConstants) load(plain, masked bool) {
	VBROADCASTSS(value("expBias"), c.bias)
	VBROADCASTSS(f32(-elementary.Get("log2E")), c.log2E)
	VBROADCASTSS(value("ln2Hi"), c.ln2Hi)
	VBROADCASTSS(value("ln2Lo"), c.ln2Lo)
	VBROADCASTSS(f32(1), c.one)
	for i, name := range []string{"expC6", "expC5", "expC4", "expC3", "expC2"} {
		VBROADCASTSS(value(name), c.c[i])
	}
	if !plain {
		VBROADCASTSS(u32(bitsNegInf), c.negInf)
		VBROADCASTSS(f32(-elementary.Get("expMin")), c.least)
	}
	if masked {
		VBROADCASTSS(u32(bitsSign), c.gone)
	}
}

// wideMaximum is maximum, with the halves of the vectors folded.
func (k *softmaxProgram) wideMaximum(row int, floor reg.VecVirtual) reg.VecVirtual {
	top := ZMM()
	end := unique("maxOfRow")
	for v := range block / wideLanes {
		x, last := Mem{Base: k.s, Disp: row*blockBytes + v*wideVector}, top
		if v == 0 {
			last = floor
		}
		score := ZMM()
		if !k.masked {
			VMOVUPS(x, score)
			VMAXPS(last, score, top) // the old maximum wins if the score is NaN
			VPMAXUD(score, k.wideLeast, k.wideLeast)
			continue
		}
		if v == 0 {
			VMOVAPS(floor, top)
		} else {
			CMPQ(k.pairs, imm(v))
			JE(LabelRef(end))
		}
		live := K()
		KMOVW(Mem{Base: k.live, Disp: row*8 + 2*v}, live)
		VMOVUPS_Z(x, live, score)
		VPMAXUD(score, k.wideLeast, k.wideLeast)
		VMAXPS(top, score, live, top)
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

// wideWeightRows is weightRows.
func (k *softmaxProgram) wideWeightRows(name string, slots Mem, plain bool, vectors int) {
	k.load("s", "m", "rows")
	slot := aligned(slots)
	wide.load(plain, k.masked)
	Label(name)
	VBROADCASTSS(Mem{Base: k.m}, wideBase)
	if !plain {
		some := reg.K1
		VCMPPS(Imm(notEqual), wide.negInf, wideBase, some)
		VMOVAPS_Z(wideBase, some, wideBase)
	}
	if k.masked {
		VPXORD(wideSum, wideSum, wideSum)
	}
	k.wideRow(plain, vectors)
	hi := YMM()
	VEXTRACTF32X8(Imm(1), wideSum, hi)
	VADDPS(hi, wideSum.AsY(), hi)
	VMOVUPS(hi, Mem{Base: slot})
	ADDQ(imm(vector), slot)
	ADDQ(Imm(4), k.m)
	k.nextRows(1)
	DECQ(k.n)
	JNE(LabelRef(name))
}

// wideExp is one vector of a row on its way: y, then r and r·2ⁿ; t = n + expBias, then
// 2ⁿ; p = n, then the polynomial.
type wideExp struct {
	y, t, p    reg.VecPhysical
	keep, live reg.OpmaskPhysical
	score      Mem
}

var wideExps = [block / wideLanes]wideExp{
	{y: reg.Z16, t: reg.Z17, p: reg.Z18, keep: reg.K1, live: reg.K5},
	{y: reg.Z19, t: reg.Z20, p: reg.Z21, keep: reg.K2, live: reg.K6},
	{y: reg.Z22, t: reg.Z23, p: reg.Z24, keep: reg.K3, live: reg.K7},
	{y: reg.Z25, t: reg.Z26, p: reg.Z27, keep: reg.K4, live: reg.K5},
}

// wideRow computes the weights of a row, step by step for all its vectors: the steps are
// those of expRow.
func (k *softmaxProgram) wideRow(plain bool, vectors int) {
	c, x := &wide, wideExps[:vectors]
	each := func(step func(x *wideExp)) {
		for v := range x {
			x[v].score = Mem{Base: k.s, Disp: v * wideVector}
			step(&x[v])
		}
	}
	each(func(x *wideExp) { VSUBPS(x.score, wideBase, x.y) })
	if !plain {
		each(func(x *wideExp) { VCMPPS(Imm(notGreater), c.least, x.y, x.keep) })
	}
	each(func(x *wideExp) {
		VBROADCASTSS(value("expBias"), x.t)
		VFMADD231PS(c.log2E, x.y, x.t)
	})
	each(func(x *wideExp) { VSUBPS(c.bias, x.t, x.p) })
	each(func(x *wideExp) { VFNMSUB231PS(c.ln2Hi, x.p, x.y) })
	each(func(x *wideExp) { VFNMADD231PS(c.ln2Lo, x.p, x.y) })
	each(func(x *wideExp) {
		VBROADCASTSS(value("expC6"), x.p)
		VFMADD213PS(c.c[1], x.y, x.p)
	})
	for _, next := range append(c.c[2:len(c.c):len(c.c)], c.one) {
		each(func(x *wideExp) { VFMADD213PS(next, x.y, x.p) })
	}
	each(func(x *wideExp) { VPSLLD(Imm(23), x.t, x.t) })
	if plain {
		each(func(x *wideExp) { VMULPS(x.t, x.y, x.y) })
		each(func(x *wideExp) { VFMADD213PS(x.t, x.y, x.p) })
	} else {
		each(func(x *wideExp) { VFMADD213PS(c.one, x.y, x.p) })
		each(func(x *wideExp) { VMULPS_Z(x.t, x.p, x.keep, x.p) })
	}
	for v := range x {
		k.wideStore(&x[v], v)
	}
	for v := vectors; v < len(wideExps); v++ {
		VMOVUPS(c.gone, Mem{Base: k.s, Disp: v * wideVector})
	}
}

// wideStore writes a vector of weights, −0 where no key is live, and adds it to the sum.
func (k *softmaxProgram) wideStore(x *wideExp, v int) {
	if k.masked {
		KMOVW(Mem{Base: k.live, Disp: 2 * v}, x.live)
		VBLENDMPS(x.p, wide.gone, x.live, x.p)
	}
	VMOVUPS(x.p, x.score)
	if v == 0 && !k.masked {
		VMOVAPS(x.p, wideSum)
		return
	}
	VADDPS(x.p, wideSum, wideSum)
}
