package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Sums over pairs whose inputs do not lie in pairs but in lines, as in caches and views: each is
// made float32 and rounded to bfloat16 when it is read, which for few rows is faster than to make
// panels of pairs first. Few rows wait for memory, so one panel at a time is enough.

// lineKernels emits them, of BF16 and of float32.
func lineKernels() {
	pairAccumulateKernel("accumulateHalvesSIMD", false, 2)
	pairAccumulateKernel("accumulateHalvesAVX512", true, 2)
	pairAccumulateKernel("accumulateFloatsSIMD", false, 4)
	pairAccumulateKernel("accumulateFloatsAVX512", true, 4)
}

func lineGroups(wide bool) []tileGroup {
	if wide {
		return []tileGroup{{1, manyRows, tileSizes{1, 4}, 0}}
	}
	return []tileGroup{{1, manyRows, sizesTo(1, 2), 0}}
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

// line loads vector v of the even or odd line of a pair.
func (t *pairProgram) line(v, odd int, to, spare reg.VecPhysical) {
	m := Mem{Base: b0, Disp: v * lanes * t.lines}
	if odd == 1 {
		m.Index, m.Scale = pairLineStride, 1
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
