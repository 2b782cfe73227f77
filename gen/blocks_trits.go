package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Trits: a byte b is five digits of base 3, digit n of which is ((b·3ⁿ mod 256)·3) >> 8: how many
// of 86 and 171 b·3ⁿ mod 256 reaches. Bytes lie with 128 added, so that comparisons with sign are
// those; multiples have 128 added, too, since 128·3ⁿ mod 256 is 128.

// tritWords is the words of an output of 256 inputs.
const tritWords = 13

// tritTable is, for each 32 inputs and each group of four, where their word is and what it is
// multiplied by. A block's row is at 8 times four times the blocks that are left.
func tritTable() Mem {
	powers := [5]uint32{1, 3, 9, 27, 81}
	row := func(block int) (x []uint32) {
		for g := range 8 {
			word, digit := g, block
			switch {
			case block == 7 && g >= 4:
				word, digit = 12, g-4
			case block == 7:
				word, digit = 8+g, 4
			case block >= 5:
				word, digit = 8+g%4, 2*(block-5)+g/4
			}
			x = append(x, uint32(word*panelBytes)|powers[digit]<<16)
		}
		return x
	}
	all := make([]uint32, 8) // no block has a row before the last one's
	for left := 1; left <= 8; left++ {
		all = append(all, row(8-left)...)
	}
	return words("trits", all...)
}

// tritUnpacker is what makes bytes of trits.
type tritUnpacker struct {
	blockSet
	row, word           reg.GPVirtual
	high, first, second reg.VecVirtual
	ones                reg.VecVirtual // with 16 lanes
}

// newTritUnpacker loads what is the same for all blocks.
func newTritUnpacker(s blockSet) *tritUnpacker {
	const below86, below171 = 0xd5d5d5d5, 0x2a2a2a2a // 85 and 170, with 128 added
	u := &tritUnpacker{blockSet: s, row: GP64(), word: GP64()}
	u.high = s.repeated(0xff00ff00)
	u.first, u.second = s.repeated(below86), s.repeated(below171)
	if s.wide {
		u.ones = s.repeated(0x01010101)
	}
	return u
}

// beginBlock finds the row of the table of a block of trits, of which some are left.
func (u *blockUnpacker) beginBlock(left reg.Register) {
	if u.form.codes != trits {
		return
	}
	MOVQ(left, u.trits.row)
	SHLQ(Imm(5), u.trits.row)
	LEAQ(tritTable(), u.trits.word)
	ADDQ(u.trits.word, u.trits.row)
}

// group is the digits of a group of four inputs.
func (u *tritUnpacker) group(at Mem, g int) reg.VecVirtual {
	v, factor := u.register(), u.register()
	MOVWLZX(Mem{Base: u.row, Disp: 4 * g}, u.word.As32())
	if at.Index != nil {
		panic("a word is at its own index")
	}
	u.move(Mem{Base: at.Base, Disp: at.Disp, Index: u.word, Scale: 1}, v)
	VPBROADCASTW(Mem{Base: u.row, Disp: 4*g + 2}, factor)
	high := u.and(u.high, v)
	VPMULLW(factor, v, v) // of which the lower byte is one of the multiple
	VPMULLW(factor, high, high)
	if u.wide {
		VPTERNLOGD(Imm(0xba), high, u.high, v)
		one, two := K(), K()
		VPCMPGTB(u.first, v, one)
		VPCMPGTB(u.second, v, two)
		VMOVDQU8_Z(u.ones, one, v)
		VPADDB(u.ones, v, two, v)
		return v
	}
	VPANDN(v, u.high, v)
	VPOR(high, v, v)
	u.digits(v, v)
	return v
}

// digits makes the first digits of bytes, with 8 lanes.
func (u *tritUnpacker) digits(v, to reg.VecVirtual) {
	one := YMM()
	VPCMPGTB(u.first, v, one)
	VPCMPGTB(u.second, v, to)
	VPADDB(one, to, to)
	VPABSB(to, to)
}

// multiplyFewTrits emits products of one row by panels, with 8 lanes. It goes from digit to digit
// of a word, because to multiply by 3 is shorter than to find any digit, with the sums of five
// blocks of 32 inputs in registers.
func multiplyFewTrits(name string) {
	TEXT(name, noSplit, fewSignature(""))
	t := fewTile{rows: 1, words: 8, shift: 7, frame: AllocLocal(4 * panelBytes)}
	t.blockUnpacker = newBlockUnpacker(blockSet{}, formTQ1)
	t.emit()
}

// tritsAVX2 adds a block of 256 inputs, for eight of its outputs after the other.
func (t *fewTile) tritsAVX2() {
	loop := unique("half")
	XORQ(t.half, t.half)
	Label(loop)
	word, row := GP64(), GP64()
	LEAQ(Mem{Base: t.w, Index: t.half, Scale: 4}, word)
	MOVQ(t.at[0], row)
	sum := YMM()
	VMOVUPS(t.sumAt(0), sum)
	group := func(block, g int) int { return block*blockRowSize + 4*g }

	acc := zeroWords(5)
	t.eachWord(word, row, 8, func(v reg.VecVirtual) {
		for block := range 5 {
			t.digitTimes(v, block > 0, Mem{Base: row, Disp: group(block, 0)}, acc[block])
		}
	})
	for block := range 5 {
		t.addTrits(acc[block], sum, block)
	}
	MOVQ(t.at[0], row)
	acc = zeroWords(3)
	t.eachWord(word, row, 4, func(v reg.VecVirtual) {
		for digit := range 5 {
			at := Mem{Base: row, Disp: group(5+digit/2, digit%2*4)}
			t.digitTimes(v, digit > 0, at, acc[digit/2])
		}
	})
	v := t.load(Mem{Base: word})
	for digit := range 4 {
		t.digitTimes(v, digit > 0, Mem{Base: t.at[0], Disp: group(7, 4+digit)}, acc[2])
	}
	for i := range 3 {
		t.addTrits(acc[i], sum, 5+i)
	}
	VMOVUPS(sum, t.sumAt(0))
	XORQ(imm(8), t.half)
	JNE(LabelRef(loop))
}

// zeroWords is n sums of 16 bits.
func zeroWords(n int) (acc []reg.VecVirtual) {
	for range n {
		v := YMM()
		VPXOR(v, v, v)
		acc = append(acc, v)
	}
	return acc
}

// eachWord emits a loop over n words and groups of four inputs.
func (t *fewTile) eachWord(word, row reg.GPVirtual, n int, use func(v reg.VecVirtual)) {
	loop, left := unique("word"), GP64()
	MOVQ(U32(n), left)
	Label(loop)
	use(t.load(Mem{Base: word}))
	ADDQ(imm(panelBytes), word)
	ADDQ(imm(4), row)
	DECQ(left)
	JNE(LabelRef(loop))
}

// digitTimes adds products of inputs and the first digits of bytes, or the next ones.
func (t *fewTile) digitTimes(v reg.VecVirtual, next bool, inputs Mem, acc reg.VecVirtual) {
	x, digits := YMM(), YMM()
	if next {
		VPADDB(v, v, x)
		VPADDB(x, v, v)
	}
	t.trits.digits(v, digits)
	VPBROADCASTD(inputs, x)
	VPMADDUBSW(x, digits, x)
	VPADDW(x, acc, acc)
}

// addTrits adds words of products of 32 inputs with a number, times a·d, to a sum.
func (t *fewTile) addTrits(words, sum reg.VecVirtual, block int) {
	at := Mem{Base: t.at[0], Disp: block * blockRowSize}
	start, ad := YMM(), YMM()
	VPMADDWD(t.repeated(wordOnes), words, words)
	VPBROADCASTD(at.Offset(blockRowStart), start)
	VPSRAD(Imm(t.shift), start, start)
	VPADDD(start, words, words)
	VCVTDQ2PS(words, words)
	VBROADCASTSS(at.Offset(blockRowScale), ad)
	VMULPS(t.loadD(Mem{Base: t.d, Index: t.half, Scale: 2}), ad, ad)
	VFMADD231PS(ad, words, sum)
}
