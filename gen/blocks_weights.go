package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Weights of blocks in bfloat16, of integers that blocks were unpacked to.
//
// A weight x is rounded by p = 2¹⁶·x, a factor that scales include, q = (1 − 2⁻¹⁶)·p and p − q: the
// last bit of q is worth what the last bit of x in bfloat16 is, so q rounds x to nearest, ties to
// even. That is so for all normal x below 2¹¹¹. Scales are finite.

const (
	bitsLess    = 0x3f7fff00 // 1 − 2⁻¹⁶
	bitsScale   = 0x3b800000 // 2⁻⁸: 2¹⁶, and a byte lies 24 bits up
	bitsMinimum = 0x47800000 // 2¹⁶
	bitsByte    = 0x33800000 // 2⁻²⁴
)

// weightRounder makes weights.
type weightRounder struct {
	*blockUnpacker
	controls [4]Op          // bring byte i of each 32 bits to the top
	factor   reg.VecVirtual // with 16 lanes, 1 − 2⁻¹⁶
}

// newWeightRounder loads the constants, with 16 lanes into registers.
func newWeightRounder(s blockSet, form blockForm) *weightRounder {
	w := &weightRounder{blockUnpacker: &blockUnpacker{blockSet: s, form: form}}
	if s.wide && !form.PowerOf2 {
		w.factor = s.repeated(bitsLess)
	}
	for i := range w.controls {
		m := byteToTop(i)
		w.controls[i] = m
		if s.wide {
			v := s.register()
			VBROADCASTI32X4(m, v)
			w.controls[i] = v
		}
	}
	return w
}

// byteToTop is how VPSHUFB brings byte i of each 32 bits to the top, above zeros.
func byteToTop(i int) Mem {
	var words []uint32
	for word := range lanes {
		words = append(words, uint32(word%4*4+i)<<24|0x808080)
	}
	return wordTable("byteToTop"+string(rune('0'+i)), words...)
}

// number is byte i of each 32 bits, with sign, times 2²⁴.
func (w *weightRounder) number(bytes reg.VecVirtual, i int) reg.VecVirtual {
	v := w.register()
	VPSHUFB(w.controls[i], bytes, v)
	VCVTDQ2PS(v, v)
	return v
}

// rounded is the weights of byte i of each 32 bits, in bfloat16. Its factors are scaled.
func (w *weightRounder) rounded(bytes reg.VecVirtual, i int, scale,
	less reg.VecVirtual) reg.VecVirtual {
	p, q := w.number(bytes, i), w.register()
	if w.form.HasMinima() { // the product is exact
		VFMADD213PS(less, scale, p)
	} else {
		VMULPS(scale, p, p)
	}
	if w.wide {
		VMULPS(w.factor, p, q)
	} else {
		VMULPS(u32(bitsLess), p, q)
	}
	VSUBPS(q, p, p)
	return p
}

// scaled makes a scale, and what is added to products, if any, those of 2¹⁶ times the weights.
func (w *weightRounder) scaled(scale, less reg.VecVirtual) {
	w.multiply(bitsScale, scale, scale)
	if less != nil {
		w.multiply(bitsMinimum, less, less)
	}
}

// multiply is x times a constant.
func (w *weightRounder) multiply(bits uint32, x, to reg.VecVirtual) {
	if w.wide {
		VMULPS_BCST(u32(bits), x, to)
	} else {
		VMULPS(u32(bits), x, to)
	}
}

// factorsAt loads the scale of a half of the inputs, and what is added to products, or nil; of
// pairsSums d, which bytes are multiplied by after their scales. halves and first address the
// halves such as d and the scales.
func (u *blockUnpacker) factorsAt(halves, first Mem, half int) (scale, less reg.VecVirtual) {
	own := first.Offset(half * panel)
	d := func(i int) reg.VecVirtual { return u.loadD(halves.Offset(i * 2 * panel)) }
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
