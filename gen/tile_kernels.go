package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// frame reserves the stack slots.
func (t *tileProgram) frame() {
	stackSlots(append(t.outputs.slots(), &t.panels, &t.half, &t.panelStride, &t.c, &t.a, &t.rows,
		&t.steps, &t.firstRound, &t.request, &t.stream, &t.after, &t.ahead, &t.aheadEnd, &t.distance,
		&t.fourPanels, &t.inOrder, &t.onePanel, &t.left, &t.some,
		&t.nextC, &t.nextB, &t.nextPanels, &t.nextHalf,
		&t.touched.line, &t.touched.rowEnd, &t.touched.gap, &t.touched.width)...)
}

func scoreKernel() {
	TEXT("scoreSIMD", noSplit, "func(s, q, k *float32, rows, d, panels int, next *uintptr)")
	t := tileProgram{name: "score", start: fromZero, unroll: 4}
	t.frame()
	spill("s", t.c)
	spill("q", t.a)
	Load(Param("k"), bPtr)
	spill("rows", t.rows)
	spill("panels", t.panels)
	Load(Param("d"), chainSteps)
	MOVQ(U32(blockBytes), cStride)
	MOVQ(chainSteps, aStride)
	SHLQ(Imm(2), aStride)
	MOVQ(U32(panelBytes), bStride)
	MOVQ(chainSteps, a0)
	SHLQ(Imm(6), a0)
	MOVQ(a0, t.panelStride)
	MOVQ(I32(0), t.half)
	MOVQ(chainSteps, t.steps)
	MOVQ(I32(0), t.inOrder)
	MOVQ(I32(0), t.onePanel)
	MOVQ(I32(0), t.distance)
	MOVQ(I32(0), t.fourPanels)
	ofQueue(a0, func() { t.takeHint(a0, "PrefetchQueue", t.onePanel) })
	pointerOf(a0)
	startPages(a0, a3, t.request)
	t.emit()
}

const accumulateSignature = "func(o, p, v, alpha *float32, rows, oStride, pStride int, b *uintptr)"

func accumulateKernel() {
	TEXT("accumulateSIMD", noSplit, accumulateSignature)
	t := tileProgram{name: "accumulate", start: fromAlpha, unroll: 4}
	t.accumulate()
}

func accumulateMaskedKernel() {
	TEXT("accumulateMaskedSIMD", noSplit, accumulateSignature)
	t := tileProgram{name: "accumulateMasked", start: fromAlpha, masked: true, unroll: 1}
	t.accumulate()
}

// accumulate loads the arguments and writes the loops.
func (t *tileProgram) accumulate() {
	t.frame()
	spill("o", t.c)
	spill("p", t.a)
	Load(Param("v"), bPtr)
	spill("rows", t.rows)
	Load(Param("oStride"), cStride)
	SHLQ(Imm(2), cStride)
	Load(Param("pStride"), aStride)
	SHLQ(Imm(2), aStride)
	Load(Param("b"), b0)
	t.outputs.arguments(b0, a0)
	MOVQ(fieldOf(b0, "PanelLayout.Keys"), chainSteps)
	MOVQ(fieldOf(b0, "PanelLayout.Cols"), a0)
	MOVQ(a0, stepsLeft)
	SHRQ(Imm(4), a0)
	MOVQ(a0, t.panels)
	ANDQ(Imm(8), stepsLeft)
	MOVQ(stepsLeft, t.half)
	MOVQ(fieldOf(b0, "PanelLayout.Stride"), bStride)
	SHLQ(Imm(2), bStride)
	MOVQ(fieldOf(b0, "PanelLayout.PanelStride"), a0)
	SHLQ(Imm(2), a0)
	MOVQ(a0, t.panelStride)
	if !t.masked {
		t.takeHint(b0, "PanelLayout", t.inOrder)
		t.startRequests()
		MOVQ(fieldOf(b0, "PanelLayout.After"), a0)
		MOVQ(a0, t.after)
		t.firstSteps()
		MOVQ(chainSteps, t.steps)
	}
	t.emit()
}

// takeHint loads how memory is to be read: the prefetch hint of a struct at base, without its
// pointer. inOrder is the slot for the hint's field of that name.
func (t *tileProgram) takeHint(base reg.Register, of string, inOrder Mem) {
	few := t.unique("prefetchFew")
	MOVBQZX(hint(base, of, "InOrder"), a3)
	MOVQ(a3, inOrder)
	MOVBQZX(hint(base, of, "FourPanels"), a3)
	MOVQ(a3, t.fourPanels)
	MOVQ(hint(base, of, "PrefetchFew"), a3)
	CMPQ(t.rows, Imm(2))
	JG(LabelRef(few))
	MOVQ(hint(base, of, "PrefetchOne"), a3)
	Label(few)
	MOVQ(a3, t.distance)
}
