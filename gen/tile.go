package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The micro-kernel of score and accumulate: c[r][x] = start + Σ_k a[r][k]·b[k][x], one FMA chain in
// ascending k for each element, vector lanes across x.
//
// A tile of 6 rows × 16 columns keeps 12 accumulators in registers: enough independent chains for
// two FMAs of latency 4 a cycle, at 8 loads per 12 FMAs. Y15 is left alone (the Go runtime's zero
// register), so 15 are all there is: 12 accumulators, 2 vectors of b, 1 broadcast of a.
//
// Panels are the outer loop and row tiles the inner one, so a panel of b is read from the L1 cache
// by all but the first tile.
//
// This file has the loops over panels and rows. tile_kernels.go has the kernels, tile_steps.go the
// tile itself, tile_prefetch.go and tile_sequential.go how its operands come from memory.

// Registers by role.
var (
	cPtr       = reg.RDI // c at the tile's first row, current panel
	aPtr       = reg.RSI // a at the tile's first row
	bPtr       = reg.RDX // b at the current panel
	cStride    = reg.R8  // bytes between rows of c
	aStride    = reg.R9  // bytes between rows of a
	bStride    = reg.R10 // bytes between rows of b
	chainSteps = reg.R11 // length of the chains
	rowsLeft   = reg.R12 // rows left in the current panel
	stepsLeft  = reg.RCX // steps left
	b0         = reg.RBX // moving through b
	a0         = reg.RAX // moving through rows 0–2 of a
	tileRows   = b0      // after a tile: its rows
	a3         = reg.R13 // moving through rows 3–5 of a; b's panel stride for several panels
)

// tileStart is the content of the accumulators before the first step.
type tileStart int

const (
	fromZero  tileStart = iota // score
	fromAlpha                  // c·alpha, c or 0
)

// tileProgram emits one kernel on the micro-kernel.
type tileProgram struct {
	name           string
	start          tileStart
	prefetchesRows bool // groups of panels prefetch rows of the caller
	paged          bool // tiles of few rows prefetch along the pointer: page by page,
	streamed       bool // or in one stream
	masked         bool // b counts as 0 where a has its sign bit set
	unroll         int

	// Stack slots.
	outputs     beginning
	panels      Mem // 16-column panels left
	half        Mem // are there 8 more columns?
	panelStride Mem // bytes between panels of b
	c, a        Mem // first row of c in this panel, of a
	rows        Mem // all rows
	steps       Mem // the length of the chains, while its register is for prefetching
	firstRound  Mem // steps of a first round that is not whole

	// Stack slots of tile_prefetch.go.
	request  Mem // the next address to prefetch if there is a prefetch pointer, else 0
	stream   Mem // does the pointer lead along one stream?
	after    Mem // the panel that is read after the last one, or 0: panels are not prefetched
	ahead    Mem // the next line to prefetch of the panel after the current one, or 0
	aheadEnd Mem // the end of that panel
	distance Mem // how many bytes ahead tiles of few rows prefetch panels

	// Stack slots of tile_sequential.go.
	fourPanels           Mem // does one row use four packed panels side by side?
	inOrder              Mem // are rows of the caller to be read in order? See firstSteps
	onePanel             Mem // are panels to be read in order, not two at once for 2 or 3 rows?
	left, some           Mem // steps after the current ones, and how many to do at a time
	nextC, nextB         Mem // where these begin
	nextPanels, nextHalf Mem // with how many panels
	touched              touchSlots
}

func (t *tileProgram) label(format string, args ...any) string {
	return t.name + "_" + fmt.Sprintf(format, args...)
}

func (t *tileProgram) unique(name string) string { return t.label("%s", unique(name)) }

// accumulator is the register of row r, vector v, in a tile of vecs vectors a row.
func accumulator(r, v, vecs int) reg.VecPhysical { return ymm[r*vecs+v] }

var ymm = []reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7,
	reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14}

// at3 addresses row r through pointers to rows 0 and 3.
func at3(p0, p3, stride reg.Register, r, disp int) Mem {
	m := Mem{Base: p0, Disp: disp}
	if r >= 3 {
		m.Base, r = p3, r-3
	}
	if r > 0 {
		m.Index, m.Scale = stride, uint8(r)
	}
	return m
}

// emit writes the loops over panels and row tiles.
func (t *tileProgram) emit() {
	Label(t.label("begin"))
	Comment("Few rows: several panels at once, so that there are enough chains.")
	if !t.masked {
		t.panelsSideBySide()
	}
	t.panelLoop("panel", panel/lanes)
	if t.start == fromZero { // keys are whole panels
		VZEROUPPER()
		RET()
		return
	}
	Comment("The last 8 columns, if their number is odd.")
	CMPQ(t.half, Imm(0))
	JE(LabelRef(t.label("done")))
	MOVQ(I32(0), t.half)
	MOVQ(I32(1), t.panels)
	t.panelLoop("half", 1)
	Label(t.label("done"))
	t.nextSteps(t.label("begin"))
	VZEROUPPER()
	RET()
}

// panelsSideBySide handles calls of up to three rows, several panels at a time.
func (t *tileProgram) panelsSideBySide() {
	t.paged = true
	for _, t.streamed = range t.streams() {
		for i, panels := range []int{4, 2, 2} {
			name, rows := "paged", i+1
			if t.streamed {
				name = "streamed"
			}
			t.panelGroups(fmt.Sprintf("%s%d", name, rows), rows, panels, func(next string) {
				CMPQ(t.request, Imm(0))
				JE(LabelRef(next))
				if t.streamed {
					CMPQ(t.stream, Imm(0))
					JE(LabelRef(next))
				}
			})
		}
	}
	t.paged, t.streamed = false, false
	if t.start == fromAlpha {
		t.wholeRows()
	}
	t.panelGroups("sideBySide1", 1, 4, func(next string) {
		packed, wanted := t.label("sideBySidePacked"), t.label("sideBySideWanted")
		t.unlessSequential(packed)
		JMP(LabelRef(wanted))
		Label(packed)
		CMPQ(bStride, imm(panelBytes))
		JNE(LabelRef(next))
		CMPQ(t.fourPanels, Imm(0))
		JE(LabelRef(next))
		Label(wanted)
	})
	t.prefetchesRows = true
	t.panelGroups("rows1", 1, 4, func(next string) {
		CMPQ(bStride, imm(panelBytes))
		JE(LabelRef(next))
	})
	t.prefetchesRows = false
	for _, r := range []int{2, 3} {
		t.panelGroups(fmt.Sprintf("group%d", r), r, 2, func(next string) {
			CMPQ(t.onePanel, Imm(0))
			JNE(LabelRef(next))
		})
	}
}

// panelGroups handles calls of exactly r rows, n panels at a time, unless condition jumps to next.
// One row by one panel is only two chains, so two of the remaining panels go together, too.
func (t *tileProgram) panelGroups(name string, r, n int, condition func(next string)) {
	next := t.label("%sNot", name)
	CMPQ(t.rows, imm(r))
	JNE(LabelRef(next))
	if condition != nil {
		condition(next)
	}
	t.panelGroup(name, r, n)
	if r == 1 && n == 4 {
		t.panelGroup(name+"two", r, 2)
	}
	JMP(LabelRef(t.label("panel")))
	Label(next)
}

// panelGroup is the loop over n panels at a time.
func (t *tileProgram) panelGroup(name string, r, n int) {
	group, end := t.label("%s", name), t.label("%sEndGroup", name)
	Label(group)
	CMPQ(t.panels, imm(n))
	JL(LabelRef(end))
	t.touchLines(n)
	MOVQ(t.c, cPtr)
	MOVQ(t.a, aPtr)
	if t.start == fromAlpha {
		t.outputs.restart()
	}
	t.tileOperands()
	asides := t.tile(r, n, panel/lanes)
	ADDQ(imm(n*panelBytes), t.c)
	MOVQ(t.panelStride, a0)
	IMUL3Q(U32(n), a0, a0)
	ADDQ(a0, bPtr)
	SUBQ(imm(n), t.panels)
	JMP(LabelRef(group))
	asides()
	Label(end)
}

// panelLoop walks over the panels, or the one half panel, with vecs vectors a row.
func (t *tileProgram) panelLoop(name string, vecs int) {
	end := t.label("%sEnd", name)
	Label(t.label("%s", name))
	CMPQ(t.panels, Imm(0))
	JE(LabelRef(end))
	if vecs == panel/lanes {
		t.touchLines(1)
		t.startAhead()
	}
	MOVQ(t.c, cPtr)
	MOVQ(t.a, aPtr)
	MOVQ(t.rows, rowsLeft)
	if t.start == fromAlpha {
		t.outputs.restart()
	}
	Label(t.label("%sRows", name))
	t.tileOperands()
	if t.masked {
		t.choose(name, [][2]int{{2, 2}, {1, 1}})
		t.rowTiles(name, []int{2, 1}, vecs)
	} else {
		t.choose(name, [][2]int{
			{14, 6}, {13, 5}, {10, 6}, {9, 5}, {7, 4},
			{6, 6}, {5, 5}, {4, 4}, {3, 3}, {2, 2}, {1, 1},
		})
		t.rowTiles(name, []int{6, 5, 4, 3, 2, 1}, vecs)
	}
	Label(t.label("%sNext", name))
	if !t.masked && vecs == panel/lanes {
		t.nextPanelOfPages()
	}
	ADDQ(imm(panelBytes), t.c)
	ADDQ(t.panelStride, bPtr)
	DECQ(t.panels)
	JMP(LabelRef(t.label("%s", name)))
	Label(end)
}

// choose jumps to the tile for the rows that are left: pairs of (least rows that are left, tile).
// It avoids a remainder of 1 or 2 rows where it can, because such tiles have too few chains.
func (t *tileProgram) choose(name string, pairs [][2]int) {
	for _, p := range pairs {
		CMPQ(rowsLeft, imm(p[0]))
		JGE(LabelRef(t.label("%s%d", name, p[1])))
	}
	JMP(LabelRef(t.label("%sNext", name)))
}

// rowTiles emits the tiles of one panel.
func (t *tileProgram) rowTiles(name string, sizes []int, vecs int) {
	for _, r := range sizes {
		Label(t.label("%s%d", name, r))
		asides := t.tile(r, 1, vecs)
		MOVQ(U32(r), tileRows)
		JMP(LabelRef(t.label("%sDone", name)))
		asides()
	}
	Label(t.label("%sDone", name))
	SUBQ(tileRows, rowsLeft)
	if t.start == fromAlpha {
		JE(LabelRef(t.label("%sNext", name)))
	}
	MOVQ(tileRows, a0)
	IMULQ(aStride, a0)
	ADDQ(a0, aPtr)
	if t.start == fromAlpha {
		t.outputs.advance(tileRows)
	} else {
		prefetchDue(tileRows)
	}
	TESTQ(rowsLeft, rowsLeft)
	JNE(LabelRef(t.label("%sRows", name)))
}
