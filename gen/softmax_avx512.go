package main

import (
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// softmaxProgram with vectors of 16 lanes: a row is four vectors, the 16 partial sums of a row are
// one, and mask registers say which keys are visible.

// avx512Constants are c and the constants of exp2 in registers: there is room for all.
type avx512Constants struct {
	named map[string]reg.VecPhysical
	scale reg.VecPhysical // c
	gone  reg.VecPhysical // −0, if masked
}

// avx512Free are the registers for constants, in order of use: avx512Exps and the sums have others.
var avx512Free = []reg.VecPhysical{
	reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11,
	reg.Z12,
}

var avx512Base, avx512Sum = reg.Z13, reg.Z14

func (c *avx512Constants) register(name string) Op { return c.named[name] }

// loadAVX512Constants loads the constants of exp2.
func (k *softmaxProgram) loadAVX512Constants() *avx512Constants {
	c := &avx512Constants{named: map[string]reg.VecPhysical{}}
	free := avx512Free
	next := func(m Op) reg.VecPhysical {
		to := free[0]
		free = free[1:]
		VBROADCASTSS(m, to)
		return to
	}
	if k.int8 {
		c.scale, free = free[0], free[1:]
	} else {
		scale, err := Param("c").Resolve()
		if err != nil {
			panic(err)
		}
		c.scale = next(scale.Addr)
	}
	poly := elementary.Polynomial("exp2C")
	last := len(poly) - 1
	for _, name := range slices.Concat([]string{"exp2Bias", "exp2Zero"}, poly[last:], poly[:last]) {
		c.named[name] = next(value(name))
	}
	if k.masked {
		c.gone = next(u32(k.gone()))
	}
	return c
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
	if k.int8 {
		k.load("c", "scales")
	}
	slot, tops, bases := aligned(k.sumLanes), k.alignedTops(), GP64()
	LEAQ(k.bases, bases)
	constants := k.loadAVX512Constants()
	Label(name)
	VBROADCASTSS(Mem{Base: bases}, avx512Base)
	if k.int8 {
		VBROADCASTSS(Mem{Base: k.cs}, constants.scale)
	}
	if k.masked {
		VPXORD(avx512Sum, avx512Sum, avx512Sum)
	}
	k.avx512Row(constants, vectors)
	hi := YMM()
	VEXTRACTF32X8(Imm(1), avx512Sum, hi)
	VADDPS(hi, avx512Sum.AsY(), hi)
	VMOVUPS(hi, Mem{Base: slot})
	if k.int8 {
		top := YMM()
		VEXTRACTF32X8(Imm(1), avx512Top, top)
		VPMAXUD(top, avx512Top.AsY(), top)
		VMOVUPS(top, Mem{Base: tops})
		ADDQ(imm(vector), tops)
		ADDQ(Imm(4), k.cs)
	}
	ADDQ(imm(vector), slot)
	ADDQ(Imm(4), bases)
	k.nextRows(1)
	DECQ(k.n)
	JNE(LabelRef(name))
}

// avx512Exps are the registers of the vectors of a row, and where keys of each are visible.
var avx512Exps = [block / avx512Lanes]struct {
	y, t, p       reg.VecPhysical
	keep, visible reg.OpmaskPhysical
}{
	{reg.Z16, reg.Z17, reg.Z18, reg.K1, reg.K5},
	{reg.Z19, reg.Z20, reg.Z21, reg.K2, reg.K6},
	{reg.Z22, reg.Z23, reg.Z24, reg.K3, reg.K7},
	{reg.Z25, reg.Z26, reg.Z27, reg.K4, reg.K5},
}

// avx512Row computes the weights of a row, step by step for all its vectors.
func (k *softmaxProgram) avx512Row(c *avx512Constants, vectors int) {
	score := func(v int) Mem { return Mem{Base: k.s, Disp: v * avx512Vector} }
	e := exp2Steps{c: c.scale, bias: c.register("exp2Bias"), negated: true, lanes16: c}
	e.load = func(x *exp2Vector) { VSUBPS(score(x.number), avx512Base, x.y) }
	e.store = func(x *exp2Vector) { k.avx512Store(c, x, score(x.number)) }
	var row []*exp2Vector
	for v, r := range avx512Exps[:vectors] {
		row = append(row, &exp2Vector{number: v, y: r.y, t: r.t, p: r.p, keep: r.keep})
	}
	for _, step := range e.list() {
		for _, x := range row {
			step.emit(x)
		}
	}
	for v := vectors; v < len(avx512Exps); v++ {
		VMOVUPS(c.gone, score(v))
	}
}

// avx512Store writes a vector of weights, −0 where no key is visible, and adds it to the sum.
func (k *softmaxProgram) avx512Store(c *avx512Constants, x *exp2Vector, score Mem) {
	if k.masked {
		visible := avx512Exps[x.number].visible
		KMOVW(Mem{Base: k.visible, Disp: 2 * x.number}, visible)
		VBLENDMPS(x.p, c.gone, visible, x.p)
	}
	if !k.int8 {
		VMOVUPS(x.p, score)
	}
	if x.number == 0 && !k.masked {
		VMOVAPS(x.p, avx512Sum)
	} else {
		VADDPS(x.p, avx512Sum, avx512Sum)
	}
	if k.int8 {
		k.avx512Product(x, score)
	}
}
