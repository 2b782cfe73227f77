package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func scaleKernel() {
	TEXT("scaleSIMD", noSplit, "func(dst, x *float32, n int, f float32)")
	dst, x, n, f := param("dst"), param("x"), param("n"), broadcastParam("f")
	zero := YMM()
	VXORPS(zero, zero, zero)
	eachVector(n, func(mask reg.VecVirtual) {
		v := YMM()
		loadLanes(Mem{Base: x}, mask, v)
		VMULPS(f, v, v)
		VADDPS(zero, v, v)
		storeLanes(v, mask, Mem{Base: dst})
	}, func() {
		ADDQ(imm(vector), x)
		ADDQ(imm(vector), dst)
	})
	finish()
}

func normalizeKernel() {
	TEXT("normalizeSIMD", noSplit, "func(dst, o, l *float32, rows, n, dstStride, oStride int)")
	dst, o, l, rows := param("dst"), param("o"), param("l"), param("rows")
	dstStride, oStride := param("dstStride"), param("oStride")
	SHLQ(Imm(2), dstStride)
	SHLQ(Imm(2), oStride)
	one, zero := YMM(), YMM()
	VMOVUPS(f32(1), one)
	VXORPS(zero, zero, zero)
	Label("row")
	sum, empty := YMM(), YMM()
	VBROADCASTSS(Mem{Base: l}, sum)
	VCMPPS(Imm(equal), zero, sum, empty)
	VDIVPS(sum, one, sum)
	to, from, n := GP64(), GP64(), param("n")
	MOVQ(dst, to)
	MOVQ(o, from)
	eachVector(n, func(mask reg.VecVirtual) {
		v := YMM()
		loadLanes(Mem{Base: from}, mask, v)
		VMULPS(sum, v, v)
		VADDPS(zero, v, v)
		VANDNPS(v, empty, v)
		storeLanes(v, mask, Mem{Base: to})
	}, func() {
		ADDQ(imm(vector), from)
		ADDQ(imm(vector), to)
	})
	ADDQ(dstStride, dst)
	ADDQ(oStride, o)
	ADDQ(Imm(4), l)
	DECQ(rows)
	JNE(LabelRef("row"))
	finish()
}

// normalizeAVX512Kernel has 16 lanes, and handles four vectors at a time. Where a sum is 0, its row
// becomes 0.
func normalizeAVX512Kernel() {
	TEXT("normalizeAVX512", noSplit, "func(dst, o, l *float32, rows, n, dstStride, oStride int)")
	dst, o, l, rows := param("dst"), param("o"), param("l"), param("rows")
	dstStride, oStride := param("dstStride"), param("oStride")
	SHLQ(Imm(2), dstStride)
	SHLQ(Imm(2), oStride)
	one, zero, rest := ZMM(), ZMM(), param("n")
	VBROADCASTSS(f32(1), one)
	VPXORD(zero, zero, zero)
	ANDQ(Imm(avx512Lanes-1), rest)
	tail := firstLanes(rest)
	to, from, n := GP64(), GP64(), GP64()
	Label("row")
	factor, keep := ZMM(), K()
	VBROADCASTSS(Mem{Base: l}, factor)
	VCMPPS(Imm(notEqual), zero, factor, keep)
	VDIVPS(factor, one, factor)
	MOVQ(dst, to)
	MOVQ(o, from)
	MOVQ(paramAddress("n"), n)
	vectors := func(count int) {
		label, end := unique("vectors"), unique("fewer")
		SUBQ(imm(count*avx512Lanes), n)
		JL(LabelRef(end))
		Label(label)
		for i := range count {
			v := ZMM()
			VMULPS_Z(Mem{Base: from, Disp: i * avx512Vector}, factor, keep, v)
			VADDPS(zero, v, v)
			VMOVUPS(v, Mem{Base: to, Disp: i * avx512Vector})
		}
		ADDQ(imm(count*avx512Vector), from)
		ADDQ(imm(count*avx512Vector), to)
		SUBQ(imm(count*avx512Lanes), n)
		JGE(LabelRef(label))
		Label(end)
		ADDQ(imm(count*avx512Lanes), n)
	}
	vectors(4)
	vectors(1)
	JE(LabelRef("next"))
	v := ZMM()
	VMOVUPS_Z(Mem{Base: from}, tail, v)
	VMULPS_Z(v, factor, keep, v)
	VADDPS(zero, v, v)
	VMOVUPS(v, tail, Mem{Base: to})
	Label("next")
	ADDQ(dstStride, dst)
	ADDQ(oStride, o)
	ADDQ(Imm(4), l)
	DECQ(rows)
	JNE(LabelRef("row"))
	finish()
}

func weightsKernel() {
	TEXT("weightsSIMD", noSplit, "func(dst, s *float32, n int, m, r, c float32, visible uint64)")
	dst, s, n := param("dst"), param("s"), param("n")
	m, r, c, visible := broadcastParam("m"), broadcastParam("r"), broadcastParam("c"), param("visible")
	eachVector(n, func(mask reg.VecVirtual) {
		v, keep, bits := YMM(), YMM(), XMM()
		VMOVD(visible.As32(), bits)
		VPBROADCASTD(bits, keep)
		VPAND(bitOfLane(), keep, keep)
		VPCMPEQD(bitOfLane(), keep, keep)
		loadLanes(Mem{Base: s}, mask, v)
		VSUBPS(m, v, v)
		p := exp2(v, c)
		VMULPS(r, p, p)
		VANDPS(keep, p, p)
		storeLanes(p, mask, Mem{Base: dst})
	}, func() {
		ADDQ(imm(vector), dst)
		ADDQ(imm(vector), s)
		SHRQ(Imm(lanes), visible)
	})
	finish()
}
