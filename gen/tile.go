package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The micro-kernel of score and accumulate: c[r][x] = start + Σ_k a[r][k]·b[k][x],
// one FMA chain in ascending k for each element, vector lanes across x.
//
// A tile of 6 rows × 16 columns keeps 12 accumulators in registers: enough
// independent chains for two FMAs of latency 4 a cycle, at 8 loads per 12 FMAs.
// Y15 is left alone (the Go runtime's zero register), so 15 are all there is:
// 12 accumulators, 2 vectors of b, 1 broadcast of a.
//
// Panels are the outer loop and row tiles the inner one, so a panel of b is
// read from the L1 cache by all but the first tile.

// Registers by role.
var (
	cPtr    = reg.RDI // c at the tile's first row, current panel
	aPtr    = reg.RSI // a at the tile's first row
	bPtr    = reg.RDX // b at the current panel
	cStride = reg.R8  // bytes between rows of c
	aStride = reg.R9  // bytes between rows of a
	bStride = reg.R10 // bytes between rows of b
	steps   = reg.R11 // length of the chains
	rows    = reg.R12 // rows left in the current panel
	count   = reg.RCX // steps left
	b0      = reg.RBX // moving through b
	a0      = reg.RAX // moving through rows 0–2 of a
	a3      = reg.R13 // moving through rows 3–5 of a; b's panel stride for several panels
)

// start says what the accumulators hold before the first step.
type start int

const (
	fromZero  start = iota // score
	fromAlpha              // c·alpha, c or 0
)

// What is in the place of the pointer to alpha, where there is none to follow.
const (
	noAlpha          = 0 // begin with c
	overwriteOutputs = 1 // begin with 0
)

// tileProgram emits one kernel on the micro-kernel.
type tileProgram struct {
	name           string
	start          start
	prefetchesRows bool // groups of panels prefetch rows of the caller
	paged          bool // tiles of few rows prefetch page by page
	aheadTile      bool // the tile prefetches what is read after the call
	masked         bool // b counts as 0 where a has its sign bit set
	unroll         int

	alpha       Mem // stack slot of the pointer to the tile's first alpha, noAlpha or overwriteOutputs
	panels      Mem // stack slot: 16-column panels left
	half        Mem // stack slot: 8 more columns?
	panelStride Mem // stack slot: bytes between panels of b
	c, a        Mem // stack slots: first row of c in this panel, of a
	rows        Mem // stack slot: all rows
	firstAlpha  Mem
	steps       Mem // stack slot: the length of the chains, while its register is for prefetching
	request     Mem // stack slot: the next address to prefetch if there is a prefetch pointer, else 0
	after       Mem // stack slot: the panel that is read after the last one, or 0 if panels are not prefetched
	ahead       Mem // stack slot: the next line to prefetch of the panel after the one at hand, or 0
	aheadEnd    Mem // stack slot: the end of that panel
	distance    Mem // stack slot: how many bytes ahead tiles of few rows prefetch panels

	fourPanels           Mem // stack slot: does one row take four packed panels side by side?
	sequential           Mem // stack slot: are rows of the caller to be read in order? See firstSteps
	onePanel             Mem // stack slot: are panels to be read in order, so that no two go side by side for 2 or 3 rows?
	left, some           Mem // stack slots: steps after those at hand, and how many to take at a time
	nextC, nextB         Mem // stack slots: where these begin
	nextPanels, nextHalf Mem // stack slots: with how many panels
	touched              touchSlots
}

func (t *tileProgram) label(format string, args ...any) string {
	return t.name + "_" + fmt.Sprintf(format, args...)
}

// acc is the accumulator of row r, vector v, in a tile of vecs vectors a row.
func acc(r, v, vecs int) reg.VecPhysical { return ymm[r*vecs+v] }

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
		t.paged = true
		for i, panels := range []int{4, 2, 2} {
			rows := i + 1
			t.panelGroups(fmt.Sprintf("paged%d", rows), rows, panels, func(next string) {
				CMPQ(t.request, Imm(0))
				JE(LabelRef(next))
			})
		}
		t.paged = false
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
	t.panelLoop("panel", panel/lanes)
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

// panelGroups handles calls of exactly r rows, n panels at a time, where a
// condition does not jump to next. One row, of which a panel is only two chains, takes two
// panels of what is left.
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
	MOVQ(t.firstAlpha, a0)
	MOVQ(a0, t.alpha)
	t.tile(r, n, panel/lanes)
	ADDQ(imm(n*panelBytes), t.c)
	MOVQ(t.panelStride, a0)
	IMUL3Q(U32(n), a0, a0)
	ADDQ(a0, bPtr)
	SUBQ(imm(n), t.panels)
	JMP(LabelRef(group))
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
	MOVQ(t.rows, rows)
	MOVQ(t.firstAlpha, a0)
	MOVQ(a0, t.alpha)
	Label(t.label("%sRows", name))
	if t.masked {
		t.choose(name, [][2]int{{2, 2}, {1, 1}})
		t.rowTiles(name, []int{2, 1}, vecs)
	} else {
		t.choose(name, [][2]int{{14, 6}, {13, 5}, {10, 6}, {9, 5}, {7, 4}, {6, 6}, {5, 5}, {4, 4}, {3, 3}, {2, 2}, {1, 1}})
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

// choose jumps to the tile for the rows that are left: pairs of (at least so
// many left, tile). No remainder of 1 or 2 rows is left over, if it can be avoided:
// those tiles have too few chains.
func (t *tileProgram) choose(name string, pairs [][2]int) {
	for _, p := range pairs {
		CMPQ(rows, imm(p[0]))
		JGE(LabelRef(t.label("%s%d", name, p[1])))
	}
	JMP(LabelRef(t.label("%sNext", name)))
}

// rowTiles emits the tiles of one panel.
func (t *tileProgram) rowTiles(name string, sizes []int, vecs int) {
	for _, r := range sizes {
		Label(t.label("%s%d", name, r))
		t.tileOfPanel(r, vecs)
		if t.start == fromAlpha {
			t.advanceAlpha(r)
		} else if vecs == panel/lanes {
			prefetchDue(r)
		}
		SUBQ(imm(r), rows)
		JMP(LabelRef(t.label("%sRows", name)))
	}
}

func (t *tileProgram) advanceAlpha(r int) {
	skip := t.unique("noAlpha")
	CMPQ(t.firstAlpha, imm(overwriteOutputs))
	JBE(LabelRef(skip))
	ADDQ(imm(4*r), t.alpha)
	Label(skip)
}

var labels int

func (t *tileProgram) unique(name string) string { return t.label("%s", unique(name)) }

func unique(name string) string {
	labels++
	return fmt.Sprintf("%s%d", name, labels)
}

// tileOfPanel is a tile of one panel, in two forms, one of which prefetches page by page:
// smaller tiles take groups of panels, larger ones compute more than they wait.
func (t *tileProgram) tileOfPanel(r, vecs int) {
	if t.masked || r <= 3 || vecs < panel/lanes {
		t.tile(r, 1, vecs)
		return
	}
	paged, done := t.unique("paged"), t.unique("done")
	if t.prefetchesPanels(r) {
		not := t.unique("notAhead")
		CMPQ(t.ahead, Imm(0))
		JE(LabelRef(not))
		t.aheadTile = true
		t.tile(r, 1, vecs)
		t.aheadTile = false
		JMP(LabelRef(done))
		Label(not)
	}
	CMPQ(t.request, Imm(0))
	JNE(LabelRef(paged))
	t.tile(r, 1, vecs)
	JMP(LabelRef(done))
	Label(paged)
	t.paged = true
	t.tile(r, 1, vecs)
	t.paged = false
	Label(done)
}

// tile computes r rows × n panels of vecs vectors and moves cPtr and aPtr on.
func (t *tileProgram) tile(r, n, vecs int) {
	Commentf("%d rows × %d columns.", r, n*vecs*lanes)
	all := n * vecs
	MOVQ(bPtr, b0)
	t.begin(r, all)
	MOVQ(aPtr, a0)
	if r > 3 {
		LEAQ(Mem{Base: aPtr, Index: aStride, Scale: 2}, a3)
		ADDQ(aStride, a3)
	}
	if n > 1 {
		MOVQ(t.panelStride, a3)
	}
	spread := !t.masked && n == 1 && r > 2
	loop, tail, end := t.unique("loop"), t.unique("tail"), t.unique("end")
	MOVQ(steps, count)
	short := t.unique("short")
	if spread {
		CMPQ(count, imm(lastSteps))
		JL(LabelRef(short))
		SUBQ(imm(lastSteps), count)
	}
	distance := steps
	switch {
	case t.paged:
		MOVQ(t.request, distance)
	case t.aheadTile:
		MOVQ(t.ahead, distance)
	case t.prefetchesAhead(r, n, vecs):
		MOVQ(t.distance, distance)
	}
	SUBQ(imm(t.unroll), count)
	JL(LabelRef(tail))
	Label(loop)
	for u := range t.unroll {
		if t.paged {
			prefetchPages(distance, n*u, n)
		}
		if t.aheadTile && u%aheadSteps == 0 {
			PREFETCHT0(Mem{Base: distance, Disp: u / aheadSteps * lineBytes})
		}
		t.step(r, n, vecs, 4*u)
	}
	if t.paged {
		nextRequests(distance, n*t.unroll)
	}
	if t.aheadTile {
		ADDQ(imm(t.unroll/aheadSteps*lineBytes), distance)
	}
	t.advance(r, t.unroll)
	SUBQ(imm(t.unroll), count)
	JGE(LabelRef(loop))
	Label(tail)
	ADDQ(imm(t.unroll), count)
	JE(LabelRef(end))
	t.singleSteps(r, n, vecs)
	Label(end)
	if t.paged && n > 1 {
		MOVQ(distance, t.request)
	}
	if t.aheadTile {
		some := t.unique("someAhead")
		MOVQ(distance, t.ahead)
		CMPQ(distance, t.aheadEnd)
		JB(LabelRef(some))
		MOVQ(I32(0), t.ahead)
		Label(some)
	}
	if t.paged || t.aheadTile || t.prefetchesAhead(r, n, vecs) {
		MOVQ(t.steps, steps)
	}
	if !spread {
		t.store(r, all)
		t.nextRows(r)
		return
	}
	lastStepsAndStore(r, vecs, func(i, u int) Mem { return at3(a0, a3, aStride, i, 4*u) })
	done := t.unique("done")
	JMP(LabelRef(done))
	Label(short)
	t.singleSteps(r, n, vecs)
	t.store(r, all)
	for range r {
		ADDQ(cStride, cPtr)
	}
	Label(done)
	for range r {
		ADDQ(aStride, aPtr)
	}
}

// singleSteps does count steps, at least one.
func (t *tileProgram) singleSteps(r, n, vecs int) {
	one := t.unique("one")
	Label(one)
	t.step(r, n, vecs, 0)
	t.advance(r, 1)
	DECQ(count)
	JNE(LabelRef(one))
}

func (t *tileProgram) nextRows(r int) {
	for range r {
		ADDQ(cStride, cPtr)
		ADDQ(aStride, aPtr)
	}
}

// lastSteps steps at the end of a tile are done for two rows after the other
// instead of all together, each pair followed by its stores. The loads just
// balance the FMAs, and the stores are spread: a burst of more than about 8 of
// them stalls the FMAs after it for a while.
const lastSteps = 4

// a addresses row i of a at step u of them. cPtr moves on by r rows.
func lastStepsAndStore(r, vecs int, a func(i, u int) Mem) {
	Comment("The last steps by pairs of rows, to spread the stores.")
	b1 := count
	LEAQ(Mem{Base: b0, Index: bStride, Scale: 1}, b1)
	for first := 0; first < r; first += 2 {
		pair := min(2, r-first)
		for u := range lastSteps {
			b := Mem{Base: []reg.Register{b0, b1}[u%2]}
			if u >= 2 {
				b.Index, b.Scale = bStride, 2
			}
			for v := range vecs {
				b.Disp = v * vector
				VMOVUPS(b, ymm[12+v])
			}
			for i := first; i < first+pair; i++ {
				VBROADCASTSS(a(i, u), ymm[14])
				for v := range vecs {
					VFMADD231PS(ymm[12+v], ymm[14], acc(i, v, vecs))
				}
			}
		}
		for i := first; i < first+pair; i++ {
			for v := range vecs {
				VMOVUPS(acc(i, v, vecs), Mem{Base: cPtr, Disp: v * vector})
			}
			ADDQ(cStride, cPtr)
		}
	}
}

// begin sets the accumulators.
func (t *tileProgram) begin(r, vecs int) {
	if t.start == fromZero {
		zero(r * vecs)
		return
	}
	t.rowPointers(r)
	plain, overwrite, ready := t.unique("plain"), t.unique("overwrite"), t.unique("ready")
	MOVQ(t.alpha, count)
	CMPQ(count, imm(overwriteOutputs))
	JE(LabelRef(overwrite))
	JB(LabelRef(plain))
	Comment("o·alpha. To look first whether alpha is 1 costs more than it saves.")
	for i := range r {
		VBROADCASTSS(Mem{Base: count, Disp: 4 * i}, ymm[14])
		for v := range vecs {
			VMULPS(at3(cPtr, a0, cStride, i, v*vector), ymm[14], acc(i, v, vecs))
		}
	}
	JMP(LabelRef(ready))
	Label(plain)
	for i := range r {
		for v := range vecs {
			VMOVUPS(at3(cPtr, a0, cStride, i, v*vector), acc(i, v, vecs))
		}
	}
	JMP(LabelRef(ready))
	Label(overwrite)
	zero(r * vecs)
	Label(ready)
}

// zero clears the first n accumulators.
func zero(n int) {
	for _, v := range ymm[:n] {
		VXORPS(v, v, v)
	}
}

// rowPointers points a0 to row 3 of c.
func (t *tileProgram) rowPointers(r int) {
	if r > 3 {
		LEAQ(Mem{Base: cPtr, Index: cStride, Scale: 2}, a0)
		ADDQ(cStride, a0)
	}
}

// step is acc(i, v) = FMA(a[i][k], b[k][v], acc(i, v)) for one k.
func (t *tileProgram) step(r, n, vecs, disp int) {
	if t.masked {
		t.maskedStep(r, vecs, disp)
		return
	}
	if n > 1 {
		t.groupStep(r, n, vecs, disp)
		return
	}
	if r == 1 {
		t.rowStep(vecs, disp)
		return
	}
	for v := range vecs {
		VMOVUPS(Mem{Base: b0, Disp: v * vector}, ymm[12+v])
	}
	if t.prefetchesAhead(r, n, vecs) {
		PREFETCHT0(Mem{Base: b0, Index: steps, Scale: 1})
	}
	ADDQ(bStride, b0)
	for i := range r {
		VBROADCASTSS(at3(a0, a3, aStride, i, disp), ymm[14])
		for v := range vecs {
			VFMADD231PS(ymm[12+v], ymm[14], acc(i, v, vecs))
		}
	}
}

// rowStep is step for one row, which needs no vector of b twice: the fewer operations, the more lines are
// within the processor's sight.
func (t *tileProgram) rowStep(vecs, disp int) {
	if t.prefetchesAhead(1, 1, vecs) {
		PREFETCHT0(Mem{Base: b0, Index: steps, Scale: 1})
	}
	VBROADCASTSS(Mem{Base: a0, Disp: disp}, ymm[14])
	for v := range vecs {
		VFMADD231PS(Mem{Base: b0, Disp: v * vector}, ymm[14], acc(0, v, vecs))
	}
	ADDQ(bStride, b0)
}

// Tiles of few rows serve decoding, which waits for memory: they prefetch packed
// keys and values some way ahead. The distance takes the register of steps.
const fewRows = 5

// aheadSteps: larger tiles prefetch a line of the next panel with so many steps.
const aheadSteps = 2

func (t *tileProgram) prefetchesAhead(r, n, vecs int) bool {
	return r <= fewRows && n == 1 && vecs == panel/lanes && !t.paged && !t.masked
}

// groupStep reads b in place: with several panels there is no register left for it.
func (t *tileProgram) groupStep(r, n, vecs, disp int) {
	if t.prefetchesRows {
		t.prefetchRows()
	}
	for i := range r {
		VBROADCASTSS(at3(a0, a3, aStride, i, disp), ymm[12+i])
	}
	for p := range n {
		b := Mem{Base: b0}
		switch p {
		case 1, 2:
			b.Index, b.Scale = a3, uint8(p)
		case 3:
			LEAQ(Mem{Base: b0, Index: a3, Scale: 2}, cPtr)
			b.Base, b.Index, b.Scale = cPtr, a3, 1
		}
		for v := range vecs {
			b.Disp = v * vector
			for i := range r {
				VFMADD231PS(b, ymm[12+i], acc(i, p*vecs+v, n*vecs))
			}
		}
	}
	ADDQ(bStride, b0)
}

// prefetchRows prefetches the columns at hand of the row of values 16 rows ahead.
// The whole row instead, or its distance doubled, brings less.
func (t *tileProgram) prefetchRows() {
	at := cPtr
	LEAQ(Mem{Base: b0, Index: bStride, Scale: 8}, at)
	for line := range rowLines {
		PREFETCHT0(Mem{Base: at, Index: bStride, Scale: 8, Disp: line * lineBytes})
	}
}

const rowLines = 4

// maskedStep takes b as 0 for rows whose weight has its sign bit set.
func (t *tileProgram) maskedStep(r, vecs, disp int) {
	VXORPS(ymm[11], ymm[11], ymm[11])
	for v := range vecs {
		VMOVUPS(Mem{Base: b0, Disp: v * vector}, ymm[12+v])
	}
	ADDQ(bStride, b0)
	for i := range r {
		VBROADCASTSS(at3(a0, a3, aStride, i, disp), ymm[14])
		for v := range vecs {
			VBLENDVPS(ymm[14], ymm[11], ymm[12+v], ymm[10])
			VFMADD231PS(ymm[10], ymm[14], acc(i, v, vecs))
		}
	}
}

func (t *tileProgram) advance(r, n int) {
	ADDQ(imm(4*n), a0)
	if r > 3 {
		ADDQ(imm(4*n), a3)
	}
}

func (t *tileProgram) store(r, vecs int) {
	if r <= 3 && !t.masked && vecs > 2 {
		MOVQ(t.c, cPtr) // groupStep needed the register
	}
	t.rowPointers(r)
	for i := range r {
		for v := range vecs {
			VMOVUPS(acc(i, v, vecs), at3(cPtr, a0, cStride, i, v*vector))
		}
	}
}

// frame reserves the stack slots.
func (t *tileProgram) frame() {
	slots := []*Mem{&t.alpha, &t.panels, &t.half, &t.panelStride, &t.c, &t.a, &t.rows, &t.firstAlpha, &t.steps, &t.request,
		&t.after, &t.ahead, &t.aheadEnd, &t.distance, &t.fourPanels, &t.sequential, &t.onePanel, &t.left, &t.some, &t.nextC, &t.nextB, &t.nextPanels, &t.nextHalf,
		&t.touched.line, &t.touched.rowEnd, &t.touched.gap, &t.touched.width}
	f := AllocLocal(8 * len(slots))
	for i, s := range slots {
		*s = f.Offset(8 * i)
	}
}

func scoreKernel() {
	TEXT("scoreSIMD", 4, "func(s, q, k *float32, rows, d, panels int, next *uintptr)") // NOSPLIT
	t := tileProgram{name: "score", start: fromZero, unroll: 4}
	t.frame()
	spill("s", t.c)
	spill("q", t.a)
	Load(Param("k"), bPtr)
	spill("rows", t.rows)
	spill("panels", t.panels)
	Load(Param("d"), steps)
	MOVQ(U32(blockBytes), cStride)
	MOVQ(steps, aStride)
	SHLQ(Imm(2), aStride)
	MOVQ(U32(panelBytes), bStride)
	MOVQ(steps, a0)
	SHLQ(Imm(6), a0)
	MOVQ(a0, t.panelStride)
	MOVQ(I32(0), t.half)
	MOVQ(I32(0), t.firstAlpha)
	MOVQ(steps, t.steps)
	MOVQ(I32(0), t.sequential)
	MOVQ(I32(0), t.onePanel)
	MOVQ(I32(0), t.distance)
	MOVQ(I32(0), t.fourPanels)
	ofQueue(a0, func() {
		t.setAccess(a0, "prefetchQueue.access", t.onePanel)
	})
	pointerOf(a0)
	startPages(a0, a3, t.request)
	t.emit()
}

func accumulateKernel() {
	TEXT("accumulateSIMD", 4, "func(o, p, v, alpha *float32, rows, oStride, pStride int, b *uintptr)")
	t := tileProgram{name: "accumulate", start: fromAlpha, unroll: 4}
	t.accumulate()
}

func accumulateMaskedKernel() {
	TEXT("accumulateMaskedSIMD", 4, "func(o, p, v, alpha *float32, rows, oStride, pStride int, b *uintptr)")
	t := tileProgram{name: "accumulateMasked", start: fromAlpha, masked: true, unroll: 1}
	t.accumulate()
}

// accumulate loads the arguments.
func (t *tileProgram) accumulate() {
	t.frame()
	spill("o", t.c)
	spill("p", t.a)
	Load(Param("v"), bPtr)
	spill("alpha", t.firstAlpha)
	spill("rows", t.rows)
	Load(Param("oStride"), cStride)
	SHLQ(Imm(2), cStride)
	Load(Param("pStride"), aStride)
	SHLQ(Imm(2), aStride)
	Load(Param("b"), b0)
	used := t.unique("used")
	CMPB(field(b0, "panelLayout.overwrite"), Imm(0))
	JE(LabelRef(used))
	MOVQ(I32(overwriteOutputs), t.firstAlpha)
	Label(used)
	MOVQ(field(b0, "panelLayout.keys"), steps)
	MOVQ(field(b0, "panelLayout.cols"), a0)
	MOVQ(a0, count)
	SHRQ(Imm(4), a0)
	MOVQ(a0, t.panels)
	ANDQ(Imm(8), count)
	MOVQ(count, t.half)
	MOVQ(field(b0, "panelLayout.stride"), bStride)
	SHLQ(Imm(2), bStride)
	MOVQ(field(b0, "panelLayout.panelStride"), a0)
	SHLQ(Imm(2), a0)
	MOVQ(a0, t.panelStride)
	if !t.masked {
		t.setAccess(b0, "panelLayout.access", t.sequential)
		MOVQ(field(b0, "panelLayout.access", "access.pointer"), a0)
		startPages(a0, a3, t.request)
		MOVQ(field(b0, "panelLayout.after"), a0)
		MOVQ(a0, t.after)
		t.firstSteps()
		MOVQ(steps, t.steps)
	}
	t.emit()
}

// setAccess takes over how memory is to be read: the fields of the access that a struct at base embeds, but the pointer.
func (t *tileProgram) setAccess(base reg.Register, embedded string, sequential Mem) {
	few := t.unique("prefetchFew")
	MOVBQZX(field(base, embedded, "access.sequential"), a3)
	MOVQ(a3, sequential)
	MOVBQZX(field(base, embedded, "access.fourPanels"), a3)
	MOVQ(a3, t.fourPanels)
	MOVQ(field(base, embedded, "access.prefetchFew"), a3)
	CMPQ(t.rows, Imm(2))
	JG(LabelRef(few))
	MOVQ(field(base, embedded, "access.prefetchOne"), a3)
	Label(few)
	MOVQ(a3, t.distance)
}

// Where the caller's rows of values are many panels long, going through all of them four panels
// at a time is reading here and there. If they are to be read in order instead, few
// queries take some steps at a time, all columns of these, and keep the sums in c: one query
// sequentialSteps, or eight panels at once (wholeRows), and nothing is prefetched; more queries
// touchBytes of rows, while they touch the next ones, or prefetch along a pointer. One query of up to four panels is in order anyway.
const (
	sequentialSteps = 4
	sequentialRows  = 4
	fourPanels      = 4 // at once for one query
)

// firstSteps leaves in steps those to begin with, and in onePanel whether packed panels are to be read in order.
func (t *tileProgram) firstSteps() {
	all, one, ready := t.unique("allSteps"), t.unique("oneRow"), t.unique("someSteps")
	MOVQ(I32(0), t.left)
	MOVQ(I32(0), t.touched.line)
	MOVQ(I32(0), t.onePanel)
	t.unlessSequential(all)
	not, rowsToo := t.unique("notSequential"), t.unique("sequential")
	MOVQ(I32(1), t.onePanel)
	CMPQ(t.panelStride, imm(panelBytes))
	JNE(LabelRef(not))
	MOVQ(I32(0), t.onePanel)
	CMPQ(t.rows, Imm(sequentialRows))
	JLE(LabelRef(rowsToo))
	Label(not)
	MOVQ(I32(0), t.sequential)
	JMP(LabelRef(all))
	Label(rowsToo)
	alone := t.unique("noPointer")
	MOVQ(I32(0), t.request)
	MOVQ(I32(2*touchRows), t.some)
	t.beginAlong(alone)
	Label(alone)
	MOVQ(I32(0), t.distance)
	MOVQ(bPtr, t.nextB)
	for _, kept := range t.keptForSteps() {
		move(kept.slot, kept.next)
	}
	CMPQ(t.touched.line, Imm(0))
	JNE(LabelRef(ready))
	CMPQ(t.rows, Imm(1))
	JE(LabelRef(one))
	short := t.unique("shortRows")
	CMPQ(t.panels, imm(touchBytes/panelBytes/2/touchRows))
	JLE(LabelRef(short))
	MOVQ(I32(touchRows), t.some)
	Label(short)
	t.beginTouching(all)
	JMP(LabelRef(ready))
	Label(one)
	MOVQ(I32(sequentialSteps), t.some)
	CMPQ(t.panels, imm(wholePanels))
	JE(LabelRef(all))
	CMPQ(t.panels, imm(fourPanels))
	JLE(LabelRef(all))
	Label(ready)
	CMPQ(steps, t.some)
	JLE(LabelRef(all))
	MOVQ(steps, a0)
	MOVQ(t.some, steps)
	SUBQ(steps, a0)
	MOVQ(a0, t.left)
	Label(all)
	t.touchNext()
}

// unlessSequential jumps if rows are not read in order.
func (t *tileProgram) unlessSequential(to string) {
	CMPQ(t.sequential, Imm(0))
	JE(LabelRef(to))
}

// nextSteps goes back to begin if there are steps left.
func (t *tileProgram) nextSteps(begin string) {
	if t.masked || t.start == fromZero {
		return
	}
	end, whole := t.unique("noSteps"), t.unique("wholeSteps")
	CMPQ(t.left, Imm(0))
	JE(LabelRef(end))
	MOVQ(t.some, steps)
	LEAQ(Mem{Base: steps, Index: steps, Scale: 1}, a0)
	ADDQ(a0, a0)
	ADDQ(a0, t.a)
	MOVQ(bStride, bPtr)
	IMULQ(steps, bPtr)
	ADDQ(t.nextB, bPtr)
	MOVQ(bPtr, t.nextB)
	for _, kept := range t.keptForSteps() {
		move(kept.next, kept.slot)
	}
	MOVQ(I32(noAlpha), t.firstAlpha)
	CMPQ(t.left, steps)
	JGE(LabelRef(whole))
	MOVQ(t.left, steps)
	Label(whole)
	SUBQ(steps, t.left)
	MOVQ(steps, t.steps)
	t.touchNext()
	JMP(LabelRef(begin))
	Label(end)
}

// wholeRows takes eight panels of one row of c at once, if they are to be read in order. That is
// one vector more than there are registers for, three with those of a step: these stay in c.
func (t *tileProgram) wholeRows() {
	next, loop, step := t.label("wholeNext"), t.label("whole"), t.label("wholeStep")
	t.unlessSequential(next)
	CMPQ(t.rows, Imm(1))
	JNE(LabelRef(next))
	Label(loop)
	CMPQ(t.panels, imm(wholePanels))
	JL(LabelRef(next))
	MOVQ(t.c, cPtr)
	MOVQ(t.a, a0)
	MOVQ(bPtr, b0)
	t.beginWhole()
	MOVQ(steps, count)
	along, done := t.label("wholeAlong"), t.label("wholeDone")
	CMPQ(t.touched.line, Imm(0))
	JNE(LabelRef(along))
	t.wholeSteps(step, func() {})
	JMP(LabelRef(done))
	Label(along)
	MOVQ(t.touched.line, a3)
	t.wholeSteps(step+"Along", func() { prefetchLines(a3, wholePanels) })
	MOVQ(a3, t.touched.line)
	Label(done)
	for v := range wholeAcc {
		VMOVUPS(ymm[v], Mem{Base: cPtr, Disp: v * vector})
	}
	ADDQ(imm(wholePanels*panelBytes), t.c)
	ADDQ(imm(wholePanels*panelBytes), bPtr)
	SUBQ(imm(wholePanels), t.panels)
	JMP(LabelRef(loop))
	Label(next)
}

// wholeSteps is the loop over steps of wholeRows, with something beside each.
func (t *tileProgram) wholeSteps(step string, beside func()) {
	Label(step)
	beside()
	VBROADCASTSS(Mem{Base: a0}, ymm[14])
	for v := range wholeVectors {
		b, c := Mem{Base: b0, Disp: v * vector}, Mem{Base: cPtr, Disp: v * vector}
		if v < wholeAcc {
			VFMADD231PS(b, ymm[14], ymm[v])
			continue
		}
		VMOVUPS(c, ymm[13])
		VFMADD231PS(b, ymm[14], ymm[13])
		VMOVUPS(ymm[13], c)
	}
	ADDQ(bStride, b0)
	ADDQ(Imm(4), a0)
	DECQ(count)
	JNE(LabelRef(step))
}

const (
	wholePanels  = 8
	wholeVectors = wholePanels * panel / lanes
	wholeAcc     = 13 // vectors in registers
)

// beginWhole makes c what wholeRows begins with: c·alpha, c or 0.
func (t *tileProgram) beginWhole() {
	plain, overwrite, ready := t.label("wholeKeep"), t.label("wholeOverwrite"), t.label("wholeReady")
	start := func(v int, set func(c Mem, to reg.VecPhysical)) {
		c, to := Mem{Base: cPtr, Disp: v * vector}, ymm[min(v, wholeAcc)]
		set(c, to)
		if v >= wholeAcc {
			VMOVUPS(to, c)
		}
	}
	all := func(set func(c Mem, to reg.VecPhysical)) {
		for v := range wholeVectors {
			start(v, set)
		}
	}
	MOVQ(t.firstAlpha, count)
	CMPQ(count, imm(overwriteOutputs))
	JE(LabelRef(overwrite))
	JB(LabelRef(plain))
	VBROADCASTSS(Mem{Base: count}, ymm[14])
	all(func(c Mem, to reg.VecPhysical) { VMULPS(c, ymm[14], to) })
	JMP(LabelRef(ready))
	Label(plain)
	for v := range wholeAcc {
		VMOVUPS(Mem{Base: cPtr, Disp: v * vector}, ymm[v])
	}
	JMP(LabelRef(ready))
	Label(overwrite)
	all(func(_ Mem, to reg.VecPhysical) { VXORPS(to, to, to) })
	Label(ready)
}

// keptForSteps are the slots that each of several groups of steps begins with.
func (t *tileProgram) keptForSteps() []struct{ slot, next Mem } {
	return []struct{ slot, next Mem }{{t.c, t.nextC}, {t.panels, t.nextPanels}, {t.half, t.nextHalf}}
}

// move copies a stack slot.
func move(from, to Mem) {
	MOVQ(from, a0)
	MOVQ(a0, to)
}
