package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const largeTop = 0x7b800000 // 2¹²⁰

// quantizeRowsKernel finds the scale of each row, and makes integers of it. It stops at a row whose
// largest magnitude is not between 2⁻¹⁰⁰ and 2¹²⁰: its scale needs more care.
func quantizeRowsKernel() {
	TEXT("quantizeRowsSIMD", noSplit, "func(dst *int8, scales *float32, starts *int32, x *float32, "+
		"rows, n, dstStride, xStride int) (done int)")
	dst, scales, starts, x := param("dst"), param("scales"), param("starts"), param("x")
	rows, dstStride, xStride := param("rows"), param("dstStride"), param("xStride")
	SHLQ(Imm(2), xStride)
	abs, lowest, join := constant(u32(bitsAbs)), YMM(), YMM()
	bytesOf32(lowest, join)
	Label("row")
	top, at, later, n := YMM(), GP64(), GP64(), param("n")
	VPXOR(top, top, top)
	MOVQ(x, at)
	rowsLater(later, x, xStride)
	eachVector(n, func(mask reg.VecVirtual) {
		v := YMM()
		PREFETCHT0(Mem{Base: later})
		load(Mem{Base: at}, mask, v)
		VANDPS(abs, v, v)
		VPMAXUD(v, top, top) // of bits, which have the order of magnitudes
	}, func() {
		ADDQ(imm(vector), at)
		ADDQ(imm(vector), later)
	})
	foldLanes(VPMAXUD, top)
	bits, scale := GP32(), YMM()
	VMOVD(top.AsX(), bits)
	SUBL(U32(smallTop), bits)
	CMPL(bits, U32(largeTop-smallTop))
	JCC(LabelRef("end"))
	VDIVSS(f32(127), top.AsX(), scale.AsX())
	VMOVSS(scale.AsX(), Mem{Base: scales})
	VBROADCASTSS(scale.AsX(), scale)

	sum, out := YMM(), GP64()
	VPXOR(sum, sum, sum)
	MOVQ(x, at)
	MOVQ(dst, out)
	Load(Param("n"), n)
	eachVector(n, func(mask reg.VecVirtual) {
		v := YMM()
		load(Mem{Base: at}, mask, v)
		VDIVPS(scale, v, v)
		VCVTPS2DQ(v, v)
		VPADDD(v, sum, sum)
		VPSHUFB(lowest, v, v)
		VPERMD(v, join, v)
		if mask == nil {
			VMOVQ(v.AsX(), Mem{Base: out})
			return
		}
		storeRest(v.AsX(), out, n, 1)
	}, func() {
		ADDQ(imm(vector), at)
		ADDQ(imm(lanes), out)
	})
	TESTQ(starts, starts)
	JE(LabelRef("next"))
	foldLanes(VPADDD, sum)
	start := XMM()
	VPXOR(start, start, start)
	VPSLLD(Imm(7), sum.AsX(), sum.AsX())
	VPSUBD(sum.AsX(), start, start)
	VMOVD(start, Mem{Base: starts})
	ADDQ(Imm(4), starts)
	Label("next")
	ADDQ(Imm(4), scales)
	ADDQ(dstStride, dst)
	ADDQ(xStride, x)
	DECQ(rows)
	JNE(LabelRef("row"))
	Label("end")
	done := param("rows")
	SUBQ(rows, done)
	Store(done, ReturnIndex(0))
	finish()
}

// rowsLater sets later to the row that is prefetched while a row is read: 8 rows are time enough
// for what is in the L3 cache.
func rowsLater(later, row, stride reg.GPVirtual) {
	LEAQ(Mem{Base: row, Index: stride, Scale: 8}, later)
}

// copyRowsKernel brings rows together.
func copyRowsKernel() {
	TEXT("copyRowsSIMD", noSplit, "func(dst, x *float32, rows, n, stride int)")
	dst, x, rows, stride := param("dst"), param("x"), param("rows"), param("stride")
	SHLQ(Imm(2), stride)
	Label("row")
	at, later, n, left := GP64(), GP64(), param("n"), GP64()
	MOVQ(x, at)
	rowsLater(later, x, stride)
	MOVQ(n, left)
	eachVector(left, func(mask reg.VecVirtual) {
		v := YMM()
		PREFETCHT0(Mem{Base: later})
		load(Mem{Base: at}, mask, v)
		store(v, mask, Mem{Base: dst})
	}, func() {
		for _, p := range []reg.GPVirtual{at, later, dst} {
			ADDQ(imm(vector), p)
		}
	})
	LEAQ(Mem{Base: dst, Index: left, Scale: 4}, dst)
	ADDQ(stride, x)
	DECQ(rows)
	JNE(LabelRef("row"))
	finish()
}

// foldLanes leaves in lane 0 what an operation makes of all lanes.
func foldLanes(op func(ops ...Op), v reg.VecVirtual) {
	x, y := v.AsX(), XMM()
	VEXTRACTI128(Imm(1), v, y)
	op(y, x, x)
	for _, order := range []uint64{0x4e, 0xb1} {
		VPSHUFD(Imm(order), x, y)
		op(y, x, x)
	}
}

// magnitudesKernel makes groups of magnitudeForm of whole vectors of elements.
func magnitudesKernel() {
	TEXT("magnitudesSIMD", noSplit, "func(dst, src *int8, n int) (start int32)")
	dst, src, n := param("dst"), param("src"), param("n")
	zero, start := YMM(), YMM()
	VPXOR(zero, zero, zero)
	VPXOR(start, start, start)
	Label("vector")
	x, signs, lower := YMM(), YMM(), YMM()
	VPERMQ(Imm(0b11011000), Mem{Base: src}, x) // its quarters 0, 2, 1, 3, since halves are unpacked
	VPCMPGTB(x, zero, signs)
	VPABSB(x, x)
	VPUNPCKLDQ(signs, x, lower)
	VMOVDQU(lower, Mem{Base: dst})
	VPUNPCKHDQ(signs, x, lower)
	VMOVDQU(lower, Mem{Base: dst, Disp: vector})
	VPAND(signs, x, x)
	VPSADBW(zero, x, x)
	VPADDD(x, start, start)
	ADDQ(imm(vector), src)
	ADDQ(imm(2*vector), dst)
	SUBQ(imm(vector), n)
	JNE(LabelRef("vector"))
	foldLanes(VPADDD, start)
	sum := GP32()
	VMOVD(start.AsX(), sum)
	Store(sum, ReturnIndex(0))
	finish()
}

// interleaveKernel brings bytes of four rows together, 16 columns at a time.
func interleaveKernel() {
	TEXT("interleaveSIMD", noSplit, "func(dst, src *byte, cols, n int)")
	dst, src, cols, n := param("dst"), param("src"), param("cols"), param("n")
	third, at, left := GP64(), GP64(), GP64()
	LEAQ(Mem{Base: cols, Index: cols, Scale: 2}, third)
	Label("rows")
	MOVQ(src, at)
	MOVQ(cols, left)
	Label("columns")
	var v [4]reg.VecVirtual
	for r, row := range []Mem{{Base: at}, {Base: at, Index: cols, Scale: 1},
		{Base: at, Index: cols, Scale: 2}, {Base: at, Index: third, Scale: 1}} {
		v[r] = XMM()
		VMOVDQU(row, v[r])
	}
	for half, unpack := range []func(ops ...Op){VPUNPCKLBW, VPUNPCKHBW} {
		ab, cd, x := XMM(), XMM(), XMM()
		unpack(v[1], v[0], ab)
		unpack(v[3], v[2], cd)
		VPUNPCKLWD(cd, ab, x)
		VMOVDQU(x, Mem{Base: dst, Disp: 32 * half})
		VPUNPCKHWD(cd, ab, x)
		VMOVDQU(x, Mem{Base: dst, Disp: 32*half + 16})
	}
	ADDQ(Imm(16), at)
	ADDQ(Imm(64), dst)
	SUBQ(Imm(16), left)
	JNE(LabelRef("columns"))
	LEAQ(Mem{Base: src, Index: cols, Scale: 4}, src)
	SUBQ(Imm(4), n)
	JNE(LabelRef("rows"))
	finish()
}
