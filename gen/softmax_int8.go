package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The additional steps of softmaxProgram in integers. Every row has its factor. The third loop
// multiplies weights by the scales of their values, replaces the scores by these products, and
// keeps the largest of each row, lane by lane, on the stack. A fifth loop finds the factor of the
// products of each row, 8 rows at a time, and a last loop converts them to integers.

func softmaxInt8Kernel(name string, lanes16 bool) {
	softmaxProgram{lanes16: lanes16, int8: true}.emit(name,
		"func(w *int16, f, s, m, l, alpha, c, scales *float32, visible *uint64, rows int) "+
			"(masked, rare bool)")
}

// product multiplies a vector of weights by the scales of their values, keeps the largest of the
// row, and stores the product. Where keep has zeros no key is visible.
func (k *softmaxProgram) product(x *exp2Vector, keep Op, score Mem) {
	p, scales := x.p, Mem{Base: k.scales, Disp: x.number * vector}
	VMULPS(scales, p, p)
	if keep != nil {
		VANDPS(keep, p, p)
	}
	VMOVUPS(p, score)
	if x.number == 0 {
		VMOVAPS(p, k.top)
		return
	}
	VPMAXUD(p, k.top, k.top)
}

// products makes e multiply weights by the scales of their values.
func (k *softmaxProgram) products(e *exp2Row, score func(v int) Mem, sum [2]reg.VecVirtual) {
	e.store = func(x *exp2Vector) {
		e.add(x, sum)
		k.product(x, nil, score(x.number))
	}
}

// avx512Top is the largest product of a row in each lane.
var avx512Top = reg.Z28

// avx512Product is product with 16 lanes.
func (k *softmaxProgram) avx512Product(x *exp2Vector, score Mem) {
	p, scales := x.p, Mem{Base: k.scales, Disp: x.number * avx512Vector}
	if k.masked {
		VMULPS_Z(scales, p, avx512Exps[x.number].visible, p)
	} else {
		VMULPS(scales, p, p)
	}
	VMOVUPS(p, score)
	if x.number == 0 {
		VMOVAPS(p, avx512Top)
		return
	}
	VPMAXUD(p, avx512Top, avx512Top)
}

const (
	bitsInf  = 0x7f800000
	smallTop = 0x0d800000 // 2⁻¹⁰⁰
)

// quotients finds the factor that turns the products of each row into integers, and their scale.
// Bits of numbers that are not negative have the order of the numbers, and NaN is above all. Rows
// whose largest product is not finite or below 2⁻¹⁰⁰ are left to the generic code.
func (k *softmaxProgram) quotients() {
	Comment("f = t/32767 and 32767/t, for the largest product t")
	k.load("rows")
	slot, f, quotient, rare := aligned(k.tops), param("f"), GP64(), GP32()
	LEAQ(k.bases, quotient)
	XORL(rare, rare)
	eachVector(k.n, func(mask reg.VecVirtual) {
		top := foldRows(VPMAXUD, func(r int) reg.VecVirtual {
			v := YMM()
			VMOVUPS(Mem{Base: slot, Disp: r * vector}, v)
			return v
		})
		scale, factor, isRare, some := k.quotient(top)
		storeLanes(scale, mask, Mem{Base: f})
		VMOVUPS(factor, Mem{Base: quotient})
		if mask != nil {
			VPAND(mask, isRare, isRare)
		}
		VMOVMSKPS(isRare, some)
		ORL(some, rare)
	}, func() {
		ADDQ(imm(8*vector), slot)
		ADDQ(imm(vector), quotient)
		ADDQ(imm(vector), f)
	})
	TESTL(rare, rare)
	SETNE(rare.As8())
	Store(rare.As8(), ReturnIndex(1))
}

// quotient is t/32767, and 32767/t or 0 if t is 0. rare has ones where t, which is used up, is left
// to the generic code; some is for its bits.
func (k *softmaxProgram) quotient(t reg.VecVirtual) (scale, factor, rare reg.VecVirtual,
	some reg.GPVirtual) {
	range32767, zero, limit := constant(f32(32767)), YMM(), YMM()
	scale, factor = YMM(), YMM()
	VDIVPS(range32767, t, scale)
	VPXOR(zero, zero, zero)
	VPCMPEQD(t, zero, zero)
	VDIVPS(t, range32767, factor)
	VPANDN(factor, zero, factor)
	VPSUBD(u32(smallTop), t, t)
	VMOVUPS(u32(bitsInf-smallTop), limit)
	VPMAXUD(limit, t, limit)
	VPCMPEQD(limit, t, t) // lanes not below the limit
	VPANDN(t, zero, t)
	return scale, factor, t, GP32()
}

// integers makes integers of the products, in the order of inGroupOrder.
func (k *softmaxProgram) integers() {
	Comment("w_j = rint(product_j·32767/t)")
	k.load("s", "rows")
	w, quotient := param("w"), GP64()
	LEAQ(k.bases, quotient)
	each := func(name string, row func()) {
		Label(name)
		row()
		ADDQ(imm(2*block), w)
		ADDQ(Imm(4), quotient)
		ADDQ(imm(blockBytes), k.s)
		DECQ(k.n)
		JNE(LabelRef(name))
	}
	if !k.lanes16 {
		each("integers", func() {
			factor := YMM()
			VBROADCASTSS(Mem{Base: quotient}, factor)
			k.integerRow(Mem{Base: w}, factor)
		})
		return
	}
	const vectors = block / avx512Lanes
	order := ZMM()
	VMOVDQU32(groupsInOrder(), order)
	CMPQ(paramAddress("visible"), Imm(0))
	JE(LabelRef("integers"))
	CMPQ(k.pairs, imm(vectors/2))
	JG(LabelRef("integers"))
	each("halves", func() {
		k.avx512IntegerRow(Mem{Base: w}, Mem{Base: quotient}, order, vectors/2)
	})
	JMP(LabelRef("whole"))
	each("integers", func() {
		k.avx512IntegerRow(Mem{Base: w}, Mem{Base: quotient}, order, vectors)
	})
	Label("whole")
}

func (k *softmaxProgram) integerRow(w Mem, factor reg.VecVirtual) {
	for half := range block / lanes / 4 {
		var x [4]reg.VecVirtual
		for v := range x {
			x[v] = YMM()
			VMULPS(Mem{Base: k.s, Disp: (4*half + v) * vector}, factor, x[v])
			VCVTPS2DQ(x[v], x[v])
			VPSHUFD(Imm(0b11011000), x[v], x[v]) // of four, elements 0, 2, 1, 3
		}
		for v := 0; v < len(x); v += 2 {
			VPACKSSDW(x[v+1], x[v], x[v])
			VPERMQ(Imm(0b11011000), x[v], x[v])
			VMOVDQU(x[v], w.Offset((4*half+v)/2*vector))
		}
	}
}

// avx512IntegerRow is integerRow with 16 lanes, of the first vectors; all others are 0.
func (k *softmaxProgram) avx512IntegerRow(w, quotient Mem, order Op, vectors int) {
	factor := ZMM()
	VBROADCASTSS(quotient, factor)
	x := make([]reg.VecVirtual, vectors)
	for v := range x {
		x[v] = ZMM()
		VMULPS(Mem{Base: k.s, Disp: v * avx512Vector}, factor, x[v])
		VCVTPS2DQ(x[v], x[v])
	}
	for v := 0; v < len(x); v += 2 {
		VPACKSSDW(x[v+1], x[v], x[v])
		VPERMW(x[v], order, x[v])
		VMOVDQU32(x[v], w.Offset(v/2*avx512Vector))
	}
	for v := vectors; v < block/avx512Lanes; v += 2 {
		VPXORD(factor, factor, factor)
		VMOVDQU32(factor, w.Offset(v/2*avx512Vector))
	}
}

// groupsInOrder is the permutation of the words of two packed vectors of 16 lanes. Packing
// alternates between 4 words of the first vector and 4 of the second; within four, elements are in
// the order 0, 2, 1, 3.
func groupsInOrder() Mem {
	var w [avx512Vector / 4]uint32
	for i := range 2 * avx512Lanes {
		lane, of := i/4%4, i/16
		from := 8*lane + 4*of + [4]int{0, 2, 1, 3}[i%4]
		w[i/2] |= uint32(from) << (16 * (i % 2))
	}
	return wordTable("groupsInOrder", w[:]...)
}
