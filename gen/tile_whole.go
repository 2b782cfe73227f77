package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

const (
	wholePanels  = 8
	wholeVectors = wholePanels * panel / lanes
	wholeAcc     = 13 // vectors in registers
)

// wholeRows computes eight panels of one row of c at once, if they are to be read in order. They
// have one vector more than there are registers, and a step needs two registers, so three vectors
// stay in c.
func (t *tileProgram) wholeRows() {
	next, loop, step := t.label("wholeNext"), t.label("whole"), t.label("wholeStep")
	t.unlessSequential(next)
	CMPQ(t.rows, Imm(1))
	JNE(LabelRef(next))
	Label(loop)
	CMPQ(t.panels, imm(wholePanels))
	JL(LabelRef(next))
	MOVQ(t.c, cPtr)
	t.beginWhole()
	MOVQ(t.a, a0)
	MOVQ(bPtr, b0)
	MOVQ(chainSteps, stepsLeft)
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
	DECQ(stepsLeft)
	JNE(LabelRef(step))
}

// beginWhole sets the sums, in registers and in c, to c·alpha, c or 0.
func (t *tileProgram) beginWhole() {
	from, alpha := a0, stepsLeft
	t.outputs.at(cPtr, cStride, from, a3)
	MOVQ(t.outputs.first, alpha)
	VBROADCASTSS(Mem{Base: alpha}, ymm[14])
	for v := range wholeVectors {
		to := ymm[min(v, wholeAcc)]
		VMULPS(Mem{Base: from, Disp: v * vector}, ymm[14], to)
		if v >= wholeAcc {
			VMOVUPS(to, Mem{Base: cPtr, Disp: v * vector})
		}
	}
}
