package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func mergeKernel() {
	TEXT("mergeSIMD", noSplit, "func(o, b *float32, n int, x, y float32)")
	o, b, n := param("o"), param("b"), param("n")
	x, y := broadcastParam("x"), broadcastParam("y")
	eachVector(n, func(mask reg.VecVirtual) {
		ov, bv := YMM(), YMM()
		loadLanes(Mem{Base: o}, mask, ov)
		loadLanes(Mem{Base: b}, mask, bv)
		VMULPS(y, bv, bv)
		VFMADD213PS(bv, x, ov) // o = o·x + b·y
		storeLanes(ov, mask, Mem{Base: o})
	}, func() {
		ADDQ(imm(vector), o)
		ADDQ(imm(vector), b)
	})
	finish()
}

// mergeRowsAVX512Kernel is mergeKernel for rows of whole panels, each with its own factors.
func mergeRowsAVX512Kernel() {
	TEXT("mergeRowsAVX512", noSplit, "func(o, b, x, y *float32, rows, n int)")
	o, b, x, y, rows, n := param("o"), param("b"), param("x"), param("y"), param("rows"), param("n")
	left, fx, fy := GP64(), ZMM(), ZMM()
	Label("row")
	VBROADCASTSS(Mem{Base: x}, fx)
	VBROADCASTSS(Mem{Base: y}, fy)
	MOVQ(n, left)
	Label("panel")
	v := ZMM()
	VMULPS(Mem{Base: b}, fy, v)
	VFMADD231PS(Mem{Base: o}, fx, v)
	VMOVUPS(v, Mem{Base: o})
	ADDQ(imm(panelBytes), o)
	ADDQ(imm(panelBytes), b)
	SUBQ(imm(panel), left)
	JNE(LabelRef("panel"))
	ADDQ(Imm(4), x)
	ADDQ(Imm(4), y)
	DECQ(rows)
	JNE(LabelRef("row"))
	finish()
}

// newMaximum is top = max(a, b) + 0, a NaN b not counting, and base = top, or 0 if top is −Inf;
// masked has ones there.
func newMaximum(a, b reg.VecVirtual) (top, base, masked reg.VecVirtual) {
	top, base, masked = YMM(), YMM(), YMM()
	zero := YMM()
	VXORPS(zero, zero, zero)
	VMAXPS(a, b, top) // a wins if b is NaN
	VADDPS(zero, top, top)
	VCMPPS(Imm(equal), u32(bitsNegInf), top, masked)
	VANDNPS(top, masked, base)
	return top, base, masked
}

func mergeSumsKernel() {
	TEXT("mergeSumsSIMD", noSplit, "func(m, l, m2, l2, x, y *float32, n int, c float32)")
	m, l, m2, l2, x, y, n := param("m"), param("l"), param("m2"), param("l2"), param("x"), param("y"),
		param("n")
	c := broadcastParam("c")
	eachVector(n, func(mask reg.VecVirtual) {
		a, b := YMM(), YMM()
		loadLanes(Mem{Base: m}, mask, a)
		loadLanes(Mem{Base: m2}, mask, b)
		top, base, _ := newMaximum(a, b)
		storeLanes(top, mask, Mem{Base: m})
		VSUBPS(base, a, a)
		VSUBPS(base, b, b)
		xv := exp2(a, c)
		storeLanes(xv, mask, Mem{Base: x})
		yv := exp2(b, c)
		storeLanes(yv, mask, Mem{Base: y})
		la, lb := YMM(), YMM()
		loadLanes(Mem{Base: l}, mask, la)
		loadLanes(Mem{Base: l2}, mask, lb)
		VMULPS(yv, lb, lb)
		VFMADD213PS(lb, xv, la) // l = l·x + l2·y
		storeLanes(la, mask, Mem{Base: l})
	}, func() {
		for _, p := range []reg.GPVirtual{m, l, m2, l2, x, y} {
			ADDQ(imm(vector), p)
		}
	})
	finish()
}
