package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// foldAdd sums the 8 lanes of v: lane t with t+4, t+2, t+1. The sum is in lane 0 of the result.
func foldAdd(v reg.VecVirtual) reg.VecVirtual {
	hi := XMM()
	VEXTRACTF128(Imm(1), v, hi)
	lo := v.AsX()
	VADDPS(hi, lo, lo)
	VPERMILPD(Imm(1), lo, hi)
	VADDPS(hi, lo, lo)
	VMOVSHDUP(lo, hi)
	VADDSS(hi, lo, lo)
	return v
}

// foldMax is the largest of the 8 lanes of v, which holds no NaN.
func foldMax(v reg.VecVirtual) reg.VecVirtual {
	hi := XMM()
	VEXTRACTF128(Imm(1), v, hi)
	lo := v.AsX()
	VMAXPS(hi, lo, lo)
	VPERMILPD(Imm(1), lo, hi)
	VMAXPS(hi, lo, lo)
	VMOVSHDUP(lo, hi)
	VMAXSS(hi, lo, lo)
	return v
}

// foldRows folds 8 vectors at once, in the order of foldAdd: lane r of the
// result is row(r) folded. Transposing on the way, it needs 7 operations where
// one after another would need 24.
func foldRows(op func(ops ...Op), row func(r int) reg.VecVirtual) reg.VecVirtual {
	var pairs [4]reg.VecVirtual
	for r := range pairs { // rows r and r+4, lanes t with t+4
		a, b, swapped := row(r), row(r+4), YMM()
		VPERM2F128(Imm(0x21), b, a, swapped)
		VBLENDPS(Imm(0xf0), b, a, a)
		op(swapped, a, a)
		pairs[r] = a
	}
	var quads [2]reg.VecVirtual
	for r := range quads { // lanes t with t+2
		a, b := pairs[2*r], pairs[2*r+1]
		hi := YMM()
		VUNPCKHPS(b, a, hi)
		VUNPCKLPS(b, a, a)
		op(hi, a, a)
		quads[r] = a
	}
	hi := YMM()
	VUNPCKHPD(quads[1], quads[0], hi)
	VUNPCKLPD(quads[1], quads[0], quads[0])
	op(hi, quads[0], quads[0])
	return quads[0]
}

const dotLanes = 64 // partial sums of a dot product

// addProducts adds 64 products at a time, as long as n, the number left minus 64, is not negative.
func addProducts(sum []reg.VecVirtual, a, b, n reg.GPVirtual) {
	Label("loop")
	for i := range sum {
		v := YMM()
		VMOVUPS(Mem{Base: a, Disp: i * vector}, v)
		VFMADD231PS(Mem{Base: b, Disp: i * vector}, v, sum[i])
	}
	ADDQ(imm(len(sum)*vector), a)
	ADDQ(imm(len(sum)*vector), b)
	SUBQ(imm(len(sum)*lanes), n)
	JGE(LabelRef("loop"))
}

// addProductsKernel is the loop of dotKernel on lanes in memory.
func addProductsKernel() {
	TEXT("addProductsSIMD", noSplit, "func(lane, a, b *float32, n int)")
	lane, a, b, n := param("lane"), param("a"), param("b"), param("n")
	var sum [dotLanes / lanes]reg.VecVirtual
	for i := range sum {
		sum[i] = YMM()
		VMOVUPS(Mem{Base: lane, Disp: i * vector}, sum[i])
	}
	SUBQ(imm(dotLanes), n)
	addProducts(sum[:], a, b, n)
	for i := range sum {
		VMOVUPS(sum[i], Mem{Base: lane, Disp: i * vector})
	}
	finish()
}

// dotKernel keeps lane i%64 in accumulator i/8%8.
func dotKernel() {
	TEXT("dotSIMD", noSplit, "func(a, b *float32, n int) float32")
	const count = dotLanes / lanes
	a, b, n := param("a"), param("b"), param("n")
	var sum [count]reg.VecVirtual
	for i := range sum {
		sum[i] = YMM()
		VXORPS(sum[i], sum[i], sum[i])
	}
	SUBQ(imm(count*lanes), n)
	JL(LabelRef("tail"))
	addProducts(sum[:], a, b, n)
	Label("tail")
	ADDQ(imm(count*lanes), n)
	for i := range sum {
		x, y, part := YMM(), YMM(), fmt.Sprintf("part%d", i)
		CMPQ(n, Imm(lanes))
		JL(LabelRef(part))
		VMOVUPS(Mem{Base: a, Disp: i * vector}, x)
		VFMADD231PS(Mem{Base: b, Disp: i * vector}, x, sum[i])
		SUBQ(imm(lanes), n)
		if i < count-1 {
			next := fmt.Sprintf("next%d", i)
			JMP(LabelRef(next))
			dotTail(part, a, b, n, i, x, y, sum[i])
			Label(next)
		} else {
			JMP(LabelRef("fold"))
			dotTail(part, a, b, n, i, x, y, sum[i])
		}
	}
	Label("fold")
	for half := count / 2; half > 0; half /= 2 {
		for i := range half {
			VADDPS(sum[i+half], sum[i], sum[i])
		}
	}
	total := foldAdd(sum[0])
	zero := XMM()
	VXORPS(zero, zero, zero)
	VADDSS(zero, total.AsX(), total.AsX())
	returnFloat(total)
	finish()
}

// dotTail adds the last n < 8 products to accumulator i.
func dotTail(label string, a, b, n reg.GPVirtual, i int, x, y, sum reg.VecVirtual) {
	Label(label)
	TESTQ(n, n)
	JE(LabelRef("fold"))
	mask := tailMask(n)
	loadLanes(Mem{Base: a, Disp: i * vector}, mask, x)
	loadLanes(Mem{Base: b, Disp: i * vector}, mask, y)
	VFMADD231PS(x, y, sum)
	JMP(LabelRef("fold"))
}

// maxOfKernel keeps maxima that ignore NaN, several since one would wait for itself, and apart from
// them whether there was one.
func maxOfKernel() {
	TEXT("maxOfSIMD", noSplit, "func(x *float32, n int) float32")
	x, n := param("x"), param("n")
	tops, nan := newVectors(4), YMM()
	top := tops[0]
	for _, t := range tops {
		VMOVUPS(u32(bitsNegInf), t)
	}
	VXORPS(nan, nan, nan)
	SUBQ(imm(len(tops)*lanes), n)
	JL(LabelRef("rest"))
	Label("chains")
	for i := 0; i < len(tops); i += 2 {
		v, w := YMM(), YMM()
		VMOVUPS(Mem{Base: x, Disp: i * vector}, v)
		VMOVUPS(Mem{Base: x, Disp: (i + 1) * vector}, w)
		VMAXPS(tops[i], v, tops[i]) // which wins if v is NaN
		VMAXPS(tops[i+1], w, tops[i+1])
		VCMPPS(Imm(unordered), v, w, v)
		VORPS(v, nan, nan)
	}
	ADDQ(imm(len(tops)*vector), x)
	SUBQ(imm(len(tops)*lanes), n)
	JGE(LabelRef("chains"))
	Label("rest")
	ADDQ(imm(len(tops)*lanes), n)
	VMAXPS(tops[1], top, top)
	VMAXPS(tops[3], tops[2], tops[2])
	VMAXPS(tops[2], top, top)
	eachVector(n, func(mask reg.VecVirtual) {
		v, u := YMM(), YMM()
		loadLanes(Mem{Base: x}, mask, v)
		if mask != nil {
			rest := YMM()
			VMOVUPS(u32(bitsNegInf), rest)
			VBLENDVPS(mask, v, rest, v)
		}
		VMAXPS(top, v, top)
		VCMPPS(Imm(unordered), v, v, u)
		VORPS(u, nan, nan)
	}, func() { ADDQ(imm(vector), x) })
	foldMax(top)
	zero, bits := XMM(), GP32()
	VXORPS(zero, zero, zero)
	VADDSS(zero, top.AsX(), top.AsX())
	VMOVMSKPS(nan, bits)
	TESTL(bits, bits)
	JE(LabelRef("ordered"))
	VMOVSS(u32(0x7fc00000), top.AsX())
	Label("ordered")
	returnFloat(top)
	finish()
}

// allFiniteKernel sums x·0, which is NaN where x is not finite, in several chains: one
// would wait for itself.
func allFiniteKernel() {
	TEXT("allFiniteSIMD", noSplit, "func(x *float32, n int) bool")
	x, n := param("x"), param("n")
	zero, sums := YMM(), newVectors(8)
	VXORPS(zero, zero, zero)
	for _, sum := range sums {
		VXORPS(sum, sum, sum)
	}
	SUBQ(imm(len(sums)*lanes), n)
	JL(LabelRef("rest"))
	Label("chains")
	for i, sum := range sums {
		VFMADD231PS(Mem{Base: x, Disp: i * vector}, zero, sum)
	}
	ADDQ(imm(len(sums)*vector), x)
	SUBQ(imm(len(sums)*lanes), n)
	JGE(LabelRef("chains"))
	Label("rest")
	ADDQ(imm(len(sums)*lanes), n)
	eachVector(n, func(mask reg.VecVirtual) {
		v := YMM()
		loadLanes(Mem{Base: x}, mask, v)
		VFMADD231PS(zero, v, sums[0])
	}, func() { ADDQ(imm(vector), x) })
	for n := len(sums); n > 1; n /= 2 {
		for i := range n / 2 {
			VADDPS(sums[i], sums[i+n/2], sums[i])
		}
	}
	sum := sums[0]
	bits, yes := GP32(), GP8()
	VCMPPS(Imm(unordered), sum, sum, sum)
	VMOVMSKPS(sum, bits)
	TESTL(bits, bits)
	SETEQ(yes)
	Store(yes, ReturnIndex(0))
	finish()
}
