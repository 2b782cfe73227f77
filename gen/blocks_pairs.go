package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/seed-1415985d/attn/internal/blocks"
)

// Weights of blocks in bfloat16, in panels of pairs (pairs.go). Blocks were unpacked to bytes; each
// becomes a weight that is rounded (blocks_weights.go), and two inputs of a column are 32 bits.

// pairsOfBlocks are the kernels, and a type of each.
var pairsOfBlocks = []struct {
	simd, avx512 string
	of           blocks.Type
}{
	{"decodePairsPlainSIMD", "decodePairsPlainAVX512", blocks.Q8_0},
	{"decodePairsPowerSIMD", "decodePairsPowerAVX512", blocks.MXFP4},
	{"decodePairsOffsetSIMD", "decodePairsOffsetAVX512", blocks.Q4_1},
	{"decodePairsScaledSIMD", "decodePairsScaledAVX512", blocks.IQ4_XS},
	{"decodePairsMinimaSIMD", "decodePairsMinimaAVX512", blocks.Q4_K},
	{"decodePairsHalvesSIMD", "decodePairsHalvesAVX512", blocks.Q6_K},
	{"decodePairsPairsSIMD", "decodePairsPairsAVX512", blocks.Q2_K},
	{"decodePairsFloatsSIMD", "decodePairsFloatsAVX512", blocks.NVFP4},
}

// blockPairsKernels emits them.
func blockPairsKernels() {
	for _, k := range pairsOfBlocks {
		narrowBlocks.decodePairs(k.simd, formOf(k.of))
		wideBlocks.decodePairs(k.avx512, formOf(k.of))
	}
}

// pairDecoder makes pairs of bytes.
type pairDecoder struct {
	*weightRounder
	added          reg.VecVirtual
	exponent, sign reg.VecVirtual // of what is flushed
	header, part   reg.GPVirtual  // the current block's
}

// decodePairs emits a kernel that makes pairs of n times 32 inputs. Strides in bytes separate their
// halves (such as d) and their scales.
func (s blockSet) decodePairs(name string, form blockForm) {
	TEXT(name, noSplit, "func(dst *uint16, bytes, header, part *byte, n, headerStep, partStep, "+
		"added int)")
	p := &pairDecoder{weightRounder: newWeightRounder(s, form)}
	dst, bytes, n, groups := param("dst"), param("bytes"), param("n"), GP64()
	p.header, p.part = param("header"), param("part")
	headerStep, partStep := param("headerStep"), param("partStep")
	to, from := GP64(), GP64()
	p.added = s.register()
	VPBROADCASTD(paramAddress("added"), p.added)
	if form.PowerOf2 {
		p.exponent, p.sign = s.repeated(bitsExponent), s.repeated(bitsSign)
	}
	halves := 1
	if form.halved() {
		halves = 2
	}
	Label("block")
	for _, at := range s.vectors() {
		MOVQ(dst, to)
		MOVQ(bytes, from)
		for half := range halves {
			scale, less := p.factorsOf(at, half)
			loop := unique("group")
			MOVQ(U32(blocks.Inputs/4/halves), groups)
			Label(loop)
			p.group(Mem{Base: from, Disp: at}, Mem{Base: to, Disp: at}, scale, less)
			ADDQ(imm(panelBytes), from)
			ADDQ(imm(2*pairLine), to)
			DECQ(groups)
			JNE(LabelRef(loop))
		}
	}
	ADDQ(imm(form.sums.size()), bytes)
	ADDQ(imm(blocks.Inputs/2*pairLine), dst)
	ADDQ(headerStep, p.header)
	ADDQ(partStep, p.part)
	DECQ(n)
	JNE(LabelRef("block"))
	finish()
}

// factorsOf is factorsAt of a half of the inputs, for outputs at an offset.
func (p *pairDecoder) factorsOf(at, half int) (scale, less reg.VecVirtual) {
	scale, less = p.factorsAt(Mem{Base: p.header, Disp: at / 2}, Mem{Base: p.part, Disp: at / 4},
		half)
	if !p.form.PowerOf2 {
		p.scaled(scale, less)
	}
	return scale, less
}

// group makes the pairs of four inputs.
func (p *pairDecoder) group(from, to Mem, scale, less reg.VecVirtual) {
	x := p.load(from)
	VPSUBB(p.added, x, x)
	for pair := range 2 {
		even, odd := p.half(x, 2*pair, scale, less), p.half(x, 2*pair+1, scale, less)
		VPSRLD(Imm(16), even, even)
		if p.wide {
			VPORD(even, odd, odd)
		} else {
			VPOR(even, odd, odd)
		}
		p.move(odd, to.Offset(pair*pairLine))
	}
}

// half is the weights of byte i of each 32 bits, in bfloat16.
func (p *pairDecoder) half(bytes reg.VecVirtual, i int, scale, less reg.VecVirtual) reg.VecVirtual {
	if !p.form.PowerOf2 {
		return p.rounded(bytes, i, scale, less)
	}
	v := p.number(bytes, i)
	p.multiply(bitsByte, v, v)
	VMULPS(scale, v, v) // a bfloat16 number, which others are not so small as
	p.flush(v)
	return v
}

// flush makes zeros of numbers below 2⁻¹²⁶.
func (p *pairDecoder) flush(v reg.VecVirtual) {
	if p.wide {
		small := K()
		VPTESTNMD(p.exponent, v, small)
		VPANDD(p.sign, v, small, v)
		return
	}
	small, zero := YMM(), YMM()
	VPAND(p.exponent, v, small)
	VPXOR(zero, zero, zero)
	VPCMPEQD(zero, small, small)
	VPANDN(small, p.sign, small) // what is cleared: all but the sign
	VPANDN(v, small, v)
}
