package main

import (
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

	Comment("Passes over pairs of vectors, h in bytes. The last one multiplies.")
	SHLQ(Imm(2), block)
	SHLQ(Imm(2), n)
	ADDQ(x, n)
	h := GP64()
	MOVQ(U32(vector), h)
	one := YMM()
	VMOVUPS(f32(1), one)
	Label("pass")
	CMPQ(h, block)
	JGE(LabelRef("end"))
	f, twice := YMM(), GP64()
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
	a, b, sum := YMM(), YMM(), YMM()
	VMOVUPS(Mem{Base: lo}, a)
	VMOVUPS(Mem{Base: lo, Index: h, Scale: 1}, b)
	VADDPS(b, a, sum)
	VSUBPS(b, a, a)
	VMULPS(f, sum, sum)
	VMULPS(f, a, a)
	VMOVUPS(sum, Mem{Base: lo})
	VMOVUPS(a, Mem{Base: lo, Index: h, Scale: 1})
	ADDQ(imm(vector), lo)
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
