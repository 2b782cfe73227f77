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
// Groups of panels are the outer loop and row tiles the inner one. Few rows take several panels
// side by side, because those of one panel are too few chains to hide an FMA's latency.

// pairKernels emits everything in bfloat16.
func pairKernels() {
	pairAccumulateKernel("accumulatePairsSIMD", false, nil)
	pairAccumulateKernel("accumulatePairsAVX512", true, nil)
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
	pairUnroll   = 2      // pairs of a round
	pairBytes    = 8      // bytes of a pair of a row, in float32
	bitsFlush    = 0x8040 // FTZ and DAZ of MXCSR
)

// Registers by role, beside those of tile.go.
var (
	pairPanelStride = reg.R11 // bytes between panels of b
	pairPrefetch    = reg.R12 // the next address to prefetch
	pairB1          = reg.R10 // moving through the second of four panels
	pairC           = reg.RDX // moving through rows of c
)

// The groups with 8 and with 16 lanes.
var (
	pairGroups8  = []tileGroup{{2, 1, sizesTo(1, 1), 0}, {1, manyRows, sizesTo(1, 3), 0}}
	pairGroups16 = []tileGroup{{4, 2, sizesTo(1, 2), 0}, {2, manyRows, sizesTo(1, 6), 0},
		{1, manyRows, sizesTo(1, 6), 0}}
)

// pairProgram emits one kernel.
type pairProgram struct {
	wide  bool // 16 lanes
	vecs  int  // vectors of a panel
	size  int  // bytes of a vector
	regs  []reg.VecPhysical
	lines *pairLines // how inputs lie, if not in pairs

	c, a, b             Mem // stack slots: first row of c in this group, of a; the group's first panel
	panels              Mem // stack slot: panels left
	rows, rest          Mem // stack slots: all rows, and those left in this group
	groups, left        Mem // stack slots: groups of inputs, and those left
	request, requestNow Mem // stack slots: the next address to prefetch, and that of the tile at hand
	overwrite           Mem // stack slot: do outputs begin with 0?
	mode, flushing      Mem // stack slots: MXCSR as it was, and as it is meanwhile
}

func pairAccumulateKernel(name string, wide bool, lines *pairLines) {
	TEXT(name, noSplit, "func(o, p *float32, v *byte, rows, oStride, pStride int, b *uintptr)")
	t := &pairProgram{wide: wide, vecs: panel / lanes, size: vector, regs: ymm, lines: lines}
	groups := pairGroups8
	if wide {
		t.vecs, t.size, t.regs, groups = 1, avx512Vector, zmm, pairGroups16
	}
	if lines != nil {
		groups = lines.groups(wide)
	}
	stackSlots(&t.c, &t.a, &t.b, &t.panels, &t.rows, &t.rest, &t.groups, &t.left, &t.request,
		&t.requestNow, &t.overwrite, &t.mode, &t.flushing)
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
	MOVQ(a0, t.overwrite)
	MOVQ(fieldOf(b0, "PanelLayout.PrefetchHint", "PrefetchHint.PrefetchFew"), a0)
	if !t.lines.inRows() {
		ADDQ(t.b, a0)
	}
	MOVQ(a0, t.request)
	Comment("No subnormal numbers.")
	VSTMXCSR(t.mode)
	MOVL(t.mode, a0.As32())
	ORL(U32(bitsFlush), a0.As32())
	MOVL(a0.As32(), t.flushing)
	VLDMXCSR(t.flushing)
	switch {
	case t.lines != nil:
		t.constants()
	case t.wide:
		VPBROADCASTD(u32(bitsUpper), t.mask())
	}
}

// strides loads the distance between panels or, of the caller's rows, between these.
func (t *pairProgram) strides() {
	field := "PanelLayout.PanelStride"
	if t.lines.inRows() {
		field = "PanelLayout.Stride"
	}
	MOVQ(fieldOf(b0, field), pairPanelStride)
	SHLQ(imm(t.lines.shift()), pairPanelStride)
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
	Label(name)
	CMPQ(t.panels, imm(g.panels))
	JL(LabelRef(end))
	MOVQ(t.c, cPtr)
	MOVQ(t.a, aPtr)
	move(t.rows, t.rest)
	move(t.request, t.requestNow)
	Label(tiles)
	MOVQ(t.requestNow, pairPrefetch)
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
	if t.lines.inRows() {
		ADDQ(imm(g.panels*panelBytes), t.b)
	} else {
		IMUL3Q(U32(g.panels), pairPanelStride, a0)
		ADDQ(a0, t.b)
	}
	SUBQ(imm(g.panels), t.panels)
	JMP(LabelRef(name))
	Label(end)
}

// keepPrefetching: only the first tile of a group reads b from memory; the others prefetch what is
// here.
func (t *pairProgram) keepPrefetching() {
	if t.lines.inRows() {
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
	switch {
	case t.lines.inRows(): // ahead of the rows by a distance
		ADDQ(b0, pairPrefetch)
	case n == 4:
		LEAQ(Mem{Base: b0, Index: pairPanelStride, Scale: 1}, pairB1)
	}
	MOVQ(aPtr, a0)
	at := []reg.Register{a0, a3}
	everyThird(at, aStride, r)
	move2(t.groups, t.left, stepsLeft)
	CMPQ(t.overwrite, Imm(0))
	JE(LabelRef(name))
	t.zero(t.regs[0])
	t.eachOutput(r, n, func(_ int, m Mem) { VMOVUPS(t.regs[0], m) })
	Label(name)
	sums := t.regs[:2*r*n*t.vecs]
	for _, v := range sums {
		t.zero(v)
	}
	MOVQ(U32(pairsOfGroup/pairUnroll), stepsLeft)
	Label(name + "Pairs")
	for u := range pairUnroll {
		t.prefetch(n, u)
		t.pair(at, r, n, u)
		if t.lines.inRows() {
			LEAQ(Mem{Base: b0, Index: pairPanelStride, Scale: 2}, b0)
			LEAQ(Mem{Base: pairPrefetch, Index: pairPanelStride, Scale: 2}, pairPrefetch)
		}
	}
	if size := t.lines.pairBytes(); !t.lines.inRows() {
		ADDQ(imm(pairUnroll*n*size), pairPrefetch)
		ADDQ(imm(pairUnroll*size), b0)
		if n == 4 {
			ADDQ(imm(pairUnroll*size), pairB1)
		}
	}
	for i := 0; i < r; i += 3 {
		ADDQ(imm(pairUnroll*pairBytes), at[i/3])
	}
	DECQ(stepsLeft)
	JNE(LabelRef(name + "Pairs"))
	Comment("c + (e + o)")
	t.eachOutput(r, n, func(i int, m Mem) {
		VADDPS(sums[2*i+1], sums[2*i], sums[2*i])
		VADDPS(m, sums[2*i], sums[2*i])
		VMOVUPS(sums[2*i], m)
	})
	DECQ(t.left)
	JNE(LabelRef(name))
	Comment("No output is −0.")
	last := t.regs[len(sums)]
	t.zero(last)
	t.eachOutput(r, n, func(i int, m Mem) {
		VADDPS(last, sums[2*i], sums[2*i])
		VMOVUPS(sums[2*i], m)
	})
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
func (t *pairProgram) prefetch(n, u int) {
	if t.lines.inRows() {
		for p := range n {
			PREFETCHT0(Mem{Base: pairPrefetch, Disp: p * lineBytes})
			PREFETCHT0(Mem{Base: pairPrefetch, Index: pairPanelStride, Scale: 1, Disp: p * lineBytes})
		}
		return
	}
	lines := n * t.lines.pairBytes() / lineBytes
	for i := range lines {
		PREFETCHT0(Mem{Base: pairPrefetch, Disp: (u*lines + i) * lineBytes})
	}
}

// pair is e(i, v) = FMA(a[i][2k], b[2k][v], e(i, v)) and o(i, v) the same of 2k + 1, for pair k,
// number u of a round.
func (t *pairProgram) pair(at []reg.Register, r, n, u int) {
	vectors := n * t.vecs
	used := 2 * r * vectors
	b, a := t.regs[used:used+vectors], t.regs[used+vectors]
	for odd := range 2 {
		for v := range b {
			t.load(v, u, odd, b[v], a)
		}
		for i := range r {
			VBROADCASTSS(rowOf(at, aStride, i, u*pairBytes+4*odd), a)
			for v := range b {
				VFMADD231PS(b[v], a, t.regs[2*(i*vectors+v)+odd])
			}
		}
	}
}

// load loads vector v of the even or odd inputs of pair u of a round, with a spare register.
func (t *pairProgram) load(v, u, odd int, to, spare reg.VecPhysical) {
	if t.lines != nil {
		t.line(v, u, odd, to, spare)
		return
	}
	t.float(t.panel(v/t.vecs).Offset(u*pairLine+v%t.vecs*t.size), odd == 1, to)
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

// panel addresses panel p at the pair at hand.
func (t *pairProgram) panel(p int) Mem {
	switch p {
	case 0:
		return Mem{Base: b0}
	case 3:
		return Mem{Base: pairB1, Index: pairPanelStride, Scale: 2}
	}
	return Mem{Base: b0, Index: pairPanelStride, Scale: uint8(p)}
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
