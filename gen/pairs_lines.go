package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Sums over pairs whose inputs do not lie in pairs but in lines, as caches and views have them:
// each is made float32 and rounded to bfloat16 when it is read, which for few rows is faster than
// to make panels of pairs first.

// pairLines is how the inputs of panels lie.
type pairLines struct {
	bytes int  // of a number
	half  bool // float16, not bfloat16
	rows  bool // rows of the caller, whose panels follow one another
}

// linesOfPairs are the kernels.
var linesOfPairs = []struct {
	simd, avx512 string
	lines        pairLines
}{
	{"accumulateLinesBF16SIMD", "accumulateLinesBF16AVX512", pairLines{bytes: 2}},
	{"accumulateLinesF16SIMD", "accumulateLinesF16AVX512", pairLines{bytes: 2, half: true}},
	{"accumulateLinesF32SIMD", "accumulateLinesF32AVX512", pairLines{bytes: 4}},
	{"accumulateLinesRowsSIMD", "accumulateLinesRowsAVX512", pairLines{bytes: 4, rows: true}},
}

// lineKernels emits them.
func lineKernels() {
	for i := range linesOfPairs {
		k := &linesOfPairs[i]
		pairAccumulateKernel(k.simd, false, &k.lines)
		pairAccumulateKernel(k.avx512, true, &k.lines)
	}
}

func (l *pairLines) inRows() bool { return l != nil && l.rows }

// shift is the logarithm of the bytes of a number.
func (l *pairLines) shift() int {
	if l == nil {
		return 1
	}
	return l.bytes / 2
}

// pairBytes is the bytes of a pair of inputs of a panel.
func (l *pairLines) pairBytes() int { return 2 * panel << l.shift() }

// rounds reports whether numbers are not in bfloat16.
func (l *pairLines) rounds() bool { return l.bytes == 4 || l.half }

// groups are for few rows.
func (l *pairLines) groups(wide bool) []tileGroup {
	if wide {
		return []tileGroup{{4, 1, sizesTo(1, 1), 0}, {1, manyRows, sizesTo(1, 4), 0}}
	}
	return []tileGroup{{1, manyRows, sizesTo(1, 2), 0}}
}

// Constants of rounding, the last registers.
func (t *pairProgram) kept(i int) reg.VecPhysical { return t.regs[len(t.regs)-1-i] }

// constants loads them: with 16 lanes none is needed.
func (t *pairProgram) constants() {
	if t.wide || !t.lines.rounds() {
		return
	}
	VBROADCASTSS(u32(bitsOne), t.kept(0))
}

const bitsOne = 0x3f800000

// line loads a vector of a line of numbers.
func (t *pairProgram) line(v, u, odd int, to, spare reg.VecPhysical) {
	l, p, part := t.lines, v/t.vecs, v%t.vecs*lanes*t.lines.bytes
	m := t.panel(p)
	if m.Disp += part + (2*u+odd)*l.pairBytes()/2; l.rows {
		m = Mem{Base: b0, Disp: p*panelBytes + part}
		if odd == 1 {
			m.Index, m.Scale = pairPanelStride, 1
		}
	}
	switch {
	case l.half:
		VCVTPH2PS(m, to)
	case l.bytes == 2:
		VPMOVZXWD(m, to)
		VPSLLD(Imm(16), to, to)
	case t.wide:
		VMOVUPS(m, to)
	default:
		VMULPS(m, t.kept(0), to)
	}
	if l.rounds() {
		t.round(to, spare)
	}
}

// round rounds to bfloat16 where subnormal numbers are zeros: with 16 lanes the mantissa to 7 bits
// after the point, then times the power of 2.
func (t *pairProgram) round(v, spare reg.VecPhysical) {
	if t.wide {
		roundMantissa(v, spare)
		return
	}
	nan := t.kept(1)
	if t.lines.half { // no subnormal number, but NaN has to be quiet
		VMULPS(t.kept(0), v, v)
	}
	VCMPPS(Imm(unordered), v, v, nan)
	VPSRLD(Imm(16), v, spare)
	VPAND(u32(1), spare, spare)
	VPADDD(u32(0x7fff), spare, spare)
	VPANDN(spare, nan, spare)
	VPADDD(v, spare, v)
	VPAND(u32(bitsUpper), v, v)
}

// roundMantissa rounds 16 numbers to bfloat16, if they are not subnormal.
func roundMantissa(v, spare reg.Register) {
	VGETEXPPS(v, spare)
	VGETMANTPS(Imm(0), v, v)
	VRNDSCALEPS(Imm(7<<4|8), v, v)
	VSCALEFPS(spare, v, v)
}
