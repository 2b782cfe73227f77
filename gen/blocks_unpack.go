package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Unpacking of blocks, in registers for few rows (blocks_few.go) and for many into memory. Words of
// 16 outputs are 64 bytes: with 16 lanes one vector, else two.
//
// Bytes for VNNI are unsigned: integers that may be negative have a number added. Without VNNI,
// bytes suit the products of AVX2, see blocks_avx2.go.

// blockCodes is how many bits the codes of weights have.
type blockCodes int

const (
	eightBits blockCodes = iota // with sign
	fourBits                    // to be looked up in a table
	plainFourBits
	fiveBits
	sixBits
	oneBit
	twoBits
	threeBits
	trits
	halfNibbles // fourBits, of each 16 inputs apart
	entriesOfBook
)

// blockSet is the instruction set of a kernel: wide means 16 lanes, which implies VNNI.
type blockSet struct{ wide, vnni bool }

// vectors is the offsets of the vectors of 64 bytes.
func (s blockSet) vectors() []int {
	if s.wide {
		return []int{0}
	}
	return []int{0, vector}
}

func (s blockSet) register() reg.VecVirtual {
	if s.wide {
		return ZMM()
	}
	return YMM()
}

// repeated loads a vector of a word.
func (s blockSet) repeated(x uint32) reg.VecVirtual {
	v := s.register()
	VPBROADCASTD(u32(x), v)
	return v
}

func (s blockSet) load(from Mem) reg.VecVirtual {
	v := s.register()
	s.move(from, v)
	return v
}

func (s blockSet) move(from, to Op) {
	if s.wide {
		VMOVDQU32(from, to)
		return
	}
	VMOVDQU(from, to)
}

// and is x & y.
func (s blockSet) and(y, x Op) reg.VecVirtual {
	v := s.register()
	if s.wide {
		VPANDD(y, x, v)
	} else {
		VPAND(y, x, v)
	}
	return v
}

// orMoved sets code to code | x & mask, after it moved bit from of each byte of x to bit to.
func (s blockSet) orMoved(mask, x reg.VecVirtual, from, to int, code Op) {
	moved := x
	if from != to {
		moved = s.register()
	}
	switch {
	case from < to:
		VPSLLW(imm(to-from), x, moved)
	case from > to:
		VPSRLW(imm(from-to), x, moved)
	}
	if s.wide {
		VPTERNLOGD(Imm(0xf8), mask, moved, code)
		return
	}
	VPOR(s.and(mask, moved), code, code)
}

// blockUnpacker converts codes to bytes.
type blockUnpacker struct {
	blockSet
	form               blockForm
	mask, upper, table reg.VecVirtual
	trits              *tritUnpacker
	book               *fewBook
}

// newBlockUnpacker loads the constants of all blocks. The address of the levels is in a field of
// the kernel's argument, or in a parameter.
func newBlockUnpacker(s blockSet, form blockForm, levels string) *blockUnpacker {
	u := &blockUnpacker{blockSet: s, form: form}
	switch form.codes {
	case trits:
		u.trits = newTritUnpacker(s)
		return u
	case entriesOfBook:
		u.book = newFewBook(s, form.Form())
		return u
	case oneBit:
		u.mask = s.repeated(0x02020202)
		return u
	case twoBits:
		u.mask = s.repeated(0x03030303)
		return u
	case threeBits:
		u.mask, u.upper = s.repeated(0x03030303), s.repeated(0x04040404)
		return u
	case eightBits:
		u.mask = s.repeated(0x80808080)
		return u
	case fourBits, halfNibbles:
		u.table = s.register()
		at := GP64()
		if levels == "" {
			Load(Param("table"), at)
		} else {
			argument(levels, at)
		}
		if from := (Mem{Base: at}); s.wide {
			VBROADCASTI32X4(from, u.table)
		} else {
			VBROADCASTI128(from, u.table)
		}
	case fiveBits:
		u.upper = s.repeated(0x10101010)
	case sixBits:
		u.upper = s.repeated(0x30303030)
	}
	u.mask = s.repeated(0x0f0f0f0f)
	return u
}

// groups unpacks a vector of words to bytes, and passes each group of four inputs to use: group i
// for vector i of bytes or trits, groups i and i+4 for vector i of nibbles, four groups for a
// vector of pairs of bits. at addresses the codes of a block.
func (u *blockUnpacker) groups(at Mem, i int, use func(g int, v reg.VecVirtual)) {
	switch u.form.codes {
	case trits:
		use(i, u.trits.group(at, i))
		return
	case oneBit:
		u.bits(at, use)
		return
	case twoBits, threeBits:
		u.pairsOfBits(at, i, use)
		return
	}
	x := u.load(at.Offset(i * panelBytes))
	if u.form.codes == eightBits {
		switch { // with VNNI integers + 128
		case u.wide:
			VPXORD(u.mask, x, x)
		case u.vnni:
			VPXOR(u.mask, x, x)
		}
		use(i, x)
		return
	}
	low, shifted := u.and(u.mask, x), u.register()
	VPSRLW(Imm(4), x, shifted)
	high := u.and(u.mask, shifted)
	for half, v := range []reg.VecVirtual{low, high} {
		g := i + 4*half
		switch u.form.codes {
		case fourBits:
			VPSHUFB(v, u.table, v)
		case halfNibbles:
			g = i/2*4 + i%2 + 2*half
			VPSHUFB(v, u.table, v)
		case fiveBits:
			u.orMoved(u.upper, u.load(at.Offset(4*panelBytes)), g, 4, v)
		case sixBits:
			u.orMoved(u.upper, u.load(at.Offset((4+half)*panelBytes)), 2*i, 4, v)
		}
		use(g, v)
	}
}

// bits is groups of single bits: a group's bits become 0 or 2.
func (u *blockUnpacker) bits(at Mem, use func(g int, v reg.VecVirtual)) {
	x := u.load(at)
	for g := range 8 {
		shifted := x
		switch {
		case g == 0:
			shifted = u.register()
			VPSLLW(Imm(1), x, shifted)
		case g > 1:
			shifted = u.register()
			VPSRLW(imm(g-1), x, shifted)
		}
		use(g, u.and(u.mask, shifted))
	}
}

// pairsOfBits is groups of pairs of bits, of threeBits with a third one.
func (u *blockUnpacker) pairsOfBits(at Mem, i int, use func(g int, v reg.VecVirtual)) {
	x := u.load(at.Offset(i * panelBytes))
	for k := range 4 {
		shifted := x
		if k > 0 {
			shifted = u.register()
			VPSRLW(imm(2*k), x, shifted)
		}
		v := u.and(u.mask, shifted)
		if u.form.codes == threeBits {
			u.orMoved(u.upper, u.load(at.Offset(2*panelBytes)), 4*i+k, 2, v)
		}
		use(4*i+k, v)
	}
}

// vectorsOfCodes returns the number of vectors that groups reads.
func (f blockForm) vectorsOfCodes() int {
	switch f.codes {
	case eightBits, trits:
		return 8
	case oneBit:
		return 1
	case twoBits, threeBits:
		return 2
	}
	return 4
}

// loadD makes floats of numbers in F16 or BF16.
func (u *blockUnpacker) loadD(from Mem) reg.VecVirtual {
	v := u.register()
	if u.form.PowerOf2 {
		VPMOVZXWD(from, v)
		VPSLLD(Imm(16), v, v)
	} else {
		VCVTPH2PS(from, v)
	}
	return v
}

// loadFloats makes floats of halves of numbers of four bits of exponent and three of fraction.
func (u *blockUnpacker) loadFloats(from Mem) reg.VecVirtual {
	v := u.register()
	half := v.AsX()
	if u.wide {
		half = v.AsY()
	}
	VPMOVZXBW(from, half)
	VPSLLW(Imm(7), half, half) // F16 of a 256th
	VCVTPH2PS(half, v)
	VMULPS(u.repeated(math.Float32bits(128)), v, v)
	return v
}

// loadPairs makes pairs of integers of 16 bits of two of 8 bits.
func (u *blockUnpacker) loadPairs(first, second Mem, convert func(ops ...Op)) reg.VecVirtual {
	low, high := u.register(), u.register()
	convert(first, low)
	if first == second {
		VPSLLD(Imm(16), low, high)
	} else {
		convert(second, high)
		VPSLLD(Imm(16), high, high)
	}
	if u.wide { // which is only for bytes without sign
		VPORD(high, low, low)
		return low
	}
	VPBLENDW(Imm(0xaa), high, low, low)
	return low
}

// unpackBlocks emits a kernel that unpacks n blocks into bytes, which vectors of scales follow.
func (s blockSet) unpackBlocks(name string, form blockForm) {
	table := ""
	if form.looksUp() {
		table = ", table"
	}
	TEXT(name, noSplit, "func(dst, packed"+table+" *byte, n int)")
	dst, packed, n, d, left := param("dst"), param("packed"), param("n"), GP64(), GP64()
	u := newBlockUnpacker(s, form, "")
	lift := u.liftOf()
	Label("next")
	MOVQ(packed, d)
	ADDQ(imm(form.Header()), packed)
	MOVQ(U32(form.parts()), left)
	Label("block")
	u.beginBlock(left)
	for at := 0; at < form.Part(); at += lineBytes {
		PREFETCHT0(Mem{Base: packed, Disp: blockAhead + at})
	}
	for _, at := range s.vectors() {
		factors := u.factors(Mem{Base: packed, Disp: at / 4})
		for i := range form.vectorsOfCodes() {
			u.groups(Mem{Base: packed, Disp: form.Scales() + at}, i, func(g int, v reg.VecVirtual) {
				if factors[0] != nil {
					VPMULLW(factors[g/4], v, v) // less than 256, so nothing is carried
				}
				if lift != nil {
					VPADDB(lift, v, v)
				}
				s.move(v, Mem{Base: dst, Disp: g*panelBytes + at})
			})
		}
		u.storeScales(d, packed, Mem{Base: dst, Disp: blockUnpacked + at}, at)
	}
	ADDQ(imm(form.sums.size()), dst)
	ADDQ(imm(form.Part()), packed)
	DECQ(left)
	JNE(LabelRef("block"))
	if form.shared() > 0 {
		ADDQ(imm(form.shared()), packed)
	}
	DECQ(n)
	JNE(LabelRef("next"))
	finish()
}

// liftOf returns the difference between the number that the kernels of these sums expect to be
// added to codes and the number that the codes already include, or nil.
func (u *blockUnpacker) liftOf() reg.VecVirtual {
	lift := u.added(u.form) - u.form.less
	if lift <= 0 {
		return nil
	}
	return u.repeated(uint32(lift) * 0x01010101)
}

// factors are the scales that the bytes of each half are multiplied by, as words, or nil.
func (u *blockUnpacker) factors(scales Mem) (x [2]reg.VecVirtual) {
	if u.form.sums != pairsSums {
		return x
	}
	low := u.repeated(0x000f000f)
	for half := range x {
		at := scales.Offset(half * panel)
		x[half] = u.and(low, u.loadPairs(at, at, VPMOVZXBD))
	}
	return x
}

// storeScales stores the scales of a block, or of half of its outputs.
func (u *blockUnpacker) storeScales(d, scales reg.Register, to Mem, at int) {
	first := Mem{Base: scales, Disp: at / 4}
	second := first.Offset(panel)
	if u.form.sums == floatsSums {
		VMOVUPS(u.loadFloats(first), to)
		VMOVUPS(u.loadFloats(second), to.Offset(panelBytes))
		return
	}
	VMOVUPS(u.loadD(Mem{Base: d, Disp: at / 2}), to)
	integer := func(from Mem, convert func(ops ...Op)) reg.VecVirtual {
		v := u.register()
		convert(from, v)
		return v
	}
	switch u.form.sums {
	case offsetSums:
		VMOVUPS(u.loadD(Mem{Base: d, Disp: 2*panel + at/2}), to.Offset(panelBytes))
	case scaledSums:
		v := integer(first, VPMOVSXBD)
		VCVTDQ2PS(v, v)
		VMOVUPS(v, to.Offset(panelBytes))
	case pairsSums:
		VMOVUPS(u.loadD(Mem{Base: d, Disp: 2*panel + at/2}), to.Offset(panelBytes))
		u.move(u.loadMinima(first, second), to.Offset(2*panelBytes))
	case minimaSums:
		VMOVUPS(u.loadD(Mem{Base: d, Disp: 2*panel + at/2}), to.Offset(panelBytes))
		scale := integer(first, VPMOVZXBD)
		if !u.wide {
			scale = u.loadPairs(first, first, VPMOVZXBD)
		}
		u.move(scale, to.Offset(2*panelBytes))
		u.move(integer(second, VPMOVZXBD), to.Offset(3*panelBytes))
	case halvesSums:
		if u.wide {
			for i, from := range []Mem{first, second} {
				v := integer(from, VPMOVSXBD)
				VCVTDQ2PS(v, v)
				VMOVUPS(v, to.Offset((1+i)*panelBytes))
			}
			return
		}
		u.move(u.loadPairs(first, first, VPMOVSXBD), to.Offset(panelBytes))
		u.move(u.loadPairs(second, second, VPMOVSXBD), to.Offset(2*panelBytes))
		u.move(u.loadPairs(first, second, VPMOVSXBD), to.Offset(3*panelBytes))
	}
}

// loadMinima makes pairs of the minima of bytes, which are above scales.
func (u *blockUnpacker) loadMinima(first, second Mem) reg.VecVirtual {
	v := u.loadPairs(first, second, VPMOVZXBD)
	VPSRLD(Imm(4), v, v)
	return u.and(u.repeated(0x000f000f), v)
}

// blockAhead is the prefetch distance while blocks are unpacked, in bytes.
const blockAhead = 8192
