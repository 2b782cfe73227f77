package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// Where the caller's rows of values are many panels long, four panels of all rows at a time are
// read out of order. Calls of few queries that are to read in order do some steps at a time
// instead, with all columns, and keep the sums in c:
//
//   - one query does sequentialSteps, or eight panels at once (wholeRows), and prefetches nothing;
//     up to four panels are in order anyway,
//   - more queries read touchBytes of rows, while they touch the next ones (sequential.go), or
//     prefetch along a pointer.
const (
	sequentialSteps = 4
	sequentialRows  = 4 // more queries than these do not wait for memory
	fourPanels      = 4 // at once for one query
)

// firstSteps leaves in steps the number of steps to begin with, and in onePanel whether packed
// panels are to be read in order.
func (t *tileProgram) firstSteps() {
	all, one, ready := t.unique("allSteps"), t.unique("oneRow"), t.unique("someSteps")
	MOVQ(I32(0), t.left)
	MOVQ(I32(0), t.touched.line)
	MOVQ(I32(0), t.onePanel)
	t.unlessSequential(all)
	packed, inOrder := t.unique("notSequential"), t.unique("inOrder")
	MOVQ(I32(1), t.onePanel)
	CMPQ(t.panelStride, imm(panelBytes))
	JNE(LabelRef(packed))
	MOVQ(I32(0), t.onePanel)
	CMPQ(t.rows, Imm(sequentialRows))
	JLE(LabelRef(inOrder))
	Label(packed)
	MOVQ(I32(0), t.inOrder)
	JMP(LabelRef(all))
	Label(inOrder)
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
	CMPQ(chainSteps, t.some)
	JLE(LabelRef(all))
	MOVQ(chainSteps, a0)
	MOVQ(t.some, chainSteps)
	SUBQ(chainSteps, a0)
	MOVQ(a0, t.left)
	Label(all)
	t.touchNext()
}

// unlessSequential jumps if rows are not read in order.
func (t *tileProgram) unlessSequential(to string) {
	CMPQ(t.inOrder, Imm(0))
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
	MOVQ(t.some, chainSteps)
	LEAQ(Mem{Base: chainSteps, Index: chainSteps, Scale: 1}, a0)
	ADDQ(a0, a0)
	ADDQ(a0, t.a)
	MOVQ(bStride, bPtr)
	IMULQ(chainSteps, bPtr)
	ADDQ(t.nextB, bPtr)
	MOVQ(bPtr, t.nextB)
	for _, kept := range t.keptForSteps() {
		move(kept.next, kept.slot)
	}
	t.outputs.keep(a0)
	CMPQ(t.left, chainSteps)
	JGE(LabelRef(whole))
	MOVQ(t.left, chainSteps)
	Label(whole)
	SUBQ(chainSteps, t.left)
	MOVQ(chainSteps, t.steps)
	t.touchNext()
	JMP(LabelRef(begin))
	Label(end)
}

// keptForSteps are the slots that each group of steps begins with, and where their values are kept.
func (t *tileProgram) keptForSteps() []struct{ slot, next Mem } {
	return []struct{ slot, next Mem }{{t.c, t.nextC}, {t.panels, t.nextPanels}, {t.half, t.nextHalf}}
}

// beginTouching touches the first rows of values, as many as are read at a time, or jumps to none.
func (t *tileProgram) beginTouching(none string) {
	s := &t.touched
	CMPQ(chainSteps, t.some)
	JL(LabelRef(none))
	MOVQ(t.panels, a3)
	SHLQ(Imm(6), a3) // a last half panel is not worth it
	MOVQ(a3, s.width)
	JZ(LabelRef(none))
	MOVQ(bStride, a0)
	SUBQ(a3, a0)
	MOVQ(a0, s.gap)
	MOVQ(bPtr, s.line)
	ADDQ(bPtr, a3)
	MOVQ(a3, s.rowEnd)
	first := t.unique("touchFirst")
	MOVQ(t.panels, b0)
	Label(first)
	t.eachEight(1, t.touchEight)
	DECQ(b0)
	JNE(LabelRef(first))
}

// touchNext prepares to touch the rows of values after the current ones, if there are enough.
func (t *tileProgram) touchNext() {
	s, none := &t.touched, t.unique("touchNone")
	CMPQ(s.line, Imm(0))
	JE(LabelRef(none))
	CMPQ(s.rowEnd, imm(alongPointer))
	JE(LabelRef(none))
	MOVQ(t.some, a0)
	CMPQ(t.left, a0)
	JGE(LabelRef(none))
	MOVQ(I32(0), s.line)
	Label(none)
}

// alongPointer is in the place of a row's end where lines are not touched but prefetched along a
// pointer.
const alongPointer = 0

// beginAlong begins to prefetch along the pointer, or goes to none if there is no pointer.
func (t *tileProgram) beginAlong(none string) {
	MOVQ(hint(b0, "PanelLayout", "Pointer"), a0)
	TESTQ(a0, a0)
	JE(LabelRef(none))
	ADDQ(imm(prefetchWindow), a0)
	MOVQ(a0, t.touched.line)
	MOVQ(I32(alongPointer), t.touched.rowEnd)
}

// touchLines touches, or prefetches, the lines that are due with n panels.
func (t *tileProgram) touchLines(n int) {
	if t.masked || t.start == fromZero || t.paged || t.prefetchesRows {
		return // pages are not in order
	}
	none, touched := t.unique("untouched"), t.unique("touched")
	CMPQ(t.touched.line, Imm(0))
	JE(LabelRef(none))
	CMPQ(t.touched.rowEnd, imm(alongPointer))
	JNE(LabelRef(touched))
	MOVQ(t.touched.line, a0)
	t.eachEight(n, func() { prefetchLines(a0, touchRows) })
	MOVQ(a0, t.touched.line)
	JMP(LabelRef(none))
	Label(touched)
	t.eachEight(n, t.touchEight)
	Label(none)
}

// eachEight runs do for each 8 of the rows that are read at a time, for each of n panels.
func (t *tileProgram) eachEight(n int, do func()) {
	loop := t.unique("eight")
	IMUL3Q(U32(n), t.some, stepsLeft)
	Label(loop)
	do()
	SUBQ(imm(touchRows), stepsLeft)
	JG(LabelRef(loop))
}

// touchEight touches 8 lines: a panel of 8 rows.
func (t *tileProgram) touchEight() {
	s := &t.touched
	MOVQ(s.line, a0)
	for range touchRows {
		same := t.unique("touchSame")
		TESTL(a0.As32(), Mem{Base: a0})
		ADDQ(imm(lineBytes), a0)
		CMPQ(a0, s.rowEnd)
		JB(LabelRef(same))
		ADDQ(s.gap, a0)
		MOVQ(a0, a3)
		ADDQ(s.width, a3)
		MOVQ(a3, s.rowEnd)
		Label(same)
	}
	MOVQ(a0, s.line)
}
