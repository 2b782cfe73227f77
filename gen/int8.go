package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The micro-kernel in integers: sum[r][x] = Σ_k a[r][k]·b[k][x], b of 8 bits in groups of four
// steps, which lie together. Sums are exact, so there is no order to keep. int8_steps.go says how a
// group is multiplied.

// int8Kernels emits everything in integers.
func int8Kernels() {
	int8Kernel("scoreInt8SIMD", int8AVX2, scoreInt8)
	int8Kernel("accumulateInt8SIMD", int8AVX2Words, accumulateInt8)
	int8Kernel("multiplyInt8SIMD", int8AVX2, multiplyInt8)
	int8Kernel("scoreInt8VNNISIMD", int8AVXVNNI, scoreInt8)
	int8Kernel("accumulateInt8VNNISIMD", int8AVXVNNIWords, accumulateInt8)
	int8Kernel("multiplyInt8VNNISIMD", int8AVXVNNI, multiplyInt8)
	int8Kernel("scoreInt8VNNIAVX512", int8VNNI, scoreInt8)
	int8Kernel("accumulateInt8VNNIAVX512", int8VNNI, accumulateInt8)
	int8Kernel("multiplyInt8VNNIAVX512", int8VNNIMatrix, multiplyInt8)
	quantizeRowsKernel("quantizeRowsSIMD", false)
	quantizeRowsKernel("quantizeRowsAVX512", true)
	quantizeRotatedKernel()
	quantizeGroupsKernel("quantizeGroupsSIMD", false)
	quantizeGroupsKernel("quantizeGroupsAVX512", true)
	magnitudesKernel()
	largestKernel()
	quantizeKernel()
	rotateKernel()
	rotateAVX512Kernel()
	interleaveKernel()
	copyRowsKernel()
	softmaxInt8Kernel("softmaxInt8SIMD", false)
	softmaxInt8Kernel("softmaxInt8AVX512", true)
}

// int8Operation says whether a kernel turns its sums into scores or adds them to outputs. Rows of
// multiplyInt8 have 8 bits.
type int8Operation int

const (
	scoreInt8 int8Operation = iota
	accumulateInt8
	multiplyInt8
)

// int8Set is the instructions of a kernel.
type int8Set struct {
	wide   bool // 16 lanes
	vnni   bool // multiply and add are one instruction
	groups []tileGroup
	widens bool // the last group reads words: of more rows than these, a panel is widened before
}

// avxVNNITiles are the sizes for many rows with AVX-VNNI: sums of six rows of a panel are as many
// chains as two units need.
var avxVNNITiles = append(sizesTo(1, 4), 6)

// Calls of few rows wait for memory, so their tiles prefetch.
var (
	int8AVX2 = int8Set{groups: []tileGroup{{1, 4, sizesTo(1, 4), 4},
		{1, manyRows, sizesTo(1, 4), 0}}}
	int8AVX2Words = int8Set{widens: true, groups: []tileGroup{{1, 8, sizesTo(1, 4), 4},
		{1, manyRows, sizesTo(1, 4), 0}}}
	int8AVXVNNI = int8Set{vnni: true, groups: []tileGroup{{1, 4, sizesTo(1, 4), 4},
		{1, manyRows, avxVNNITiles, 0}}}
	int8AVXVNNIWords = int8Set{vnni: true, widens: true, groups: []tileGroup{
		{1, 8, sizesTo(1, 4), 4}, {1, manyRows, avxVNNITiles, 0}}}
	int8VNNI = int8Set{wide: true, vnni: true, groups: []tileGroup{{4, 4, sizesTo(1, 4), 4},
		{2, manyRows, manyTiles(1), 9}, {1, manyRows, manyTiles(1), 0}}}
	int8VNNIMatrix = int8Set{wide: true, vnni: true, groups: []tileGroup{
		{2, 8, sizesTo(5, 8), 8}, {2, manyRows, manyTiles(1), 0}, {1, manyRows, manyTiles(1), 0}}}
)

// The tiles that few rows use first. Panels of a matrix are read in the order of memory, one after
// another, and panels of keys if the call says so. One or two rows read values two panels at a
// time, since reading all panels of a row would request more lines at once than memory delivers;
// codes are half as many bytes and are read whole.
var (
	int8InOrder = tileGroup{1, 4, sizesTo(1, 4), 4}
	int8Values  = tileGroup{2, 2, sizesTo(1, 2), 2}
	int4Values  = tileGroup{8, 2, sizesTo(1, 2), 2}
)

// int8Program emits one kernel.
type int8Program struct {
	int8Set
	operation  int8Operation
	form       int8Form
	vecs, size int // vectors of a panel, and bytes of one
	regs       []reg.VecPhysical
	n          int // panels of the current tile
	codes      *int4Codes
	second     bool // the current group is the second one of a round
	prefetches bool // the tile may read b from memory, and prefetches line by line

	c, cRow, a, b, panels     Mem // first row of c in this group, of the tile, of a; panels left
	rows, rest, steps         Mem // all rows, rows left in this group; groups of four steps
	aStride, cStride, fStride Mem // bytes between rows
	outputs                   beginning
	// of the first row and of the tile's; in scores f are the keys' scales
	f, fAt, starts, startsAt Mem
	request                  Mem  // the next address that few rows prefetch, or 0
	words                    Mem  // of a panel that is widened
	widened                  bool // current tiles read these
	of                       inputGroups
	groupAt                  int // groups between the address of the rows and the current group
}

// Registers of tiles of few rows: the next address to prefetch, and panel 5 of 8.
var int8Request, int8Fifth = a9, a6

var int8TileRows = b0 // after a tile: its rows

func int8Kernel(name string, set int8Set, operation int8Operation) {
	newInt8Program(set, operation).kernel(name)
}

func newInt8Program(set int8Set, operation int8Operation) *int8Program {
	p := &int8Program{int8Set: set, operation: operation, vecs: panel / lanes, size: vector, regs: ymm}
	switch {
	case operation == accumulateInt8:
		p.form = wordForm
	case set.vnni:
		p.form = byteForm
	default:
		p.form = magnitudeForm
	}
	if set.wide {
		p.vecs, p.size, p.regs = 1, avx512Vector, zmm
	}
	return p
}

func (p *int8Program) kernel(name string) {
	if p.widens {
		TEXT(name, growsStack, p.signature())
		p.words = AllocLocal(widenedBytes + vector)
	} else {
		TEXT(name, noSplit, p.signature())
	}
	stackSlots(append(append(p.outputs.slots(), p.of.slots()...), &p.c, &p.cRow, &p.a, &p.b,
		&p.panels, &p.rows, &p.rest, &p.steps, &p.aStride, &p.cStride, &p.fStride, &p.f, &p.fAt,
		&p.starts, &p.startsAt, &p.request)...)
	p.arguments()
	if p.codes != nil {
		p.codes.load(p)
	}
	groups := p.groups
	switch {
	case !p.wide:
	case p.operation == scoreInt8 && p.form == byteForm:
		p.keysInOrder()
	case p.operation == multiplyInt8 && p.form == byteForm:
		groups = append([]tileGroup{int8InOrder}, groups...)
	case p.codes != nil && p.operation == accumulateInt8:
		groups = append([]tileGroup{int4Values}, groups...)
	case p.operation == accumulateInt8:
		groups = append([]tileGroup{int8Values}, groups...)
	}
	for _, g := range takenGroups(groups) {
		if last := len(g.sizes) - 1; g.panels == 1 && p.operation != accumulateInt8 && g.sizes[last] > 8 {
			g.sizes = g.sizes[:last]
		}
		p.group(g)
	}
	VZEROUPPER()
	RET()
}

// keysInOrder multiplies few rows by panels one after another, if the call asks for that order.
func (p *int8Program) keysInOrder() {
	side := unique("side")
	Load(Param("b"), b0) // of scores
	CMPB(hint(b0, "PanelLayout", "InOrder"), Imm(0))
	JE(LabelRef(side))
	p.group(int8InOrder)
	Label(side)
}

// signature is the kernel's.
func (p *int8Program) signature() string {
	if p.operation == scoreInt8 {
		return "func(s *float32, q *int8, starts *int32, k *byte, " +
			"scales *float32, rows, qStride int, b *uintptr)"
	}
	return context
}

// arguments loads all that tiles need into stack slots, and strides of b into registers.
func (p *int8Program) arguments() {
	slots := []Mem{p.c, p.a, p.b, p.aStride, p.f, p.rows}
	if p.form != wordForm {
		slots = append(slots, p.starts)
	}
	if p.operation == scoreInt8 {
		for i, name := range []string{"s", "q", "k", "qStride", "scales", "rows", "starts"} {
			spill(name, slots[i])
		}
		MOVQ(I32(blockBytes), p.cStride)
		MOVQ(I32(4), p.fStride) // of starts
		Load(Param("b"), b0)
	} else {
		p.fields(slots)
	}
	if p.form != byteForm {
		SHLQ(Imm(1), p.aStride)
	}
	switch p.operation {
	case accumulateInt8:
		p.outputs.from(b0, a0)
		p.outputs.factors(a0, func() { argument("SumsCall.Alpha", a0) })
	case multiplyInt8:
		p.outputs.from(b0, a0)
	}
	MOVQ(hint(b0, "PanelLayout", "PrefetchOne"), a0)
	ADDQ(p.b, a0)
	MOVQ(a0, p.request)
	MOVQ(fieldOf(b0, "PanelLayout.Keys"), a0)
	ADDQ(Imm(3), a0)
	SHRQ(Imm(2), a0)
	MOVQ(a0, p.steps)
	MOVQ(fieldOf(b0, "PanelLayout.Cols"), a0)
	SHRQ(Imm(4), a0)
	MOVQ(a0, p.panels)
	MOVQ(fieldOf(b0, "PanelLayout.Stride"), bStride)
	MOVQ(fieldOf(b0, "PanelLayout.PanelStride"), avx512PanelStride)
	if p.grouped() {
		p.requestLines()
	}
}

// fields loads the fields of the argument, and the address of b.
func (p *int8Program) fields(slots []Mem) {
	names := []string{"O", "W", "V", "WStride", "F", "Rows", "Starts"}[:len(slots)]
	Load(Param("x"), b0)
	for i, name := range append(names, "OStride", "FStride") {
		MOVQ(fieldOf(b0, "SumsCall."+name), a0)
		MOVQ(a0, append(slots, p.cStride, p.fStride)[i])
	}
	SHLQ(Imm(2), p.cStride)
	SHLQ(Imm(2), p.fStride)
	MOVQ(fieldOf(b0, "SumsCall.B"), b0)
}

// group walks over the panels, some at a time, unless there are too many rows for that.
func (p *int8Program) group(g tileGroup) {
	p.n, p.widened = g.panels, p.widens && g.upTo == manyRows
	name := unique("panels")
	next, tiles, end := name+"Next", name+"Tiles", name+"End"
	if g.upTo < manyRows {
		CMPQ(p.rows, imm(g.upTo))
		JG(LabelRef(end))
	}
	Label(name)
	CMPQ(p.panels, imm(g.panels))
	JL(LabelRef(end))
	if p.widened {
		p.widen()
	}
	if p.grouped() {
		p.requestFrom()
	}
	move(p.c, p.cRow)
	MOVQ(p.a, aPtr)
	move(p.rows, p.rest)
	if p.operation == accumulateInt8 {
		p.outputs.restart()
	}
	if p.operation != scoreInt8 {
		move(p.f, p.fAt)
	}
	if p.form != wordForm {
		move(p.starts, p.startsAt)
	}
	Label(tiles)
	p.tileOperands(g)
	MOVQ(p.rest, a3)
	rows := func(r int) string { return tileLabel(name+"Rows", r) }
	g.sizes.choose(a3, rows, next)
	for _, r := range g.sizes {
		p.prefetches = r <= g.prefetches
		Label(rows(r))
		p.tile(r)
		MOVQ(U32(r), int8TileRows)
		JMP(LabelRef(name + "Done"))
	}
	Label(name + "Done")
	SUBQ(int8TileRows, p.rest)
	JE(LabelRef(next))
	p.nextRows(int8TileRows)
	JMP(LabelRef(tiles))
	Label(next)
	ADDQ(imm(g.panels*panelBytes), p.c)
	if p.operation == scoreInt8 {
		ADDQ(imm(g.panels*panelBytes), p.f)
	}
	IMUL3Q(U32(g.panels), avx512PanelStride, a0)
	ADDQ(a0, p.b)
	SUBQ(imm(g.panels), p.panels)
	JMP(LabelRef(name))
	Label(end)
}

// tileOperands sets the pointers with which every tile of a group begins.
func (p *int8Program) tileOperands(g tileGroup) {
	MOVQ(p.aStride, aStride)
	if p.widened {
		align(p.words, b0)
	} else {
		MOVQ(p.b, b0)
	}
	if p.n >= 4 {
		LEAQ(Mem{Base: b0, Index: avx512PanelStride, Scale: 1}, avx512Temp)
	}
	if p.n == 8 {
		LEAQ(Mem{Base: avx512Temp, Index: avx512PanelStride, Scale: 4}, int8Fifth)
	}
	if g.prefetches > 0 {
		p.startPrefetching(g)
	}
	if p.form != wordForm && !p.grouped() {
		MOVQ(p.startsAt, a0)
		MOVQ(p.fStride, stepsLeft)
	}
}

// tile computes r rows × p.n panels and moves on by these rows.
func (p *int8Program) tile(r int) {
	Commentf("%d rows × %d columns.", r, p.n*panel)
	if p.grouped() {
		p.tileOfGroups(r)
		return
	}
	if p.codes != nil {
		p.codes.one = r == 1 && !p.wide
	}
	p.begin(r)
	pointAtRows(aPtr, aStride, r)
	MOVQ(p.steps, stepsLeft)
	if p.endsByRows(r) {
		defer p.endByRows(r)()
	}
	p.sums(r)
	if p.operation == scoreInt8 {
		p.storeScores(r)
		return
	}
	p.addOutputs(r, &p.outputs, p.fAt)
	MOVQ(cPtr, p.cRow)
	MOVQ(a6, p.fAt)
}

// sums adds the products of count groups of four steps.
func (p *int8Program) sums(r int) {
	loop := unique("group")
	switch {
	case p.codes != nil:
		p.pairsOfGroups(r, loop)
	case r == 1 && p.n == 1 && p.form == magnitudeForm:
		p.twoGroups(loop)
	default:
		Label(loop)
		if p.prefetches {
			p.prefetch()
		}
		p.step(r)
		p.nextGroups(r, 1)
		DECQ(stepsLeft)
		JNE(LabelRef(loop))
	}
	if p.prefetches {
		MOVQ(int8Request, p.request)
	}
}

// twoGroups multiplies two groups in a round, for one row and panel: with one group, a round is so
// short that its speed depends on where its code begins in a cache line. A single group comes
// first.
func (p *int8Program) twoGroups(loop string) {
	even, end := loop+"Even", loop+"End"
	TESTQ(U32(1), stepsLeft)
	JE(LabelRef(even))
	p.step(1)
	p.nextGroups(1, 1)
	Label(even)
	SHRQ(Imm(1), stepsLeft)
	JE(LabelRef(end))
	Label(loop)
	for _, p.second = range []bool{false, true} {
		if p.prefetches {
			p.prefetch()
		}
		p.step(1)
	}
	p.second = false
	p.nextGroups(1, 2)
	ADDQ(bStride, b0)
	DECQ(stepsLeft)
	JNE(LabelRef(loop))
	Label(end)
}

// nextGroups moves on by the adjacent groups of b, and by some groups of the rows.
func (p *int8Program) nextGroups(r, groups int) {
	if p.widened {
		ADDQ(imm(2*panelGroup), b0)
	} else {
		ADDQ(bStride, b0)
	}
	if p.n >= 4 {
		ADDQ(bStride, avx512Temp)
	}
	if p.n == 8 {
		ADDQ(bStride, int8Fifth)
	}
	for i := 0; i < r; i += 3 {
		ADDQ(imm(groups*p.groupBytes()), avx512RowPointers[i/3])
	}
}

// startPrefetching: calls with so many rows that they do not wait for memory prefetch memory that
// is already in the cache.
func (p *int8Program) startPrefetching(g tileGroup) {
	MOVQ(p.request, int8Request)
	if g.prefetches >= g.upTo {
		return
	}
	few := unique("few")
	CMPQ(p.rows, imm(g.prefetches))
	JLE(LabelRef(few))
	MOVQ(p.b, int8Request)
	Label(few)
}

// groupBytes is how much of a row meets a group of four steps.
func (p *int8Program) groupBytes() int {
	if p.form == byteForm {
		return 4
	}
	return 8
}

// begin sets sums to their start.
func (p *int8Program) begin(r int) {
	if p.codes != nil && p.codes.one {
		p.beginOneRow()
		return
	}
	if p.form == wordForm {
		for i := range r * p.n * p.vecs {
			p.zero(p.regs[i])
		}
		return
	}
	for i := range r {
		row := p.regs[i*p.n*p.vecs:][:p.n*p.vecs]
		VPBROADCASTD(Mem{Base: a0}, row[0])
		if i+1 < r {
			ADDQ(stepsLeft, a0)
		}
		for _, v := range row[1:] {
			p.load(row[0], v)
		}
	}
	if p.form == magnitudeForm {
		VPBROADCASTD(u32(wordOnes), p.regs[len(p.regs)-1])
	} else if signs := p.signs(r); p.codes == nil && signs != nil { // levels are more by 128
		VPBROADCASTD(u32(byteSigns), signs)
	}
}

// prefetch requests as many cache lines as a step reads. In order they come faster than panel by
// panel.
func (p *int8Program) prefetch() {
	for x := range p.n {
		PREFETCHT0(Mem{Base: int8Request, Disp: x * lineBytes})
	}
	ADDQ(imm(p.n*lineBytes), int8Request)
}

// panel addresses panel x at the current group.
func (p *int8Program) panel(x int) Mem {
	switch x {
	case 0:
		if p.second {
			return Mem{Base: b0, Index: bStride, Scale: 1}
		}
		return Mem{Base: b0}
	case 3:
		return Mem{Base: avx512Temp, Index: avx512PanelStride, Scale: 2}
	case 5:
		return Mem{Base: int8Fifth}
	case 6, 7:
		return Mem{Base: int8Fifth, Index: avx512PanelStride, Scale: uint8(x - 5)}
	}
	return Mem{Base: b0, Index: avx512PanelStride, Scale: uint8(x)}
}

// storeScores multiplies sums by the scales of keys.
func (p *int8Program) storeScores(r int) {
	MOVQ(p.cStride, aStride)
	MOVQ(p.cRow, cPtr)
	pointAtRows(cPtr, aStride, r)
	MOVQ(p.f, stepsLeft)
	scales := p.regs[r*p.n*p.vecs]
	for x := range p.n {
		for v := range p.vecs {
			VMOVUPS(Mem{Base: stepsLeft, Disp: x*panelBytes + v*p.size}, scales)
			for i := range r {
				sum := p.acc(i, x, v)
				VCVTDQ2PS(sum, sum)
				VMULPS(scales, sum, sum)
				VMOVUPS(sum, avx512Row(i, aStride, x*panelBytes+v*p.size))
			}
		}
	}
}

// addOutputs is c = FMA(sum, f, start) with start c·alpha, c or 0; multiplyInt8 has no alpha. It
// moves cPtr and a6, which is f, on by r rows.
func (p *int8Program) addOutputs(r int, outputs *beginning, fAt Mem) {
	from, fromStep, f, fStep, alpha, cStep := a0, a3, a6, a9, b0, avx512Temp
	free := p.regs[r*p.n*p.vecs:]
	scale, start, factor := free[0], free[1], free[2]
	MOVQ(p.cRow, cPtr)
	MOVQ(p.cStride, cStep)
	outputs.at(cPtr, cStep, from, fromStep)
	MOVQ(fAt, f)
	MOVQ(p.fStride, fStep)
	if p.operation == accumulateInt8 {
		MOVQ(p.outputs.alpha, alpha)
	}
	for i := range r {
		VBROADCASTSS(Mem{Base: f}, scale)
		ADDQ(fStep, f)
		if p.operation == accumulateInt8 {
			VBROADCASTSS(Mem{Base: alpha, Disp: 4 * i}, factor)
		}
		for at := range p.n * p.vecs {
			begun, c, sum := Mem{Base: from, Disp: at * p.size}, Mem{Base: cPtr, Disp: at * p.size},
				p.regs[i*p.n*p.vecs+at]
			VCVTDQ2PS(sum, sum)
			if p.operation == accumulateInt8 {
				VMULPS(begun, factor, start)
			} else {
				VMOVUPS(begun, start)
			}
			VFMADD213PS(start, scale, sum)
			VMOVUPS(sum, c)
		}
		ADDQ(fromStep, from)
		ADDQ(cStep, cPtr)
	}
}

// nextRows moves on by a number of rows.
func (p *int8Program) nextRows(rows reg.Register) {
	by := func(step, to Op) {
		MOVQ(step, a0)
		IMULQ(rows, a0)
		ADDQ(a0, to)
	}
	by(p.aStride, aPtr)
	if p.operation == scoreInt8 || p.grouped() {
		by(p.cStride, p.cRow)
	}
	if p.grouped() {
		by(p.fStride, p.fAt)
	}
	if p.form != wordForm {
		by(p.fStride, p.startsAt)
	}
	if p.operation == accumulateInt8 {
		p.outputs.advance(rows)
	}
}
