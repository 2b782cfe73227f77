package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Loops over contiguous elements: whole vectors, then one masked vector for the
// rest, so that nothing after the slice is touched.

var loops int

// eachVector runs body over n elements. mask is nil for whole vectors; body
// must use it for its loads and stores, and advance must move its pointers.
func eachVector(n reg.GPVirtual, body func(mask reg.VecVirtual), advance func()) {
	loops++
	loop, tail, end := fmt.Sprintf("loop%d", loops), fmt.Sprintf("tail%d", loops), fmt.Sprintf("end%d", loops)
	SUBQ(imm(lanes), n)
	JL(LabelRef(tail))
	Label(loop)
	body(nil)
	advance()
	SUBQ(imm(lanes), n)
	JGE(LabelRef(loop))
	Label(tail)
	ADDQ(imm(lanes), n)
	JE(LabelRef(end))
	body(tailMask(n))
	Label(end)
}

// tailMask has ones in the first n of 8 lanes.
func tailMask(n reg.GPVirtual) reg.VecVirtual {
	at, mask := GP64(), YMM()
	table := tailMasks()
	LEAQ(table.Offset(vector), at)
	shift := GP64()
	MOVQ(n, shift)
	SHLQ(Imm(2), shift)
	SUBQ(shift, at)
	VMOVUPS(Mem{Base: at}, mask)
	return mask
}

// vectors returns n new registers.
func vectors(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = YMM()
	}
	return v
}

func load(m Mem, mask reg.VecVirtual, v reg.VecVirtual) {
	if mask == nil {
		VMOVUPS(m, v)
		return
	}
	VMASKMOVPS(m, mask, v)
}

func store(v, mask reg.VecVirtual, m Mem) {
	if mask == nil {
		VMOVUPS(v, m)
		return
	}
	VMASKMOVPS(v, mask, m)
}

func param(name string) reg.GPVirtual {
	r := GP64()
	Load(Param(name), r)
	return r
}

// spill stores an argument in a stack slot, by way of a0.
func spill(name string, slot Mem) {
	Load(Param(name), a0)
	MOVQ(a0, slot)
}

func broadcastParam(name string) reg.VecVirtual {
	v := YMM()
	m, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(m.Addr, v)
	return v
}

func finish() {
	VZEROUPPER()
	RET()
}

// mapKernel is dst = f(x) element by element.
func mapKernel(name, signature, dst, x string, f func(v reg.VecVirtual) reg.VecVirtual) {
	TEXT(name, 4, signature)
	d, s, n := param(dst), param(x), param("n")
	eachVector(n, func(mask reg.VecVirtual) {
		v := YMM()
		load(Mem{Base: s}, mask, v)
		store(f(v), mask, Mem{Base: d})
	}, func() {
		ADDQ(imm(vector), s)
		if d != s {
			ADDQ(imm(vector), d)
		}
	})
	finish()
}

func scaleKernel() {
	TEXT("scaleSIMD", 4, "func(dst, x *float32, n int, f float32)")
	dst, x, n, f := param("dst"), param("x"), param("n"), broadcastParam("f")
	zero := YMM()
	VXORPS(zero, zero, zero)
	eachVector(n, func(mask reg.VecVirtual) {
		v := YMM()
		load(Mem{Base: x}, mask, v)
		VMULPS(f, v, v)
		VADDPS(zero, v, v)
		store(v, mask, Mem{Base: dst})
	}, func() {
		ADDQ(imm(vector), x)
		ADDQ(imm(vector), dst)
	})
	finish()
}

func normalizeKernel() {
	TEXT("normalizeSIMD", 4, "func(dst, o, l *float32, rows, n, dstStride, oStride int)")
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
		load(Mem{Base: from}, mask, v)
		VMULPS(sum, v, v)
		VADDPS(zero, v, v)
		VANDNPS(v, empty, v)
		store(v, mask, Mem{Base: to})
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

func mergeKernel() {
	TEXT("mergeSIMD", 4, "func(o, b *float32, n int, x, y float32)")
	o, b, n := param("o"), param("b"), param("n")
	x, y := broadcastParam("x"), broadcastParam("y")
	eachVector(n, func(mask reg.VecVirtual) {
		ov, bv := YMM(), YMM()
		load(Mem{Base: o}, mask, ov)
		load(Mem{Base: b}, mask, bv)
		VMULPS(y, bv, bv)
		VFMADD213PS(bv, x, ov) // o = o·x + b·y
		store(ov, mask, Mem{Base: o})
	}, func() {
		ADDQ(imm(vector), o)
		ADDQ(imm(vector), b)
	})
	finish()
}

// newMaximum is top = max(a, b) + 0, a NaN b not counting, and base = top, or 0 if top is −Inf; masked has ones there.
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
	TEXT("mergeSumsSIMD", 4, "func(m, l, m2, l2, x, y *float32, n int, c float32)")
	m, l, m2, l2, x, y, n := param("m"), param("l"), param("m2"), param("l2"), param("x"), param("y"), param("n")
	c := broadcastParam("c")
	eachVector(n, func(mask reg.VecVirtual) {
		a, b := YMM(), YMM()
		load(Mem{Base: m}, mask, a)
		load(Mem{Base: m2}, mask, b)
		top, base, _ := newMaximum(a, b)
		store(top, mask, Mem{Base: m})
		VSUBPS(base, a, a)
		VSUBPS(base, b, b)
		xv := exp2(a, c)
		store(xv, mask, Mem{Base: x})
		yv := exp2(b, c)
		store(yv, mask, Mem{Base: y})
		la, lb := YMM(), YMM()
		load(Mem{Base: l}, mask, la)
		load(Mem{Base: l2}, mask, lb)
		VMULPS(yv, lb, lb)
		VFMADD213PS(lb, xv, la) // l = l·x + l2·y
		store(la, mask, Mem{Base: l})
	}, func() {
		for _, p := range []reg.GPVirtual{m, l, m2, l2, x, y} {
			ADDQ(imm(vector), p)
		}
	})
	finish()
}

func alibiKernel() {
	TEXT("alibiSIMD", 4, "func(s *float32, n int, slope float32, first int)")
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

// addBiasKernel computes s = FMA(s, u, bias) first and notes only whether there is a −Inf in the row.
// Where there is one, a second pass finds out where.
func addBiasKernel() {
	TEXT("addBiasSIMD", 4, "func(s, bias *float32, visible *uint64, rows, step, stride, lo, n int, u float32) (every uint64)")
	s, bias, visible, rows := param("s"), param("bias"), param("visible"), param("rows")
	n, least, every, unit := GP64(), YMM(), allOnes(), broadcastParam("u")
	add := func(s, bias reg.GPVirtual, disp int, mask reg.VecVirtual) {
		b, sum := YMM(), YMM()
		load(Mem{Base: bias, Disp: disp}, mask, b)
		load(Mem{Base: s, Disp: disp}, mask, sum)
		VFMADD213PS(b, unit, sum)
		store(sum, mask, Mem{Base: s, Disp: disp})
		VMINPS(least, b, least) // the old minimum wins if b is NaN; lanes that the mask leaves out are 0
	}
	Label("row")
	VXORPS(least, least, least)
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
	VCMPPS(Imm(equal), u32(bitsNegInf), least, least)
	bits := GP64()
	VMOVMSKPS(least, bits.As32())
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

// nextPairs goes to the next row of a bias or mask with elements of some bytes, and of the bits of visible keys.
func nextPairs(pairs, visible reg.GPVirtual, size uint8) {
	by := GP64()
	Load(Param("stride"), by)
	LEAQ(Mem{Base: pairs, Index: by, Scale: size}, pairs)
	Load(Param("step"), by)
	LEAQ(Mem{Base: visible, Index: by, Scale: 8}, visible)
}

// maskKeysKernel takes 32 booleans at once, then 8, then single ones. A Go bool is a byte of 0 or 1.
func maskKeysKernel() {
	TEXT("maskKeysSIMD", 4, "func(mask *bool, visible *uint64, rows, step, stride, lo, n int) (every uint64)")
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

func weightsKernel() {
	TEXT("weightsSIMD", 4, "func(dst, s *float32, n int, m, r, c float32, visible uint64)")
	dst, s, n := param("dst"), param("s"), param("n")
	m, r, c, visible := broadcastParam("m"), broadcastParam("r"), broadcastParam("c"), param("visible")
	eachVector(n, func(mask reg.VecVirtual) {
		v, keep, bits := YMM(), YMM(), XMM()
		VMOVD(visible.As32(), bits)
		VPBROADCASTD(bits, keep)
		VPAND(bitOfLane(), keep, keep)
		VPCMPEQD(bitOfLane(), keep, keep)
		load(Mem{Base: s}, mask, v)
		VSUBPS(m, v, v)
		p := exp2(v, c)
		VMULPS(r, p, p)
		VANDPS(keep, p, p)
		store(p, mask, Mem{Base: dst})
	}, func() {
		ADDQ(imm(vector), dst)
		ADDQ(imm(vector), s)
		SHRQ(Imm(lanes), visible)
	})
	finish()
}

// allFiniteKernel sums x·0, which is NaN where x is not finite, in several chains: one
// would wait for itself.
func allFiniteKernel() {
	TEXT("allFiniteSIMD", 4, "func(x *float32, n int) bool")
	x, n := param("x"), param("n")
	zero, sums := YMM(), vectors(8)
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
		load(Mem{Base: x}, mask, v)
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
