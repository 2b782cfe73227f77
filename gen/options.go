package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func alibiKernel() {
	TEXT("alibiSIMD", noSplit, "func(s *float32, n int, slope float32, first int)")
	s, n, slope := param("s"), param("n"), broadcastParam("slope")
	Comment("distance = first + lane")
	distance, first := YMM(), XMM()
	at := param("first")
	VMOVD(at.As32(), first)
	VPBROADCASTD(first, distance)
	VPADDD(numberOfLane(), distance, distance)
	eachVector(n, func(mask reg.VecVirtual) {
		v, f := YMM(), YMM()
		load(Mem{Base: s}, mask, v)
		VCVTDQ2PS(distance, f)
		VFMADD231PS(f, slope, v)
		store(v, mask, Mem{Base: s})
	}, func() {
		ADDQ(imm(vector), s)
		VPADDD(u32(lanes), distance, distance)
	})
	finish()
}

// addBiasKernel computes s = FMA(s, u, bias) and notes whether the row of bias has a −Inf. If it
// has, a second pass finds out where.
func addBiasKernel() {
	TEXT("addBiasSIMD", noSplit, "func(s, bias *float32, visible *uint64, "+
		"rows, step, stride, lo, n int, u float32) (every uint64)")
	s, bias, visible, rows := param("s"), param("bias"), param("visible"), param("rows")
	n, lowest, every, unit := GP64(), YMM(), allOnes(), broadcastParam("u")
	add := func(s, bias reg.GPVirtual, disp int, mask reg.VecVirtual) {
		b, sum := YMM(), YMM()
		load(Mem{Base: bias, Disp: disp}, mask, b)
		load(Mem{Base: s, Disp: disp}, mask, sum)
		VFMADD213PS(b, unit, sum)
		store(sum, mask, Mem{Base: s, Disp: disp})
		// The old minimum wins if b is NaN; lanes that the mask leaves out are 0.
		VMINPS(lowest, b, lowest)
	}
	Label("row")
	VXORPS(lowest, lowest, lowest)
	Load(Param("n"), n)
	CMPQ(n, imm(block))
	JNE(LabelRef("ragged"))
	for v := range block / lanes {
		add(s, bias, v*vector, nil)
	}
	JMP(LabelRef("added"))
	Label("ragged")
	at, from := GP64(), GP64()
	MOVQ(s, at)
	MOVQ(bias, from)
	eachVector(n, func(mask reg.VecVirtual) { add(at, from, 0, mask) }, func() {
		ADDQ(imm(vector), at)
		ADDQ(imm(vector), from)
	})
	Label("added")
	VCMPPS(Imm(equal), u32(bitsNegInf), lowest, lowest)
	bits := GP64()
	VMOVMSKPS(lowest, bits.As32())
	TESTL(bits.As32(), bits.As32())
	JE(LabelRef("next"))
	Comment("Keys with a bias of −Inf are not visible.")
	shift, gone := reg.RCX, GP64()
	Load(Param("lo"), shift)
	Load(Param("n"), n)
	MOVQ(bias, from)
	XORQ(gone, gone)
	eachVector(n, func(mask reg.VecVirtual) {
		b, masked := YMM(), YMM()
		load(Mem{Base: from}, mask, b)
		VCMPPS(Imm(equal), u32(bitsNegInf), b, masked)
		VMOVMSKPS(masked, bits.As32())
		SHLQ(reg.CL, bits)
		ORQ(bits, gone)
	}, func() {
		ADDQ(imm(vector), from)
		ADDQ(Imm(lanes), shift)
	})
	NOTQ(gone)
	ANDQ(gone, Mem{Base: visible})
	Label("next")
	ANDQ(Mem{Base: visible}, every)
	nextPairs(bias, visible, 4)
	Load(Param("step"), at)
	SHLQ(Imm(8), at) // rows of s are blockBytes long
	ADDQ(at, s)
	DECQ(rows)
	JNE(LabelRef("row"))
	Store(every, ReturnIndex(0))
	finish()
}

func allOnes() reg.GPVirtual {
	r := GP64()
	MOVQ(I32(-1), r)
	return r
}

// nextPairs goes to the next row of a bias or mask, with elements of size bytes, and of the bits of
// visible keys.
func nextPairs(pairs, visible reg.GPVirtual, size uint8) {
	by := GP64()
	Load(Param("stride"), by)
	LEAQ(Mem{Base: pairs, Index: by, Scale: size}, pairs)
	Load(Param("step"), by)
	LEAQ(Mem{Base: visible, Index: by, Scale: 8}, visible)
}

// maskKeysKernel takes 32 booleans at once, then 8, then single ones. A Go bool is a byte of 0 or
// 1.
func maskKeysKernel() {
	TEXT("maskKeysSIMD", noSplit, "func(mask *bool, visible *uint64, "+
		"rows, step, stride, lo, n int) (every uint64)")
	mask, visible, rows, every := param("mask"), param("visible"), param("rows"), allOnes()
	at, n, bits, gone, shift := GP64(), GP64(), GP64(), GP64(), reg.RCX
	Label("row")
	MOVQ(mask, at)
	XORQ(gone, gone)
	Load(Param("n"), n)
	Load(Param("lo"), shift)
	step := func(size int, load func()) {
		loop, end := fmt.Sprintf("by%d", size), fmt.Sprintf("by%dEnd", size)
		Label(loop)
		CMPQ(n, imm(size))
		JL(LabelRef(end))
		load() // a bit for each key that is masked
		SHLQ(reg.CL, bits)
		ORQ(bits, gone)
		ADDQ(imm(size), at)
		ADDQ(imm(size), shift)
		SUBQ(imm(size), n)
		JMP(LabelRef(loop))
		Label(end)
	}
	zero := YMM()
	VPXOR(zero, zero, zero)
	step(32, func() {
		v := YMM()
		VPCMPEQB(Mem{Base: at}, zero, v)
		VPMOVMSKB(v, bits.As32())
	})
	step(8, func() {
		v := XMM()
		VMOVQ(Mem{Base: at}, v)
		VPCMPEQB(zero.AsX(), v, v)
		VPMOVMSKB(v, bits.As32())
		ANDQ(U32(0xff), bits)
	})
	step(1, func() {
		MOVBQZX(Mem{Base: at}, bits)
		XORQ(Imm(1), bits)
	})
	NOTQ(gone)
	ANDQ(Mem{Base: visible}, gone)
	MOVQ(gone, Mem{Base: visible})
	ANDQ(gone, every)
	nextPairs(mask, visible, 1)
	DECQ(rows)
	JNE(LabelRef("row"))
	Store(every, ReturnIndex(0))
	finish()
}
