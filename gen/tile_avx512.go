package main

import (
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

// avx512Tiles are the tiles, by the number of panels side by side. None has less than fewestRows,
// nor have calls.
var avx512Tiles = []struct {
	name   string
	panels int
	sizes  tileSizes
}{{"quad", 4, sizesTo(fewestRows, 6)}, {"pair", 2, manyTiles(fewestRows)},
	{"single", 1, manyTiles(fewestRows)}}

const (
	fewestRows   = 2
	mostTileRows = 12

	// quadSteps is the longest chain of tiles of four panels, which are 32 KiB then, unless
	// one tile has all rows.
	quadSteps = 128

	// maxPairRows is the largest number of rows for which two panels at a time are better than four,
	// if there are more rows than one tile of four panels has: keys and values then come from memory
	// during the first tile, and with fewer tiles the first one computes longer meanwhile.
	maxPairRows = 24
)

// Registers by role; roles that tileProgram has as well have the same registers.
var (
	avx512Temp        = reg.RDX
	avx512PanelStride = reg.R8
	a6                = reg.R12
	a9                = reg.R11
	avx512Temp2       = a6
	avx512TileRows    = a9 // after a tile: its rows
	b1                = a9 // moving through the second panel of b, in tiles of few rows
)

// avx512RowPointers are the pointers to rows 0, 3, 6 and 9 of a tile.
var avx512RowPointers = []reg.Register{a0, a3, a6, a9}

// zmm is in order of use: Z15 belongs to the runtime.
var zmm = []reg.VecPhysical{
	reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23, reg.Z24, reg.Z25, reg.Z26,
	reg.Z27,
	reg.Z28, reg.Z29, reg.Z30, reg.Z31, reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7,
	reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12,
}

// avx512Unroll is how many steps of a tile a round of its loop has: 2 are slower by 1 to 2 %, more
// than 4 no faster. So tiles that only calls of few rows and the last rows use have 2 steps, unless
// they are short.
func avx512Unroll(r, n int) int {
	if r*n >= 10 && (n == 4 && r < 6 || n == 2 && r < 7) {
		return 2
	}
	return 4
}

const avx512B, avx512A = 24, 28 // indices of the first vector of b, and of the broadcast of a

// avx512Program emits one kernel on the micro-kernel.
type avx512Program struct {
	start tileStart

	outputs    beginning
	panels, b  Mem // stack slots: panels left, the first of them
	c, a       Mem // stack slots: first row of c in this panel, of a
	cStride    Mem // stack slot: bytes between rows of c
	rows, rest Mem // stack slots: all rows, and rows left in this panel
	steps      Mem // stack slot: the length of the chains
	// stack slots: the next address to prefetch if there is a prefetch pointer, else 0, and its value
	// for the current tile
	request, requestNow Mem
	// stack slots: the panels that are read after the last ones of the call, or 0, and minus the end
	// of the prefetched ones
	after, afterEnd Mem
	firstRound      Mem // stack slot: steps of the first round
	last            Mem // stack slot: steps with which the largest tiles end by rows, or 0
}

func (w *avx512Program) frame() {
	stackSlots(append(w.outputs.slots(), &w.panels, &w.b, &w.c, &w.a, &w.cStride, &w.rows, &w.rest,
		&w.steps, &w.request, &w.requestNow, &w.after, &w.afterEnd,
		&w.firstRound, &w.last)...)
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
	w.findLast()
	for _, t := range avx512Tiles {
		sizes := t.sizes
		if t.panels == 1 && w.start == fromZero {
			sizes = sizesTo(fewestRows, 8) // a last panel of keys
		}
		w.panelLoop(t.name, t.panels, sizes)
	}
	VZEROUPPER()
	RET()
}

// panelLoop walks over the panels, n at a time.
func (w *avx512Program) panelLoop(name string, n int, sizes tileSizes) {
	end := name + "End"
	if n == 4 {
		w.unlessQuads(end, sizes[len(sizes)-1])
	}
	Label(name)
	CMPQ(w.panels, imm(n))
	JL(LabelRef(end))
	MOVQ(w.c, cPtr)
	MOVQ(w.a, aPtr)
	MOVQ(w.rows, stepsLeft)
	MOVQ(stepsLeft, w.rest)
	if n > 1 {
		move(w.request, w.requestNow)
	}
	if w.prefetchesPanels(n) {
		w.startAfter(n)
	}
	if w.start == fromAlpha {
		w.outputs.restart()
	}
	Label(name + "Rows")
	w.tileOperands(n)
	MOVQ(w.rest, avx512Temp2)
	rows := func(r int) string { return tileLabel(name, r) }
	sizes.choose(avx512Temp2, rows, name+"Next")
	for _, r := range sizes {
		Label(rows(r))
		asides := w.tile(r, n)
		MOVQ(U32(r), avx512TileRows)
		JMP(LabelRef(name + "Done"))
		asides()
	}
	Label(name + "Done")
	if n > 1 {
		w.endPrefetching(n)
	}
	w.nextRows(n, name+"Next")
	JMP(LabelRef(name + "Rows"))
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

// nextRows moves aPtr and alpha on by the rows of a tile of n panels, or goes to end after the last
// tile.
func (w *avx512Program) nextRows(n int, end string) {
	if w.start == fromZero {
		IMUL3Q(U32(n), avx512TileRows, a6)
		prefetchDue(a6)
	}
	SUBQ(avx512TileRows, w.rest)
	JE(LabelRef(end))
	MOVQ(avx512TileRows, a0)
	IMULQ(aStride, a0)
	ADDQ(a0, aPtr)
	if w.start == fromAlpha {
		w.outputs.advance(avx512TileRows)
	}
}

// tileOperands sets the pointers with which every tile of n panels begins.
func (w *avx512Program) tileOperands(n int) {
	MOVQ(w.b, b0)
	if n == 4 {
		LEAQ(Mem{Base: b0, Index: avx512PanelStride, Scale: 1}, b1)
	}
	if w.start == fromAlpha {
		w.outputs.at(cPtr, w.cStride, beginFrom, avx512Temp)
		MOVQ(w.outputs.alpha, beginAlpha)
	}
}

// tile computes r rows × n panels and moves cPtr on. It returns a function that emits its
// out-of-line code.
func (w *avx512Program) tile(r, n int) (asides func()) {
	Commentf("%d rows × %d columns.", r, n*panel)
	w.begin(r, n)
	pointAtRows(aPtr, aStride, r)
	name, unroll := unique("loop"), avx512Unroll(r, n)
	MOVQ(w.steps, stepsLeft)
	if endsByRows(r, n) {
		SUBQ(w.last, stepsLeft)
	}
	TESTQ(U32(unroll-1), stepsLeft)
	JNE(LabelRef(name + "Part"))
	if n > 1 {
		MOVQ(w.requestNow, avx512Temp)
	}
	Label(name)
	for u := range unroll {
		if u > 0 {
			Label(tileLabel(name+"Step", u))
		}
		if n > 1 {
			TESTQ(avx512Temp, avx512Temp)
			if u > 0 && w.prefetchesPanels(n) {
				JG(LabelRef(tileLabel(name+"Request", u)))
			} else {
				JNE(LabelRef(tileLabel(name+"Request", u)))
			}
			Label(tileLabel(name+"Requested", u))
		}
		w.step(0, r, n, 4*u)
	}
	w.advance(r, unroll)
	SUBQ(imm(unroll), stepsLeft)
	JG(LabelRef(name))
	if endsByRows(r, n) {
		w.endByRows(r, n)
	} else {
		w.store(r, n)
	}
	return func() {
		w.part(r, n, name)
		if n > 1 {
			w.requests(n, unroll, name)
		}
	}
}

// part goes into the midst of a round of steps: the first one has the steps that are not whole
// rounds.
func (w *avx512Program) part(r, n int, name string) {
	Label(name + "Part")
	partOfRound(avx512Unroll(r, n), avx512RowPointers[:(r+2)/3], avx512Temp, w.firstRound, func() {
		if n > 1 {
			MOVQ(w.requestNow, avx512Temp)
		}
	}, func(u int) string { return tileLabel(name+"Step", u) })
}

// prefetchesPanels reports whether tiles of n panels prefetch the panels that are read after them.
func (w *avx512Program) prefetchesPanels(n int) bool { return w.start == fromAlpha && n == 2 }

// startAfter begins to prefetch the n panels after the current ones, if layouts say so. A request
// for these is minus its address.
func (w *avx512Program) startAfter(n int) {
	none, last := unique("noneAfter"), unique("lastPanels")
	MOVQ(w.after, a0)
	TESTQ(a0, a0)
	JE(LabelRef(none))
	CMPQ(w.panels, imm(2*n))
	JL(LabelRef(last))
	MOVQ(w.b, a0)
	LEAQ(Mem{Base: a0, Index: avx512PanelStride, Scale: uint8(n)}, a0)
	Label(last)
	NEGQ(a0)
	MOVQ(a0, w.requestNow)
	IMUL3Q(I32(-n), avx512PanelStride, a3)
	ADDQ(a3, a0)
	MOVQ(a0, w.afterEnd)
	Label(none)
}

// endPrefetching keeps the next address to prefetch. Only the first tile reads steps from memory,
// and prefetches, unless all share in prefetching panels that are read after these, or two tiles
// share in prefetching pages.
func (w *avx512Program) endPrefetching(n int) {
	none, pages := unique("noneRequested"), unique("pagesRequested")
	TESTQ(avx512Temp, avx512Temp)
	JE(LabelRef(none))
	if w.prefetchesPanels(n) {
		JG(LabelRef(pages))
		MOVQ(avx512Temp, w.requestNow)
		CMPQ(avx512Temp, w.afterEnd)
		JG(LabelRef(none))
		MOVQ(I32(0), w.requestNow)
		JMP(LabelRef(none))
		Label(pages)
		first := unique("firstOnly")
		w.unlessTwoTiles(LabelRef(first))
		MOVQ(avx512Temp, w.request)
		MOVQ(avx512Temp, w.requestNow)
		JMP(LabelRef(none))
		Label(first)
	}
	MOVQ(avx512Temp, w.request)
	MOVQ(I32(0), w.requestNow)
	Label(none)
}

// unlessTwoTiles jumps if the call does not use two tiles of two panels. Two such tiles share
// prefetching page by page: each does it in every other round.
func (w *avx512Program) unlessTwoTiles(to LabelRef) {
	CMPQ(w.rows, imm(mostTileRows))
	JLE(to)
	CMPQ(w.rows, imm(2*mostTileRows))
	JG(to)
}

// requests prefetches a line for every one that a step reads, or some of the panels that are read
// later. It stands outside of the loop, to which it returns.
func (w *avx512Program) requests(n, unroll int, name string) {
	for u := range unroll {
		Label(tileLabel(name+"Request", u))
		if u == 0 && w.prefetchesPanels(n) {
			w.requestAfter(LabelRef(tileLabel(name+"Requested", u)))
		}
		if w.prefetchesPanels(n) {
			whole := unique("everyRound")
			w.unlessTwoTiles(LabelRef(whole))
			TESTQ(U32(unroll), stepsLeft)
			JNE(LabelRef(tileLabel(name+"Requested", u)))
			Label(whole)
		}
		prefetchPages(avx512Temp, n*u, n)
		if u == unroll-1 {
			nextRequests(avx512Temp, n*unroll)
		}
		JMP(LabelRef(tileLabel(name+"Requested", u)))
	}
}

// requestAfter prefetches lines of the panels that are read after the current ones into the L2
// cache: one, or the fewer tiles share in that, two or four.
func (w *avx512Program) requestAfter(done LabelRef) {
	pages, more, end := unique("pages"), unique("more"), unique("requestedAfter")
	JG(LabelRef(pages))
	NEGQ(avx512Temp)
	PREFETCHT1(Mem{Base: avx512Temp})
	ADDQ(imm(lineBytes), avx512Temp)
	CMPQ(w.rows, imm(8*mostFactors))
	JL(LabelRef(more))
	Label(end)
	NEGQ(avx512Temp)
	JMP(done)
	Label(more)
	PREFETCHT1(Mem{Base: avx512Temp})
	ADDQ(imm(lineBytes), avx512Temp)
	CMPQ(w.rows, imm(4*mostFactors))
	JGE(LabelRef(end))
	PREFETCHT1(Mem{Base: avx512Temp})
	PREFETCHT1(Mem{Base: avx512Temp, Disp: lineBytes})
	ADDQ(imm(2*lineBytes), avx512Temp)
	JMP(LabelRef(end))
	Label(pages)
}

// step is acc(i, v) = FMA(a[i][k], b[k][v], acc(i, v)) for one k, and rows i from one to before
// another.
func (w *avx512Program) step(first, end, n, disp int) {
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
	for i := first; i < end; i++ {
		if n == 1 {
			VFMADD231PS_BCST(avx512Row(i, aStride, disp), zmm[avx512B], zmm[i])
			continue
		}
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
	for i := range r {
		VBROADCASTSS(Mem{Base: beginAlpha, Disp: 4 * i}, zmm[avx512A])
		for v := range n {
			VMULPS(Mem{Base: beginFrom, Disp: v * avx512Vector}, zmm[avx512A], zmm[i*n+v])
		}
		if i+1 < r {
			ADDQ(avx512Temp, beginFrom)
		}
	}
}

// avx512Zero clears the first n accumulators.
func avx512Zero(n int) {
	for _, v := range zmm[:n] {
		VPXORD(v, v, v)
	}
}

// store leaves cPtr at the rows after these.
func (w *avx512Program) store(r, n int) {
	MOVQ(w.cStride, a0)
	for i := range r {
		for v := range n {
			VMOVUPS(zmm[i*n+v], Mem{Base: cPtr, Disp: v * avx512Vector})
		}
		ADDQ(a0, cPtr)
	}
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
	Load(Param("b"), b0)
	w.outputs.arguments(b0, a0)
	MOVQ(fieldOf(b0, "PanelLayout.Keys"), a0)
	MOVQ(a0, w.steps)
	MOVQ(fieldOf(b0, "PanelLayout.Cols"), a0)
	SHRQ(Imm(4), a0)
	MOVQ(a0, w.panels)
	MOVQ(fieldOf(b0, "PanelLayout.Stride"), bStride)
	SHLQ(Imm(2), bStride)
	MOVQ(fieldOf(b0, "PanelLayout.PanelStride"), avx512PanelStride)
	SHLQ(Imm(2), avx512PanelStride)
	MOVQ(fieldOf(b0, "PanelLayout.PrefetchHint", "PrefetchHint.Pointer"), a0)
	startPages(a0, a3, w.request)
	move(fieldOf(b0, "PanelLayout.After"), w.after)
	w.emit()
}
