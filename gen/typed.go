package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The micro-kernel over values of fewer bits: c[r][x] = start + Σ_k a[r][k]·b[k][x], one FMA chain in ascending k for each
// element, vector lanes across x. Each b is widened in registers, once for all rows of a tile.
//
// Groups of panels are the outer loop and row tiles the inner one. Few rows take several panels side by side, because those of
// one panel are too few chains to hide an FMA's latency.

// typedKernels emits everything over fewer bits.
func typedKernels() {
	for _, f := range typedFormats {
		typedAccumulateKernel(f, false)
		typedAccumulateKernel(f, true)
	}
	widenHalfKernel("widenF16SIMD", typedF16)
	widenHalfKernel("widenBF16SIMD", typedBF16)
	widenI8Kernel()
	narrowF16Kernel()
	narrowBF16Kernel()
	largestKernel()
	quantizeKernel()
	scaleColumnsKernel()
	rotateKernel()
}

// Registers by role, beside those of tile.go.
var (
	typedPanelStride = reg.R11 // bytes between panels of b
	typedPrefetch    = reg.R12 // the next address to prefetch
	typedB1          = reg.RDX // moving through the second of four panels
)

// Rows 0, 3 and 6 of a tile, of a while it is computed, and of c before and after. Tiles of so many rows have no four panels.
var (
	typedA = []reg.Register{a0, a3, typedB1}
	typedC = []reg.Register{cPtr, a0, a3}
)

// everyThird points at rows 3 and 6 of r, if there are so many.
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

// typedGroup is how many panels go side by side, for calls of up to so many rows, and the least and most rows of a tile.
type typedGroup struct{ panels, upTo, least, most int }

const manyRows = 1 << 30

// The groups with 8 and with 16 lanes. Whoever has too many rows for a group, or panels left, goes on to the next one.
var (
	typedGroups8     = []typedGroup{{4, 1, 1, 1}, {2, 3, 1, 3}, {1, manyRows, 1, 6}}
	typedGroups16    = []typedGroup{{4, 4, fewestRows, 4}, {2, manyRows, fewestRows, 8}, {1, manyRows, fewestRows, 4}}
	typedGroupsOfI8s = []typedGroup{{4, 4, 1, 4}, {2, manyRows, 1, 8}, {1, manyRows, 1, 4}}
)

// groups are those of a kernel.
func (t *typedProgram) groups() []typedGroup {
	switch {
	case !t.wide:
		return typedGroups8
	case t.format.grouped:
		return typedGroupsOfI8s
	}
	return typedGroups16
}

// typedUnroll is the steps of a round: those that an I8 panel has side by side.
const typedUnroll = 4

// typedProgram emits one kernel on the micro-kernel.
type typedProgram struct {
	format typedFormat
	wide   bool // 16 lanes
	vecs   int  // vectors of a panel
	size   int  // bytes of a vector
	regs   []reg.VecPhysical

	constants int // registers that the format keeps, the last ones
	tileRows  int // of the tile at hand

	c, a, b           Mem // stack slots: first row of c in this group, of a; the group's first panel
	alpha, firstAlpha Mem // stack slots: the pointer to the tile's first alpha, noAlpha or overwriteOutputs
	panels            Mem // stack slot: panels left
	rows, rest        Mem // stack slots: all rows, and those left in this group
	steps             Mem // stack slot: the length of the chains
	request           Mem // stack slot: the next address to prefetch
	fourPanels        Mem // stack slot: does one row take four panels of 16-bit elements side by side?
}

func newTypedProgram(f typedFormat, wide bool) *typedProgram {
	t := &typedProgram{format: f, wide: wide, vecs: panel / lanes, size: vector, regs: ymm}
	if wide {
		t.vecs, t.size, t.regs = 1, avx512Vector, zmm
	}
	slots := []*Mem{&t.c, &t.a, &t.b, &t.alpha, &t.firstAlpha, &t.panels, &t.rows, &t.rest, &t.steps, &t.request, &t.fourPanels}
	f0 := AllocLocal(8 * len(slots))
	for i, s := range slots {
		*s = f0.Offset(8 * i)
	}
	return t
}

func typedAccumulateKernel(f typedFormat, wide bool) {
	name := "accumulate" + f.name + "AVX2"
	if wide {
		name = "accumulate" + f.name + "AVX512"
	}
	TEXT(name, 4, "func(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int, b *uintptr)") // NOSPLIT
	t := newTypedProgram(f, wide)
	t.arguments()
	if f.keep != nil {
		f.keep(t)
	}
	for _, g := range t.groups() {
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
	spill("alpha", t.firstAlpha)
	spill("rows", t.rows)
	Load(Param("oStride"), cStride)
	SHLQ(Imm(2), cStride)
	Load(Param("pStride"), aStride)
	SHLQ(Imm(2), aStride)
	Load(Param("b"), b0)
	used, few := unique("used"), unique("few")
	CMPB(field(b0, "panelLayout.overwrite"), Imm(0))
	JE(LabelRef(used))
	MOVQ(I32(overwriteOutputs), t.firstAlpha)
	Label(used)
	MOVQ(field(b0, "panelLayout.keys"), a0)
	MOVQ(a0, t.steps)
	MOVQ(field(b0, "panelLayout.cols"), a0)
	SHRQ(Imm(4), a0)
	MOVQ(a0, t.panels)
	MOVQ(field(b0, "panelLayout.stride"), bStride)
	MOVQ(field(b0, "panelLayout.panelStride"), typedPanelStride)
	if t.format.bytes == 2 {
		ADDQ(bStride, bStride)
		ADDQ(typedPanelStride, typedPanelStride)
	}
	MOVBQZX(field(b0, "panelLayout.access", "access.fourPanels"), a0)
	MOVQ(a0, t.fourPanels)
	MOVQ(field(b0, "panelLayout.access", "access.prefetchFew"), a0)
	CMPQ(t.rows, Imm(2))
	JG(LabelRef(few))
	MOVQ(field(b0, "panelLayout.access", "access.prefetchOne"), a0)
	Label(few)
	ADDQ(t.b, a0)
	MOVQ(a0, t.request)
}

// group walks over the panels, some at a time, unless there are too many rows for that.
func (t *typedProgram) group(g typedGroup) {
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
	move(t.firstAlpha, t.alpha)
	Label(tiles)
	t.choose(name, next, g)
	for r := g.most; r >= g.least; r-- {
		Label(avx512Label(name+"Rows", r))
		t.tile(r, g.panels)
		SUBQ(imm(r), t.rest)
		JMP(LabelRef(tiles))
	}
	Label(next)
	ADDQ(imm(g.panels*panelBytes), t.c)
	IMUL3Q(U32(g.panels), typedPanelStride, a0)
	ADDQ(a0, t.b)
	SUBQ(imm(g.panels), t.panels)
	JMP(LabelRef(name))
	Label(end)
}

// choose jumps to the tile for the rows that are left. What is less than two tiles is divided in two equal ones.
func (t *typedProgram) choose(name, next string, g typedGroup) {
	MOVQ(t.rest, count)
	to := func(least, rows int) {
		CMPQ(count, imm(least))
		JGE(LabelRef(avx512Label(name+"Rows", rows)))
	}
	for rows := g.most; 2*rows-1 > g.most; rows-- {
		to(2*rows-1, rows)
	}
	for rows := g.most; rows >= g.least; rows-- {
		to(rows, rows)
	}
	JMP(LabelRef(next))
}

// tile computes r rows × n panels and moves cPtr, aPtr and alpha on.
func (t *typedProgram) tile(r, n int) {
	Commentf("%d rows × %d columns.", r, n*panel)
	t.tileRows = r
	t.begin(r, n)
	t.startPrefetching()
	MOVQ(aPtr, a0)
	everyThird(typedA, aStride, r)
	MOVQ(t.b, b0)
	if n == 4 {
		LEAQ(Mem{Base: b0, Index: typedPanelStride, Scale: 1}, typedB1)
	}
	MOVQ(t.steps, count)
	loop, tail, end := unique("loop"), unique("tail"), unique("end")
	SUBQ(imm(typedUnroll), count)
	JL(LabelRef(tail))
	Label(loop)
	lines := n * t.format.bytes * panel * typedUnroll / lineBytes
	for u := range typedUnroll {
		t.prefetch(lines*u/typedUnroll, lines*(u+1)/typedUnroll)
		t.step(r, n, u)
		if !t.format.grouped || u == typedUnroll-1 {
			t.nextStep(n)
		}
	}
	ADDQ(imm(lines*lineBytes), typedPrefetch)
	t.advance(r, typedUnroll)
	SUBQ(imm(typedUnroll), count)
	JGE(LabelRef(loop))
	Label(tail)
	ADDQ(imm(typedUnroll), count)
	JE(LabelRef(end))
	for u := range typedUnroll - 1 {
		t.step(r, n, u)
		if u == typedUnroll-2 {
			break
		}
		if !t.format.grouped {
			t.nextStep(n)
		}
		DECQ(count)
		JE(LabelRef(end))
	}
	Label(end)
	t.store(r, n)
	t.keepPrefetching()
	for range r {
		ADDQ(cStride, cPtr)
		ADDQ(aStride, aPtr)
	}
	t.advanceAlpha(r)
}

// startPrefetching: only the first tile of a group reads b from memory; the others prefetch what is here.
func (t *typedProgram) startPrefetching() {
	first := unique("firstTile")
	MOVQ(t.rest, count)
	MOVQ(t.request, typedPrefetch)
	CMPQ(count, t.rows)
	JE(LabelRef(first))
	MOVQ(t.b, typedPrefetch)
	Label(first)
}

func (t *typedProgram) keepPrefetching() {
	later := unique("laterTile")
	MOVQ(t.rest, count)
	CMPQ(count, t.rows)
	JNE(LabelRef(later))
	MOVQ(typedPrefetch, t.request)
	Label(later)
}

func (t *typedProgram) prefetch(from, to int) {
	for i := from; i < to; i++ {
		PREFETCHT0(Mem{Base: typedPrefetch, Disp: i * lineBytes})
	}
}

// step is acc(i, v) = FMA(a[i][k], b[k][v], acc(i, v)) for one k, number u of a round.
func (t *typedProgram) step(r, n, u int) {
	accs := r * n * t.vecs
	wide, a := t.regs[accs:accs+t.vecs], t.regs[accs+t.vecs:len(t.regs)-t.constants]
	once := r <= len(a) // there are registers for one of each row
	for i := range r {
		if once {
			VBROADCASTSS(rowOf(typedA, aStride, i, 4*u), a[i])
		}
	}
	for p := range n {
		t.format.widen(t, t.panel(p), u, wide)
		for i := range r {
			e := a[0]
			if once {
				e = a[i]
			} else {
				VBROADCASTSS(rowOf(typedA, aStride, i, 4*u), e)
			}
			for v := range t.vecs {
				VFMADD231PS(wide[v], e, t.acc(i, p, v, n))
			}
		}
	}
}

// acc is the accumulator of row i, panel p of n, vector v.
func (t *typedProgram) acc(i, p, v, n int) reg.VecPhysical { return t.regs[(i*n+p)*t.vecs+v] }

// panel addresses panel p at the step at hand.
func (t *typedProgram) panel(p int) Mem {
	switch p {
	case 0:
		return Mem{Base: b0}
	case 3:
		return Mem{Base: typedB1, Index: typedPanelStride, Scale: 2}
	}
	return Mem{Base: b0, Index: typedPanelStride, Scale: uint8(p)}
}

func (t *typedProgram) nextStep(n int) {
	ADDQ(bStride, b0)
	if n == 4 {
		ADDQ(bStride, typedB1)
	}
}

func (t *typedProgram) advance(r, steps int) {
	for i := 0; i < r; i += 3 {
		ADDQ(imm(4*steps), typedA[i/3])
	}
}

// begin sets the accumulators: c·alpha, c or 0.
func (t *typedProgram) begin(r, n int) {
	everyThird(typedC, cStride, r)
	plain, overwrite, ready := unique("plain"), unique("overwrite"), unique("ready")
	factor := t.regs[len(t.regs)-t.constants-1]
	each := func(row func(i int), set func(c Mem, to reg.VecPhysical)) {
		for i := range r {
			row(i)
			for p := range n {
				for v := range t.vecs {
					set(t.output(i, p, v), t.acc(i, p, v, n))
				}
			}
		}
	}
	MOVQ(t.alpha, count)
	CMPQ(count, imm(overwriteOutputs))
	JE(LabelRef(overwrite))
	JB(LabelRef(plain))
	each(func(i int) { VBROADCASTSS(Mem{Base: count, Disp: 4 * i}, factor) },
		func(c Mem, to reg.VecPhysical) { VMULPS(c, factor, to) })
	JMP(LabelRef(ready))
	Label(plain)
	each(func(int) {}, func(c Mem, to reg.VecPhysical) { VMOVUPS(c, to) })
	Label(ready)
	t.reorder(r, n, t.format.split)
	zeroed := unique("begun")
	JMP(LabelRef(zeroed))
	Label(overwrite)
	each(func(int) {}, func(_ Mem, to reg.VecPhysical) { t.zero(to) })
	Label(zeroed)
}

func (t *typedProgram) zero(v reg.VecPhysical) {
	if t.wide {
		VPXORD(v, v, v)
		return
	}
	VXORPS(v, v, v)
}

// reorder changes the order of columns of each panel, with 8 lanes.
func (t *typedProgram) reorder(r, n int, f func(x, y, s, u reg.VecPhysical)) {
	if f == nil || t.wide {
		return
	}
	for i := range r {
		for p := range n {
			f(t.acc(i, p, 0, n), t.acc(i, p, 1, n), t.regs[len(t.regs)-2], t.regs[len(t.regs)-1])
		}
	}
}

// output addresses vector v of panel p of row i of c.
func (t *typedProgram) output(i, p, v int) Mem {
	return rowOf(typedC, cStride, i, p*panelBytes+v*t.size)
}

func (t *typedProgram) store(r, n int) {
	t.reorder(r, n, t.format.join)
	everyThird(typedC, cStride, r)
	for i := range r {
		for p := range n {
			for v := range t.vecs {
				VMOVUPS(t.acc(i, p, v, n), t.output(i, p, v))
			}
		}
	}
}

func (t *typedProgram) advanceAlpha(r int) {
	skip := unique("noAlpha")
	CMPQ(t.firstAlpha, imm(overwriteOutputs))
	JBE(LabelRef(skip))
	ADDQ(imm(4*r), t.alpha)
	Label(skip)
}
