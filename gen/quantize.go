package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// largestKernel keeps the largest magnitudes, and apart from them whether there was a NaN.
func largestKernel() {
	TEXT("largestSIMD", noSplit, "func(x *float32, n int) float32")
	x, n := param("x"), param("n")
	largest, nan, abs := YMM(), YMM(), constant(u32(bitsAbs))
	VXORPS(largest, largest, largest)
	VXORPS(nan, nan, nan)
	eachVector(n, func(mask reg.VecVirtual) {
		v, u := YMM(), YMM()
		loadLanes(Mem{Base: x}, mask, v)
		VANDPS(abs, v, v)
		VCMPPS(Imm(unordered), v, v, u)
		VORPS(u, nan, nan)
		VMAXPS(largest, v, largest) // largest wins if v is NaN
	}, func() { ADDQ(imm(vector), x) })
	foldMax(largest)
	bits := GP32()
	VMOVMSKPS(nan, bits)
	TESTL(bits, bits)
	JE(LabelRef("ordered"))
	VMOVSS(u32(0x7fc00000), largest.AsX())
	Label("ordered")
	returnFloat(largest)
	finish()
}

// quantizeKernel rounds to nearest even, which is the processor's mode in Go, and stores the lowest
// byte of each integer.
func quantizeKernel() {
	TEXT("quantizeSIMD", noSplit, "func(dst *int8, x *float32, n int, scale float32)")
	dst, x, n, scale := param("dst"), param("x"), param("n"), broadcastParam("scale")
	lowest, join := YMM(), YMM()
	bytesOf32(lowest, join)
	eachVector(n, func(mask reg.VecVirtual) {
		v := YMM()
		loadLanes(Mem{Base: x}, mask, v)
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

// bytesOf32 loads the indices with which VPSHUFB and VPERMD collect the lowest bytes of 8 integers.
func bytesOf32(lowest, join reg.VecVirtual) {
	const bytes, none = 0x0c080400, 0xffffffff // the lowest bytes of four integers; no byte
	VMOVUPS(wordTable("lowestBytes", bytes, none, none, none, bytes, none, none, none), lowest)
	VMOVUPS(wordTable("joinBytes", 0, 4, 1, 1, 1, 1, 1, 1), join)
}

// columnsKernels go column by column: they multiply, or add, or both, in that order.
func columnsKernels() {
	columnsKernel("scaleColumnsSIMD", "f", VMULPS)
	columnsKernel("addColumnsSIMD", "bias", VADDPS)
	columnsKernel("scaleAddColumnsSIMD", "f bias", VMULPS, VADDPS)
}

// columnRows rows share the loads of what they are multiplied by and of what is added.
const columnRows = 4

func columnsKernel(name, operands string, operations ...func(ops ...Op)) {
	names := strings.Fields(operands)
	TEXT(name, noSplit, "func(s, "+strings.Join(names, ", ")+" *float32, rows, stride, n int)")
	s, rows, stride := param("s"), param("rows"), param("stride")
	SHLQ(Imm(2), stride)
	for _, some := range []int{columnRows, 1} {
		next := unique("rowsLeft")
		loop := unique("rows")
		Label(loop)
		SUBQ(imm(some), rows)
		JL(LabelRef(next))
		to := []reg.GPVirtual{GP64()}
		MOVQ(s, to[0])
		for r := 1; r < some; r++ {
			to = append(to, GP64())
			LEAQ(Mem{Base: to[r-1], Index: stride, Scale: 1}, to[r])
		}
		LEAQ(Mem{Base: to[some-1], Index: stride, Scale: 1}, s)
		var from []reg.GPVirtual
		for _, name := range names {
			from = append(from, param(name))
		}
		at := GP64()
		XORL(at.As32(), at.As32())
		eachVector(param("n"), func(mask reg.VecVirtual) { columnsOf(to, from, at, mask, operations) },
			func() { ADDQ(imm(vector), at) })
		JMP(LabelRef(loop))
		Label(next)
		ADDQ(imm(some), rows)
	}
	finish()
}

// columnsOf does so for a vector of some rows.
func columnsOf(to, from []reg.GPVirtual, at reg.GPVirtual, mask reg.VecVirtual,
	operations []func(ops ...Op)) {
	operands := newVectors(len(from))
	for i, x := range from {
		loadLanes(Mem{Base: x, Index: at, Scale: 1}, mask, operands[i])
	}
	for _, row := range to {
		v, x := YMM(), Mem{Base: row, Index: at, Scale: 1}
		loadLanes(x, mask, v)
		for i, operation := range operations {
			operation(operands[i], v, v)
		}
		storeLanes(v, mask, x)
	}
}
