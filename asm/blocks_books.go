package main

import (
	"math"

	. "github.com/seed-1415985d/attn/asm/internal/neon"
	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/dev/blocktypes"
)

// Types with indices of a book (internal/blocks). Two consecutive indices of each output are a pair
// of words, which their entries replace one after another, for all inputs of a block before their
// numbers are unpacked, so that no vector is loaded while parts of it are being stored. Until then
// the words lie in memory that the unpacked bytes overwrite: each vector is loaded before its bytes
// are written, four outputs at a time.

// bookParameters are the arguments of a kernel that unpacks a book.
const bookParameters = "dst packed fields n"

// bookWords is where the words of 32 inputs lie, between unpacked bytes.
const bookWords = blockUnpacked - panelBytes

// Registers of general use.
const (
	bookDst     = R0
	bookW       = R1 // the current 32 inputs
	bookTable   = R2
	bookLeft    = R3 // blocks
	bookParts   = R4
	bookHeader  = R5
	bookTo      = R6 // of the current outputs
	bookFrom    = R7 // masks of the current outputs
	bookFours   = R8 // four outputs that are left
	bookEntry   = R9
	bookMoving  = R10
	bookFirstW  = R11
	bookFirstTo = R12
)

// Vectors.
const (
	bookNibbles = Vec(0) // 0x0f in each byte
	bookLower   = Vec(1) // levels by the lower bits of a nibble
	bookUpper   = Vec(2) // by the upper ones
	bookBits    = Vec(3) // bit i in byte i of each half
	bookBitsH   = Vec(4) // bit i in word i
	bookSpread  = Vec(5) // places of signs of even groups
	bookFurther = Vec(6) // of odd ones
	bookSigns   = Vec(8) // four vectors
	bookMore    = Vec(12)
	bookLess    = Vec(13) // the difference
	bookOnes    = Vec(14) // of IQ1_S where numbers are less, a byte for each output
	bookPlaces  = Vec(15) // of such bytes
	bookEven    = Vec(16)
	bookTemp    = Vec(20)
	bookScales  = Vec(24)
)

// book emits a kernel that unpacks a type.
type book struct {
	*program
	*blocks.BookForm
	of *blocks.Traits
}

func (p *program) bookKernels() {
	for _, row := range blocktypes.Rows {
		if of := row.Type.Traits(); of.Codes == blocks.Indices {
			(&book{p, of.Form(), of}).emit(row.Unpack.AVX2)
		}
	}
}

// emit walks over blocks.
func (b *book) emit(name string) {
	b.kernelLike("unpackBlockGeneric", name, 0, bookParameters, "")
	b.arg("dst", bookDst)
	b.arg("packed", bookW)
	b.arg("fields", bookTable)
	b.arg("n", bookLeft)
	b.constants()
	next, part := b.label("next"), b.label("part")
	b.Label(next)
	b.Mov(bookHeader, bookW)
	b.AddImm(bookW, bookW, b.of.Header())
	b.entries()
	b.MovImm(bookParts, int64(b.of.Inputs/blocks.Inputs))
	b.Label(part)
	b.part()
	b.AddImm(bookDst, bookDst, oddSums.size())
	b.AddImm(bookW, bookW, b.of.Part())
	b.SubImm(bookParts, bookParts, 1)
	b.Cbnz(bookParts, part)
	b.SubImm(bookLeft, bookLeft, 1)
	b.Cbnz(bookLeft, next)
	b.Ret()
}

// bytes sets a vector to two times eight bytes, by way of bookEntry and bookTemp.
func (b *book) bytes(d Vec, low, high uint64) {
	b.MovImm(bookEntry, int64(low))
	b.DupD(d, bookEntry)
	if high != low {
		b.MovImm(bookEntry, int64(high))
		b.DupD(bookTemp, bookEntry)
		b.Trn1D(d, d, bookTemp)
	}
}

const eachByte = 0x0101010101010101

func (b *book) constants() {
	b.bytes(bookNibbles, 0x0f*eachByte, 0x0f*eachByte)
	for i, d := range []Vec{bookLower, bookUpper} {
		var x [2]uint64
		for nibble := range 16 {
			code := nibble >> (2 * i) & 3
			if b.Four {
				code = nibble % 8
			}
			if code < len(b.Levels) {
				x[nibble/8] |= uint64(b.Levels[code]) << (nibble % 8 * 8)
			}
		}
		b.bytes(d, x[0], x[1])
	}
	const bitOfByte = 0x8040201008040201
	b.bytes(bookBits, bitOfByte, bitOfByte)
	b.UxtlB(bookBitsH, bookBits)
	if !b.Signs {
		b.bytes(bookMore, 0xf9*eachByte, 0xf9*eachByte)
		b.bytes(bookLess, (0xf7^0xf9)*eachByte, (0xf7^0xf9)*eachByte)
	}
}

// entries looks up the entries of a block.
func (b *book) entries() {
	b.Mov(bookFirstW, bookW)
	b.Mov(bookFirstTo, bookDst)
	b.MovImm(bookParts, int64(b.of.Inputs/blocks.Inputs))
	part, words := b.label("part"), b.label("words")
	b.Label(part)
	b.AddImm(bookTo, bookDst, bookWords)
	for i := range b.Pairs() {
		b.indices(i)
	}
	b.AddImm(bookTo, bookDst, bookWords)
	b.MovImm(bookFours, int64(b.Pairs()))
	b.Label(words)
	for i := range 2 * panel {
		b.Ldrh(bookEntry, bookTo, 2*i)
		b.LdrhIndexed(bookEntry, bookTable, bookEntry)
		b.Strh(bookEntry, bookTo, 2*i)
	}
	b.AddImm(bookTo, bookTo, panelBytes)
	b.SubImm(bookFours, bookFours, 1)
	b.Cbnz(bookFours, words)
	b.AddImm(bookDst, bookDst, oddSums.size())
	b.AddImm(bookW, bookW, b.of.Part())
	b.SubImm(bookParts, bookParts, 1)
	b.Cbnz(bookParts, part)
	b.Mov(bookW, bookFirstW)
	b.Mov(bookDst, bookFirstTo)
}

// indices stores a pair of indices of each output as words.
func (b *book) indices(pair int) {
	x, bits, bit := bookEven, bookTemp, bookTemp+1
	b.AddImm(bookMoving, bookW, 2*panel*pair)
	b.Ld1(from(bookScales, 2), bookMoving)
	for q := range 4 {
		if q%2 == 0 {
			b.UxtlB(x, bookScales+Vec(q/2))
		} else {
			b.UxtlB2(x, bookScales+Vec(q/2))
		}
		for plane := range b.Bits - 8 {
			b.Ldrb(bookEntry, bookW, b.PlaneAt(plane, pair)+q)
			b.DupH(bits, bookEntry)
			b.CmtstH(bits, bits, bookBitsH)
			b.MovImm(bookEntry, 0x100<<plane)
			b.DupH(bit, bookEntry)
			b.And(bits, bits, bit)
			b.OrrV(x, x, bits)
		}
		b.StrQPost(x, bookTo)
	}
}

// part unpacks 32 inputs.
func (b *book) part() {
	b.codes()
	if b.Signs {
		b.AddImm(bookMoving, bookW, b.SignsAt())
		b.Ld1(from(bookSigns, 4), bookMoving)
		b.bytes(bookSpread, 0, eachByte)
		b.bytes(bookFurther, 8*eachByte, 9*eachByte)
	}
	b.Mov(bookTo, bookDst)
	b.Mov(bookFrom, bookW)
	b.MovImm(bookFours, 4)
	fours := b.label("fours")
	b.Label(fours)
	for i := range b.Pairs() {
		b.pair(i)
	}
	b.AddImm(bookTo, bookTo, 16)
	b.AddImm(bookFrom, bookFrom, 1)
	if b.Signs {
		two := bookTemp
		b.bytes(two, 2*eachByte, 2*eachByte)
		b.AddB(bookSpread, bookSpread, two)
		b.AddB(bookFurther, bookFurther, two)
	} else if !b.Halves {
		b.bytes(bookTemp, 4*eachByte, 4*eachByte)
		b.AddB(bookPlaces, bookPlaces, bookTemp)
	}
	b.SubImm(bookFours, bookFours, 1)
	b.Cbnz(bookFours, fours)
	b.scales()
}

// pair unpacks a pair of indices of four outputs.
func (b *book) pair(pair int) {
	low, high := bookTemp, bookTemp+1
	b.LdrQ(high, bookTo, bookWords+pair*panelBytes)
	b.And(low, high, bookNibbles)
	b.UshrB(high, high, 4)
	if b.Halves && !b.Signs {
		b.Ldrb(bookEntry, bookFrom, b.PlaneAt(b.Bits-8, pair))
		b.DupH(bookScales+4, bookEntry)
		b.CmtstH(bookScales+4, bookScales+4, bookBitsH)
		b.less()
	} else if !b.Signs && pair == 0 {
		b.Tbl1(bookScales+4, bookOnes, bookPlaces)
		b.less()
	}
	if b.Four {
		for i, v := range []Vec{low, high} {
			if !b.Direct() {
				b.Tbl1(v, bookLower, v)
			}
			b.group(2*pair+i, v)
		}
		return
	}
	for i, v := range []Vec{low, high} {
		x, y := bookEven, bookEven+1
		b.Tbl1(x, bookLower, v)
		b.Tbl1(y, bookUpper, v)
		b.group(4*pair+2*i, x)
		b.group(4*pair+2*i+1, y)
	}
}

// less makes of ones what is added to numbers.
func (b *book) less() {
	v := bookScales + 4
	b.And(v, v, bookLess)
	b.Eor(v, v, bookMore)
}

// group finishes a group, and stores it and the one before if it is an odd one.
func (b *book) group(g int, x Vec) {
	if b.Signs {
		signs, places := bookTemp+2, bookSpread
		if g%2 == 1 {
			places = bookFurther
		}
		b.Tbl1(signs, bookSigns+Vec(g/2), places)
		b.CmtstB(signs, signs, bookBits)
		b.Eor(x, x, signs)
		b.SubB(x, x, signs)
	} else {
		b.AddB(x, x, bookScales+4)
	}
	if g%2 == 0 {
		b.MovV(bookEven+2, x)
		return
	}
	first, between := g/4*16+(g-1)%4*2, 8
	if b.Four {
		first, between = g/2*8, 4
	}
	b.Trn1H(bookTemp+2, bookEven+2, x)
	b.Trn2H(bookTemp+3, bookEven+2, x)
	b.StrQ(bookTemp+2, bookTo, first/4*panelBytes)
	b.StrQ(bookTemp+3, bookTo, (first+between)/4*panelBytes)
}

// codes loads the codes of scales: two vectors of bytes, or one.
func (b *book) codes() {
	first, second := bookScales, bookScales+1
	b.AddImm(bookMoving, bookW, b.ScalesAt())
	if b.Halves {
		b.LdrQ(first, bookMoving, 0)
		b.UshrB(second, first, 4)
	} else {
		b.LdrD(first, bookMoving, 0)
		b.UshrB(second, first, 4)
		b.Trn1D(first, first, second)
	}
	if !b.Signs && !b.Halves {
		b.bytes(bookOnes, 8*eachByte, 8*eachByte)
		b.CmtstB(bookOnes, first, bookOnes)
		b.bytes(bookPlaces, 0x0101010100000000, 0x0303030302020202)
	}
	mask := uint64(15 * eachByte)
	if !b.Signs {
		mask = 7 * eachByte
	}
	b.bytes(bookTemp+1, mask, mask)
	b.And(first, first, bookTemp+1)
	b.And(second, second, bookTemp+1)
	if !b.Halves {
		b.MovV(second, first)
	}
}

// scales stores d and the scales.
func (b *book) scales() {
	x, unit := from(bookTemp, 4), bookEven+3
	b.MovImm(bookMoving, int64(math.Float32bits(b.Unit)))
	b.DupReg(unit, bookMoving)
	b.AddImm(bookMoving, bookDst, blockUnpacked)
	for half := range 2 {
		b.LdrQ(bookEven, bookHeader, 16*half)
		b.Fcvtl(x[0], bookEven)
		b.Fcvtl2(x[1], bookEven)
		for _, v := range x[:2] {
			b.Fmul(v, v, unit) // exact
			b.StrQPost(v, bookMoving)
		}
	}
	b.bytes(bookEven, eachByte, eachByte)
	for _, codes := range from(bookScales, 2) {
		b.ShlB(codes, codes, 1)
		b.OrrV(codes, codes, bookEven)
		b.UxtlB(bookEven+1, codes)
		b.UxtlB2(bookEven+2, codes)
		for i, h := range []Vec{bookEven + 1, bookEven + 2} {
			b.UxtlH(x[2*i], h)
			b.UxtlH2(x[2*i+1], h)
		}
		for _, v := range x {
			b.Scvtf(v, v)
			b.StrQPost(v, bookMoving)
		}
	}
}
