package main

import (
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// Products by matrices have a scale, and a start of sums, for each int8Group inputs of a row. A
// tile computes group after group: a processor begins the sums of the next group while it converts
// the sums of the last, and few rows read panels from beginning to end, in the order of memory.

// groupSteps is the groups of four steps of int8Group inputs.
const groupSteps = int8Group / 4

// inputGroups holds the stack slots of tiles that compute several groups of inputs.
type inputGroups struct {
	outputs       beginning
	f, starts, a  Mem // of the current group
	left          Mem // groups of four steps after it
	ahead, aheads Mem // the next line of b to request, and how many a group of a tile does
}

func (g *inputGroups) slots() []*Mem {
	return []*Mem{&g.outputs.zeros, &g.f, &g.starts, &g.a, &g.left, &g.ahead, &g.aheads}
}

// grouped reports whether tiles compute several groups of inputs.
func (p *int8Program) grouped() bool {
	return p.operation == multiplyInt8
}

// mostAheads bounds the lines that a group of a tile requests.
const mostAheads = 64

// requestLines finds how many lines a group of a tile requests, so that all tiles of many rows
// request the panels that are next.
func (p *int8Program) requestLines() {
	many := p.groups[slices.IndexFunc(p.groups, func(g tileGroup) bool { return g.upTo == manyRows })]
	lines := many.panels * groupSteps * many.sizes[len(many.sizes)-1]
	MOVQ(p.rows, stepsLeft)
	LEAQ(Mem{Base: stepsLeft, Disp: lines - 1}, a0)
	XORL(avx512Temp.As32(), avx512Temp.As32())
	DIVQ(stepsLeft)
	MOVQ(U32(mostAheads), stepsLeft)
	CMPQ(a0, stepsLeft)
	CMOVQGT(stepsLeft, a0)
	MOVQ(a0, p.of.aheads)
}

// requestFrom makes tiles prefetch the panels after the current ones.
func (p *int8Program) requestFrom() {
	IMUL3Q(U32(p.n), avx512PanelStride, a0)
	ADDQ(p.b, a0)
	MOVQ(a0, p.of.ahead)
}

// requestNext requests some lines of the panels that are next.
func (p *int8Program) requestNext() {
	loop := unique("ahead")
	MOVQ(p.of.ahead, a0)
	MOVQ(p.of.aheads, stepsLeft)
	Label(loop)
	PREFETCHT0(Mem{Base: a0})
	ADDQ(imm(lineBytes), a0)
	DECQ(stepsLeft)
	JNE(LabelRef(loop))
	MOVQ(a0, p.of.ahead)
}

// tileOfGroups computes r rows × p.n panels.
func (p *int8Program) tileOfGroups(r int) {
	loop := unique("inputs")
	move(p.outputs.zeros, p.of.outputs.zeros)
	move(p.fAt, p.of.f)
	move(p.startsAt, p.of.starts)
	move(p.steps, p.of.left)
	MOVQ(aPtr, p.of.a)
	Label(loop)
	if p.prefetches {
		MOVQ(p.request, int8Request)
	} else {
		p.requestNext()
	}
	MOVQ(p.of.starts, a0)
	MOVQ(p.fStride, stepsLeft)
	p.begin(r)
	pointAtRows(aPtr, aStride, r)
	MOVQ(U32(groupSteps), stepsLeft)
	CMPQ(stepsLeft, p.of.left)
	CMOVQGT(p.of.left, stepsLeft)
	SUBQ(stepsLeft, p.of.left)
	p.sums(r)
	p.addOutputs(r, &p.of.outputs, p.of.f)
	ADDQ(imm(groupSteps*p.groupBytes()), aPtr)
	ADDQ(Imm(4), p.of.f)
	ADDQ(Imm(4), p.of.starts)
	MOVQ(I32(0), p.of.outputs.zeros)
	CMPQ(p.of.left, Imm(0))
	JNE(LabelRef(loop))
	MOVQ(p.of.a, aPtr)
}
