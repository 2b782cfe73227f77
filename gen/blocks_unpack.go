package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Unpacking of blocks, in registers for few rows (blocks_few.go) and for many into memory. Words of
// 16 outputs are 64 bytes: with 16 lanes one vector, else two.
//
// With 16 lanes bytes are for VNNI: integers that may be negative have something added. With 8
// lanes they are what products of AVX2 want, see blocks_avx2.go.

// blockCodes is how many bits the codes of weights have.
type blockCodes int

const (
	eightBits blockCodes = iota // with sign
	fourBits                    // to be looked up in a table
	plainFourBits
	fiveBits
	sixBits
)

// blockForm is how blocks of a type lie in a panel (internal/blocks).
type blockForm struct {
	sums  blockSums
	codes blockCodes
	bf16  bool // d is in BF16, not in F16
}

var (
	formQ8       = blockForm{plainSums, eightBits, false}
	formNibbles  = blockForm{plainSums, fourBits, false}
	formNibbles0 = blockForm{plainSums, plainFourBits, false}
	formMXFP     = blockForm{plainSums, fourBits, true}
	formQ4K      = blockForm{minimaSums, plainFourBits, false}
	formQ5K      = blockForm{minimaSums, fiveBits, false}
	formQ6K      = blockForm{halvesSums, sixBits, false}
)

// blocks is how many blocks of 32 inputs share d.
func (f blockForm) blocks() int {
	if f.sums == plainSums {
		return 1
	}
	return 8
}

// header is the bytes of d, and of dmin after it.
func (f blockForm) header() int {
	if f.sums == minimaSums {
		return 4 * panel
	}
	return 2 * panel
}

// scales is the bytes of scales of each block of 32 inputs, which its codes follow.
func (f blockForm) scales() int {
	if f.sums == plainSums {
		return 0
	}
	return 2 * panel
}

// size is the bytes of scales and codes of a block of 32 inputs.
func (f blockForm) size() int {
	words := map[blockCodes]int{eightBits: 8, fourBits: 4, plainFourBits: 4, fiveBits: 5, sixBits: 6}
	return f.scales() + words[f.codes]*panelBytes
}

type blockSet struct{ wide bool }

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

// orMoved is nibble | x & mask in place of nibble, where of x bit from was moved to bit 4 of its
// byte.
func (s blockSet) orMoved(mask, x reg.VecVirtual, from int, nibble Op) {
	moved := x
	if from != 4 {
		moved = s.register()
	}
	switch {
	case from < 4:
		VPSLLW(imm(4-from), x, moved)
	case from > 4:
		VPSRLW(imm(from-4), x, moved)
	}
	if s.wide {
		VPTERNLOGD(Imm(0xf8), mask, moved, nibble)
		return
	}
	VPOR(s.and(mask, moved), nibble, nibble)
}

// blockUnpacker is what makes bytes of codes.
type blockUnpacker struct {
	blockSet
	form               blockForm
	mask, upper, table reg.VecVirtual
}

// newBlockUnpacker loads what is the same for all blocks.
func newBlockUnpacker(s blockSet, form blockForm) *blockUnpacker {
	u := &blockUnpacker{blockSet: s, form: form}
	switch form.codes {
	case eightBits:
		u.mask = s.repeated(0x80808080)
		return u
	case fourBits:
		u.table = s.register()
		if from := (Mem{Base: param("table")}); s.wide {
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

// groups makes bytes of a vector of words, and hands those of each group of four inputs on: group i
// of vector i of bytes, groups i and i+4 of vector i of nibbles. at are the codes of a block.
func (u *blockUnpacker) groups(at Mem, i int, use func(g int, v reg.VecVirtual)) {
	x := u.load(at.Offset(i * panelBytes))
	if u.form.codes == eightBits {
		if u.wide { // integers + 128
			VPXORD(u.mask, x, x)
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
		case fiveBits:
			u.orMoved(u.upper, u.load(at.Offset(4*panelBytes)), g, v)
		case sixBits:
			u.orMoved(u.upper, u.load(at.Offset((4+half)*panelBytes)), 2*i, v)
		}
		use(g, v)
	}
}

// vectorsOfCodes is how many vectors groups takes.
func (f blockForm) vectorsOfCodes() int {
	if f.codes == eightBits {
		return 8
	}
	return 4
}

// loadD makes floats of numbers in F16 or BF16.
func (u *blockUnpacker) loadD(from Mem) reg.VecVirtual {
	v := u.register()
	if u.form.bf16 {
		VPMOVZXWD(from, v)
		VPSLLD(Imm(16), v, v)
	} else {
		VCVTPH2PS(from, v)
	}
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
	VPBLENDW(Imm(0xaa), high, low, low)
	return low
}

// unpackBlocks emits a kernel that unpacks n blocks into bytes, which vectors of scales follow.
func (s blockSet) unpackBlocks(name string, form blockForm) {
	table := ""
	if form.codes == fourBits {
		table = ", table"
	}
	TEXT(name, noSplit, "func(dst, packed"+table+" *byte, n int)")
	dst, packed, n, d, left := param("dst"), param("packed"), param("n"), GP64(), GP64()
	u := newBlockUnpacker(s, form)
	Label("next")
	MOVQ(packed, d)
	ADDQ(imm(form.header()), packed)
	MOVQ(U32(form.blocks()), left)
	Label("block")
	for at := 0; at < form.size(); at += lineBytes {
		PREFETCHT0(Mem{Base: packed, Disp: blockAhead + at})
	}
	for _, at := range s.vectors() {
		for i := range form.vectorsOfCodes() {
			u.groups(Mem{Base: packed, Disp: form.scales() + at}, i, func(g int, v reg.VecVirtual) {
				s.move(v, Mem{Base: dst, Disp: g*panelBytes + at})
			})
		}
		u.storeScales(d, packed, Mem{Base: dst, Disp: blockUnpacked + at}, at)
	}
	ADDQ(imm(form.sums.size()), dst)
	ADDQ(imm(form.size()), packed)
	DECQ(left)
	JNE(LabelRef("block"))
	DECQ(n)
	JNE(LabelRef("next"))
	finish()
}

// storeScales stores the scales of a block, or those of half of the outputs.
func (u *blockUnpacker) storeScales(d, scales reg.Register, to Mem, at int) {
	first := Mem{Base: scales, Disp: at / 4}
	second := first.Offset(panel)
	VMOVUPS(u.loadD(Mem{Base: d, Disp: at / 2}), to)
	integer := func(from Mem, convert func(ops ...Op)) reg.VecVirtual {
		v := u.register()
		convert(from, v)
		return v
	}
	switch u.form.sums {
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

// blockAhead is how far ahead of what is unpacked memory is requested.
const blockAhead = 8192
