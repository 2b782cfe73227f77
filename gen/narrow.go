package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// narrowF16Kernel uses the processor's rounding to nearest even, whatever its mode is.
func narrowF16Kernel() {
	TEXT("narrowF16SIMD", noSplit, "func(dst *uint16, x *float32, n int)")
	narrowHalf(func(v reg.VecVirtual) reg.VecVirtual {
		VCVTPS2PH(Imm(0), v, v.AsX())
		return v
	})
}

// narrowBF16Kernel adds just less than half a unit of the last place before it truncates, and
// exactly half if the upper half is odd. A NaN is not rounded but made quiet.
func narrowBF16Kernel() {
	TEXT("narrowBF16SIMD", noSplit, "func(dst *uint16, x *float32, n int)")
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

// narrowHalf stores the lower half of the vector that narrow returns.
func narrowHalf(narrow func(v reg.VecVirtual) reg.VecVirtual) {
	dst, x, n := param("dst"), param("x"), param("n")
	eachVector(n, func(mask reg.VecVirtual) {
		v := YMM()
		loadLanes(Mem{Base: x}, mask, v)
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
