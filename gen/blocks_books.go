package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/seed-1415985d/attn/internal/blocks"
)

// Types with indices of a book (internal/blocks). Two consecutive indices of each of 16 outputs are
// a vector of words, which their entries replace. An entry has two bits, or four, for each number:
// nibbles of its bytes are looked up in a table of levels, and are then a group of four inputs of
// each output: two of the first index and two of the second. Signs have the same order.
//
// With 16 lanes VPERMI2W looks up 64 entries, and masks choose among the results.

// book looks up the entries of a type.
type book struct {
	blockSet
	*blocks.BookForm
	table      reg.GPVirtual // of entries
	w          reg.GPVirtual // the current 32 inputs
	nibbles    reg.VecVirtual
	levels     [2]reg.VecVirtual // by the lower and the upper half of a nibble, or by a nibble
	bits       [2]reg.VecVirtual // 6 and 7 of an index
	zero       reg.VecVirtual
	less       [2]uint32      // what is added where numbers have no signs: more and less
	lessOfPart reg.VecVirtual // for all indices of IQ1_S
	scales     reg.VecVirtual // codes
	narrow     *narrowBook    // with 8 lanes
	half       int            // likewise: of the outputs
}

// newBook loads constants that are used often; kernels load others where they use them. The bits of
// what is added for numbers without signs are repeated.
func newBook(s blockSet, form *blocks.BookForm, levels string, more, less uint32) *book {
	b := &book{blockSet: s, BookForm: form, less: [2]uint32{more, less}}
	b.nibbles = s.repeated(0x0f0f0f0f)
	for i := range b.levels {
		if i == 1 && form.Four || form.Direct() {
			break
		}
		b.levels[i] = s.nibbleTable(func(nibble int) byte {
			if form.Four {
				return levels[nibble%8]
			}
			if code := nibble >> (2 * i) & 3; code < len(levels) {
				return levels[code]
			}
			return 0
		})
	}
	if s.wide {
		b.bits = [2]reg.VecVirtual{s.repeated(0x00400040), s.repeated(0x00800080)}
	}
	if form.Signs && s.wide {
		b.zero = s.repeated(0)
	}
	return b
}

// oddScales are the scales by their codes, as float32. Those without signs have three bits.
func (b *book) oddScales() Mem {
	var scales [16]uint32
	codes := len(scales)
	if !b.Signs {
		codes = 8
	}
	for i := range scales {
		scales[i] = math.Float32bits(float32(2*(i%codes) + 1))
	}
	return wordTable(fmt.Sprintf("oddScales%d", codes), scales[:]...)
}

// nibbleTable loads a table of 16 bytes.
func (s blockSet) nibbleTable(of func(nibble int) byte) reg.VecVirtual {
	var words [4]uint32
	for i := range 16 {
		words[i/4] |= uint32(of(i)) << (i % 4 * 8)
	}
	at, v := wordTable(fmt.Sprintf("nibbles%08x%08x", words[0], words[1]), words[:]...), s.register()
	if s.wide {
		VBROADCASTI32X4(at, v)
	} else {
		VBROADCASTI128(at, v)
	}
	return v
}

// at addresses bytes of the current inputs.
func (b *book) at(offset int) Mem { return Mem{Base: b.w, Disp: offset} }

// groups passes the levels of each group of inputs to use.
func (b *book) groups(use func(g int, v reg.VecVirtual)) {
	for i := 0; i < b.Pairs(); i += 2 {
		for j, fields := range b.entries(i) {
			b.levelsOf(i+j, fields, use)
		}
	}
}

// levelsOf passes the groups of a vector of entries.
func (b *book) levelsOf(pair int, fields reg.VecVirtual, use func(g int, v reg.VecVirtual)) {
	low, high := b.and(b.nibbles, fields), b.register()
	VPSRLW(Imm(4), fields, high)
	high = b.and(b.nibbles, high)
	if b.Four {
		for i, v := range []reg.VecVirtual{low, high} {
			if !b.Direct() {
				VPSHUFB(v, b.levels[0], v)
			}
			use(2*pair+i, v)
		}
		return
	}
	for i, v := range []reg.VecVirtual{low, high} {
		for half := range 2 {
			x := b.register()
			VPSHUFB(v, b.levels[half], x)
			use(4*pair+2*i+half, x)
		}
	}
}

// entries looks up two vectors of entries.
func (b *book) entries(pair int) [2]reg.VecVirtual {
	if !b.wide {
		return [2]reg.VecVirtual{b.narrow.load(pair), b.narrow.load(pair + 1)}
	}
	t := bookTree{book: b, pair: pair}
	for i := range t.indices {
		x := ZMM()
		VPMOVZXBW(b.at(2*panel*(pair+i)), x)
		t.indices[i] = x
		for bit := range b.bits {
			t.masks[i][bit] = K()
			VPTESTMW(b.bits[bit], x, t.masks[i][bit])
		}
		t.clear[i] = K()
		VPTESTNMW(b.bits[0], x, t.clear[i])
	}
	return t.choose(b.Bits-6, 0)
}

// bookTree looks up two vectors of indices.
type bookTree struct {
	*book
	pair    int
	indices [2]reg.VecVirtual
	masks   [2][2]reg.OpmaskVirtual
	clear   [2]reg.OpmaskVirtual // bit 6 is not set
}

// choose looks up entries from a multiple of 128 on, by 7 bits of the indices and some more. Words
// of a vector keep their index until the half of the entries comes that has theirs.
func (t *bookTree) choose(further, from int) (x [2]reg.VecVirtual) {
	if further == 1 {
		for half := range 2 {
			at := Mem{Base: t.table, Disp: 2*from + 2*half*panelBytes}
			low, high := t.load(at), t.load(at.Offset(panelBytes))
			for i, indices := range t.indices {
				mask := t.masks[i][0]
				if half == 0 {
					mask, x[i] = t.clear[i], ZMM()
					VMOVDQA32(indices, x[i])
				}
				VPERMI2W(high, low, mask, x[i])
			}
		}
		return x
	}
	bit := further - 1
	x = t.choose(bit, from)
	y := t.choose(bit, from+64<<bit)
	for i := range x {
		VPBLENDMW(y[i], x[i], t.mask(i, bit), x[i])
	}
	return x
}

// mask has a bit of each index from bit 6 on.
func (t *bookTree) mask(i, bit int) reg.OpmaskVirtual {
	if bit < 2 {
		return t.masks[i][bit]
	}
	return t.plane(bit-2, t.pair+i)
}

// plane loads a further bit of each index.
func (b *book) plane(plane, pair int) reg.OpmaskVirtual {
	k := K()
	KMOVD(b.at(b.PlaneAt(plane, pair)), k)
	return k
}

// begin loads the codes of the scales.
func (b *book) begin() {
	if !b.wide {
		b.beginNarrow()
		return
	}
	b.scales = ZMM()
	if b.Halves {
		VPMOVZXBD(b.at(b.ScalesAt()), b.scales)
		return
	}
	VPBROADCASTQ(b.at(b.ScalesAt()), b.scales.AsX())
	VPMOVZXBD(b.scales.AsX(), b.scales)
	shifts := wordTable("shiftsOfScales", 0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4)
	VPSRLVD(shifts, b.scales, b.scales)
	if b.Signs {
		return
	}
	k := K()
	VPTESTMD(b.repeated(8), b.scales, k)
	b.lessOfPart = ZMM()
	VPBLENDMD(b.repeated(b.less[1]), b.repeated(b.less[0]), k, b.lessOfPart)
}

// scale is the scale of each output for one half.
func (b *book) scale(half int) reg.VecVirtual {
	if !b.wide {
		return b.pairOfScales(half)
	}
	codes, v := b.scales, ZMM()
	if half == 1 && b.Halves {
		VPSRLD(Imm(4), codes, v)
		codes = v
	}
	VPERMPS(b.oddScales(), codes, v)
	return v
}

// lessOf is what is added to the numbers of a pair of indices.
func (b *book) lessOf(pair int) reg.VecVirtual {
	if !b.Halves {
		return b.lessOfPart
	}
	if !b.wide {
		return b.lessOfWords(b.narrow.bits(b.PlaneAt(b.Bits-8, pair)))
	}
	v := ZMM()
	VPBLENDMW(b.repeated(b.less[1]), b.repeated(b.less[0]), b.plane(b.Bits-8, pair), v)
	return v
}

// negate negates bytes of a group where their signs say so.
func (b *book) negate(g int, x reg.VecVirtual) {
	if !b.wide {
		b.narrow.negate(g, x)
		return
	}
	k := K()
	KMOVQ(b.at(b.SignsAt()+8*g), k)
	VPSUBB(x, b.zero, k, x)
}

// inputsOf is the places of a group's inputs, of the first output of a pair of indices.
func (b *book) inputsOf(g int) [4]int {
	between := 8
	first := g/4*16 + g%4*2
	if b.Four {
		between, first = 4, g/2*8+g%2*2
	}
	return [4]int{first, first + 1, first + between, first + between + 1}
}

// fewBook is what products of few rows need for a book.
type fewBook struct {
	*book
}

// newFewBook is newBook. Without signs, levels are 0 to 2, 8 times which less 7 or 9 are the
// numbers.
func newFewBook(s blockSet, form *blocks.BookForm) *fewBook {
	levels := form.Levels
	if !form.Signs {
		levels = "\x00\x01\x02"
	}
	b := &fewBook{book: newBook(s, form, levels, 0xfff9fff9, 0xfff7fff7)}
	b.table = argumentOf("blockCall.table")
	return b
}

// mostRows is how many rows a kernel of few rows multiplies at a time, unless it has eight: the
// look-up of 11 bits needs many registers.
func (f blockForm) mostRows() int {
	if f.codes == entriesOfBook && f.Form().Bits > 10 {
		return 2
	}
	return 4
}

// bookFrame is the bytes in the frame of a row's inputs in their order, and pairs of sums of eight.
const bookFrame = 2 * vector

// orderRow stores the inputs of a row.
func (b *fewBook) orderRow(row, frame Mem) {
	x, y := YMM(), YMM()
	VMOVDQU32(row, x)
	order := b.nibbleTable(func(i int) byte { return byte(b.inputsOf(i / 4)[i%4]) })
	VPSHUFB(order.AsY(), x, y)
	VMOVDQU32(y, frame)
	if b.Signs {
		return
	}
	zero, pairs := YMM(), b.nibbleTable(func(i int) byte { return byte(i%2 + i/2%2*8) })
	VPXORD(zero, zero, zero)
	VPXORD(u32(0x80808080), x, x)
	VPSADBW(zero, x, x)
	VPSUBQ_BCST(wordTable("sumOf128", 8*128, 0), x, x)
	VPSHUFB(pairs.AsY(), x, x)
	VMOVDQU32(x, frame.Offset(vector))
}

// blockOfBook adds 32 inputs of a type of indices.
func (t *fewTile) blockOfBook() {
	b := t.book
	b.w = t.w
	frame := func(i, at int) Mem { return t.frame.Offset(i*bookFrame + at) }
	var acc [2][]reg.VecVirtual
	for i := range t.rows {
		b.orderRow(t.row(i, 0), frame(i, 0))
	}
	b.groups(func(g int, v reg.VecVirtual) {
		k := K()
		if b.Signs {
			KMOVQ(b.at(b.SignsAt()+8*g), k)
		}
		for i := range t.rows {
			if g%4 == 0 {
				v := ZMM()
				VPXORD(v, v, v)
				acc[g/4] = append(acc[g/4], v)
			}
			sum, inputs := acc[g/4][i], frame(i, 4*g)
			if !b.Signs {
				vnniAdd("VPDPBUSD.BCST", inputs, v, sum)
				continue
			}
			x := ZMM()
			VPBROADCASTD(inputs, x)
			VPSUBB(x, b.zero, k, x)
			vnniAdd("VPDPBUSD", x, v, sum)
		}
	})
	b.begin()
	if !b.Signs {
		for half := range acc {
			less := b.lessOf(half)
			for i, sum := range acc[half] {
				VPSLLD(Imm(3), sum, sum)
				vnniAdd("VPDPWSSD.BCST", frame(i, vector+half*16), less, sum)
			}
		}
	}
	first := b.scale(0)
	for i, v := range acc[0] {
		if !b.Halves {
			VPADDD(acc[1][i], v, v)
		}
		VCVTDQ2PS(v, v)
		VMULPS(first, v, v) // exact
	}
	if b.Halves {
		second := b.scale(1)
		for i, v := range acc[1] {
			VCVTDQ2PS(v, v)
			VFMADD231PS(second, v, acc[0][i]) // an integer below 2²⁴
		}
	}
	t.add(acc[0], t.dShared, VFMADD231PS)
}

// unpackBook emits a kernel that unpacks n blocks into bytes with sign, each combined by exclusive
// or with a byte of flip, which d and the scales of both halves follow.
func (s blockSet) unpackBook(name string, form blockForm) {
	TEXT(name, noSplit, "func("+bookParameters+")")
	b := newBook(s, form.Form(), form.Form().Levels, 0xf9f9f9f9, 0xf7f7f7f7)
	u := bookUnpacker{book: b, dst: param("dst"), flip: s.register()}
	halves := blockUnpacker{blockSet: s, form: form}
	n, ofAll, left := param("n"), GP64(), GP64()
	b.w, b.table = param("packed"), param("fields")
	VPBROADCASTQ(paramAddress("flip"), u.flip)
	if !s.wide {
		u.newNarrow()
	}
	Label("next")
	MOVQ(b.w, ofAll)
	ADDQ(imm(form.Header()), b.w)
	if !s.wide {
		u.entriesOfBlock(form, left)
	}
	MOVQ(U32(form.parts()), left)
	Label("block")
	if s.wide {
		u.prefetch()
	}
	for b.half = range s.vectors() {
		u.unpack()
		d := halves.loadD(Mem{Base: ofAll, Disp: b.half * panel})
		VMULPS(s.repeated(math.Float32bits(b.Unit)), d, d) // exact
		VMOVUPS(d, u.to(blockUnpacked))
	}
	ADDQ(imm(oddSums.size()), u.dst)
	ADDQ(imm(form.Part()), b.w)
	DECQ(left)
	JNE(LabelRef("block"))
	DECQ(n)
	JNE(LabelRef("next"))
	finish()
}

// bookUnpacker unpacks.
type bookUnpacker struct {
	*book
	dst  reg.GPVirtual
	flip reg.VecVirtual
}

// prefetch requests later inputs.
func (u *bookUnpacker) prefetch() {
	for at := 0; at < u.Size(); at += lineBytes {
		PREFETCHT0(u.at(blockAhead + at))
	}
}

// to addresses unpacked bytes of the current outputs.
func (u *bookUnpacker) to(offset int) Mem {
	return Mem{Base: u.dst, Disp: offset + u.half*vector}
}

// unpack unpacks 32 inputs, but for d.
func (u *bookUnpacker) unpack() {
	u.begin()
	var even reg.VecVirtual
	u.groups(func(g int, v reg.VecVirtual) {
		if u.Signs {
			u.negate(g, v)
		} else {
			VPADDB(u.lessOf(g/4), v, v)
		}
		if g%2 == 0 {
			even = v
			return
		}
		for i, x := range u.inOrder(even, v) {
			if u.wide {
				VPXORD(u.flip, x, x)
			} else {
				VPXOR(u.flip, x, x)
			}
			u.move(x, u.to(u.inputsOf(g - 1)[2*i]/4*panelBytes))
		}
	})
	for half := range 2 {
		u.move(u.scale(half), u.to(blockUnpacked+(1+half)*panelBytes))
	}
}

// inOrder makes groups of consecutive inputs of two groups.
func (u *bookUnpacker) inOrder(even, odd reg.VecVirtual) [2]reg.VecVirtual {
	first, second := u.register(), u.register()
	VPSLLD(Imm(16), odd, first)
	VPSRLD(Imm(16), even, second)
	if u.wide {
		upper := K()
		KMOVD(u32(0xaaaaaaaa), upper)
		VPBLENDMW(first, even, upper, first)
		VPBLENDMW(odd, second, upper, second)
	} else {
		VPBLENDW(Imm(0xaa), first, even, first)
		VPBLENDW(Imm(0xaa), odd, second, second)
	}
	return [2]reg.VecVirtual{first, second}
}
