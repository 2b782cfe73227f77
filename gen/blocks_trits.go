package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Trits: a byte b is five digits of base 3, digit n of which is ((b·3ⁿ mod 256)·3) >> 8: how many
// of 86 and 171 b·3ⁿ mod 256 reaches. Packed bytes have 128 added, so that signed comparisons work;
// so have their multiples, since 128·3ⁿ mod 256 is 128.

// tritTable has, for each 32 inputs and each group of four, the offset of their word and its
// factor. The row of a block is at 8 times four times the number of blocks left.
func tritTable() Mem {
	powers := [5]uint32{1, 3, 9, 27, 81}
	row := func(number int) (x []uint32) {
		for g := range 8 {
			word, digit := g, number
			switch {
			case number == 7 && g >= 4:
				word, digit = 12, g-4
			case number == 7:
				word, digit = 8+g, 4
			case number >= 5:
				word, digit = 8+g%4, 2*(number-5)+g/4
			}
			x = append(x, uint32(word*panelBytes)|powers[digit]<<16)
		}
		return x
	}
	all := make([]uint32, 8) // no block has a row before the last one's
	for left := 1; left <= 8; left++ {
		all = append(all, row(8-left)...)
	}
	return wordTable("trits", all...)
}

// tritUnpacker converts trits to bytes.
type tritUnpacker struct {
	blockSet
	row, word           reg.GPVirtual
	high, first, second reg.VecVirtual
	ones                reg.VecVirtual // with 16 lanes
}

// newTritUnpacker loads the constants of all blocks.
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
		u.digits(v, v)
		return v
	}
	VPANDN(v, u.high, v)
	VPOR(high, v, v)
	VPCMPGTB(u.first, v, high)
	VPCMPGTB(u.second, v, v)
	VPADDB(high, v, v)
	VPABSB(v, v)
	return v
}

// digits makes the first digits of bytes, with 16 lanes.
func (u *tritUnpacker) digits(v, to reg.VecVirtual) {
	one, two := K(), K()
	VPCMPGTB(u.first, v, one)
	VPCMPGTB(u.second, v, two)
	VMOVDQU8_Z(u.ones, one, to)
	VPADDB(u.ones, to, two, to)
}

// multiplyFewTrits emits products of one row by panels, with 8 lanes.
func multiplyFewTrits(name string, form blockForm) {
	TEXT(name, noSplit, context)
	t := fewTile{rows: 1, frame: AllocLocal(4 * panelBytes)}
	stackSlots(&t.o, &t.next)
	t.blockUnpacker = &blockUnpacker{form: form}
	const most, least = 0x2a2a2a2a, 0xd6d6d6d6 // of bytes whose first digit is 1, with 128 added
	t.signs = digitSigns{t.repeated(most), t.repeated(least), t.repeated(0x01010101)}
	t.emit()
}

// digitSigns is the constants of digits that become signs.
type digitSigns struct{ most, least, ones reg.VecVirtual }

// tritsOfRow adds a block of 256 inputs of one row, with 8 lanes first for one eight of its
// outputs, then for the other. It goes from digit to digit of a word, with the sums of five blocks
// of 32 inputs in registers, because multiplying by 3 is shorter than extracting any digit.
func (t *fewTile) tritsOfRow() {
	word, row := GP64(), GP64()
	d, outputs := Mem{Base: t.d}, Mem{Base: t.w}
	loop := unique("half")
	if !t.wide {
		XORQ(t.half, t.half)
		Label(loop)
		d.Index, d.Scale = t.half, 2
		outputs.Index, outputs.Scale = t.half, 4
	}
	LEAQ(outputs, word)
	MOVQ(t.at[0], row)
	var sum reg.VecVirtual
	if t.wide {
		sum = t.sums[0]
	} else {
		sum = YMM()
		VMOVUPS(t.sumAt(0), sum)
	}
	scale := t.loadD(d)
	group := func(number, g int) int { return number*blockRowSize + 4*g }

	acc := t.beginTrits(0, 5)
	t.eachWord(word, row, 8, func(v reg.VecVirtual) {
		for number := range 5 {
			t.digitTimes(v, number > 0, Mem{Base: row, Disp: group(number, 0)}, acc[number])
		}
	})
	t.addTrits(acc, sum, scale, 0)
	MOVQ(t.at[0], row)
	acc = t.beginTrits(5, 3)
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
	t.addTrits(acc, sum, scale, 5)
	if !t.wide {
		VMOVUPS(sum, t.sumAt(0))
		XORQ(imm(8), t.half)
		JNE(LabelRef(loop))
	}
}

// beginTrits returns sums of n blocks from block first on: of 16 bits, or with 16 lanes of 32,
// which start with the correction for the offset of digits.
func (t *fewTile) beginTrits(first, n int) (acc []reg.VecVirtual) {
	for i := range n {
		v := t.register()
		if t.wide {
			VPSRAD_BCST(Imm(t.shift), t.ofBlock(first+i, blockRowStart), v)
		} else {
			VPXOR(v, v, v)
		}
		acc = append(acc, v)
	}
	return acc
}

// ofBlock addresses a field of 32 inputs with a number.
func (t *fewTile) ofBlock(number, field int) Mem {
	return Mem{Base: t.at[0], Disp: number*blockRowSize + field}
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

// digitTimes adds products of inputs and the first digits of bytes, or the next ones. With 8 lanes
// the digit minus 1 is the sign of the input.
func (t *fewTile) digitTimes(v reg.VecVirtual, next bool, inputs Mem, acc reg.VecVirtual) {
	x := t.register()
	if next {
		VPADDB(v, v, x)
		VPADDB(x, v, v)
	}
	if t.wide {
		t.trits.digits(v, x)
		vnniAdd("VPDPBUSD.BCST", inputs, x, acc)
		return
	}
	two, zero := YMM(), YMM()
	VPCMPGTB(t.signs.most, v, two) // −1 where the digit is 2
	VPCMPGTB(v, t.signs.least, zero)
	VPSUBB(zero, two, two)
	VPBROADCASTD(inputs, x)
	VPSIGNB(two, x, x)
	VPMADDUBSW(x, t.signs.ones, x)
	VPSUBW(x, acc, acc)
}

// addTrits adds sums of products of blocks from one on, times a·d, to a sum.
func (t *fewTile) addTrits(acc []reg.VecVirtual, sum, d reg.VecVirtual, first int) {
	for i, v := range acc {
		ad, at := t.register(), t.ofBlock(first+i, blockRowScale)
		if t.wide {
			VMULPS_BCST(at, d, ad)
		} else {
			VPMADDWD(u32(wordOnes), v, v)
			VBROADCASTSS(at, ad)
			VMULPS(d, ad, ad)
		}
		VCVTDQ2PS(v, v)
		VFMADD231PS(ad, v, sum)
	}
}
