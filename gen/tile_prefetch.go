package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// Tiles of few rows serve decoding, which waits for memory: they prefetch packed
// keys and values some way ahead. The distance takes the register of steps.
const fewRows = 5

func (t *tileProgram) prefetchesAhead(r, n, vecs int) bool {
	return r <= fewRows && n == 1 && vecs == panel/lanes && !t.paged && !t.masked
}

// aheadSteps: larger tiles prefetch a line of the next panel with so many steps.
const aheadSteps = 2

// prefetchesPanels reports whether tiles of r rows prefetch the panel after the one at hand: a processor reads the 16 KiB of one from memory
// no faster than the first tile multiplies by them, but the tiles after that one leave it time.
func (t *tileProgram) prefetchesPanels(r int) bool {
	return t.start == fromAlpha && !t.masked && r > fewRows
}

// startAhead sets out to prefetch the panel after the one at hand.
func (t *tileProgram) startAhead() {
	if !t.prefetchesPanels(fewRows + 1) {
		return
	}
	last, none := t.unique("lastPanel"), t.unique("noneAfter")
	MOVQ(t.after, a0)
	TESTQ(a0, a0)
	JE(LabelRef(none))
	CMPQ(t.panels, Imm(1))
	JE(LabelRef(last))
	MOVQ(t.panelStride, a0)
	ADDQ(bPtr, a0)
	Label(last)
	MOVQ(a0, a3)
	ADDQ(t.panelStride, a3)
	MOVQ(a3, t.aheadEnd)
	Label(none)
	MOVQ(a0, t.ahead)
}

// nextPanelOfPages moves on by the lines of a panel, if they are prefetched page by page.
func (t *tileProgram) nextPanelOfPages() {
	skip := t.unique("notPaged")
	CMPQ(t.request, Imm(0))
	JE(LabelRef(skip))
	Comment("What goes beyond the first page of a window is so many windows.")
	IMUL3Q(U32(lineBytes/windowPages), steps, a0)
	ADDQ(t.request, a0)
	MOVQ(a0, t.request)
	ANDQ(imm(prefetchWindow-pageBytes), a0)
	IMUL3Q(U32(windowPages-1), a0, a0)
	ADDQ(a0, t.request)
	Label(skip)
}

const rowLines = 4

// prefetchRows prefetches the columns at hand of the row of values 16 rows ahead.
// The whole row instead, or its distance doubled, brings less.
func (t *tileProgram) prefetchRows() {
	at := cPtr
	LEAQ(Mem{Base: b0, Index: bStride, Scale: 8}, at)
	for line := range rowLines {
		PREFETCHT0(Mem{Base: at, Index: bStride, Scale: 8, Disp: line * lineBytes})
	}
}
