package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rotating is the common part of the kernels of the Walsh–Hadamard transform of blocks, with 8 or
// 16 lanes: passes for h = 1, 2, 4, … replace elements a and b that are h apart by a + b and a − b,
// and all are multiplied by a factor at the end. Passes within a few vectors stay in registers.
// Rows are read from x and written to dst, which may be the same.
type rotating struct {
	vec    func() reg.VecVirtual
	lanes  int
	within []pass // of a vector

	x, dst, n, block, at, out, left, far reg.GPVirtual
	factor                               reg.VecVirtual
}

// pass is a pass within a vector: the partner of each lane, and 1 for the first lane of a pair, −1
// for the second.
type pass struct {
	swap  func(from, to Op)
	signs Op
}

// loadSigns loads the signs of passes within 16 lanes.
func loadSigns(within []pass) {
	for i := range within {
		signs := ZMM()
		VMOVUPS(signsOf(avx512Lanes, 1<<i), signs)
		within[i].signs = signs
	}
}

// rotateInRegisters is up to how many vectors stay in registers from the first pass on.
const rotateInRegisters = 8

// signsOf is a table of 1 and −1 for a distance.
func signsOf(count, apart int) Mem {
	var w []uint32
	for i := range count {
		w = append(w, []uint32{0x3f800000, 0xbf800000}[i/apart%2])
	}
	return wordTable(fmt.Sprintf("signs%dOf%d", apart, count), w...)
}

// rotateKernel has 8 lanes, and handles blocks of less than a vector, too.
func rotateKernel() {
	r := rotating{vec: YMM, lanes: lanes, within: []pass{
		{func(from, to Op) { VPERMILPS(Imm(0xb1), from, to) }, signsOf(lanes, 1)},
		{func(from, to Op) { VPERMILPS(Imm(0x4e), from, to) }, signsOf(lanes, 2)},
		{func(from, to Op) { VPERM2F128(Imm(1), from, from, to) }, signsOf(lanes, 4)},
	}}
	r.emit("rotateRowsSIMD")
}

// rotateAVX512Kernel has 16 lanes, for blocks of 16 elements or more.
func rotateAVX512Kernel() {
	r := rotating{vec: ZMM, lanes: avx512Lanes, within: passesWithin16()}
	r.emit("rotateRowsAVX512")
}

// passesWithin16 are the passes within a vector of 16 lanes.
func passesWithin16() []pass {
	return []pass{
		{swap: func(from, to Op) { VPERMILPS(Imm(0xb1), from, to) }},
		{swap: func(from, to Op) { VPERMILPS(Imm(0x4e), from, to) }},
		{swap: func(from, to Op) { VSHUFF32X4(Imm(0xb1), from, from, to) }},
		{swap: func(from, to Op) { VSHUFF32X4(Imm(0x4e), from, from, to) }},
	}
}

func (k *rotating) emit(name string) {
	TEXT(name, noSplit, "func(dst, x *float32, rows, n, dstStride, xStride, block int, "+
		"factor float32)")
	k.dst, k.x, k.n, k.block = param("dst"), param("x"), param("n"), param("block")
	dstStride, xStride := param("dstStride"), param("xStride")
	k.at, k.out, k.left, k.far = GP64(), GP64(), GP64(), GP64()
	k.factor = k.vec()
	VBROADCASTSS(paramAddress("factor"), k.factor)
	if k.lanes == avx512Lanes { // there is room for them
		loadSigns(k.within)
	}
	SHLQ(Imm(2), dstStride)
	SHLQ(Imm(2), xStride)
	Label("row")
	MOVQ(k.x, k.at)
	MOVQ(k.dst, k.out)
	MOVQ(k.n, k.left)
	rowsLater(k.far, k.x, xStride)
	SUBQ(k.x, k.far)
	for vecs := rotateInRegisters; vecs > 0; vecs /= 2 {
		less := fmt.Sprint("lessThan", vecs)
		if vecs > 1 {
			CMPQ(k.block, imm(vecs*k.lanes))
			JL(LabelRef(less))
			k.vectors(vecs)
			JMP(LabelRef("far"))
			Label(less)
			continue
		}
		k.single()
	}
	Label("far")
	CMPQ(k.block, imm(rotateInRegisters*k.lanes))
	JLE(LabelRef("next"))
	k.passes()
	Label("next")
	ADDQ(xStride, k.x)
	ADDQ(dstStride, k.dst)
	DECQ(paramAddress("rows"))
	JNE(LabelRef("row"))
	finish()
}

// pass makes sums and differences of lanes of a vector. One multiply-add by 1 or −1 does both.
func (k *rotating) pass(p *pass, v reg.VecVirtual) {
	other := k.vec()
	p.swap(v, other)
	VFMADD132PS(p.signs, other, v)
}

// vectors computes the passes within and between some vectors at a time. These are all passes
// unless blocks are larger.
func (k *rotating) vectors(vecs int) {
	Commentf("%d vectors at a time.", vecs)
	size, loop := 4*k.lanes, fmt.Sprint("vectors", vecs)
	Label(loop)
	v := make([]reg.VecVirtual, vecs)
	for i := range v {
		v[i] = k.vec()
		VMOVUPS(Mem{Base: k.at, Disp: i * size}, v[i])
		if i*size%64 == 0 {
			PREFETCHT0(Mem{Base: k.at, Index: k.far, Scale: 1, Disp: i * size})
		}
	}
	for p := range k.within {
		for _, v := range v {
			k.pass(&k.within[p], v)
		}
	}
	for apart := 1; apart < vecs; apart *= 2 {
		for i := range v {
			if j := i + apart; i&apart == 0 {
				sum := k.vec()
				VADDPS(v[j], v[i], sum)
				VSUBPS(v[j], v[i], v[j])
				v[i] = sum
			}
		}
	}
	if vecs == rotateInRegisters {
		CMPQ(k.block, imm(vecs*k.lanes))
		JG(LabelRef("more"))
	}
	for _, v := range v {
		VMULPS(k.factor, v, v)
	}
	if vecs == rotateInRegisters {
		Label("more")
	}
	for i, v := range v {
		VMOVUPS(v, Mem{Base: k.out, Disp: i * size})
	}
	ADDQ(imm(vecs*size), k.at)
	ADDQ(imm(vecs*size), k.out)
	SUBQ(imm(vecs*k.lanes), k.left)
	JNE(LabelRef(loop))
}

// single computes a vector at a time, and with 8 lanes skips passes that smaller blocks lack.
func (k *rotating) single() {
	if k.lanes == avx512Lanes {
		k.vectors(1)
		return
	}
	eachVector(k.left, func(mask reg.VecVirtual) {
		v := k.vec()
		loadLanes(Mem{Base: k.at}, mask, v)
		if mask == nil {
			PREFETCHT0(Mem{Base: k.at, Index: k.far, Scale: 1})
		}
		within := unique("within")
		for i := range k.within {
			if i > 0 {
				CMPQ(k.block, imm(1<<i))
				JE(LabelRef(within))
			}
			k.pass(&k.within[i], v)
		}
		Label(within)
		VMULPS(k.factor, v, v)
		storeLanes(v, mask, Mem{Base: k.out})
	}, func() {
		ADDQ(imm(vector), k.at)
		ADDQ(imm(vector), k.out)
	})
}

// passes computes, in dst, the passes over pairs of vectors that are too far apart to stay in
// registers. The last pass multiplies by the factor.
func (k *rotating) passes() {
	Comment("Passes over pairs of vectors, h in bytes. The last one multiplies.")
	size := 4 * k.lanes
	h, bytes, end, twice, f := GP64(), GP64(), k.far, k.left, k.vec()
	MOVQ(k.block, bytes)
	SHLQ(Imm(2), bytes)
	LEAQ(Mem{Base: k.dst, Index: k.n, Scale: 4}, end)
	MOVQ(U32(rotateInRegisters*size), h)
	Label("pass")
	LEAQ(Mem{Base: h, Index: h, Scale: 1}, twice)
	VBROADCASTSS(f32(1), f)
	CMPQ(twice, bytes)
	JL(LabelRef("plain"))
	VMOVUPS(k.factor, f)
	Label("plain")
	lo, last := k.at, k.out
	MOVQ(k.dst, lo)
	Label("pair")
	LEAQ(Mem{Base: lo, Index: h, Scale: 1}, last)
	Label("pairs")
	a, b, sum := k.vec(), k.vec(), k.vec()
	VMOVUPS(Mem{Base: lo}, a)
	VMOVUPS(Mem{Base: lo, Index: h, Scale: 1}, b)
	VADDPS(b, a, sum)
	VSUBPS(b, a, a)
	VMULPS(f, sum, sum)
	VMULPS(f, a, a)
	VMOVUPS(sum, Mem{Base: lo})
	VMOVUPS(a, Mem{Base: lo, Index: h, Scale: 1})
	ADDQ(imm(size), lo)
	CMPQ(lo, last)
	JL(LabelRef("pairs"))
	ADDQ(h, lo)
	CMPQ(lo, end)
	JL(LabelRef("pair"))
	MOVQ(twice, h)
	CMPQ(h, bytes)
	JL(LabelRef("pass"))
}
