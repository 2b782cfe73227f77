package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	wholePanels  = 8
	wholeVectors = wholePanels * panel / lanes
	wholeAcc     = 13 // vectors in registers
)

// wholeRows takes eight panels of one row of c at once, if they are to be read in order. Its
// vectors are one more than there are registers, and a step needs two besides: three vectors stay
// in c.
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

// wholeSteps is the loop over the steps of wholeRows; beside is emitted in each.
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

// beginWhole sets the sums, in registers and in c, to c·alpha, c or 0.
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
