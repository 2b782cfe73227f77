package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/seed-1415985d/attn/internal/blocks"
)

// Weights of blocks in bfloat16, in panels of pairs (pairs.go). Blocks were unpacked to bytes; each
// becomes a float32, n·scale + less, which is rounded, and two inputs of a column are 32 bits.

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
	blockUnpacker
	added, upper, one, half reg.VecVirtual
	exponent, sign          reg.VecVirtual // of what is flushed
	header, part            reg.GPVirtual  // the current block's
}

// decodePairs emits a kernel that makes pairs of n times 32 inputs. Strides in bytes separate their
// halves (such as d) and their scales.
func (s blockSet) decodePairs(name string, form blockForm) {
	TEXT(name, noSplit, "func(dst *uint16, bytes, header, part *byte, n, headerStep, partStep, "+
		"added int)")
	p := &pairDecoder{blockUnpacker: blockUnpacker{blockSet: s, form: form}}
	dst, bytes, n, groups := param("dst"), param("bytes"), param("n"), GP64()
	p.header, p.part = param("header"), param("part")
	headerStep, partStep := param("headerStep"), param("partStep")
	to, from := GP64(), GP64()
	p.added = s.register()
	VPBROADCASTD(paramAddress("added"), p.added)
	p.upper, p.one, p.half = s.repeated(bitsUpper), s.repeated(1), s.repeated(0x7fff)
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
	if less != nil {
		less = p.number(less)
	}
	return p.number(scale), less
}

// factorsAt loads the scale of a half of the inputs, and what is added to products, or nil; of
// pairsSums d, which bytes are multiplied by after their scales. header and first address the
// halves such as d and the scales.
func (u *blockUnpacker) factorsAt(header, first Mem, half int) (scale, less reg.VecVirtual) {
	own := first.Offset(half * panel)
	d := func(i int) reg.VecVirtual { return u.loadD(header.Offset(i * 2 * panel)) }
	switch u.form.sums {
	case floatsSums:
		return u.loadFloats(own), nil
	case offsetSums:
		return d(0), d(1)
	case scaledSums:
		return u.times(d(0), u.integer(first, VPMOVSXBD)), nil
	case halvesSums:
		return u.times(d(0), u.integer(own, VPMOVSXBD)), nil
	case minimaSums:
		scale = u.times(d(0), u.integer(first, VPMOVZXBD))
		return scale, u.minus(d(1), u.integer(first.Offset(panel), VPMOVZXBD))
	case pairsSums:
		minimum := u.integer(own, VPMOVZXBD)
		VPSRLD(Imm(4), minimum, minimum)
		return d(0), u.minus(d(1), minimum)
	}
	return d(0), nil
}

// integer loads bytes as 32 bits.
func (u *blockUnpacker) integer(from Mem, convert func(ops ...Op)) reg.VecVirtual {
	v := u.register()
	convert(from, v)
	return v
}

// times is d times integers.
func (u *blockUnpacker) times(d, x reg.VecVirtual) reg.VecVirtual {
	VCVTDQ2PS(x, x)
	VMULPS(x, d, d)
	return d
}

// minus is −d times integers.
func (u *blockUnpacker) minus(d, x reg.VecVirtual) reg.VecVirtual {
	sign := u.repeated(bitsSign)
	if u.wide {
		VPXORD(sign, d, d)
	} else {
		VPXOR(sign, d, d)
	}
	return u.times(d, x)
}

// number makes NaN one that rounding leaves NaN.
func (p *pairDecoder) number(x reg.VecVirtual) reg.VecVirtual {
	quiet := p.repeated(0x7fc00000)
	if p.wide {
		nan := K()
		VCMPPS(Imm(unordered), x, x, nan)
		VMOVAPS(quiet, nan, x)
		return x
	}
	nan := YMM()
	VCMPPS(Imm(unordered), x, x, nan)
	VBLENDVPS(nan, quiet, x, x)
	return x
}

// group makes the pairs of four inputs.
func (p *pairDecoder) group(from, to Mem, scale, less reg.VecVirtual) {
	x := p.load(from)
	VPSUBB(p.added, x, x)
	for pair := range 2 {
		even, odd := p.rounded(x, 2*pair, scale, less), p.rounded(x, 2*pair+1, scale, less)
		VPSRLD(Imm(16), even, even)
		if p.wide {
			VPTERNLOGD(Imm(0xec), p.upper, even, odd)
		} else {
			VPAND(p.upper, odd, odd)
			VPOR(even, odd, odd)
		}
		p.move(odd, to.Offset(pair*pairLine))
	}
}

// rounded is byte number i of each 32 bits as a weight, rounded to bfloat16 in the upper half.
func (p *pairDecoder) rounded(x reg.VecVirtual, i int, scale, less reg.VecVirtual) reg.VecVirtual {
	v, up := p.register(), p.register()
	from := x
	if i < 3 {
		VPSLLD(imm(24-8*i), x, v)
		from = v
	}
	VPSRAD(Imm(24), from, v)
	VCVTDQ2PS(v, v)
	if less == nil {
		VMULPS(scale, v, v)
	} else { // the product is exact
		VFMADD213PS(less, scale, v)
	}
	if p.form.PowerOf2 { // others are not so small
		p.flush(v)
	}
	VPSRLD(Imm(16), v, up)
	if p.wide {
		VPANDD(p.one, up, up)
	} else {
		VPAND(p.one, up, up)
	}
	VPADDD(p.half, v, v)
	VPADDD(up, v, v)
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
