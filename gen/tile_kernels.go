package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

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
