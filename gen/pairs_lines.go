package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Sums over pairs whose inputs do not lie in pairs but in lines, as in caches and views: each is
// made float32 and rounded to bfloat16 when it is read, which for few rows is faster than to make
// panels of pairs first. One row waits for memory and goes through it panel by panel, and through
// rows of a view four panels at a time. More rows need two panels for enough chains.

// lineKernels emits them, of BF16 and of float32.
func lineKernels() {
	pairAccumulateKernel("accumulateHalvesSIMD", false, 2)
	pairAccumulateKernel("accumulateHalvesAVX512", true, 2)
	pairAccumulateKernel("accumulateFloatsSIMD", false, 4)
	pairAccumulateKernel("accumulateFloatsAVX512", true, 4)
}

// lineGroups returns the groups of lines. Four panels of float32 are rows.
func (t *pairProgram) lineGroups() (groups []tileGroup) {
	if !t.wide {
		return []tileGroup{{1, manyRows, sizesTo(1, 2), 0}}
	}
	if t.lines == 4 {
		groups = []tileGroup{{4, 1, sizesTo(1, 1), 0}}
	}
	return append(groups, tileGroup{2, manyRows, tileSizes{1, 4}, 0},
		tileGroup{1, manyRows, tileSizes{1, 4}, 0})
}

// unlessTaken jumps where lines do not go n panels at a time.
func (t *pairProgram) unlessTaken(n int, to string) {
	switch {
	case t.lines == 0:
	case n == 4:
		CMPQ(t.panelStep, imm(lineBytes))
		JNE(LabelRef(to))
	case n == 2:
		CMPQ(t.rows, Imm(1))
		JE(LabelRef(to))
	}
}

// kept are registers for constants of rounding, the last ones.
func (t *pairProgram) kept(i int) reg.VecPhysical { return t.regs[len(t.regs)-1-i] }

// constants loads them: with 16 lanes there are none.
func (t *pairProgram) constants() {
	if !t.wide && t.lines == 4 {
		VBROADCASTSS(u32(bitsOne), t.kept(0))
	}
}

const bitsOne = 0x3f800000

// linePanelStep is a register: bytes between panels, of which there are two.
var linePanelStep = reg.R10

// panelSteps loads the distances between two panels, and between requests for lines of n: panels
// that follow one another are one stream, rows are not.
func (t *pairProgram) panelSteps(n int) {
	if n == 2 {
		MOVQ(t.panelStep, linePanelStep)
	}
	if t.lines == 4 && n < 4 {
		MOVQ(U32(n*lineBytes), a0)
		CMPQ(t.panelStep, imm(lineBytes))
		CMOVQEQ(pairLineStride, a0)
		MOVQ(a0, t.prefetchStep)
	}
}

// prefetchLines prefetches as much as a pair of n panels has, and moves on. Two lines of BF16 share
// a line of a cache.
func (t *pairProgram) prefetchLines(n int) {
	for range t.lines / 2 {
		for p := range n {
			PREFETCHT0(Mem{Base: pairPrefetch, Disp: p * lineBytes})
		}
		switch {
		case t.lines == 2:
			ADDQ(imm(n*lineBytes), pairPrefetch)
		case n == 4: // of rows
			ADDQ(pairLineStride, pairPrefetch)
		default:
			ADDQ(t.prefetchStep, pairPrefetch)
		}
	}
}

// line loads vector v of a line of n panels. Four follow one another.
func (t *pairProgram) line(v, n int, to, spare reg.VecPhysical) {
	m := Mem{Base: b0, Disp: v * t.size * t.lines / 4}
	if n == 2 && v == 1 {
		m = Mem{Base: b0, Index: linePanelStep, Scale: 1}
	}
	switch {
	case t.lines == 2:
		VPMOVZXWD(m, to)
		VPSLLD(Imm(16), to, to)
	case t.wide:
		VMOVUPS(m, to)
		roundMantissa(to, spare)
	default:
		VMULPS(m, t.kept(0), to)
		t.round(to, spare)
	}
}

// round rounds to bfloat16. Subnormal numbers are zeros already, and a NaN is quiet.
func (t *pairProgram) round(v, spare reg.VecPhysical) {
	nan := t.kept(1)
	VCMPPS(Imm(unordered), v, v, nan)
	VPSRLD(Imm(16), v, spare)
	VPAND(u32(1), spare, spare)
	VPADDD(u32(0x7fff), spare, spare)
	VPANDN(spare, nan, spare)
	VPADDD(v, spare, v)
	VPAND(u32(bitsUpper), v, v)
}

// roundMantissa rounds 16 numbers to bfloat16, if they are not subnormal or such are zeros: the
// mantissa to 7 bits after the point, then times the power of 2.
func roundMantissa(v, spare reg.Register) {
	VGETEXPPS(v, spare)
	VGETMANTPS(Imm(0), v, v)
	VRNDSCALEPS(Imm(7<<4|8), v, v)
	VSCALEFPS(spare, v, v)
}
