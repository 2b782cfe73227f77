package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Rows added up with weights: blocks of some vectors, whose sums stay in registers while the rows
// are read, and one masked vector at a time for the columns that are left.

// combination is a kernel of some sums.
type combination struct {
	floats
	sums                           int
	call, dst, from, cols          reg.GPVirtual
	xStride, ahead                 reg.GPVirtual
	dstStride, dstStride3, by, by3 reg.GPVirtual // of more than one sum
	lanes, vector                  int
}

func combineKernels() {
	for _, k := range []struct {
		name          string
		wide          bool
		sums, vectors int
	}{
		{"combineSIMD", false, 1, 8}, {"combineFourSIMD", false, 4, 2},
		{"combineAVX512", true, 1, 8}, {"combineFourAVX512", true, 4, 4},
	} {
		TEXT(k.name, noSplit, context)
		c := &combination{sums: k.sums, lanes: lanes, vector: vector}
		c.floats = floats{new: func() reg.VecVirtual { return YMM() }}
		if k.wide {
			c.floats = floats{new: func() reg.VecVirtual { return ZMM() }, wide: true}
			c.lanes, c.vector = avx512Lanes, avx512Vector
		}
		c.emit(k.vectors)
	}
}

// field loads a field of the call.
func (c *combination) field(name string) reg.GPVirtual {
	r := GP64()
	MOVQ(fieldOf(c.call, "combineCall."+name), r)
	return r
}

func (c *combination) emit(vectors int) {
	c.call = param("x")
	c.dst, c.from, c.cols = c.field("dst"), c.field("x"), c.field("cols")
	c.xStride, c.ahead = c.field("xStride"), c.field("ahead")
	if c.sums > 1 {
		c.dstStride, c.by = c.field("dstStride"), c.field("weightStride")
		c.dstStride3, c.by3 = GP64(), GP64()
		LEAQ(Mem{Base: c.dstStride, Index: c.dstStride, Scale: 2}, c.dstStride3)
		LEAQ(Mem{Base: c.by, Index: c.by, Scale: 2}, c.by3)
	}
	SUBQ(imm(vectors*c.lanes), c.cols)
	JL(LabelRef("rest"))
	Label("blocks")
	c.block("block", vectors, nil)
	ADDQ(imm(vectors*c.vector), c.dst)
	ADDQ(imm(vectors*c.vector), c.from)
	SUBQ(imm(vectors*c.lanes), c.cols)
	JGE(LabelRef("blocks"))
	Label("rest")
	ADDQ(imm(vectors*c.lanes), c.cols)
	JE(LabelRef("end"))
	count, some := GP64(), GP64()
	MOVQ(U32(uint32(c.lanes)), count)
	Label("vectors")
	MOVQ(c.cols, some)
	CMPQ(some, count)
	CMOVQGT(count, some)
	if c.wide {
		c.block("last", 1, firstLanes(some))
	} else {
		c.block("last", 1, tailMask(some))
	}
	ADDQ(imm(c.vector), c.dst)
	ADDQ(imm(c.vector), c.from)
	SUBQ(imm(c.lanes), c.cols)
	JG(LabelRef("vectors"))
	Label("end")
	finish()
}

// place is an element of the rows of some sums, stride bytes apart, or three times as many.
func place(base, stride, stride3 reg.GPVirtual, sum, disp int) Mem {
	switch sum {
	case 0:
		return Mem{Base: base, Disp: disp}
	case 3:
		return Mem{Base: base, Index: stride3, Scale: 1, Disp: disp}
	}
	return Mem{Base: base, Index: stride, Scale: uint8(sum), Disp: disp}
}

// block computes some vectors of all sums. A mask has the lanes of a single vector.
func (c *combination) block(name string, vectors int, mask reg.Register) {
	acc := make([][]reg.VecVirtual, c.sums)
	c.call = param("x") // again, because its register serves others meanwhile
	at, weights, left := GP64(), c.field("weights"), c.field("rows")
	for s := range acc {
		for range vectors {
			acc[s] = append(acc[s], c.zero())
		}
	}
	CMPB(fieldOf(c.call, "combineCall.more"), Imm(0))
	JE(LabelRef(name + "Begin"))
	for s := range acc {
		for i, v := range acc[s] {
			c.load(place(c.dst, c.dstStride, c.dstStride3, s, i*c.vector), mask, v)
		}
	}
	Label(name + "Begin")
	MOVQ(c.from, at)
	Label(name)
	c.step(at, weights, acc, mask)
	if vectors > 1 {
		TESTQ(c.ahead, c.ahead)
		JE(LabelRef(name + "Near"))
		for i := 0; i < vectors*c.vector; i += lineBytes {
			PREFETCHT0(Mem{Base: at, Index: c.ahead, Scale: 1, Disp: i})
		}
		Label(name + "Near")
	}
	ADDQ(c.xStride, at)
	ADDQ(Imm(4), weights)
	DECQ(left)
	JNE(LabelRef(name))
	for s := range acc {
		for i, v := range acc[s] {
			c.store(v, mask, place(c.dst, c.dstStride, c.dstStride3, s, i*c.vector))
		}
	}
}

// step adds a row.
func (c *combination) step(at, weights reg.GPVirtual, acc [][]reg.VecVirtual, mask reg.Register) {
	x := make([]Op, len(acc[0]))
	for i := range x {
		m := Mem{Base: at, Disp: i * c.vector}
		if x[i] = m; c.sums > 1 || mask != nil {
			v := c.new()
			c.load(m, mask, v)
			x[i] = v
		}
	}
	for s := range acc {
		weight := c.all(place(weights, c.by, c.by3, s, 0))
		for i, v := range acc[s] {
			VFMADD231PS(x[i], weight, v)
		}
	}
}

// load loads the lanes of the mask, and 0 into the others.
func (c *combination) load(m Mem, mask reg.Register, v reg.VecVirtual) {
	switch {
	case mask == nil:
		VMOVUPS(m, v)
	case c.wide:
		VMOVUPS_Z(m, mask, v)
	default:
		VMASKMOVPS(m, mask, v)
	}
}

// store stores the lanes of the mask.
func (c *combination) store(v reg.VecVirtual, mask reg.Register, m Mem) {
	switch {
	case mask == nil:
		VMOVUPS(v, m)
	case c.wide:
		VMOVUPS(v, mask, m)
	default:
		VMASKMOVPS(v, mask, m)
	}
}
