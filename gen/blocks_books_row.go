package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Products of one row by types of indices with 8 lanes, first for one eight of the outputs, then
// for the other. Entries are looked up as bytes, one for each number, and go to their places in
// vectors as they are loaded: a lane of 128 bits has the 16 numbers of a pair of indices of output
// k, the other lane those of output k + 4. Entries of four numbers are of outputs 2k and 2k + 1,
// and of the two that are four higher. Sums of an output's products are added up at the end.

// bookRow is a row by 32 inputs of 8 outputs.
type bookRow struct {
	*book
	t            *fewTile
	row          reg.GPVirtual // of inputs
	outputs      reg.GPVirtual // 0, or 2 for the second eight outputs: an eighth of their bytes
	d            Mem           // of the outputs, in the frame
	fours        [4]reg.GPVirtual
	indices      reg.VecVirtual
	spread, bits [2]reg.VecVirtual
	positive     reg.VecVirtual // bytes above 0
	largest      int            // of bytes
}

// multiplyRowOfBook emits products of one row by panels, with 8 lanes.
func multiplyRowOfBook(name string, form blockForm) {
	TEXT(name, noSplit, context)
	t := fewTile{rows: 1, frame: AllocLocal(panelBytes + vector)}
	stackSlots(&t.o, &t.next)
	t.blockUnpacker = &blockUnpacker{form: form}
	t.emit()
}

// bookOfRow adds a block, and requests as many bytes.
func (t *fewTile) bookOfRow(request reg.Register) {
	form := t.form.Form()
	b := &bookRow{book: &book{BookForm: form, table: argumentOf("blockCall.table"), w: t.w}, t: t,
		row: t.at[0], outputs: GP64(), d: t.frame.Offset(panelBytes)}
	b.less = [2]uint32{0x0000fff9, 0x0000fff7}
	if form.Halves {
		b.less = [2]uint32{0xfff9fff9, 0xfff7fff7}
	}
	b.largest = int(form.Levels[len(form.Levels)-1])
	b.loadSigns()
	left, half, part := GP64(), unique("half"), unique("part")
	parts := t.form.parts()
	each := t.form.Packed / 2 / parts
	XORQ(b.outputs, b.outputs)
	Label(half)
	d := t.loadD(b.in(-t.form.Header(), 8))
	VMULPS(f32(form.Unit), d, d) // exact
	VMOVUPS(d, b.d)
	MOVQ(U32(parts), left)
	Label(part)
	t.request(request, each)
	ADDQ(imm(each), request)
	b.add()
	ADDQ(imm(t.form.Part()), b.w)
	ADDQ(imm(blockRowSize), b.row)
	DECQ(left)
	JNE(LabelRef(part))
	SUBQ(imm(parts*t.form.Part()), b.w)
	SUBQ(imm(parts*blockRowSize), b.row)
	XORQ(imm(2), b.outputs)
	JNE(LabelRef(half))
}

// in addresses bytes of the 32 inputs, of which the first eight outputs have some eighths of 16.
func (b *bookRow) in(offset int, eighths uint8) Mem {
	return Mem{Base: b.w, Disp: offset, Index: b.outputs, Scale: eighths}
}

// vectors is how many vectors have the entries of a pair of indices.
func (b *bookRow) vectors() int { return b.bytes() / 2 }

// bytes is the bytes of an entry.
func (b *bookRow) bytes() int {
	if b.Four {
		return 4
	}
	return 8
}

// place is the output of entry number at of vector k; the entry's index is at%2.
func (b *bookRow) place(k, at int) (output int) {
	if b.Four {
		return 2*k + at/2%2 + at/4*4
	}
	return k + at/2*4
}

// signOf is the byte of signs that has the sign of byte i of vector k, and its bit.
func (b *bookRow) signOf(k, i int) (from int, bit byte) {
	entry, number := i/b.bytes(), i%b.bytes()
	output := b.place(k, entry)
	first := []int{0, 8, 4, 12}[number/2] // see loadedSigns
	return first + output/2, 1 << (output%2*4 + entry%2*2 + number%2)
}

// loadSigns loads the constants of signs.
func (b *bookRow) loadSigns() {
	if !b.Signs {
		return
	}
	table := func(name string, of func(i int) byte) reg.VecVirtual {
		var words [vector / 4]uint32
		for i := range vector {
			words[i/4] |= uint32(of(i)) << (i % 4 * 8)
		}
		return constant(wordTable(fmt.Sprintf("%sOf%dBytes", name, b.bytes()), words[:]...))
	}
	for i := range b.spread {
		b.spread[i] = table(fmt.Sprintf("signs%d", i), func(at int) byte {
			from, _ := b.signOf(i*b.vectors()/2, at)
			return byte(from)
		})
		if i == 1 && b.Four { // all vectors have the same bits
			b.bits[1], b.positive = b.bits[0], constant(u32(0x01010101))
			continue
		}
		b.bits[i] = table(fmt.Sprintf("bits%d", i), func(at int) byte {
			_, bit := b.signOf(i, at)
			return bit
		})
	}
	if !b.Four {
		b.positive = b.bits[0]
	}
}

// loadedSigns loads the signs of a pair of indices: four bytes of each group.
func (b *bookRow) loadedSigns(pair int) reg.VecVirtual {
	groups, v := b.bytes()/2, YMM()
	at := b.SignsAt() + 8*groups*pair
	VBROADCASTI128(b.in(at, 2), v)
	if groups == 4 { // groups 0, 2, 1 and 3
		odd := YMM()
		VBROADCASTI128(b.in(at+12, 2), odd)
		VPBLENDD(Imm(0xaa), odd, v, v)
	}
	return v
}

// entries loads the entries of a pair of indices of vector k.
func (b *bookRow) entries(pair, k int) reg.VecVirtual {
	var all reg.VecVirtual
	load, words := VPBROADCASTQ, b.bytes()/4
	if b.Four {
		load = VPBROADCASTD
	}
	for i := range vector / b.bytes() {
		index, entry := b.index(pair, 2*b.place(k, i)+i%2), YMM()
		load(Mem{Base: b.table, Index: index.As64(), Scale: uint8(b.bytes())}, entry)
		if i == 0 {
			all = entry
			continue
		}
		VPBLENDD(Imm(uint64(1<<words-1)<<(i*words)), entry, all, all)
	}
	return all
}

// index loads index number i of a pair of 8 outputs. Those of more than 8 bits are in words of
// general registers, four in each.
func (b *bookRow) index(pair, i int) reg.GPVirtual {
	index := GP32()
	if b.Bits == 8 {
		MOVBLZX(b.in(2*panel*pair+i, 8), index)
		return index
	}
	if i == 0 {
		b.loadIndices(pair)
	}
	four := b.fours[i/4]
	switch i {
	case 4:
		VMOVQ(b.indices, four)
	case 12:
		VPEXTRQ(Imm(1), b.indices, four)
	}
	MOVWLZX(four.As16(), index)
	if i%4 < 3 {
		SHRQ(Imm(16), four)
	}
	return index
}

// loadIndices loads a pair of indices with their further bits: indices 0 to 3 and 8 to 11 into
// general registers.
func (b *bookRow) loadIndices(pair int) {
	x, upper := YMM(), XMM()
	VPMOVZXBW(b.in(2*panel*pair, 8), x)
	for plane := range b.Bits - 8 {
		bits := b.plane(plane, pair)
		VPAND(u32(0x01000100<<plane), bits, bits)
		VPOR(bits, x, x)
	}
	for i := range b.fours {
		b.fours[i] = GP64()
	}
	b.indices = XMM()
	VEXTRACTI128(Imm(1), x, upper)
	VMOVQ(x.AsX(), b.fours[0])
	VMOVQ(upper, b.fours[2])
	VPUNPCKHQDQ(upper, x.AsX(), b.indices)
}

// plane is ones in each word whose bit is set.
func (b *bookRow) plane(plane, pair int) reg.VecVirtual {
	return wordsOfBits(b.in(b.PlaneAt(plane, pair), 1))
}

// add adds 32 inputs.
func (b *bookRow) add() {
	acc, words := make([]reg.VecVirtual, b.vectors()), make([]reg.VecVirtual, b.vectors())
	fit := (1<<15 - 1) / (2 * 127 * b.largest) // products of pairs in words
	if b.Halves {
		b.scales, fit = b.loadScales(), 1
	}
	for pair := range b.Pairs() {
		begun, last := pair%fit > 0, pair%fit == fit-1 || pair == b.Pairs()-1
		factor := b.factorOf(pair)
		b.products(pair, func(k int, x reg.VecVirtual) {
			if begun {
				VPADDW(x, words[k], words[k])
			} else {
				words[k] = x
			}
			if !last {
				return
			}
			VPMADDWD(factor(k), words[k], words[k])
			if pair < fit {
				acc[k] = words[k]
				return
			}
			VPADDD(words[k], acc[k], acc[k])
		})
	}
	for len(acc) > 1 {
		for i := range len(acc) / 2 {
			VPHADDD(acc[2*i+1], acc[2*i], acc[i])
		}
		acc = acc[:len(acc)/2]
	}
	b.addFloats(acc[0])
}

// loadScales loads the codes of scales of the outputs.
func (b *bookRow) loadScales() reg.VecVirtual {
	v := YMM()
	if b.Halves {
		VPMOVZXBD(b.in(b.ScalesAt(), 4), v)
		return v
	}
	bits := XMM()
	VPMOVZXBD(Mem{Base: b.w, Disp: b.ScalesAt()}, v)
	VMOVQ(b.outputs, bits) // 0 or 2
	VPADDD(bits, bits, bits)
	VPSRLD(bits, v, v)
	return v
}

// factorOf returns what words of products of vector k are multiplied by: the scale of 16 inputs,
// or 1.
func (b *bookRow) factorOf(pair int) func(k int) Op {
	if !b.Halves {
		return func(int) Op { return u32(wordOnes) }
	}
	scale := b.pairOfScales(pair)
	return func(k int) Op {
		v := YMM()
		VPSHUFD(Imm(uint64(k*0x55)), scale, v)
		return v
	}
}

// products passes the products of a pair of indices to use, two in each word.
func (b *bookRow) products(pair int, use func(k int, x reg.VecVirtual)) {
	inputs, signs := YMM(), reg.VecVirtual(nil)
	if b.Four {
		VPBROADCASTQ(Mem{Base: b.row, Disp: 8 * pair}, inputs)
	} else {
		VBROADCASTI128(Mem{Base: b.row, Disp: 16 * pair}, inputs)
	}
	if b.Signs {
		signs = b.loadedSigns(pair)
	}
	for k := range b.vectors() {
		numbers, x := b.entries(pair, k), YMM()
		if !b.Signs {
			VPMADDUBSW(inputs, numbers, x)
			use(k, x)
			continue
		}
		bits := b.bits[k%2]
		VPSHUFB(b.spread[2*k/b.vectors()], signs, x)
		VPAND(bits, x, x)
		VPCMPEQB(bits, x, x)
		VPOR(b.positive, x, x)
		VPSIGNB(x, inputs, x)
		VPMADDUBSW(x, numbers, x)
		use(k, x)
	}
}

// addFloats adds sums of products, times the scale if they have one for all inputs, times a·d.
func (b *bookRow) addFloats(x reg.VecVirtual) {
	if !b.Signs && b.Halves {
		b.lessOfEights(x)
	}
	if !b.Halves {
		b.scales = b.loadScales()
		scale, mask := YMM(), uint32(15)
		if !b.Signs {
			mask = 7
			less, sum := b.and(b.repeated(8), b.scales), YMM()
			VPCMPEQD(u32(8), less, less)
			VPBROADCASTD(Mem{Base: b.row, Disp: blockRowSum}, sum)
			VPMADDWD(b.lessOfWords(less), sum, sum)
			VPADDD(sum, x, x)
		}
		VPAND(u32(mask), b.scales, scale)
		VPADDD(scale, scale, scale)
		VPOR(u32(1), scale, scale)
		VCVTDQ2PS(scale, scale)
		VCVTDQ2PS(x, x)
		VMULPS(scale, x, x) // exact
	} else {
		VCVTDQ2PS(x, x)
	}
	ad := YMM()
	VBROADCASTSS(Mem{Base: b.row, Disp: blockRowScale}, ad)
	VMULPS(b.d, ad, ad)
	sums := GP64()
	LEAQ(b.t.frame, sums)
	LEAQ(Mem{Base: sums, Index: b.outputs, Scale: 8}, sums)
	sum := Mem{Base: sums, Index: b.outputs, Scale: 8}
	VFMADD213PS(sum, ad, x)
	VMOVUPS(x, sum)
}

// lessOfEights adds what numbers of IQ1_M are less, times the sums of eight inputs.
func (b *bookRow) lessOfEights(x reg.VecVirtual) {
	v, zero := YMM(), YMM()
	VPXOR(zero, zero, zero)
	VMOVDQU(Mem{Base: b.row}, v)
	VPXOR(u32(0x80808080), v, v)
	VPSADBW(zero, v, v)
	const sum = 8 * 128
	VPSUBQ(wordTable("sumsOf128", sum, 0, sum, 0, sum, 0, sum, 0), v, v)
	VPSHUFB(dotBlocks.nibbleTable(func(i int) byte { return byte(i%2 + i/2%2*8) }), v, v)
	for pair, order := range []uint64{0x44, 0xee} {
		sums, less := YMM(), b.lessOfWords(b.plane(b.Bits-8, pair))
		VPERMQ(Imm(order), v, sums)
		VPMULLW(b.pairOfScales(pair), less, less)
		VPMADDWD(less, sums, sums)
		VPADDD(sums, x, x)
	}
}
