package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Activations, step by step what internal/f32/activations.go computes; GELUs are in gelu.go, steps
// in float64 in doubles.go.

const bitsLowest = 0xff7fffff // −MaxFloat32

func activationKernels() {
	activationKernel("siluSIMD", silu)
	siluGateKernel()
	activationKernel("sigmoidSIMD", sigmoid)
	activationKernel("reluSIMD", relu)
	activationKernel("reluSquaredSIMD", func(x reg.VecVirtual) reg.VecVirtual {
		y := relu(x)
		VMULPS(y, y, y)
		return y
	})
	activationKernel("tanhSIMD", func(x reg.VecVirtual) reg.VecVirtual {
		y, sign := tanh([]Op{x})[0], constant(u32(bitsSign))
		VANDPS(x, sign, sign)
		VORPS(sign, y, y)
		return y
	})
	activationKernel("expAllSIMD", expFull)
	geluKernels()
	softplusKernels()
}

// activationKernel is dst = f(x) element by element. f is long, so that it is emitted once: less
// than a vector goes through the frame.
func activationKernel(name string, f func(x reg.VecVirtual) reg.VecVirtual) {
	TEXT(name, noSplit, "func(dst, x *float32, n int, xAhead, dstAhead int)")
	dst, x, n := param("dst"), param("x"), param("n")
	prefetch := prefetchAhead(dst, x)
	local, to, rest := AllocLocal(vector), GP64(), GP64()
	XORQ(rest, rest)
	SUBQ(imm(lanes), n)
	JL(LabelRef("fewer"))
	Label("vectors")
	prefetch()
	v := YMM()
	VMOVUPS(Mem{Base: x}, v)
	VMOVUPS(f(v), Mem{Base: dst})
	ADDQ(imm(vector), x)
	ADDQ(imm(vector), dst)
	SUBQ(imm(lanes), n)
	JGE(LabelRef("vectors"))
	Label("fewer")
	TESTQ(rest, rest)
	JNE(LabelRef("last"))
	ADDQ(imm(lanes), n)
	JE(LabelRef("end"))
	few := YMM()
	loadLanes(Mem{Base: x}, tailMask(n), few)
	VMOVUPS(few, local)
	MOVQ(dst, to)
	LEAQ(local, x)
	MOVQ(x, dst)
	MOVQ(n, rest)
	XORQ(n, n)
	JMP(LabelRef("vectors"))
	Label("last")
	VMOVUPS(local, few)
	storeLanes(few, tailMask(rest), Mem{Base: to})
	Label("end")
	finish()
}

// onePlusExpMinus is 1 + exp(−x).
func onePlusExpMinus(x reg.VecVirtual) reg.VecVirtual {
	y := YMM()
	VXORPS(u32(bitsSign), x, y)
	d := expFull(y)
	VADDPS(f32(1), d, d)
	return d
}

// silu is x/(1 + exp(−x)) + 0.
func silu(x reg.VecVirtual) reg.VecVirtual {
	lowest := constant(u32(bitsLowest))
	VMAXPS(x, lowest, x) // the second operand, here x, wins if it is NaN
	d := onePlusExpMinus(x)
	VDIVPS(d, x, d)
	return plusZero(d)
}

// siluGateKernel is SwiGLU, which most models have.
func siluGateKernel() {
	TEXT("siluGateSIMD", noSplit, "func(dst, x, up *float32, n, xAhead, dstAhead int)")
	dst, x, up, n := param("dst"), param("x"), param("up"), param("n")
	prefetch := prefetchAhead(dst, x, up)
	eachVector(n, func(mask reg.VecVirtual) {
		prefetch()
		v, u := YMM(), YMM()
		loadLanes(Mem{Base: x}, mask, v)
		loadLanes(Mem{Base: up}, mask, u)
		y := silu(v)
		VMULPS(u, y, y)
		storeLanes(y, mask, Mem{Base: dst})
	}, advanceVector(dst, x, up))
	finish()
}

// sigmoid is 1/(1 + exp(−x)).
func sigmoid(x reg.VecVirtual) reg.VecVirtual {
	d, one := onePlusExpMinus(x), constant(f32(1))
	VDIVPS(d, one, d)
	return d
}

// relu is max(x, 0), +0 for −0.
func relu(x reg.VecVirtual) reg.VecVirtual {
	zero := YMM()
	VXORPS(zero, zero, zero)
	VMAXPS(x, zero, x) // x wins if it is NaN
	VADDPS(zero, x, x)
	return x
}

// plusZero is x + 0: no zero is negative.
func plusZero(x reg.VecVirtual) reg.VecVirtual {
	zero := YMM()
	VXORPS(zero, zero, zero)
	VADDPS(zero, x, x)
	return x
}

func gateClampedKernel() {
	TEXT("gateClampedSIMD", noSplit,
		"func(dst, gate, up *float32, n int, alpha, limit float32, xAhead, dstAhead int)")
	dst, gate, up, n := param("dst"), param("gate"), param("up"), param("n")
	alpha, limit, finite := broadcastParam("alpha"), broadcastParam("limit"), YMM()
	prefetch := prefetchAhead(dst, gate, up)
	VMINPS(f32(math.MaxFloat32), limit, finite)
	eachVector(n, func(mask reg.VecVirtual) {
		prefetch()
		g, u, y, negative := YMM(), YMM(), YMM(), YMM()
		loadLanes(Mem{Base: gate}, mask, g)
		VMINPS(g, limit, g) // the second operand, here g, wins if it is NaN
		VMULPS(alpha, g, y)
		y = sigmoid(y)
		VMULPS(g, y, y)
		infinite := YMM()
		VCMPPS(Imm(lessThan), u32(bitsLowest), g, infinite)
		VANDNPS(y, infinite, y)
		loadLanes(Mem{Base: up}, mask, u)
		VBLENDVPS(infinite, finite, limit, infinite) // 0 times a finite number is 0
		VXORPS(u32(bitsSign), infinite, negative)
		VMINPS(u, infinite, u)
		VMAXPS(u, negative, u)
		VADDPS(f32(1), u, u)
		VMULPS(u, y, y)
		storeLanes(y, mask, Mem{Base: dst})
	}, advanceVector(dst, gate, up))
	finish()
}
