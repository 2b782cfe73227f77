package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Types with indices of a book with 8 lanes. Entries are looked up one after another, of all
// inputs of a block before their numbers are unpacked, so that no vector is loaded while parts of
// it are being stored. Until then they are words in memory that the unpacked bytes overwrite: of 8
// outputs each vector is loaded before its bytes are written.

// bookWords is where the words of 32 inputs lie, between unpacked bytes.
const bookWords = blockUnpacked - panelBytes

// narrowBook is a book with 8 lanes.
type narrowBook struct {
	*bookUnpacker
	bitsOfBytes, spread reg.VecVirtual
}

// newNarrow loads the constants.
func (u *bookUnpacker) newNarrow() {
	b := &narrowBook{bookUnpacker: u}
	u.narrow = b
	if u.Signs {
		b.bitsOfBytes, b.spread = YMM(), YMM()
		VPBROADCASTQ(wordTable("bitsOfBytes", 0x08040201, 0x80402010), b.bitsOfBytes)
		VMOVDQU(wordTable("bytesOfSigns", 0, 0, 0x01010101, 0x01010101, 0x02020202, 0x02020202,
			0x03030303, 0x03030303), b.spread)
	}
}

// entriesOfBlock looks up the entries of a block.
func (u *bookUnpacker) entriesOfBlock(form blockForm, left reg.GPVirtual) {
	w, dst, to, words := GP64(), GP64(), GP64(), GP64()
	MOVQ(u.w, w)
	MOVQ(u.dst, dst)
	MOVQ(U32(form.parts()), left)
	Label("part")
	u.prefetch()
	for i := range u.Pairs() {
		for u.half = range 2 {
			VMOVDQU(u.narrow.indices(i), u.to(bookWords+i*panelBytes))
		}
	}
	LEAQ(Mem{Base: u.dst, Disp: bookWords}, to)
	MOVQ(U32(u.Pairs()), words)
	Label("words")
	entry := GP32()
	for i := range 2 * panel {
		at := Mem{Base: to, Disp: 2 * i}
		MOVWLZX(at, entry)
		MOVWLZX(Mem{Base: u.table, Index: entry.As64(), Scale: 2}, entry)
		MOVW(entry.As16(), at)
	}
	ADDQ(imm(panelBytes), to)
	DECQ(words)
	JNE(LabelRef("words"))
	ADDQ(imm(oddSums.size()), u.dst)
	ADDQ(imm(form.Part()), u.w)
	DECQ(left)
	JNE(LabelRef("part"))
	MOVQ(w, u.w)
	MOVQ(dst, u.dst)
}

// indices are a pair of indices of each of 8 outputs.
func (b *narrowBook) indices(pair int) reg.VecVirtual {
	x := YMM()
	VPMOVZXBW(b.at(2*panel*pair+panel*b.half), x)
	for plane := range b.Bits - 8 {
		bits := b.bits(b.PlaneAt(plane, pair))
		VPAND(b.repeated(0x01000100<<plane), bits, bits)
		VPOR(bits, x, x)
	}
	return x
}

// bits are ones in each word whose bit is set.
func (b *narrowBook) bits(at int) reg.VecVirtual {
	return wordsOfBits(b.at(at + 2*b.half))
}

// wordsOfBits are ones in each word whose bit in a word is set.
func wordsOfBits(from Mem) reg.VecVirtual {
	x, bits := YMM(), narrowBlocks.load(wordTable("bitsOfWords", 0x00020001, 0x00080004, 0x00200010,
		0x00800040, 0x02000100, 0x08000400, 0x20001000, 0x80004000))
	VPBROADCASTW(from, x)
	VPAND(bits, x, x)
	VPCMPEQW(bits, x, x)
	return x
}

// load loads entries.
func (b *narrowBook) load(pair int) reg.VecVirtual {
	return b.blockSet.load(b.to(bookWords + pair*panelBytes))
}

// negate negates bytes of a group where their signs say so.
func (b *narrowBook) negate(g int, x reg.VecVirtual) {
	signs := YMM()
	VPBROADCASTD(b.at(b.SignsAt()+8*g+4*b.half), signs)
	VPSHUFB(b.spread, signs, signs)
	VPAND(b.bitsOfBytes, signs, signs)
	VPCMPEQB(b.bitsOfBytes, signs, signs)
	VPXOR(signs, x, x)
	VPSUBB(signs, x, x)
}

// beginNarrow loads the codes of the scales.
func (b *book) beginNarrow() {
	b.scales = YMM()
	if b.Halves {
		VPMOVZXBD(b.at(b.ScalesAt()+8*b.half), b.scales)
		return
	}
	VPMOVZXBD(b.at(b.ScalesAt()), b.scales)
	if b.half == 1 {
		VPSRLD(Imm(4), b.scales, b.scales)
	}
	if !b.Signs {
		less := b.and(b.repeated(8), b.scales)
		VPCMPEQD(b.repeated(8), less, less)
		b.lessOfPart = b.lessOfWords(less)
	}
}

// pairOfScales is the scale of each output for one half, as two words.
func (b *book) pairOfScales(half int) reg.VecVirtual {
	v, mask := YMM(), uint32(15)
	if !b.Signs {
		mask = 7
	}
	if half == 1 && b.Halves {
		VPSRLD(Imm(4), b.scales, v)
		v = b.and(b.repeated(mask), v)
	} else {
		v = b.and(b.repeated(mask), b.scales)
	}
	VPADDD(v, v, v)
	VPOR(b.repeated(1), v, v)
	second := YMM()
	VPSLLD(Imm(16), v, second)
	VPOR(second, v, v)
	return v
}

// lessOfWords is what is added to numbers where words are ones, or zeros.
func (b *book) lessOfWords(less reg.VecVirtual) reg.VecVirtual {
	v := b.and(b.repeated(b.less[0]^b.less[1]), less)
	VPXOR(b.repeated(b.less[0]), v, v)
	return v
}
