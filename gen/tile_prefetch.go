package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

const (
	fewRows    = 5 // the largest tile that prefetches some way ahead
	aheadSteps = 2 // steps of larger tiles with which they prefetch a line of the next panel
	rowLines   = 4 // lines of a row of values that are prefetched at once
)

// prefetchesAhead reports whether a tile prefetches packed keys and values some way ahead. Tiles of
// few rows do: they serve decoding, which waits for memory. The distance takes the register of
// steps.
func (t *tileProgram) prefetchesAhead(r, n, vecs int) bool {
	return r <= fewRows && n == 1 && vecs == panel/lanes && !t.paged && !t.masked
}

// prefetchesPanels reports whether tiles of r rows prefetch the panel after the current one. The 16
// KiB of a panel come from memory no faster than the first tile multiplies by them, but the tiles
// after the first leave time for the next panel.
func (t *tileProgram) prefetchesPanels(r int) bool {
	return t.start == fromAlpha && !t.masked && r > fewRows
}

// startAhead begins to prefetch the panel after the current one.
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

// nextPanelOfPages moves the next request on by the lines of a panel, if they are prefetched page
// by page.
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

// prefetchRows prefetches the current columns of the row of values 16 rows ahead. The whole row
// instead, or twice the distance, gains less.
func (t *tileProgram) prefetchRows() {
	at := cPtr
	LEAQ(Mem{Base: b0, Index: bStride, Scale: 8}, at)
	for line := range rowLines {
		PREFETCHT0(Mem{Base: at, Index: bStride, Scale: 8, Disp: line * lineBytes})
	}
}

// While a tile prefetches, the register of steps holds the next address, or the distance.
var prefetching = steps

// beginPrefetching loads what a tile prefetches by.
func (t *tileProgram) beginPrefetching(r, n, vecs int) {
	switch {
	case t.paged:
		MOVQ(t.request, prefetching)
	case t.aheadTile:
		MOVQ(t.ahead, prefetching)
	case t.prefetchesAhead(r, n, vecs):
		MOVQ(t.distance, prefetching)
	}
}

// prefetchBeside prefetches what goes with step u of a round.
func (t *tileProgram) prefetchBeside(u, n int) {
	if t.paged {
		prefetchPages(prefetching, n*u, n)
	}
	if t.aheadTile && u%aheadSteps == 0 {
		PREFETCHT0(Mem{Base: prefetching, Disp: u / aheadSteps * lineBytes})
	}
}

// nextPrefetches moves on after a round of steps.
func (t *tileProgram) nextPrefetches(n int) {
	if t.paged {
		nextRequests(prefetching, n*t.unroll)
	}
	if t.aheadTile {
		ADDQ(imm(t.unroll/aheadSteps*lineBytes), prefetching)
	}
}

// endPrefetching keeps what the next tile goes on with, and loads steps again.
func (t *tileProgram) endPrefetching(r, n, vecs int) {
	if t.paged && n > 1 {
		MOVQ(prefetching, t.request)
	}
	if t.aheadTile {
		some := t.unique("someAhead")
		MOVQ(prefetching, t.ahead)
		CMPQ(prefetching, t.aheadEnd)
		JB(LabelRef(some))
		MOVQ(I32(0), t.ahead)
		Label(some)
	}
	if t.paged || t.aheadTile || t.prefetchesAhead(r, n, vecs) {
		MOVQ(t.steps, steps)
	}
}
