package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rotateKernel is the Walsh–Hadamard transform of blocks: passes for h = 1, 2, 4, … make a + b and
// a − b of elements that are h apart. The first three are within a vector and go together, and so
// does all that blocks of less than a vector need.
func rotateKernel() {
	TEXT("rotateSIMD", noSplit, "func(x *float32, n, block int, factor float32)")
	x, n, block, factor := param("x"), param("n"), param("block"), broadcastParam("factor")
	at, left := GP64(), GP64()
	MOVQ(x, at)
	MOVQ(n, left)
	eachVector(left, func(mask reg.VecVirtual) {
		v := YMM()
		load(Mem{Base: at}, mask, v)
		within := unique("within")
		for i, swap := range []func(to reg.VecVirtual){
			func(to reg.VecVirtual) { VPERMILPS(Imm(0xb1), v, to) },
			func(to reg.VecVirtual) { VPERMILPS(Imm(0x4e), v, to) },
			func(to reg.VecVirtual) { VPERM2F128(Imm(1), v, v, to) },
		} {
			if i > 0 {
				CMPQ(block, imm(1<<i))
				JE(LabelRef(within))
			}
			other, sum := YMM(), YMM()
			swap(other)
			VADDPS(other, v, sum)
			VSUBPS(v, other, v)
			VBLENDPS(Imm([]uint64{0xaa, 0xcc, 0xf0}[i]), v, sum, v)
		}
		Label(within)
		whole := unique("whole")
		CMPQ(block, imm(lanes))
		JG(LabelRef(whole))
		VMULPS(factor, v, v)
		Label(whole)
		store(v, mask, Mem{Base: at})
	}, func() { ADDQ(imm(vector), at) })

	h := GP64()
	MOVQ(U32(vector), h)
	rotatePasses(x, n, block, h, factor, YMM)
}

// rotatePasses is the passes over pairs of vectors, from h elements apart on, 4·h bytes. The last
// one multiplies.
func rotatePasses(x, n, block, h reg.GPVirtual, factor reg.VecVirtual, vec func() reg.VecVirtual) {
	Comment("Passes over pairs of vectors, h in bytes. The last one multiplies.")
	size := int(factor.Size())
	SHLQ(Imm(2), block)
	SHLQ(Imm(2), n)
	ADDQ(x, n)
	one := vec()
	if size == avx512Vector {
		VBROADCASTSS(f32(1), one)
	} else {
		VMOVUPS(f32(1), one)
	}
	Label("pass")
	CMPQ(h, block)
	JGE(LabelRef("end"))
	f, twice := vec(), GP64()
	LEAQ(Mem{Base: h, Index: h, Scale: 1}, twice)
	VMOVUPS(one, f)
	CMPQ(twice, block)
	JL(LabelRef("plain"))
	VMOVUPS(factor, f)
	Label("plain")
	lo, end := GP64(), GP64()
	MOVQ(x, lo)
	Label("pair")
	LEAQ(Mem{Base: lo, Index: h, Scale: 1}, end)
	Label("vectors")
	a, b, sum := vec(), vec(), vec()
	VMOVUPS(Mem{Base: lo}, a)
	VMOVUPS(Mem{Base: lo, Index: h, Scale: 1}, b)
	VADDPS(b, a, sum)
	VSUBPS(b, a, a)
	VMULPS(f, sum, sum)
	VMULPS(f, a, a)
	VMOVUPS(sum, Mem{Base: lo})
	VMOVUPS(a, Mem{Base: lo, Index: h, Scale: 1})
	ADDQ(imm(size), lo)
	CMPQ(lo, end)
	JL(LabelRef("vectors"))
	ADDQ(h, lo)
	CMPQ(lo, n)
	JL(LabelRef("pair"))
	MOVQ(twice, h)
	JMP(LabelRef("pass"))
	Label("end")
	finish()
}

// rotateInRegisters is up to how many vectors of 16 lanes stay in registers from the first pass on.
const rotateInRegisters = 8

// rotateAVX512Kernel is rotateKernel with 16 lanes, for blocks of 16 elements or more. Up to 128 of
// a block go through all their passes in registers.
func rotateAVX512Kernel() {
	TEXT("rotateAVX512", noSplit, "func(x *float32, n, block int, factor float32)")
	x, n, block, factor := param("x"), param("n"), param("block"), ZMM()
	VBROADCASTSS(paramAddress("factor"), factor)
	var upper [4]reg.OpmaskVirtual // lanes that are the second of a pair, 1, 2, 4 and 8 apart
	for i, lanes := range []uint32{0xaaaa, 0xcccc, 0xf0f0, 0xff00} {
		bits := GP32()
		MOVL(U32(lanes), bits)
		upper[i] = K()
		KMOVW(bits, upper[i])
	}
	h := GP64()
	for vecs := rotateInRegisters; vecs > 0; vecs /= 2 {
		less := fmt.Sprint("lessThan", vecs)
		if vecs > 1 {
			CMPQ(block, imm(vecs*avx512Lanes))
			JL(LabelRef(less))
		}
		MOVQ(U32(vecs*avx512Vector), h)
		rotateVectors(x, n, block, vecs, factor, upper)
		JMP(LabelRef("far"))
		Label(less)
	}
	Label("far")
	rotatePasses(x, n, block, h, factor, ZMM)
}

// rotateVectors takes some vectors at a time through the passes within them and between them.
// These are all passes unless blocks are larger.
func rotateVectors(x, n, block reg.GPVirtual, vecs int, factor reg.VecVirtual,
	upper [4]reg.OpmaskVirtual) {
	Commentf("%d vectors at a time.", vecs)
	at, left, loop := GP64(), GP64(), fmt.Sprint("vectors", vecs)
	MOVQ(x, at)
	MOVQ(n, left)
	Label(loop)
	v := make([]reg.VecVirtual, vecs)
	for i := range v {
		v[i] = ZMM()
		VMOVUPS(Mem{Base: at, Disp: i * avx512Vector}, v[i])
	}
	for pass, swap := range []func(from, to reg.VecVirtual){
		func(from, to reg.VecVirtual) { VPERMILPS(Imm(0xb1), from, to) },
		func(from, to reg.VecVirtual) { VPERMILPS(Imm(0x4e), from, to) },
		func(from, to reg.VecVirtual) { VSHUFF32X4(Imm(0xb1), from, from, to) },
		func(from, to reg.VecVirtual) { VSHUFF32X4(Imm(0x4e), from, from, to) },
	} {
		for i := range v {
			other, sum := ZMM(), ZMM()
			swap(v[i], other)
			VADDPS(other, v[i], sum)
			VSUBPS(v[i], other, upper[pass], sum)
			v[i] = sum
		}
	}
	for apart := 1; apart < vecs; apart *= 2 {
		for i := range v {
			if j := i + apart; i&apart == 0 {
				sum := ZMM()
				VADDPS(v[j], v[i], sum)
				VSUBPS(v[j], v[i], v[j])
				v[i] = sum
			}
		}
	}
	if vecs == rotateInRegisters {
		CMPQ(block, imm(vecs*avx512Lanes))
		JG(LabelRef("more"))
	}
	for i := range v {
		VMULPS(factor, v[i], v[i])
	}
	if vecs == rotateInRegisters {
		Label("more")
	}
	for i := range v {
		VMOVUPS(v[i], Mem{Base: at, Disp: i * avx512Vector})
	}
	ADDQ(imm(vecs*avx512Vector), at)
	SUBQ(imm(vecs*avx512Lanes), left)
	JNE(LabelRef(loop))
}
