package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Kernels of package nn: sums over rows, products, rotation.

// elementKernels emits the kernels of internal/kernel/elements.
func elementKernels() {
	rowSumKernel()
	sumSquaresKernel()
	addSquaresKernel()
	scaleRowKernel()
	scaleWeightedKernel()
	normalizeRowKernel()
	pairKernel("addSIMD", func(a, b, _ reg.VecVirtual) reg.VecVirtual {
		VADDPS(b, a, a)
		return a
	})
	pairKernel("multiplySIMD", func(a, b, _ reg.VecVirtual) reg.VecVirtual {
		VMULPS(b, a, a)
		return a
	})
	pairKernel("multiplyAddSIMD", func(a, b, dst reg.VecVirtual) reg.VecVirtual {
		VFMADD231PS(b, a, dst)
		return dst
	})
	combineKernels()
	columnMaximaKernel()
	gateClampedKernel()
	rotateHalvesKernel()
	rotatePairsKernel()
	activationKernels()
}

// sumRows emits a loop over n elements in 64 lanes, lane i%64 in register i/8%8: step handles the
// vector at a displacement of all pointers. The lanes are loaded from memory and stored there, or
// if lane is nil, begin with zeros. Their sum is the result.
func sumRows(lane, n reg.GPVirtual, pointers []reg.GPVirtual,
	step func(at int, sum, mask reg.VecVirtual)) {
	sum, frame := newVectors(dotLanes/lanes), AllocLocal(4*dotLanes)
	TESTQ(lane, lane)
	JNE(LabelRef("goesOn"))
	LEAQ(frame, lane)
	for i := range sum {
		VXORPS(sum[i], sum[i], sum[i])
	}
	JMP(LabelRef("begin"))
	Label("goesOn")
	for i := range sum {
		VMOVUPS(Mem{Base: lane, Disp: i * vector}, sum[i])
	}
	Label("begin")
	SUBQ(imm(dotLanes), n)
	JL(LabelRef("tail"))
	Label("loop")
	for i := range sum {
		step(i*vector, sum[i], nil)
	}
	for _, p := range pointers {
		ADDQ(imm(dotLanes*4), p)
	}
	SUBQ(imm(dotLanes), n)
	JGE(LabelRef("loop"))
	Label("tail")
	for i := range sum {
		VMOVUPS(sum[i], Mem{Base: lane, Disp: i * vector})
	}
	ADDQ(imm(dotLanes), n)
	JE(LabelRef("fold"))
	Comment("Less than 64 are added to the lanes in memory.")
	eight, count, at := GP64(), GP64(), GP64()
	MOVQ(U32(lanes), eight)
	MOVQ(lane, at)
	Label("vectors")
	MOVQ(n, count)
	CMPQ(count, eight)
	CMOVQGT(eight, count)
	some := YMM()
	VMOVUPS(Mem{Base: at}, some)
	step(0, some, tailMask(count))
	VMOVUPS(some, Mem{Base: at})
	for _, p := range append(pointers, at) {
		ADDQ(imm(vector), p)
	}
	SUBQ(imm(lanes), n)
	JG(LabelRef("vectors"))
	for i := range sum {
		VMOVUPS(Mem{Base: lane, Disp: i * vector}, sum[i])
	}
	Label("fold")
	for half := len(sum) / 2; half > 0; half /= 2 {
		for i := range half {
			VADDPS(sum[i+half], sum[i], sum[i])
		}
	}
	returnFloat(foldAdd(sum[0]))
	finish()
}

func rowSumKernel() {
	TEXT("sumSIMD", noSplit, "func(lane, x *float32, n int) float32")
	lane, x, n := param("lane"), param("x"), param("n")
	sumRows(lane, n, []reg.GPVirtual{x}, func(at int, sum, mask reg.VecVirtual) {
		if mask == nil {
			VADDPS(Mem{Base: x, Disp: at}, sum, sum)
			return
		}
		v := YMM()
		loadLanes(Mem{Base: x, Disp: at}, mask, v)
		VADDPS(v, sum, v) // −0 + 0 would be +0 in the lanes of no element
		VBLENDVPS(mask, v, sum, sum)
	})
}

func sumSquaresKernel() {
	TEXT("sumSquaresSIMD", noSplit, "func(lane, x *float32, n int, mean float32) float32")
	lane, x, n, mean := param("lane"), param("x"), param("n"), broadcastParam("mean")
	sumRows(lane, n, []reg.GPVirtual{x}, func(at int, sum, mask reg.VecVirtual) {
		v := YMM()
		loadLanes(Mem{Base: x, Disp: at}, mask, v)
		VSUBPS(mean, v, v)
		if mask != nil {
			VANDPS(mask, v, v)
		}
		VFMADD231PS(v, v, sum)
	})
}

func addSquaresKernel() {
	TEXT("addSquaresSIMD", noSplit, "func(lane, dst, a, b *float32, n int) float32")
	lane, dst, a, b, n := param("lane"), param("dst"), param("a"), param("b"), param("n")
	sumRows(lane, n, []reg.GPVirtual{dst, a, b}, func(at int, sum, mask reg.VecVirtual) {
		v, w := YMM(), YMM()
		loadLanes(Mem{Base: a, Disp: at}, mask, v)
		loadLanes(Mem{Base: b, Disp: at}, mask, w)
		VADDPS(w, v, v)
		storeLanes(v, mask, Mem{Base: dst, Disp: at})
		VFMADD231PS(v, v, sum)
	})
}

// advanceVector moves pointers past a vector.
func advanceVector(pointers ...reg.GPVirtual) func() {
	return func() {
		for _, p := range pointers {
			ADDQ(imm(vector), p)
		}
	}
}

func scaleRowKernel() {
	TEXT("scaleSIMD", noSplit, "func(dst, x *float32, n int, r float32, xAhead, dstAhead int)")
	dst, x, n, r := param("dst"), param("x"), param("n"), broadcastParam("r")
	eachLine(n, []reg.GPVirtual{dst, x}, prefetchAhead(dst, x), func(at int, mask reg.VecVirtual) {
		v := YMM()
		loadLanes(Mem{Base: x, Disp: at}, mask, v)
		VMULPS(r, v, v)
		storeLanes(v, mask, Mem{Base: dst, Disp: at})
	})
	finish()
}

func scaleWeightedKernel() {
	TEXT("scaleWeightedSIMD", noSplit,
		"func(dst, x, weight *float32, n int, r float32, xAhead, dstAhead int)")
	dst, x, weight, n, r := param("dst"), param("x"), param("weight"), param("n"), broadcastParam("r")
	pointers := []reg.GPVirtual{dst, x, weight}
	eachLine(n, pointers, prefetchAhead(dst, x), func(at int, mask reg.VecVirtual) {
		v, w := YMM(), YMM()
		loadLanes(Mem{Base: x, Disp: at}, mask, v)
		loadLanes(Mem{Base: weight, Disp: at}, mask, w)
		VMULPS(r, v, v)
		VMULPS(w, v, v)
		storeLanes(v, mask, Mem{Base: dst, Disp: at})
	})
	finish()
}

func normalizeRowKernel() {
	TEXT("normalizeSIMD", noSplit,
		"func(dst, x, weight, bias *float32, n int, mean, r float32, xAhead, dstAhead int)")
	dst, x, weight, bias, n := param("dst"), param("x"), param("weight"), param("bias"), param("n")
	mean, r := broadcastParam("mean"), broadcastParam("r")
	pointers := []reg.GPVirtual{dst, x, weight, bias}
	eachLine(n, pointers, prefetchAhead(dst, x), func(at int, mask reg.VecVirtual) {
		v, w, b := YMM(), YMM(), YMM()
		loadLanes(Mem{Base: x, Disp: at}, mask, v)
		loadLanes(Mem{Base: weight, Disp: at}, mask, w)
		loadLanes(Mem{Base: bias, Disp: at}, mask, b)
		VSUBPS(mean, v, v)
		VMULPS(r, v, v)
		VFMADD213PS(b, w, v) // d·r·weight + bias
		storeLanes(v, mask, Mem{Base: dst, Disp: at})
	})
	finish()
}

// pairKernel is dst = f(a, b, dst) element by element.
func pairKernel(name string, f func(a, b, dst reg.VecVirtual) reg.VecVirtual) {
	updates, signature := name == "multiplyAddSIMD", "func(dst, a, b *float32, n int)"
	if !updates {
		signature = "func(dst, a, b *float32, n, xAhead, dstAhead int)"
	}
	TEXT(name, noSplit, signature)
	dst, a, b, n := param("dst"), param("a"), param("b"), param("n")
	beside := func() {}
	if !updates {
		beside = prefetchAhead(dst, a, b)
	}
	eachLine(n, []reg.GPVirtual{dst, a, b}, beside, func(at int, mask reg.VecVirtual) {
		v, w, u := YMM(), YMM(), YMM()
		loadLanes(Mem{Base: a, Disp: at}, mask, v)
		loadLanes(Mem{Base: b, Disp: at}, mask, w)
		if updates {
			loadLanes(Mem{Base: dst, Disp: at}, mask, u)
		}
		storeLanes(f(v, w, u), mask, Mem{Base: dst, Disp: at})
	})
	finish()
}

// rotateHalvesKernel turns n pairs that are half elements apart.
func rotateHalvesKernel() {
	TEXT("rotateHalvesSIMD", noSplit, "func(dst, x, c, s *float32, n, half int, flip float32)")
	dst, x, c, s, n := param("dst"), param("x"), param("c"), param("s"), param("n")
	half, flip := param("half"), broadcastParam("flip")
	second := func(base reg.GPVirtual) Mem { return Mem{Base: base, Index: half, Scale: 4} }
	eachVector(n, func(mask reg.VecVirtual) {
		x0, x1, cosine, sine, y := YMM(), YMM(), YMM(), YMM(), YMM()
		loadLanes(Mem{Base: x}, mask, x0)
		loadLanes(second(x), mask, x1)
		loadLanes(Mem{Base: c}, mask, cosine)
		loadLanes(Mem{Base: s}, mask, sine)
		VXORPS(flip, sine, sine)
		VMULPS(sine, x1, y)
		VMULPS(sine, x0, sine)
		VFMSUB231PS(cosine, x0, y)    // x₀·c − x₁·s
		VFMADD231PS(cosine, x1, sine) // x₁·c + x₀·s
		storeLanes(y, mask, Mem{Base: dst})
		storeLanes(sine, mask, second(dst))
	}, advanceVector(dst, x, c, s))
	finish()
}

// rotatePairsKernel turns n pairs that are neighbours, four at a time.
func rotatePairsKernel() {
	TEXT("rotatePairsSIMD", noSplit, "func(dst, x, c, s *float32, n int, flip float32)")
	dst, x, c, s, n := param("dst"), param("x"), param("c"), param("s"), param("n")
	flip := broadcastParam("flip")
	twice := func(base, count reg.GPVirtual) reg.VecVirtual { // each of four elements twice
		v := YMM()
		if count == nil {
			VPMOVZXDQ(Mem{Base: base}, v)
		} else {
			few := XMM()
			VMASKMOVPS(Mem{Base: base}, tailMask(count).AsX(), few)
			VPMOVZXDQ(few, v)
		}
		VMOVSLDUP(v, v)
		return v
	}
	four := func(count reg.GPVirtual) {
		v, swapped := YMM(), YMM()
		var mask reg.VecVirtual
		cosine, sine := twice(c, count), twice(s, count)
		if count != nil {
			ADDQ(count, count)
			mask = tailMask(count)
		}
		loadLanes(Mem{Base: x}, mask, v)
		VXORPS(flip, sine, sine)
		VPERMILPS(Imm(0xb1), v, swapped)
		VMULPS(sine, swapped, swapped)
		VFMADDSUB213PS(swapped, cosine, v) // x₀·c − x₁·s, x₁·c + x₀·s
		storeLanes(v, mask, Mem{Base: dst})
	}
	SUBQ(imm(4), n)
	JL(LabelRef("rest"))
	Label("pairs")
	four(nil)
	ADDQ(imm(vector), dst)
	ADDQ(imm(vector), x)
	ADDQ(imm(vector/2), c)
	ADDQ(imm(vector/2), s)
	SUBQ(imm(4), n)
	JGE(LabelRef("pairs"))
	Label("rest")
	ADDQ(imm(4), n)
	JE(LabelRef("done"))
	four(n)
	Label("done")
	finish()
}

// columnMaximaKernel is best = max(best, each of some rows) + 0. Two rows go together, of which one
// comparison finds whether one is NaN: a maximum of NaN and a number may be the number.
func columnMaximaKernel() {
	TEXT("columnMaximaSIMD", noSplit, "func(best, x *float32, n, rows, stride int)")
	best, x, n, rows, stride := param("best"), param("x"), param("n"), param("rows"), param("stride")
	at, left := GP64(), GP64()
	top, nan, v, t := newVectors(panel/lanes), newVectors(panel/lanes), newVectors(panel/lanes), YMM()
	SHLQ(Imm(2), stride)
	take := func(i int, other Op) {
		VCMPPS(Imm(unordered), other, v[i], t)
		VORPS(t, nan[i], nan[i])
		VMAXPS(other, v[i], v[i])
		VMAXPS(v[i], top[i], top[i])
	}
	Label("columns")
	for i := range top {
		VMOVUPS(Mem{Base: best, Disp: i * vector}, top[i])
		VCMPPS(Imm(unordered), top[i], top[i], nan[i])
	}
	MOVQ(x, at)
	MOVQ(rows, left)
	SUBQ(imm(2), left)
	JL(LabelRef("last"))
	Label("pairs")
	for i := range top {
		VMOVUPS(Mem{Base: at, Disp: i * vector}, v[i])
		take(i, Mem{Base: at, Index: stride, Scale: 1, Disp: i * vector})
	}
	LEAQ(Mem{Base: at, Index: stride, Scale: 2}, at)
	SUBQ(imm(2), left)
	JGE(LabelRef("pairs"))
	Label("last")
	ADDQ(imm(2), left)
	JE(LabelRef("end"))
	for i := range top {
		VMOVUPS(Mem{Base: at, Disp: i * vector}, v[i])
		take(i, v[i])
	}
	Label("end")
	VXORPS(t, t, t)
	for i := range top {
		VADDPS(t, top[i], top[i])
		VORPS(nan[i], top[i], top[i])
		VMOVUPS(top[i], Mem{Base: best, Disp: i * vector})
	}
	ADDQ(imm(panelBytes), x)
	ADDQ(imm(panelBytes), best)
	SUBQ(imm(panel), n)
	JNE(LabelRef("columns"))
	finish()
}
