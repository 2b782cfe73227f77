package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The micro-kernel over values of fewer bits: c[r][x] = start + Σ_k a[r][k]·b[k][x], one FMA chain
// in ascending k for each element, vector lanes across x. Each b is widened in registers, once for
// all rows of a tile.
//
// Groups of panels are the outer loop and row tiles the inner one. Few rows compute several panels
// side by side, because one panel has too few chains to hide an FMA's latency.

// typedKernels emits everything over fewer bits.
func typedKernels() {
	typedAccumulateKernel("accumulateF16SIMD", typedF16, false)
	typedAccumulateKernel("accumulateF16AVX512", typedF16, true)
	typedAccumulateKernel("accumulateBF16SIMD", typedBF16, false)
	typedAccumulateKernel("accumulateBF16AVX512", typedBF16, true)
	typedAccumulateKernel("accumulateI8SIMD", typedI8, false)
	typedAccumulateKernel("accumulateI8AVX512", typedI8, true)
	typedAccumulateKernel("accumulateI4AVX512", typedI4, true)
	widenHalfKernel("widenF16SIMD", typedF16)
	widenHalfKernel("widenBF16SIMD", typedBF16)
	widenI8Kernel()
	narrowF16Kernel()
	narrowBF16Kernel()
}

// Registers by role, in addition to the registers of tile.go.
var (
	typedPanelStride = reg.R11 // bytes between panels of b
	typedPrefetch    = reg.R12 // the next address to prefetch
	typedB1          = reg.RDX // moving through the second of four panels
	typedTileRows    = b0      // after a tile: its rows
)

// Rows 0, 3 and 6 of a tile of a while it is computed. Tiles with such rows have no four panels.
var typedA = []reg.Register{a0, a3, typedB1}

// everyThird points at rows 3 and 6 of r, if there are such rows.
func everyThird(at []reg.Register, stride reg.Register, r int) {
	for i := 3; i < r; i += 3 {
		LEAQ(Mem{Base: at[i/3-1], Index: stride, Scale: 2}, at[i/3])
		ADDQ(stride, at[i/3])
	}
}

// rowOf addresses row r.
func rowOf(at []reg.Register, stride reg.Register, r, disp int) Mem {
	m := Mem{Base: at[r/3], Disp: disp}
	if r%3 > 0 {
		m.Index, m.Scale = stride, uint8(r%3)
	}
	return m
}

// The groups with 8 and with 16 lanes.
var (
	typedGroups8 = []tileGroup{{4, 1, sizesTo(1, 1), 0}, {2, 3, sizesTo(1, 3), 0},
		{1, manyRows, sizesTo(1, 6), 0}}
	typedGroups16 = []tileGroup{{4, 4, sizesTo(fewestRows, 4), 0},
		{2, manyRows, sizesTo(fewestRows, 8), 0}, {1, manyRows, sizesTo(fewestRows, 4), 0}}
	typedGroupsOfI8s = []tileGroup{{4, 4, sizesTo(1, 4), 0}, {2, manyRows, sizesTo(1, 8), 0},
		{1, manyRows, sizesTo(1, 4), 0}}
	typedGroupsOfCodes = []tileGroup{{4, 4, sizesTo(1, 4), 0}, {1, 4, sizesTo(1, 4), 0}}
)

// groups returns the groups of a kernel.
func (t *typedProgram) groups() []tileGroup {
	switch {
	case t.format.codes:
		return typedGroupsOfCodes
	case !t.wide:
		return typedGroups8
	case t.format.grouped:
		return typedGroupsOfI8s
	}
	return typedGroups16
}

// typedUnroll is the number of steps of a round: an I8 panel has as many side by side.
const typedUnroll = 4

// typedProgram emits one kernel on the micro-kernel.
type typedProgram struct {
	format typedFormat
	wide   bool // 16 lanes
	vecs   int  // vectors of a panel
	size   int  // bytes of a vector
	regs   []reg.VecPhysical

	constants int  // registers that the format keeps, the last ones
	tileRows  int  // of the current tile
	scaled    bool // are its sums multiplied by 2²⁴?

	c, a, b    Mem // stack slots: first row of c in this group, of a; the group's first panel
	outputs    beginning
	panels     Mem // stack slot: panels left
	rows, rest Mem // stack slots: all rows, and rows left in this group
	steps      Mem // stack slot: the length of the chains
	request    Mem // stack slot: the next address to prefetch
	requestNow Mem // stack slot: its value for the current tile
	firstRound Mem // stack slot: steps of the first round
	fourPanels Mem // stack slot: does one row use four panels of 16-bit elements side by side?
}

func newTypedProgram(f typedFormat, wide bool) *typedProgram {
	t := &typedProgram{format: f, wide: wide, vecs: panel / lanes, size: vector, regs: ymm}
	if wide {
		t.vecs, t.size, t.regs = 1, avx512Vector, zmm
	}
	stackSlots(append(t.outputs.slots(), &t.c, &t.a, &t.b, &t.panels, &t.rows, &t.rest, &t.steps,
		&t.request, &t.requestNow, &t.firstRound, &t.fourPanels)...)
	return t
}

func typedAccumulateKernel(name string, f typedFormat, wide bool) {
	TEXT(name, noSplit, "func(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int, "+
		"b *uintptr)")
	t := newTypedProgram(f, wide)
	t.arguments()
	if f.keep != nil {
		f.keep(t)
	}
	for _, g := range takenGroups(t.groups()) {
		t.group(g)
	}
	VZEROUPPER()
	RET()
}

// arguments loads strides into registers and all else into stack slots.
func (t *typedProgram) arguments() {
	spill("o", t.c)
	spill("p", t.a)
	spill("v", t.b)
	spill("rows", t.rows)
	Load(Param("oStride"), cStride)
	SHLQ(Imm(2), cStride)
	Load(Param("pStride"), aStride)
	SHLQ(Imm(2), aStride)
	Load(Param("b"), b0)
	t.outputs.arguments(b0, a0)
	few := unique("few")
	MOVQ(fieldOf(b0, "PanelLayout.Keys"), a0)
	MOVQ(a0, t.steps)
	MOVQ(fieldOf(b0, "PanelLayout.Cols"), a0)
	SHRQ(Imm(4), a0)
	MOVQ(a0, t.panels)
	MOVQ(fieldOf(b0, "PanelLayout.Stride"), bStride)
	MOVQ(fieldOf(b0, "PanelLayout.PanelStride"), typedPanelStride)
	if t.format.bytes == 2 {
		ADDQ(bStride, bStride)
		ADDQ(typedPanelStride, typedPanelStride)
	}
	MOVBQZX(fieldOf(b0, "PanelLayout.PrefetchHint", "PrefetchHint.FourPanels"), a0)
	MOVQ(a0, t.fourPanels)
	MOVQ(fieldOf(b0, "PanelLayout.PrefetchHint", "PrefetchHint.PrefetchFew"), a0)
	CMPQ(t.rows, Imm(2))
	JG(LabelRef(few))
	MOVQ(fieldOf(b0, "PanelLayout.PrefetchHint", "PrefetchHint.PrefetchOne"), a0)
	Label(few)
	ADDQ(t.b, a0)
	MOVQ(a0, t.request)
}

// group walks over the panels, some at a time, unless there are too many rows for that.
func (t *typedProgram) group(g tileGroup) {
	name := unique("panels")
	next, tiles, end := name+"Next", name+"Tiles", name+"End"
	if g.upTo < manyRows {
		CMPQ(t.rows, imm(g.upTo))
		JG(LabelRef(end))
	}
	if g.upTo == 1 && !t.format.grouped {
		CMPQ(t.fourPanels, Imm(0))
		JE(LabelRef(end))
	}
	Label(name)
	CMPQ(t.panels, imm(g.panels))
	JL(LabelRef(end))
	MOVQ(t.c, cPtr)
	MOVQ(t.a, aPtr)
	move(t.rows, t.rest)
	move(t.request, t.requestNow)
	t.outputs.restart()
	Label(tiles)
	MOVQ(t.outputs.alpha, beginAlpha)
	MOVQ(cPtr, beginFrom)
	MOVQ(t.b, b0)
	if g.panels == 4 {
		LEAQ(Mem{Base: b0, Index: typedPanelStride, Scale: 1}, typedB1)
	}
	MOVQ(t.requestNow, typedPrefetch)
	MOVQ(t.rest, a3)
	rows := func(r int) string { return tileLabel(name+"Rows", r) }
	g.sizes.choose(a3, rows, next)
	for _, r := range g.sizes {
		Label(rows(r))
		asides := t.tile(r, g.panels, end)
		MOVQ(U32(r), typedTileRows)
		JMP(LabelRef(name + "Done"))
		asides()
	}
	Label(name + "Done")
	t.keepPrefetching()
	SUBQ(typedTileRows, t.rest)
	JE(LabelRef(next))
	MOVQ(typedTileRows, a0)
	IMULQ(aStride, a0)
	ADDQ(a0, aPtr)
	t.outputs.advance(typedTileRows)
	JMP(LabelRef(tiles))
	Label(next)
	ADDQ(imm(g.panels*panelBytes), t.c)
	IMUL3Q(U32(g.panels), typedPanelStride, a0)
	ADDQ(a0, t.b)
	SUBQ(imm(g.panels), t.panels)
	JMP(LabelRef(name))
	Label(end)
}
