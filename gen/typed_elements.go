package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Kernels that widen and narrow elements, one by one as far as the result is concerned.

// pairRegisters are what the formats work on outside of tiles.
var pairRegisters = []reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3}

// widenHalfKernel widens n elements of 16 bits, whole panels of them.
func widenHalfKernel(name string, f typedFormat) {
	TEXT(name, 4, "func(dst *float32, v *byte, n int)")
	dst, v, n := param("dst"), param("v"), param("n")
	t := &typedProgram{format: f, vecs: panel / lanes, size: vector}
	x, y := pairRegisters[0], pairRegisters[1]
	Label("loop")
	f.widen(t, Mem{Base: v}, 0, pairRegisters[:2])
	if f.join != nil {
		f.join(x, y, pairRegisters[2], pairRegisters[3])
	}
	VMOVUPS(x, Mem{Base: dst})
	VMOVUPS(y, Mem{Base: dst, Disp: vector})
	ADDQ(imm(panel*f.bytes), v)
	ADDQ(imm(panelBytes), dst)
	SUBQ(imm(panel), n)
	JG(LabelRef("loop"))
	finish()
}

// widenI8Kernel widens a panel's groups of four steps.
func widenI8Kernel() {
	TEXT("widenI8SIMD", 4, "func(dst *float32, v *byte, steps, stride int)")
	dst, v, steps, stride := param("dst"), param("v"), param("steps"), param("stride")
	t := &typedProgram{format: typedI8, vecs: panel / lanes, size: vector}
	Label("group")
	for u := range typedUnroll {
		typedI8.widen(t, Mem{Base: v}, u, pairRegisters[:2])
		VMOVUPS(pairRegisters[0], Mem{Base: dst, Disp: u * panelBytes})
		VMOVUPS(pairRegisters[1], Mem{Base: dst, Disp: u*panelBytes + vector})
		DECQ(steps)
		JE(LabelRef("end"))
	}
	ADDQ(stride, v)
	ADDQ(imm(typedUnroll*panelBytes), dst)
	JMP(LabelRef("group"))
	Label("end")
	finish()
}

// narrowF16Kernel lets the processor round, to nearest even whatever its mode is.
func narrowF16Kernel() {
	TEXT("narrowF16SIMD", 4, "func(dst *uint16, x *float32, n int)")
	narrowHalf(func(v reg.VecVirtual) reg.VecVirtual {
		VCVTPS2PH(Imm(0), v, v.AsX())
		return v
	})
}

// narrowBF16Kernel adds a bit less than half of what is cut off, and all of it if the rest is odd. A NaN is not rounded but
// made quiet.
func narrowBF16Kernel() {
	TEXT("narrowBF16SIMD", 4, "func(dst *uint16, x *float32, n int)")
	narrowHalf(func(v reg.VecVirtual) reg.VecVirtual {
		nan, rounded, upper := YMM(), YMM(), YMM()
		VCMPPS(Imm(unordered), v, v, nan)
		VPSRLD(Imm(16), v, upper)
		VPAND(u32(1), upper, rounded)
		VPADDD(u32(0x7fff), rounded, rounded)
		VPADDD(v, rounded, rounded)
		VPSRLD(Imm(16), rounded, rounded)
		VPOR(u32(0x40), upper, upper)
		VBLENDVPS(nan, upper, rounded, rounded)
		VEXTRACTI128(Imm(1), rounded, upper.AsX())
		VPACKUSDW(upper.AsX(), rounded.AsX(), rounded.AsX())
		return rounded
	})
}

// narrowHalf stores what narrow leaves in the lower half of a vector.
func narrowHalf(narrow func(v reg.VecVirtual) reg.VecVirtual) {
	dst, x, n := param("dst"), param("x"), param("n")
	eachVector(n, func(mask reg.VecVirtual) {
		v := YMM()
		load(Mem{Base: x}, mask, v)
		h := narrow(v).AsX()
		if mask == nil {
			VMOVDQU(h, Mem{Base: dst})
			return
		}
		storeRest(h, dst, n, 2)
	}, func() {
		ADDQ(imm(vector), x)
		ADDQ(imm(vector/2), dst)
	})
	finish()
}

// storeRest stores n < 8 elements of 1 or 2 bytes, and moves dst on.
func storeRest(v reg.Register, dst, n reg.GPVirtual, bytes int) {
	for _, part := range []int{4, 2, 1} {
		skip := unique("part")
		TESTQ(U32(part), n)
		JE(LabelRef(skip))
		size := part * bytes
		switch m := (Mem{Base: dst}); size {
		case 8:
			VMOVQ(v, m)
		case 4:
			VMOVD(v, m)
		case 2:
			VPEXTRW(Imm(0), v, m)
		case 1:
			VPEXTRB(Imm(0), v, m)
		default:
			panic(fmt.Sprintf("storeRest: %d bytes", size))
		}
		VPSRLDQ(imm(size), v, v)
		ADDQ(imm(size), dst)
		Label(skip)
	}
}

// largestKernel keeps the largest magnitudes, and apart from them whether there was a NaN.
func largestKernel() {
	TEXT("largestSIMD", 4, "func(x *float32, n int) float32")
	x, n := param("x"), param("n")
	most, nan, abs := YMM(), YMM(), constant(u32(bitsAbs))
	VXORPS(most, most, most)
	VXORPS(nan, nan, nan)
	eachVector(n, func(mask reg.VecVirtual) {
		v, u := YMM(), YMM()
		load(Mem{Base: x}, mask, v)
		VANDPS(abs, v, v)
		VCMPPS(Imm(unordered), v, v, u)
		VORPS(u, nan, nan)
		VMAXPS(most, v, most) // most wins if v is NaN
	}, func() { ADDQ(imm(vector), x) })
	foldMax(most)
	bits := GP32()
	VMOVMSKPS(nan, bits)
	TESTL(bits, bits)
	JE(LabelRef("ordered"))
	VMOVSS(u32(0x7fc00000), most.AsX())
	Label("ordered")
	returnFloat(most)
	finish()
}

// quantizeKernel rounds to nearest even, as the processor's mode is in Go, and takes the lowest byte of each integer.
func quantizeKernel() {
	TEXT("quantizeSIMD", 4, "func(dst *int8, x *float32, n int, scale float32)")
	dst, x, n, scale := param("dst"), param("x"), param("n"), broadcastParam("scale")
	lowest, join := YMM(), YMM()
	VMOVUPS(words("lowestBytes", 0x0c080400, ^uint32(0), ^uint32(0), ^uint32(0), 0x0c080400, ^uint32(0), ^uint32(0), ^uint32(0)), lowest)
	VMOVUPS(words("joinBytes", 0, 4, 1, 1, 1, 1, 1, 1), join)
	eachVector(n, func(mask reg.VecVirtual) {
		v := YMM()
		load(Mem{Base: x}, mask, v)
		VDIVPS(scale, v, v)
		VCVTPS2DQ(v, v)
		VPSHUFB(lowest, v, v)
		VPERMD(v, join, v)
		if mask == nil {
			VMOVQ(v.AsX(), Mem{Base: dst})
			return
		}
		storeRest(v.AsX(), dst, n, 1)
	}, func() {
		ADDQ(imm(vector), x)
		ADDQ(imm(lanes), dst)
	})
	finish()
}

// scaleColumnsKernel multiplies column by column.
func scaleColumnsKernel() {
	TEXT("scaleColumnsSIMD", 4, "func(s, f *float32, rows, stride, n int)")
	s, f, rows, stride := param("s"), param("f"), param("rows"), param("stride")
	SHLQ(Imm(2), stride)
	Label("row")
	at, factor, n := GP64(), GP64(), param("n")
	MOVQ(s, at)
	MOVQ(f, factor)
	eachVector(n, func(mask reg.VecVirtual) {
		v, u := YMM(), YMM()
		load(Mem{Base: at}, mask, v)
		load(Mem{Base: factor}, mask, u)
		VMULPS(u, v, v)
		store(v, mask, Mem{Base: at})
	}, func() {
		ADDQ(imm(vector), at)
		ADDQ(imm(vector), factor)
	})
	ADDQ(stride, s)
	DECQ(rows)
	JNE(LabelRef("row"))
	finish()
}
