package main

import (
	"fmt"
	"math"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Codes of four bits (kernel_int4.go of the package): numbers become codes, and codes the levels
// that kernels of I8 read.

// int4Kernels emits everything about codes.
func int4Kernels() {
	encodeKernel()
	lookUpKernel("lookUpSIMD", YMM, vector)
	lookUpKernel("lookUpAVX512", ZMM, avx512Vector)
	int4Kernel("scoreInt4SIMD", int4AVX2, scoreInt8)
	int4Kernel("accumulateInt4SIMD", int4AVX2, accumulateInt8)
	int4Kernel("scoreInt4VNNISIMD", int4AVXVNNI, scoreInt8)
	int4Kernel("accumulateInt4VNNISIMD", int4AVXVNNI, accumulateInt8)
	int4Kernel("scoreInt4VNNIAVX512", int4VNNI, scoreInt8)
	int4Kernel("accumulateInt4VNNIAVX512", int4VNNI, accumulateInt8)
}

// Kernels of up to 4 rows look codes up in registers; otherwise they are the kernels of int8.go.
var (
	int4AVX2    = int8Set{groups: []tileGroup{{4, 1, sizesTo(1, 1), 1}, {1, 4, sizesTo(1, 4), 4}}}
	int4AVXVNNI = int8Set{vnni: true, groups: int4AVX2.groups}
	int4VNNI    = int8Set{wide: true, vnni: true, groups: []tileGroup{{4, 4, sizesTo(1, 4), 4},
		{1, 4, sizesTo(1, 4), 4}}}
)

// int4Codes is the state of a kernel that looks codes up.
type int4Codes struct {
	table  reg.VecPhysical
	halves Op
	even   reg.VecPhysical // ones in even bytes, where words come in pairs; nil where none is left
	upper  bool            // the current group is in the upper halves
	one    bool            // the current tile has one row and 8 lanes
}

func int4Kernel(name string, set int8Set, operation int8Operation) {
	p := newInt8Program(set, operation)
	p.codes = &int4Codes{table: p.lastRegister()}
	if p.wide {
		halves := p.lastRegister()
		p.codes.halves, p.codes.even = halves, p.lastRegister()
	} else { // too few registers
		p.codes.halves = wordTable("int4Halves", slices.Repeat([]uint32{int4Halves}, lanes)...)
	}
	p.kernel(name)
}

// lastRegister reserves the last register of the tiles.
func (p *int8Program) lastRegister() reg.VecPhysical {
	last := len(p.regs) - 1
	x := p.regs[last]
	p.regs = p.regs[:last]
	return x
}

// load loads the levels, with 128 added where they meet rows of bytes.
func (c *int4Codes) load(p *int8Program) {
	name, of := "int4Levels", int4Levels
	if p.form == byteForm {
		name, of = "int4Unsigned", nil
		for _, e := range int4Levels {
			of = append(of, e^0x80808080)
		}
	}
	if p.wide {
		VBROADCASTI32X4(wordTable(name, of...), c.table)
		VPBROADCASTD(u32(int4Halves), c.halves)
	} else {
		VBROADCASTI128(wordTable(name, of...), c.table)
	}
	if p.form == wordForm && c.even != nil {
		VPBROADCASTD(u32(int4Even), c.even)
	}
}

// lookUp loads a vector of codes and leaves the levels of one half.
func (c *int4Codes) lookUp(p *int8Program, from Mem, to reg.VecPhysical) {
	switch {
	case p.wide && c.upper:
		VPSRLW(Imm(4), from, to)
		VPANDD(to, c.halves, to)
	case p.wide:
		VPANDD(from, c.halves, to)
	default:
		VMOVDQU(from, to)
		if c.upper {
			VPSRLW(Imm(4), to, to)
		}
		VPAND(c.halves, to, to)
	}
	VPSHUFB(to, c.table, to)
}

// split looks a vector of codes up, and makes words of its even bytes and of its odd ones.
func (c *int4Codes) split(p *int8Program, from Mem, even, odd reg.VecPhysical) {
	c.lookUp(p, from, odd)
	ones := c.even
	if ones == nil {
		ones = even
		VPBROADCASTD(u32(int4Even), ones)
	}
	VPMADDUBSW(odd, ones, even)
	VPSRAW(Imm(8), odd, odd)
}

// pairsOfGroups multiplies the groups of lower and upper halves in turn: p.steps of them, of which
// the last one may be alone.
func (p *int8Program) pairsOfGroups(r int, loop string) {
	last, end := loop+"Last", loop+"End"
	SHRQ(Imm(1), stepsLeft)
	JE(LabelRef(last))
	Label(loop)
	if p.prefetches {
		p.prefetch()
	}
	p.halves(r, 2)
	p.nextGroups(r, 2)
	DECQ(stepsLeft)
	JNE(LabelRef(loop))
	Label(last)
	TESTQ(U32(1), p.steps)
	JE(LabelRef(end))
	p.halves(r, 1)
	Label(end)
}

// halves multiplies the groups of lower halves, or of both.
func (p *int8Program) halves(r, n int) {
	if p.codes.one {
		p.stepOfOneRow(n)
		return
	}
	for half := range n {
		p.codes.upper = half == 1
		p.step(r)
	}
	p.codes.upper = false
}

// One row with 8 lanes has registers left for constants, and handles both halves of a vector of
// codes at once.

// oneRow is the registers of a tile of one row.
type oneRow struct {
	sums, operands []reg.VecPhysical // operands are of the row
	halves         reg.VecPhysical
	ones           Op                // for scores all words, for values even bytes
	free           []reg.VecPhysical // two, or twice that
}

func (p *int8Program) oneRow() (r oneRow) {
	free := p.regs
	take := func(n int) (taken []reg.VecPhysical) {
		taken, free = free[:n], free[n:]
		return taken
	}
	r.sums, r.halves = take(p.n*p.vecs), take(1)[0]
	switch p.form {
	case wordForm:
		r.ones, r.operands = take(1)[0], take(2)
	case byteForm:
		r.operands = take(2)
	default:
		r.ones, r.operands = wordTable("wordsOne", slices.Repeat([]uint32{wordOnes}, lanes)...), take(3)
	}
	r.free = free[:min(4, len(free)/2*2)]
	return r
}

// vector is two registers for a vector of codes on its way.
func (r *oneRow) vector(at int) (x, y reg.VecPhysical) {
	free := r.free[2*at%len(r.free):]
	return free[0], free[1]
}

// beginOneRow sets sums to 0. In kernels of bytes they begin with the correction for signs.
func (p *int8Program) beginOneRow() {
	r := p.oneRow()
	for i, sum := range r.sums {
		switch {
		case p.form != byteForm:
			p.zero(sum)
		case i == 0:
			VPBROADCASTD(Mem{Base: a0}, sum)
		default:
			p.load(r.sums[0], sum)
		}
	}
	VPBROADCASTD(u32(int4Halves), r.halves)
	if p.form == wordForm {
		VPBROADCASTD(u32(int4Even), r.ones)
	}
}

// stepOfOneRow is halves of one row.
func (p *int8Program) stepOfOneRow(halves int) {
	switch p.form {
	case wordForm:
		p.valuesOfOneRow(halves)
	case byteForm:
		p.bytesOfOneRow(halves)
	default:
		p.scoresOfOneRow(halves)
	}
}

// bytesOfOneRow makes scores of a row of bytes.
func (p *int8Program) bytesOfOneRow(halves int) {
	r := p.oneRow()
	for half := range halves {
		VPBROADCASTD(p.rowAt(0, half), r.operands[half])
	}
	for at, sum := range r.sums {
		codes, levels := r.vector(at)
		p.load(p.vectorOf(at), codes)
		for half := range halves {
			if half == 1 {
				VPSRLW(Imm(4), codes, codes)
			}
			VPAND(r.halves, codes, levels)
			VPSHUFB(levels, p.codes.table, levels)
			vnniAdd("VPDPBUSD", r.operands[half], levels, sum)
		}
	}
}

// scoresOfOneRow inverts the signs of codes, their highest bits, where the row is negative, before
// they are looked up.
func (p *int8Program) scoresOfOneRow(halves int) {
	r := p.oneRow()
	signs, upper := r.operands[0], r.operands[1]
	signedHalf := func(half int, bit uint32, to reg.VecPhysical) {
		VPBROADCASTD(p.rowAt(0, 2*half+1), to)
		VPAND(wordTable(fmt.Sprint("int4Sign", half), slices.Repeat([]uint32{bit}, lanes)...), to, to)
	}
	if signedHalf(0, 0x08080808, signs); halves == 2 {
		signedHalf(1, 0x80808080, upper)
		VPOR(upper, signs, signs)
	}
	magnitudes := r.operands[1:]
	for half := range halves {
		VPBROADCASTD(p.rowAt(0, 2*half), magnitudes[half])
	}
	for at, sum := range r.sums {
		codes, levels := r.vector(at)
		VPXOR(p.vectorOf(at), signs, codes)
		for half := range halves {
			if half == 1 {
				VPSRLW(Imm(4), codes, codes)
			}
			VPAND(r.halves, codes, levels)
			VPSHUFB(levels, p.codes.table, levels)
			VPMADDUBSW(levels, magnitudes[half], levels)
			VPMADDWD(r.ones, levels, levels)
			VPADDD(levels, sum, sum)
		}
	}
}

// valuesOfOneRow multiplies by words.
func (p *int8Program) valuesOfOneRow(halves int) {
	r := p.oneRow()
	for half := range halves {
		for i, row := range r.operands {
			VPBROADCASTD(p.rowAt(0, 2*half+i), row)
		}
		for at, sum := range r.sums {
			odd, even := r.vector(at)
			if half == 0 {
				VPAND(p.vectorOf(at), r.halves, odd)
			} else {
				VMOVDQU(p.vectorOf(at), odd)
				VPSRLW(Imm(4), odd, odd)
				VPAND(r.halves, odd, odd)
			}
			VPSHUFB(odd, p.codes.table, odd)
			VPMADDUBSW(odd, r.ones, even)
			VPSRAW(Imm(8), odd, odd)
			p.multiplyAdd(even, r.operands[0], sum, even)
			p.multiplyAdd(odd, r.operands[1], sum, odd)
		}
	}
}

// int4Levels are the levels of the codes, four bytes a word.
var int4Levels = []uint32{0x281c1005, 0x75594536, 0xd8e4f0fb, 0x8ba7bbca}

// int4Halves has ones in the lower halves of bytes.
const int4Halves = 0x0f0f0f0f

// int4Even has ones in even bytes and zeros between: the sums of pairs of products with it are the
// even bytes as words.
const int4Even = 0x00010001

// int4Bounds are where magnitudes are rounded to the next level.
var int4Bounds = []float32{10.5, 22, 34, 47, 61.5, 79, 103}

// typedI4 looks codes up in a table of float32, of which a register has 16.
var typedI4 = typedFormat{bytes: 1, grouped: true, codes: true, keep: keepLevels, widen: widenI4}

func keepLevels(t *typedProgram) {
	t.constants = 1
	var table []uint32
	for _, e := range int4Levels {
		for i := range 4 {
			table = append(table, math.Float32bits(float32(int8(e>>(8*i)))))
		}
	}
	VMOVUPS(wordTable("int4Floats", table...), t.regs[len(t.regs)-1])
}

// widenI4 looks up the code of step u of eight: VPERMPS reads the lowest four bits.
func widenI4(t *typedProgram, m Mem, u int, to []reg.VecPhysical) {
	if u == 0 {
		VMOVDQU32(m, to[0])
	} else {
		VPSRLD(Imm(uint64(u%4*8+u/4*4)), m, to[0])
	}
	VPERMPS(t.regs[len(t.regs)-1], to[0], to[0])
}

// encodeKernel counts the bounds that a magnitude reaches, and puts its sign above.
func encodeKernel() {
	TEXT("encodeSIMD", noSplit, "func(dst *byte, x *float32, n int, scale float32)")
	dst, x, n, scale := param("dst"), param("x"), param("n"), broadcastParam("scale")
	lowest, join, abs, most := YMM(), YMM(), constant(u32(bitsAbs)), len(int4Bounds)
	bytesOf32(lowest, join)
	bounds := newVectors(most)
	for i, e := range int4Bounds {
		VBROADCASTSS(u32(math.Float32bits(e)), bounds[i])
	}
	eachVector(n, func(mask reg.VecVirtual) {
		v, code, above := YMM(), YMM(), YMM()
		loadLanes(Mem{Base: x}, mask, v)
		VDIVPS(scale, v, v)
		VPSRLD(Imm(31), v, code)
		VPSLLD(Imm(3), code, code)
		VANDPS(abs, v, v)
		for _, bound := range bounds {
			VCMPPS(Imm(atLeast), bound, v, above)
			VPSUBD(above, code, code)
		}
		VPSHUFB(lowest, code, code)
		VPERMD(code, join, code)
		if mask == nil {
			VMOVQ(code.AsX(), Mem{Base: dst})
			return
		}
		storeRest(code.AsX(), dst, n, 1)
	}, func() {
		ADDQ(imm(vector), x)
		ADDQ(imm(lanes), dst)
	})
	finish()
}

const atLeast = 13 // of VCMPPS: GE, ordered

// lookUpKernel looks up the lower and the upper halves of 64 bytes at a time.
func lookUpKernel(name string, register func() reg.VecVirtual, size int) {
	TEXT(name, noSplit, "func(dst, src *byte, rows, vectors, row, step, upper, ahead int)")
	dst, src, rows, row, step := param("dst"), param("src"), param("rows"), param("row"),
		param("step")
	upper, ahead := param("upper"), param("ahead")
	table, halves := register(), register()
	if size == avx512Vector {
		VBROADCASTI32X4(wordTable("int4Levels", int4Levels...), table)
	} else {
		VBROADCASTI128(wordTable("int4Levels", int4Levels...), table)
	}
	VPBROADCASTD(u32(int4Halves), halves)
	ADDQ(src, ahead)
	Label("row")
	left, at := param("vectors"), GP64()
	MOVQ(dst, at)
	Label("vector")
	PREFETCHT0(Mem{Base: ahead})
	for i := 0; i < 64; i += size {
		lower, higher := register(), register()
		if size == avx512Vector {
			VMOVDQU32(Mem{Base: src}, higher)
			VPANDD(halves, higher, lower)
			VPSRLW(Imm(4), higher, higher)
			VPANDD(halves, higher, higher)
		} else {
			VMOVDQU(Mem{Base: src, Disp: i}, higher)
			VPAND(halves, higher, lower)
			VPSRLW(Imm(4), higher, higher)
			VPAND(halves, higher, higher)
		}
		VPSHUFB(lower, table, lower)
		VPSHUFB(higher, table, higher)
		if size == avx512Vector {
			VMOVDQU32(lower, Mem{Base: at})
			VMOVDQU32(higher, Mem{Base: at, Index: upper, Scale: 1})
		} else {
			VMOVDQU(lower, Mem{Base: at, Disp: i})
			VMOVDQU(higher, Mem{Base: at, Disp: i, Index: upper, Scale: 1})
		}
	}
	ADDQ(Imm(64), src)
	ADDQ(Imm(64), ahead)
	ADDQ(step, at)
	DECQ(left)
	JNE(LabelRef("vector"))
	ADDQ(row, dst)
	DECQ(rows)
	JNE(LabelRef("row"))
	finish()
}
