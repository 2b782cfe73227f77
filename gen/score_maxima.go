package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// Score with the maxima of its rows. A pass of its own over a block of scores, for the largest of
// each row, leaves the FMA units idle. Between two steps of the micro-kernel three registers are
// free, and on Zen 3 and Zen 4 neither loads nor comparisons delay the FMA units. So while one tile
// of scores is computed, the maxima of the tile before are found, a row every few steps.
//
// Maxima are a vector for each row: the largest score in each lane.

const (
	maximaRows  = 6 // of a tile
	maximaSteps = 8 // of the micro-kernel, in which one row of the tile before is seen
)

type scoreMaximaProgram struct {
	tileProgram
	// Stack slots.
	end         Mem // the end of the tile's maxima
	seen        Mem // the scores of the tile before, 0 if there is none
	seenEnd     Mem // the end of its maxima
	firstMaxima Mem // of the first row
}

func scoreMaximaKernel() {
	TEXT("scoreMaximaSIMD", noSplit, "func(s, q, k, maxima *float32, rows, d, panels int, next "+
		"*uintptr)")
	k := scoreMaximaProgram{tileProgram: tileProgram{name: "scoreMaxima", start: fromZero, unroll: 4}}
	stackSlots(&k.c, &k.a, &k.rows, &k.panels, &k.panelStride, &k.end, &k.seen, &k.seenEnd,
		&k.firstMaxima)
	k.arguments()
	k.emptyMaxima()
	k.panelLoop()
	Comment("The last tile.")
	MOVQ(k.seen, seenRow)
	MOVQ(k.seenEnd, seenMaxima)
	SUBQ(imm(maximaRows*vector), seenMaxima)
	for range maximaRows {
		k.look()
	}
	VZEROUPPER()
	RET()
}

// Registers for the scan of the tile before. Elsewhere these registers hold strides, which are
// constants here.
var (
	seenRow    = cStride
	seenMaxima = bStride
)

func (k *scoreMaximaProgram) strides() {
	MOVQ(U32(blockBytes), cStride)
	MOVQ(U32(panelBytes), bStride)
}

func (k *scoreMaximaProgram) arguments() {
	spill("s", k.c)
	spill("q", k.a)
	Load(Param("k"), bPtr)
	spill("rows", k.rows)
	spill("panels", k.panels)
	Load(Param("d"), chainSteps)
	MOVQ(chainSteps, aStride)
	SHLQ(Imm(2), aStride)
	MOVQ(chainSteps, a0)
	SHLQ(Imm(6), a0)
	MOVQ(a0, k.panelStride)
	MOVQ(I32(0), k.seen)
}

// emptyMaxima sets the maxima of no score.
func (k *scoreMaximaProgram) emptyMaxima() {
	VMOVUPS(u32(bitsNegInf), ymm[0])
	Load(Param("maxima"), a0)
	MOVQ(a0, k.firstMaxima)
	MOVQ(k.rows, stepsLeft)
	Label("empty")
	VMOVUPS(ymm[0], Mem{Base: a0})
	ADDQ(imm(vector), a0)
	DECQ(stepsLeft)
	JNE(LabelRef("empty"))
}

func (k *scoreMaximaProgram) panelLoop() {
	Label("panel")
	MOVQ(k.c, cPtr)
	MOVQ(k.a, aPtr)
	MOVQ(k.rows, rowsLeft)
	MOVQ(k.firstMaxima, a0)
	MOVQ(a0, k.end)
	Label("tile")
	k.tile()
	LEAQ(Mem{Base: cPtr, Disp: -maximaRows * blockBytes}, a0)
	MOVQ(a0, k.seen)
	MOVQ(k.end, a0)
	ADDQ(imm(maximaRows*vector), a0)
	MOVQ(a0, k.end)
	MOVQ(a0, k.seenEnd)
	prefetchDue(imm(maximaRows))
	SUBQ(imm(maximaRows), rowsLeft)
	JNE(LabelRef("tile"))
	ADDQ(imm(panelBytes), k.c)
	ADDQ(k.panelStride, bPtr)
	DECQ(k.panels)
	JNE(LabelRef("panel"))
}

// tile is tileProgram's tile that also finds the maxima of the tile before.
func (k *scoreMaximaProgram) tile() {
	zeroAccumulators(2 * maximaRows)
	MOVQ(bPtr, b0)
	MOVQ(aPtr, a0)
	LEAQ(Mem{Base: aPtr, Index: aStride, Scale: 2}, a3)
	ADDQ(aStride, a3)
	MOVQ(chainSteps, stepsLeft)
	SUBQ(imm(lastSteps), stepsLeft)
	MOVQ(k.seen, seenRow)
	TESTQ(seenRow, seenRow)
	JE(LabelRef("others"))
	MOVQ(k.seenEnd, seenMaxima)
	SUBQ(imm(maximaRows*vector), seenMaxima)
	Label("looking")
	k.look()
	for u := range maximaSteps {
		k.stepAt(u)
	}
	ADDQ(imm(maximaSteps*panelBytes), b0)
	k.advance(maximaRows, maximaSteps)
	SUBQ(imm(maximaSteps), stepsLeft)
	CMPQ(seenMaxima, k.seenEnd)
	JNE(LabelRef("looking"))
	Label("others")
	k.strides()
	SUBQ(imm(k.unroll), stepsLeft)
	JL(LabelRef("tail"))
	Label("steps")
	for u := range k.unroll {
		k.step(maximaRows, 1, panel/lanes, 4*u)
	}
	k.advance(maximaRows, k.unroll)
	SUBQ(imm(k.unroll), stepsLeft)
	JGE(LabelRef("steps"))
	Label("tail")
	ADDQ(imm(k.unroll), stepsLeft)
	JE(LabelRef("last"))
	k.singleSteps(maximaRows, 1, panel/lanes)
	Label("last")
	lastStepsAndStore(maximaRows, panel/lanes, func(i, u int) Mem {
		return at3(a0, a3, aStride, i, 4*u)
	})
	for range maximaRows {
		ADDQ(aStride, aPtr)
	}
}

// stepAt is step u from where b0 is, without bStride, which is seenMaxima.
func (k *scoreMaximaProgram) stepAt(u int) {
	for v := range panel / lanes {
		VMOVUPS(Mem{Base: b0, Disp: u*panelBytes + v*vector}, ymm[12+v])
	}
	for i := range maximaRows {
		VBROADCASTSS(at3(a0, a3, aStride, i, 4*u), ymm[14])
		for v := range panel / lanes {
			VFMADD231PS(ymm[12+v], ymm[14], accumulator(i, v, panel/lanes))
		}
	}
}

// look adds the two vectors of a row to its maxima, and moves on to the next row.
func (k *scoreMaximaProgram) look() {
	x, y := ymm[12], ymm[13]
	VMOVUPS(Mem{Base: seenRow}, x)
	VMOVUPS(Mem{Base: seenRow, Disp: vector}, y)
	VMAXPS(Mem{Base: seenMaxima}, x, x) // the old maximum wins if the score is NaN
	VMAXPS(x, y, y)
	VMOVUPS(y, Mem{Base: seenMaxima})
	ADDQ(imm(blockBytes), seenRow)
	ADDQ(imm(vector), seenMaxima)
}
