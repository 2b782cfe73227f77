package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

const lineBytes = 64

// lookAhead is the state of score's requests for memory: see ahead in package
// attn. One row is asked for whenever as many rows of single panels are done
// as the call has panels. All fields are stack slots.
type lookAhead struct {
	base   Mem // what distances count from, 0 if there is nothing to ask for
	next   Mem // pointer to the distance of the next row
	lines  Mem // cache lines of a row
	panels Mem
	left   Mem // rows of single panels until the next row is due
}

// loadAhead takes the fields of next: data, first, lines, rows.
func (t *tileProgram) loadAhead() {
	f := AllocLocal(40)
	t.ahead = lookAhead{f, f.Offset(8), f.Offset(16), f.Offset(24), f.Offset(32)}
	Load(Param("next"), count)
	Load(Param("panels"), a0)
	MOVQ(a0, t.ahead.panels)
	MOVQ(a0, t.ahead.left)
	MOVQ(Mem{Base: count, Disp: 16}, a0)
	MOVQ(a0, t.ahead.lines)
	MOVQ(Mem{Base: count, Disp: 24}, a0)
	MOVQ(a0, t.ahead.next)
	MOVQ(Mem{Base: count}, a0)
	ADDQ(Mem{Base: count, Disp: 8}, a0)
	MOVQ(a0, t.ahead.base)
}

// ask asks for the rows that are due after r rows of a panel.
func (t *tileProgram) ask(r int) {
	row, one, end := t.unique("askRow"), t.unique("askLine"), t.unique("asked")
	CMPQ(t.ahead.base, Imm(0))
	JE(LabelRef(end))
	SUBQ(imm(r), t.ahead.left)
	JG(LabelRef(end))
	Label(row)
	MOVQ(t.ahead.next, a0)
	ADDQ(Imm(8), t.ahead.next)
	MOVQ(Mem{Base: a0}, a0)
	ADDQ(t.ahead.base, a0)
	PREFETCHT1(Mem{Base: a0})
	CMPQ(t.ahead.lines, Imm(1))
	JE(LabelRef(one))
	for line := 1; line < blockBytes/lineBytes; line++ {
		PREFETCHT1(Mem{Base: a0, Disp: line * lineBytes})
	}
	ADDQ(imm(blockBytes-lineBytes), a0)
	Label(one)
	PREFETCHT1(Mem{Base: a0, Disp: lineBytes - 1}) // one more line if they are not aligned
	MOVQ(t.ahead.panels, a0)
	ADDQ(a0, t.ahead.left)
	JLE(LabelRef(row))
	Label(end)
}
