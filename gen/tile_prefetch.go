package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

const (
	fewRows    = 5  // the largest tile that prefetches some way ahead
	aheadSteps = 2  // steps of larger tiles with which they prefetch a line of the next panel,
	aheadRows  = 48 // twice as many in calls of that many rows, of which half have it then
	rowLines   = 4  // lines of a row of values that are prefetched at once
)

// prefetchesAhead reports whether a tile prefetches packed keys and values some way ahead. Tiles of
// few rows do: they are for decoding, which waits for memory. The distance occupies the register of
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

// streams says of the ways to prefetch along the pointer whether they are one stream: keys in rows,
// for which that is, have a kernel of their own.
func (t *tileProgram) streams() []bool {
	if t.start == fromZero {
		return []bool{false}
	}
	return []bool{true, false}
}

// startRequests begins to prefetch along the pointer of the layout at b0, if there is one.
func (t *tileProgram) startRequests() {
	pages, few, ready := t.unique("pages"), t.unique("fewRows"), t.unique("requests")
	MOVQ(hint(b0, "PanelLayout", "Pointer"), a0)
	MOVBQZX(hint(b0, "PanelLayout", "OneStream"), a3)
	CMPQ(t.rows, Imm(sequentialRows))
	JLE(LabelRef(few))
	XORQ(a3, a3)
	Label(few)
	MOVQ(a3, t.stream)
	TESTQ(a3, a3)
	JE(LabelRef(pages))
	startStream(a0, t.request)
	JMP(LabelRef(ready))
	Label(pages)
	startPages(a0, a3, t.request)
	Label(ready)
}

// nextPanelOfPages moves the next request on by the lines of a panel, if they are prefetched along
// the pointer.
func (t *tileProgram) nextPanelOfPages() {
	skip := t.unique("notPaged")
	CMPQ(t.request, Imm(0))
	JE(LabelRef(skip))
	if len(t.streams()) > 1 {
		pages := t.unique("pages")
		CMPQ(t.stream, Imm(0))
		JE(LabelRef(pages))
		MOVQ(chainSteps, a0)
		SHLQ(Imm(6), a0)
		ADDQ(a0, t.request)
		JMP(LabelRef(skip))
		Label(pages)
	}
	Comment("What goes beyond the first page of a window is so many windows.")
	IMUL3Q(U32(lineBytes/windowPages), chainSteps, a0)
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
var prefetching = chainSteps

// A tile of one panel prefetches in one of several ways, chosen when it begins. Code that they need
// besides the steps is outside the loop, so that other calls do not execute it.

// asksForPages reports whether a tile of one panel may have to prefetch page by page. Calls of up
// to three rows use groups of panels then.
func (t *tileProgram) asksForPages(r, n, vecs int) bool {
	return !t.paged && !t.masked && n == 1 && vecs == panel/lanes && r > 3
}

// beginPrefetching loads the registers by which a tile prefetches. Without a name, steps have
// begun.
func (t *tileProgram) beginPrefetching(r, n, vecs int, name string) {
	switch {
	case t.paged:
		MOVQ(t.request, prefetching)
	case t.prefetchesAhead(r, n, vecs):
		if t.asksForPages(r, n, vecs) && name != "" {
			CMPQ(t.request, Imm(0))
			JNE(LabelRef(name + "Paged"))
		}
		MOVQ(t.distance, prefetching)
	case t.asksForPages(r, n, vecs):
		if t.prefetchesPanels(r) {
			none := t.unique("ahead")
			MOVQ(t.ahead, prefetching)
			TESTQ(prefetching, prefetching)
			JNE(LabelRef(none))
			MOVQ(t.request, prefetching)
			Label(none)
			return
		}
		MOVQ(t.request, prefetching)
	}
}

// prefetchBeside emits the prefetches of step u of a round.
func (t *tileProgram) prefetchBeside(u, n int) {
	switch {
	case t.streamed:
		for i := range n {
			PREFETCHT0(Mem{Base: prefetching, Disp: (n*u + i) * lineBytes})
		}
	case t.paged:
		prefetchPages(prefetching, n*u, n)
	}
}

// nextPrefetches moves on after a round of steps.
func (t *tileProgram) nextPrefetches(r, n, vecs int, name string) {
	switch {
	case t.streamed:
		ADDQ(imm(n*t.unroll*lineBytes), prefetching)
	case t.paged:
		nextRequests(prefetching, n*t.unroll)
	case t.asksForPages(r, n, vecs) && r > fewRows:
		TESTQ(prefetching, prefetching)
		JNE(LabelRef(name + "Request"))
		Label(name + "Requested")
	}
}

// endPrefetching saves the state for the next tile, and loads steps again.
func (t *tileProgram) endPrefetching(r, n, vecs int, name string) {
	switch {
	case t.paged && n > 1:
		MOVQ(prefetching, t.request)
	case t.asksForPages(r, n, vecs) && t.prefetchesPanels(r):
		CMPQ(t.ahead, Imm(0))
		JNE(LabelRef(name + "Ahead"))
		Label(name + "Kept")
	}
	if t.paged || t.asksForPages(r, n, vecs) || t.prefetchesAhead(r, n, vecs) {
		MOVQ(t.steps, chainSteps)
	}
}

// besidePrefetches emits the out-of-line code of a tile of one panel.
func (t *tileProgram) besidePrefetches(r, n, vecs int, name string) {
	if !t.asksForPages(r, n, vecs) {
		return
	}
	if r <= fewRows {
		t.pagedLoops(r, vecs, name)
		return
	}
	Label(name + "Request")
	if t.prefetchesPanels(r) {
		pages := name + "Pages"
		CMPQ(t.ahead, Imm(0))
		JE(LabelRef(pages))
		PREFETCHT0(Mem{Base: prefetching})
		ADDQ(imm(lineBytes), prefetching)
		CMPQ(t.rows, imm(aheadRows))
		JGE(LabelRef(name + "Requested"))
		for line := range t.unroll/aheadSteps - 1 {
			PREFETCHT0(Mem{Base: prefetching, Disp: line * lineBytes})
		}
		ADDQ(imm((t.unroll/aheadSteps-1)*lineBytes), prefetching)
		JMP(LabelRef(name + "Requested"))
		Label(pages)
	}
	prefetchPages(prefetching, 0, t.unroll)
	nextRequests(prefetching, t.unroll)
	JMP(LabelRef(name + "Requested"))
	if !t.prefetchesPanels(r) {
		return
	}
	Label(name + "Ahead")
	some := name + "Some"
	MOVQ(prefetching, t.ahead)
	CMPQ(prefetching, t.aheadEnd)
	JB(LabelRef(some))
	MOVQ(I32(0), t.ahead)
	Label(some)
	JMP(LabelRef(name + "Kept"))
}

// pagedLoops are the loops over steps that prefetch along the pointer.
func (t *tileProgram) pagedLoops(r, vecs int, name string) {
	t.paged = true
	defer func() { t.paged, t.streamed = false, false }()
	Label(name + "Paged")
	MOVQ(t.request, prefetching)
	for _, t.streamed = range t.streams() {
		if t.streamed && r > sequentialRows {
			continue
		}
		loop, pages := t.unique("pagedLoop"), t.unique("pages")
		if t.streamed {
			CMPQ(t.stream, Imm(0))
			JE(LabelRef(pages))
		}
		Label(loop)
		for u := range t.unroll {
			t.prefetchBeside(u, 1)
			t.step(r, 1, vecs, 4*u)
		}
		t.nextPrefetches(r, 1, vecs, name)
		t.advance(r, t.unroll)
		SUBQ(imm(t.unroll), stepsLeft)
		JG(LabelRef(loop))
		JMP(LabelRef(name + "Last"))
		Label(pages)
	}
}
