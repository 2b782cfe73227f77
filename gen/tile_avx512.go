package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The micro-kernel of score and accumulate with 16 lanes, for AVX-512: a panel is one vector.
//
// A tile of 6 rows × 4 panels keeps 24 accumulators in registers, at 10 loads for 24 FMAs; one of
// 12 rows × 2 panels has 14, but needs half as much of the L1 cache for b.

const (
	avx512Lanes  = 16              // float32 of a vector
	avx512Vector = 4 * avx512Lanes // bytes
)

// avx512Tiles are the tiles, by the number of panels side by side, and the most rows of one.
// None has less than fewestRows, nor have calls.
var avx512Tiles = []struct {
	name            string
	panels, maxRows int
}{{"quad", 4, 6}, {"pair", 2, 12}, {"single", 1, 12}}

const (
	fewestRows = 2

	// quadSteps is the longest chain of tiles of four panels, which are 32 KiB then, unless
	// one tile has all rows.
	quadSteps = 128

	// maxPairRows is up to how many rows two panels at a time are better than four, if
	// there are more than one tile of four takes: keys and values then come from memory
	// during the first tile, and the fewer tiles, the longer that one computes beside.
	maxPairRows = 24
)

// Registers by role; those that tileProgram has as well are the same ones.
var (
	avx512Temp        = reg.RDX
	avx512PanelStride = reg.R8
	a6                = reg.R12
	a9                = reg.R11
	b1                = a9 // moving through the second panel of b, in tiles of few rows
)

// avx512RowPointers are what rows 0, 3, 6 and 9 of a tile are addressed by.
var avx512RowPointers = []reg.Register{a0, a3, a6, a9}

// zmm is in order of use: Z15 belongs to the runtime.
var zmm = []reg.VecPhysical{
	reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23, reg.Z24, reg.Z25, reg.Z26,
	reg.Z27,
	reg.Z28, reg.Z29, reg.Z30, reg.Z31, reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7,
	reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12,
}

const avx512Unroll = 4 // less is slower, more no faster

const avx512B, avx512A = 24, 28 // indices of the first vector of b, and of the broadcast of a

// avx512Program emits one kernel on the micro-kernel.
type avx512Program struct {
	start start

	alpha, firstAlpha Mem // stack slots, as in tileProgram
	panels, b         Mem // stack slots: panels left, the first of them
	c, a              Mem // stack slots: first row of c in this panel, of a
	cStride           Mem // stack slot: bytes between rows of c
	rows, rest        Mem // stack slots: all rows, and those left in this panel
	steps             Mem // stack slot: the length of the chains
	// stack slot: the next address to prefetch if there is a prefetch pointer, else 0
	request Mem
}

func (w *avx512Program) frame() {
	slots := []*Mem{&w.alpha, &w.firstAlpha, &w.panels, &w.b, &w.c, &w.a, &w.cStride, &w.rows, &w.rest,
		&w.steps, &w.request}
	f := AllocLocal(8 * len(slots))
	for i, s := range slots {
		*s = f.Offset(8 * i)
	}
}

// avx512Row addresses row r of a tile through its pointers.
func avx512Row(r int, stride reg.Register, disp int) Mem {
	m := Mem{Base: avx512RowPointers[r/3], Disp: disp}
	if r%3 > 0 {
		m.Index, m.Scale = stride, uint8(r%3)
	}
	return m
}

// pointAtRows sets the pointers for r rows from p on. It may be the first of them.
func pointAtRows(p, stride reg.Register, r int) {
	if p != avx512RowPointers[0] {
		MOVQ(p, avx512RowPointers[0])
	}
	for i := 3; i < r; i += 3 {
		at := avx512RowPointers[i/3]
		LEAQ(Mem{Base: avx512RowPointers[i/3-1], Index: stride, Scale: 2}, at)
		ADDQ(stride, at)
	}
}

// emit writes the loops over panels and row tiles.
func (w *avx512Program) emit() {
	for _, t := range avx512Tiles {
		w.panelLoop(t.name, t.panels, t.maxRows)
	}
	VZEROUPPER()
	RET()
}

// panelLoop walks over the panels, n at a time.
func (w *avx512Program) panelLoop(name string, n, maxRows int) {
	end := name + "End"
	if n == 4 {
		w.unlessQuads(end, maxRows)
	}
	Label(name)
	CMPQ(w.panels, imm(n))
	JL(LabelRef(end))
	MOVQ(w.c, cPtr)
	MOVQ(w.a, aPtr)
	MOVQ(w.rows, count)
	MOVQ(count, w.rest)
	MOVQ(w.firstAlpha, a0)
	MOVQ(a0, w.alpha)
	Label(name + "Rows")
	MOVQ(w.rest, count)
	w.choose(name, maxRows)
	for r := maxRows; r >= fewestRows; r-- {
		Label(avx512Label(name, r))
		w.tile(r, n)
		SUBQ(imm(r), w.rest)
		JMP(LabelRef(name + "Rows"))
	}
	Label(name + "Next")
	ADDQ(imm(n*avx512Vector), w.c)
	IMUL3Q(U32(uint32(n)), avx512PanelStride, a0)
	ADDQ(a0, w.b)
	SUBQ(imm(n), w.panels)
	JMP(LabelRef(name))
	Label(end)
}

// unlessQuads jumps if tiles of four panels and most rows are not the best ones.
func (w *avx512Program) unlessQuads(to string, maxRows int) {
	quads := unique("quads")
	CMPQ(w.rows, imm(maxRows))
	JLE(LabelRef(quads))
	CMPQ(w.steps, imm(quadSteps))
	JG(LabelRef(to))
	CMPQ(w.rows, imm(maxPairRows))
	JLE(LabelRef(to))
	Label(quads)
}

func avx512Label(name string, rows int) string { return fmt.Sprintf("%s%d", name, rows) }

// choose jumps to the tile for the rows that are left. What is less than two tiles is
// divided in two equal ones, so that none has too few chains.
func (w *avx512Program) choose(name string, maxRows int) {
	to := func(least, rows int) {
		CMPQ(count, imm(least))
		JGE(LabelRef(avx512Label(name, rows)))
	}
	to(2*maxRows-1, maxRows)
	for rows := maxRows - 1; 2*rows-1 > maxRows; rows-- {
		to(2*rows-1, rows)
	}
	for rows := maxRows; rows >= fewestRows; rows-- {
		to(rows, rows)
	}
	JMP(LabelRef(name + "Next"))
}

// tile computes r rows × n panels and moves cPtr, aPtr and alpha on.
func (w *avx512Program) tile(r, n int) {
	Commentf("%d rows × %d columns.", r, n*panel)
	w.begin(r, n)
	pointAtRows(aPtr, aStride, r)
	MOVQ(w.b, b0)
	if n == 4 {
		LEAQ(Mem{Base: b0, Index: avx512PanelStride, Scale: 1}, b1)
	}
	MOVQ(w.steps, count)
	loop, tail, one, end := unique("loop"), unique("tail"), unique("one"), unique("end")
	SUBQ(imm(avx512Unroll), count)
	JL(LabelRef(tail))
	if n > 1 {
		w.prefetchingLoop(r, n, loop, tail)
	}
	Label(loop)
	for u := range avx512Unroll {
		w.step(r, n, 4*u)
	}
	w.advance(r, avx512Unroll)
	SUBQ(imm(avx512Unroll), count)
	JGE(LabelRef(loop))
	Label(tail)
	ADDQ(imm(avx512Unroll), count)
	JE(LabelRef(end))
	Label(one)
	w.step(r, n, 0)
	w.advance(r, 1)
	DECQ(count)
	JNE(LabelRef(one))
	Label(end)
	w.store(r, n)
	IMUL3Q(U32(uint32(r)), avx512Temp, avx512Temp)
	ADDQ(avx512Temp, cPtr)
	IMUL3Q(U32(uint32(r)), aStride, avx512Temp)
	ADDQ(avx512Temp, aPtr)
	if w.start == fromAlpha {
		w.advanceAlpha(r)
	} else {
		prefetchDue(r * n)
	}
}

// prefetchingLoop is the loop over steps that prefetches a line for every one it reads. Only the
// first tile reads them from memory; the others go to loop.
func (w *avx512Program) prefetchingLoop(r, n int, loop, tail string) {
	prefetching := unique("prefetching")
	MOVQ(w.rest, avx512Temp)
	CMPQ(avx512Temp, w.rows)
	JNE(LabelRef(loop))
	MOVQ(w.request, avx512Temp)
	TESTQ(avx512Temp, avx512Temp)
	JE(LabelRef(loop))
	Label(prefetching)
	for u := range avx512Unroll {
		prefetchPages(avx512Temp, n*u, n)
		w.step(r, n, 4*u)
	}
	nextRequests(avx512Temp, n*avx512Unroll)
	w.advance(r, avx512Unroll)
	SUBQ(imm(avx512Unroll), count)
	JGE(LabelRef(prefetching))
	MOVQ(avx512Temp, w.request)
	JMP(LabelRef(tail))
}

// step is acc(i, v) = FMA(a[i][k], b[k][v], acc(i, v)) for one k.
func (w *avx512Program) step(r, n, disp int) {
	for v := range n {
		b := Mem{Base: b0}
		switch v {
		case 1, 2:
			b.Index, b.Scale = avx512PanelStride, uint8(v)
		case 3:
			b.Base, b.Index, b.Scale = b1, avx512PanelStride, 2
		}
		VMOVUPS(b, zmm[avx512B+v])
	}
	ADDQ(bStride, b0)
	if n == 4 {
		ADDQ(bStride, b1)
	}
	for i := range r {
		VBROADCASTSS(avx512Row(i, aStride, disp), zmm[avx512A])
		for v := range n {
			VFMADD231PS(zmm[avx512B+v], zmm[avx512A], zmm[i*n+v])
		}
	}
}

func (w *avx512Program) advance(r, steps int) {
	for i := 0; i < r; i += 3 {
		ADDQ(imm(4*steps), avx512RowPointers[i/3])
	}
}

// begin sets the accumulators.
func (w *avx512Program) begin(r, n int) {
	if w.start == fromZero {
		avx512Zero(r * n)
		return
	}
	plain, overwrite, ready := unique("plain"), unique("overwrite"), unique("ready")
	MOVQ(w.alpha, count)
	CMPQ(count, imm(overwriteOutputs))
	JE(LabelRef(overwrite))
	MOVQ(w.cStride, avx512Temp)
	pointAtRows(cPtr, avx512Temp, r)
	CMPQ(count, imm(noAlpha))
	JE(LabelRef(plain))
	for i := range r {
		VBROADCASTSS(Mem{Base: count, Disp: 4 * i}, zmm[avx512A])
		for v := range n {
			VMULPS(avx512Row(i, avx512Temp, v*avx512Vector), zmm[avx512A], zmm[i*n+v])
		}
	}
	JMP(LabelRef(ready))
	Label(plain)
	for i := range r {
		for v := range n {
			VMOVUPS(avx512Row(i, avx512Temp, v*avx512Vector), zmm[i*n+v])
		}
	}
	JMP(LabelRef(ready))
	Label(overwrite)
	avx512Zero(r * n)
	Label(ready)
}

// avx512Zero clears the first n accumulators.
func avx512Zero(n int) {
	for _, v := range zmm[:n] {
		VPXORD(v, v, v)
	}
}

// store leaves the bytes between rows of c in avx512Temp.
func (w *avx512Program) store(r, n int) {
	MOVQ(w.cStride, avx512Temp)
	pointAtRows(cPtr, avx512Temp, r)
	for i := range r {
		for v := range n {
			VMOVUPS(zmm[i*n+v], avx512Row(i, avx512Temp, v*avx512Vector))
		}
	}
}

func (w *avx512Program) advanceAlpha(r int) {
	skip := unique("noAlpha")
	CMPQ(w.firstAlpha, imm(overwriteOutputs))
	JBE(LabelRef(skip))
	ADDQ(imm(4*r), w.alpha)
	Label(skip)
}

func scoreAVX512Kernel() {
	TEXT("scoreAVX512", noSplit, "func(s, q, k *float32, rows, d, panels int, next *uintptr)")
	w := avx512Program{start: fromZero}
	w.frame()
	spill("s", w.c)
	spill("q", w.a)
	spill("k", w.b)
	spill("rows", w.rows)
	spill("panels", w.panels)
	Load(Param("d"), aStride)
	MOVQ(aStride, w.steps)
	MOVQ(aStride, avx512PanelStride)
	SHLQ(Imm(2), aStride)
	SHLQ(Imm(6), avx512PanelStride)
	MOVQ(U32(panelBytes), bStride)
	MOVQ(I32(blockBytes), w.cStride)
	MOVQ(I32(noAlpha), w.firstAlpha)
	pointerOf(a0)
	startPages(a0, a3, w.request)
	w.emit()
}

func accumulateAVX512Kernel() {
	TEXT("accumulateAVX512", noSplit, "func(o, p, v, alpha *float32, rows, oStride, pStride int, b "+
		"*uintptr)")
	w := avx512Program{start: fromAlpha}
	w.frame()
	spill("o", w.c)
	spill("p", w.a)
	spill("v", w.b)
	spill("rows", w.rows)
	Load(Param("oStride"), a0)
	SHLQ(Imm(2), a0)
	MOVQ(a0, w.cStride)
	Load(Param("pStride"), aStride)
	SHLQ(Imm(2), aStride)
	Load(Param("alpha"), a0)
	Load(Param("b"), b0)
	used := unique("used")
	CMPB(field(b0, "panelLayout.overwrite"), Imm(0))
	JE(LabelRef(used))
	MOVQ(U32(overwriteOutputs), a0)
	Label(used)
	MOVQ(a0, w.firstAlpha)
	MOVQ(field(b0, "panelLayout.keys"), a0)
	MOVQ(a0, w.steps)
	MOVQ(field(b0, "panelLayout.cols"), a0)
	SHRQ(Imm(4), a0)
	MOVQ(a0, w.panels)
	MOVQ(field(b0, "panelLayout.stride"), bStride)
	SHLQ(Imm(2), bStride)
	MOVQ(field(b0, "panelLayout.panelStride"), avx512PanelStride)
	SHLQ(Imm(2), avx512PanelStride)
	MOVQ(field(b0, "panelLayout.prefetchHint", "prefetchHint.pointer"), a0)
	startPages(a0, a3, w.request)
	w.emit()
}
