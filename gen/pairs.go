package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Sums over pairs of bfloat16: c[r][x] = c[r][x] + (e + o) for each group of 32 inputs, e and o the
// chains of FMAs over its even and its odd inputs, with FTZ and DAZ set. A line of a panel has the
// pairs of 16 columns: the even input is the lower half of 32 bits, so a shift makes a float32 of
// it, and a mask of the odd one. Rows are float32.
//
// Groups of panels are the outer loop and row tiles the inner one. Panels go two by two, because
// one row of one panel has too few chains to hide an FMA's latency.

// pairKernels emits everything in bfloat16.
func pairKernels() {
	pairAccumulateKernel("accumulatePairsSIMD", false, 0)
	pairAccumulateKernel("accumulatePairsAVX512", true, 0)
	lineKernels()
	roundPairsKernel()
	putGroupsKernel()
	ofPanelKernel()
	ofPanelAVX512Kernel()
	weighPairsKernel()
	weighPairsAVX512Kernel()
}

const (
	pairsOfGroup = 16     // pairs whose products are two chains
	pairLine     = 64     // bytes of a pair of inputs, of all columns of a panel
	pairBytes    = 8      // bytes of a pair of a row, in float32
	bitsFlush    = 0x8040 // FTZ and DAZ of MXCSR
)

// Registers by role, beside those of tile.go.
var (
	pairPanelStride = reg.R11         // bytes between panels of b
	pairPrefetch    = reg.R12         // the next address to prefetch
	pairLineStride  = pairPanelStride // bytes between lines, of which there is one panel at a time
	pairC           = reg.RDX         // moving through rows of c
)

// The groups with 8 and with 16 lanes.
var (
	pairGroups8  = []tileGroup{{2, 1, sizesTo(1, 1), 0}, {1, manyRows, sizesTo(1, 3), 0}}
	pairGroups16 = []tileGroup{{2, manyRows, tileSizes{1, 2, 6}, 0},
		{1, manyRows, tileSizes{1, 4}, 0}}
)

// pairProgram emits one kernel.
type pairProgram struct {
	wide  bool // 16 lanes
	vecs  int  // vectors of a panel
	size  int  // bytes of a vector
	regs  []reg.VecPhysical
	lines int // bytes of an input, if these do not lie in pairs

	c, a, b             Mem // stack slots: first row of c in this group, of a; the group's first panel
	panels              Mem // stack slot: panels left
	rows, rest          Mem // stack slots: all rows, and those left in this group
	groups, left        Mem // stack slots: groups of inputs, and those left
	request, requestNow Mem // stack slots: the next address to prefetch, and the current tile's
	overwrite           Mem // stack slot: do outputs begin with 0?
	mode, flushing      Mem // stack slots: MXCSR as it was, and as it is meanwhile
	panelStep           Mem // stack slot: bytes between panels of lines
	prefetchStep        Mem // stack slot: by how much a line moves their prefetching on
}

func pairAccumulateKernel(name string, wide bool, lines int) {
	TEXT(name, noSplit, "func(o, p *float32, v *byte, rows, oStride, pStride int, b *uintptr)")
	t := &pairProgram{wide: wide, vecs: panel / lanes, size: vector, regs: ymm, lines: lines}
	groups := pairGroups8
	if wide {
		t.vecs, t.size, t.regs, groups = 1, avx512Vector, zmm, pairGroups16
	}
	if lines > 0 {
		groups = t.lineGroups()
	}
	stackSlots(&t.c, &t.a, &t.b, &t.panels, &t.rows, &t.rest, &t.groups, &t.left, &t.request,
		&t.requestNow, &t.overwrite, &t.mode, &t.flushing, &t.panelStep, &t.prefetchStep)
	t.arguments()
	for _, g := range takenGroups(groups) {
		t.group(g)
	}
	VLDMXCSR(t.mode)
	VZEROUPPER()
	RET()
}

// arguments loads strides into registers and all else into stack slots, and sets FTZ and DAZ.
func (t *pairProgram) arguments() {
	spill("o", t.c)
	spill("p", t.a)
	spill("v", t.b)
	spill("rows", t.rows)
	Load(Param("oStride"), cStride)
	SHLQ(Imm(2), cStride)
	Load(Param("pStride"), aStride)
	SHLQ(Imm(2), aStride)
	Load(Param("b"), b0)
	MOVQ(fieldOf(b0, "PanelLayout.Keys"), a0)
	ADDQ(imm(2*pairsOfGroup-1), a0)
	SHRQ(Imm(5), a0)
	MOVQ(a0, t.groups)
	MOVQ(fieldOf(b0, "PanelLayout.Cols"), a0)
	SHRQ(Imm(4), a0)
	MOVQ(a0, t.panels)
	t.strides()
	MOVBQZX(fieldOf(b0, "PanelLayout.Overwrite"), a0)
	if t.wide { // as a mask of outputs that stay
		DECQ(a0)
	}
	MOVQ(a0, t.overwrite)
	MOVQ(fieldOf(b0, "PanelLayout.PrefetchHint", "PrefetchHint.PrefetchFew"), a0)
	if t.lines == 0 {
		ADDQ(t.b, a0)
	}
	MOVQ(a0, t.request)
	flushSubnormals(t.mode, t.flushing, a0)
	switch {
	case t.lines > 0:
		t.constants()
	case t.wide:
		VPBROADCASTD(u32(bitsUpper), t.mask())
	}
}

// flushSubnormals keeps MXCSR in a stack slot and sets FTZ and DAZ, by way of another and a
// register.
func flushSubnormals(mode, flushing Mem, by reg.GP) {
	Comment("No subnormal numbers.")
	VSTMXCSR(mode)
	MOVL(mode, by.As32())
	ORL(U32(bitsFlush), by.As32())
	MOVL(by.As32(), flushing)
	VLDMXCSR(flushing)
}

// strides loads the distance between panels and, of lines, between these.
func (t *pairProgram) strides() {
	MOVQ(fieldOf(b0, "PanelLayout.PanelStride"), pairPanelStride)
	if t.lines == 0 {
		ADDQ(pairPanelStride, pairPanelStride)
		return
	}
	IMUL3Q(imm(t.lines), pairPanelStride, pairPanelStride)
	MOVQ(pairPanelStride, t.panelStep)
	MOVQ(fieldOf(b0, "PanelLayout.Stride"), pairLineStride)
	IMUL3Q(imm(t.lines), pairLineStride, pairLineStride)
}

// mask has the odd inputs of pairs, with 16 lanes.
func (t *pairProgram) mask() reg.VecPhysical { return t.regs[len(t.regs)-1] }

// group walks over the panels, some at a time, unless there are too many rows for that.
func (t *pairProgram) group(g tileGroup) {
	name := unique("panels")
	next, tiles, end := name+"Next", name+"Tiles", name+"End"
	if g.upTo < manyRows {
		CMPQ(t.rows, imm(g.upTo))
		JG(LabelRef(end))
	}
	t.unlessTaken(g.panels, end)
	Label(name)
	CMPQ(t.panels, imm(g.panels))
	JL(LabelRef(end))
	MOVQ(t.c, cPtr)
	MOVQ(t.a, aPtr)
	move(t.rows, t.rest)
	request := t.request
	if t.lines == 0 {
		request = t.requestNow
		move(t.request, request)
	}
	Label(tiles)
	MOVQ(request, pairPrefetch)
	MOVQ(t.rest, a3)
	rows := func(r int) string { return tileLabel(name+"Rows", r) }
	g.sizes.choose(a3, rows, next)
	for _, r := range g.sizes {
		Label(rows(r))
		t.tile(r, g.panels)
		MOVQ(U32(r), tileRows)
		JMP(LabelRef(name + "Done"))
	}
	Label(name + "Done")
	t.keepPrefetching()
	SUBQ(tileRows, t.rest)
	JE(LabelRef(next))
	MOVQ(tileRows, a0)
	IMULQ(aStride, a0)
	ADDQ(a0, aPtr)
	IMULQ(cStride, tileRows)
	ADDQ(tileRows, cPtr)
	JMP(LabelRef(tiles))
	Label(next)
	ADDQ(imm(g.panels*panelBytes), t.c)
	if t.lines > 0 {
		IMUL3Q(U32(g.panels), t.panelStep, a0)
	} else {
		IMUL3Q(U32(g.panels), pairPanelStride, a0)
	}
	ADDQ(a0, t.b)
	SUBQ(imm(g.panels), t.panels)
	JMP(LabelRef(name))
	Label(end)
}

// keepPrefetching: only the first tile of a group reads b from memory; the others prefetch what is
// here.
func (t *pairProgram) keepPrefetching() {
	if t.lines > 0 {
		return
	}
	later := unique("laterTile")
	MOVQ(t.rest, stepsLeft)
	CMPQ(stepsLeft, t.rows)
	JNE(LabelRef(later))
	MOVQ(pairPrefetch, t.request)
	move(t.b, t.requestNow)
	Label(later)
}

// tile computes r rows × n panels.
func (t *pairProgram) tile(r, n int) {
	Commentf("%d rows × %d columns.", r, n*panel)
	name := unique("pairs")
	MOVQ(t.b, b0)
	if t.lines > 0 { // ahead of the lines by a distance
		ADDQ(b0, pairPrefetch)
		t.panelSteps(n)
	}
	MOVQ(aPtr, a0)
	at := []reg.Register{a0, a3}
	everyThird(at, aStride, r)
	move2(t.groups, t.left, stepsLeft)
	t.beginOutputs(r, n, name)
	Label(name)
	sums := t.regs[:2*r*n*t.vecs]
	for _, v := range sums {
		t.zero(v)
	}
	MOVQ(U32(pairsOfGroup), stepsLeft)
	Label(name + "Pairs")
	t.prefetch(n)
	t.pair(at, r, n)
	t.nextPair(n)
	for i := 0; i < r; i += 3 {
		ADDQ(imm(pairBytes), at[i/3])
	}
	DECQ(stepsLeft)
	JNE(LabelRef(name + "Pairs"))
	Comment("c + (e + o), which is not −0 in the end")
	zero := t.regs[len(sums)]
	t.zero(zero)
	t.eachOutput(r, n, func(i int, m Mem) {
		VADDPS(sums[2*i+1], sums[2*i], sums[2*i])
		if t.wide {
			VADDPS(m, sums[2*i], reg.K1, sums[2*i])
		} else {
			VADDPS(m, sums[2*i], sums[2*i])
		}
		VADDPS(zero, sums[2*i], sums[2*i])
		VMOVUPS(sums[2*i], m)
	})
	if t.wide {
		KXNORW(reg.K1, reg.K1, reg.K1)
	}
	DECQ(t.left)
	JNE(LabelRef(name))
}

// beginOutputs: outputs count as 0 if they are to be overwritten. With 16 lanes K1 has those that
// do not.
func (t *pairProgram) beginOutputs(r, n int, name string) {
	if t.wide {
		KMOVW(t.overwrite, reg.K1)
		return
	}
	CMPQ(t.overwrite, Imm(0))
	JE(LabelRef(name))
	t.zero(t.regs[0])
	t.eachOutput(r, n, func(_ int, m Mem) { VMOVUPS(t.regs[0], m) })
}

// move2 copies a stack slot by way of a register.
func move2(from, to Mem, by reg.Register) {
	MOVQ(from, by)
	MOVQ(by, to)
}

// eachOutput goes through the vectors of outputs of a tile.
func (t *pairProgram) eachOutput(r, n int, use func(i int, m Mem)) {
	MOVQ(cPtr, pairC)
	for i := range r {
		for v := range n * t.vecs {
			use(i*n*t.vecs+v, Mem{Base: pairC, Disp: v * t.size})
		}
		if i+1 < r {
			ADDQ(cStride, pairC)
		}
	}
}

func (t *pairProgram) zero(v reg.VecPhysical) {
	if t.wide {
		VPXORD(v, v, v)
		return
	}
	VXORPS(v, v, v)
}

// prefetch prefetches as much as a pair of n panels has.
func (t *pairProgram) prefetch(n int) {
	if t.lines > 0 {
		t.prefetchLines(n)
		return
	}
	for p := range n {
		PREFETCHT0(Mem{Base: pairPrefetch, Disp: p * lineBytes})
	}
}

// nextPair moves on by a pair of n panels.
func (t *pairProgram) nextPair(n int) {
	if t.lines > 0 { // which t.pair went through
		return
	}
	ADDQ(imm(n*lineBytes), pairPrefetch)
	ADDQ(imm(pairLine), b0)
}

// pair is e(i, v) = FMA(a[i][2k], b[2k][v], e(i, v)) and o(i, v) the same of 2k + 1, for pair k.
func (t *pairProgram) pair(at []reg.Register, r, n int) {
	vectors := n * t.vecs
	used := 2 * r * vectors
	b, a := t.regs[used:used+vectors], t.regs[used+vectors]
	for odd := range 2 {
		for v := range b {
			t.load(v, odd, n, b[v], a)
		}
		for i := range r {
			VBROADCASTSS(rowOf(at, aStride, i, 4*odd), a)
			for v := range b {
				VFMADD231PS(b[v], a, t.regs[2*(i*vectors+v)+odd])
			}
		}
		if t.lines > 0 {
			ADDQ(pairLineStride, b0)
		}
	}
}

// load loads vector v of the even or odd inputs of a pair, with a spare register.
func (t *pairProgram) load(v, odd, n int, to, spare reg.VecPhysical) {
	if t.lines > 0 {
		t.line(v, n, to, spare)
		return
	}
	m := Mem{Base: b0, Disp: v % t.vecs * t.size}
	if v >= t.vecs {
		m.Index, m.Scale = pairPanelStride, 1
	}
	t.float(m, odd == 1, to)
}

// float makes float32 of the even or the odd inputs of pairs.
func (t *pairProgram) float(m Mem, odd bool, to reg.VecPhysical) {
	switch {
	case t.wide && odd:
		VPANDD(m, t.mask(), to)
	case t.wide:
		VPSLLD(Imm(16), m, to)
	case odd:
		VMOVDQU(m, to)
		VPAND(u32(bitsUpper), to, to)
	default:
		VMOVDQU(m, to)
		VPSLLD(Imm(16), to, to)
	}
}

// roundPairsKernel rounds to bfloat16 and leaves float32: numbers below 2⁻¹²⁶ become zeros, then a
// bit less than half of what is cut off is added, and all of it if the rest is odd. A NaN is not
// rounded but made quiet.
func roundPairsKernel() {
	TEXT("roundPairsSIMD", noSplit, "func(dst, x *float32, n int)")
	dst, x, n := param("dst"), param("x"), param("n")
	eachVector(n, func(mask reg.VecVirtual) {
		v := YMM()
		loadLanes(Mem{Base: x}, mask, v)
		storeLanes(roundedPairs(v), mask, Mem{Base: dst})
	}, func() {
		ADDQ(imm(vector), x)
		ADDQ(imm(vector), dst)
	})
	finish()
}

// putGroupsKernel rounds groups of 32 numbers and leaves halves, groups some way apart.
func putGroupsKernel() {
	TEXT("putGroupsSIMD", noSplit, "func(dst *uint16, x *float32, n, stride int)")
	dst, x, n, stride := param("dst"), param("x"), param("n"), param("stride")
	ADDQ(stride, stride)
	Label("group")
	for i := range 2 {
		var v [2]reg.VecVirtual
		for j := range v {
			v[j] = YMM()
			VMOVUPS(Mem{Base: x, Disp: (2*i + j) * vector}, v[j])
			v[j] = roundedPairs(v[j])
			VPSRLD(Imm(16), v[j], v[j])
		}
		VPACKUSDW(v[1], v[0], v[0])
		VPERMQ(Imm(0xd8), v[0], v[0])
		VMOVDQU(v[0], Mem{Base: dst, Disp: i * vector})
	}
	ADDQ(imm(4*vector), x)
	ADDQ(stride, dst)
	SUBQ(imm(2*pairsOfGroup), n)
	JNE(LabelRef("group"))
	finish()
}

// roundedPairs is numbers rounded to bfloat16.
func roundedPairs(v reg.VecVirtual) reg.VecVirtual {
	nan, rounded, small := YMM(), YMM(), YMM()
	VPAND(u32(bitsExponent), v, small)
	VPXOR(nan, nan, nan)
	VPCMPEQD(nan, small, small)
	VPAND(u32(bitsAbs), small, small)
	VPANDN(v, small, v)
	VCMPPS(Imm(unordered), v, v, nan)
	VPSRLD(Imm(16), v, rounded)
	VPAND(u32(1), rounded, rounded)
	VPADDD(u32(0x7fff), rounded, rounded)
	VPADDD(v, rounded, rounded)
	VPOR(u32(0x400000), v, v)
	VBLENDVPS(nan, v, rounded, rounded)
	VPAND(u32(bitsUpper), rounded, rounded)
	return rounded
}

const bitsExponent = 0x7f800000
