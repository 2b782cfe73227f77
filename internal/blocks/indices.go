package blocks

import (
	"encoding/binary"
	"math/bits"
	"sync"
)

// Types IQ1 to IQ3 have indices of entries of a book: an entry is eight numbers, or four. A weight
// is d·scale·number, where the scale of 16 inputs is odd and numbers of IQ2 and IQ3 have a sign. d
// includes a power of 2, so that all are integers; products of the three are exact in float32.

// Book says how the indices and the odd scales of a type lie.
type Book int

const (
	noBook Book = iota
	bookOfIQ2XXS
	bookOfIQ2XS
	bookOfIQ2S
	bookOfIQ3XXS
	bookOfIQ3S
	bookOfIQ1S
	bookOfIQ1M
)

// bookForms has, of 32 inputs of an output in packed blocks, the number of single bytes and of
// words, and the power of 2 that d includes.
var bookForms = [...]struct {
	bytes, words int
	unit         float32
}{bookOfIQ2XXS: {0, 2, 1. / 8}, bookOfIQ2XS: {1, 2, 1. / 8}, bookOfIQ2S: {2, 2, 1. / 8},
	bookOfIQ3XXS: {0, 3, 1. / 4}, bookOfIQ3S: {2, 3, 1}, bookOfIQ1S: {2, 1, 1. / 8},
	bookOfIQ1M: {3, 1, 1. / 8}}

// Unit returns the power of 2 that d includes.
func (of *Traits) Unit() float32 { return bookForms[of.Book].unit }

// indices are the bytes of 32 inputs of an output, in a file or in packed blocks: single bytes of
// scales and upper bits, words of indices and signs.
type indices struct {
	bytes [3]byte
	words [3]uint32
}

// indicesOf reads the indices of part i of a file's block.
func (of *Traits) indicesOf(block []byte, i int) (x indices) {
	codes, upper := block[of.At.Codes:], block[of.At.Upper:]
	switch of.Book {
	case bookOfIQ2XXS, bookOfIQ2XS, bookOfIQ3XXS, bookOfIQ3S:
		x.words[0], x.words[1] = fileWord(codes, 2*i), fileWord(codes, 2*i+1)
	default:
		x.words[0] = fileWord(codes, i)
	}
	switch of.Book {
	case bookOfIQ2XS:
		x.bytes[0] = block[of.At.Scales+i]
	case bookOfIQ2S:
		x.bytes[0], x.bytes[1] = block[of.At.Scales+i], upper[i]
		x.words[1] = fileWord(codes[Inputs:], i)
	case bookOfIQ3XXS:
		x.words[2] = fileWord(block[of.At.Scales:], i)
	case bookOfIQ3S:
		x.bytes[0], x.bytes[1] = block[of.At.Scales+i/2]>>(i%2*4)&15, upper[i]
		x.words[2] = fileWord(upper[8:], i)
	case bookOfIQ1S:
		x.bytes[0], x.bytes[1] = upper[2*i], upper[2*i+1]
	case bookOfIQ1M:
		x.bytes[0] = byte(binary.LittleEndian.Uint16(block[of.At.Scales+i/2*2:]) >> (i % 2 * 6) & 63)
		x.bytes[1], x.bytes[2] = upper[2*i], upper[2*i+1]
	}
	return x
}

// fileIndices reverses indicesOf. It adds bits to the block.
func (of *Traits) fileIndices(block []byte, x *indices, i int) {
	codes, upper := block[of.At.Codes:], block[of.At.Upper:]
	switch of.Book {
	case bookOfIQ2XXS, bookOfIQ2XS, bookOfIQ3XXS, bookOfIQ3S:
		orWord(codes, 2*i, x.words[0])
		orWord(codes, 2*i+1, x.words[1])
	default:
		orWord(codes, i, x.words[0])
	}
	switch of.Book {
	case bookOfIQ2XS:
		block[of.At.Scales+i] = x.bytes[0]
	case bookOfIQ2S:
		block[of.At.Scales+i], upper[i] = x.bytes[0], x.bytes[1]
		orWord(codes[Inputs:], i, x.words[1])
	case bookOfIQ3XXS:
		orWord(block[of.At.Scales:], i, x.words[2])
	case bookOfIQ3S:
		block[of.At.Scales+i/2] |= x.bytes[0] & 15 << (i % 2 * 4)
		upper[i] = x.bytes[1]
		orWord(upper[8:], i, x.words[2])
	case bookOfIQ1S:
		upper[2*i], upper[2*i+1] = x.bytes[0], x.bytes[1]
	case bookOfIQ1M:
		orHalf(block[of.At.Scales:], i/2, uint16(x.bytes[0]&63)<<(i%2*6))
		upper[2*i], upper[2*i+1] = x.bytes[1], x.bytes[2]
	}
}

// orHalf puts bits into a half of a word.
func orHalf(to []byte, i int, x uint16) {
	binary.LittleEndian.PutUint16(to[2*i:], binary.LittleEndian.Uint16(to[2*i:])|x)
}

// dOf returns d of a file's block, in F16. IQ1_M has it in the upper nibbles of its scales.
func (of *Traits) dOf(block []byte) (d uint16) {
	if of.Book != bookOfIQ1M {
		return binary.LittleEndian.Uint16(block[of.At.D:])
	}
	for i := range 4 {
		d |= binary.LittleEndian.Uint16(block[of.At.Scales+2*i:]) >> 12 << (4 * i)
	}
	return d
}

// fileD reverses dOf. It adds bits to the block.
func (of *Traits) fileD(block []byte, d uint16) {
	if of.Book != bookOfIQ1M {
		orHalf(block[of.At.D:], 0, d)
		return
	}
	for i := range 4 {
		orHalf(block[of.At.Scales:], i, d>>(4*i)<<12)
	}
}

// packIndices packs the indices of two outputs.
func (p *packing) packIndices(part []byte, c int, a, b []byte) {
	form := &bookForms[p.Book]
	for i := range p.Inputs / Inputs {
		x, y := p.indicesOf(a, i), p.indicesOf(b, i)
		for j := range form.bytes {
			part[Outputs*j+c], part[Outputs*j+c+1] = x.bytes[j], y.bytes[j]
		}
		words := part[p.scales+4*c:]
		for j := range form.words {
			put(words, j, uint64(x.words[j])|uint64(y.words[j])<<32)
		}
		part = part[p.part:]
	}
}

// packedIndices reads the indices of output c of a part of a packed block.
func (of *Traits) packedIndices(x *indices, part []byte, c int) {
	form := &bookForms[of.Book]
	for j := range form.bytes {
		x.bytes[j] = part[Outputs*j+c]
	}
	part = part[Outputs*form.bytes:]
	for j := range form.words {
		x.words[j] = packedWord(part, j, c)
	}
}

// Numbers is the integers of 32 inputs of an output: bytes with sign, eight in a word, and the
// scales of both halves.
type Numbers struct {
	Bytes  [4]uint64
	Scales [2]int8
}

// Numbers sets x to the numbers of output c of a part of a packed block.
func (of *Traits) Numbers(x *Numbers, part []byte, c int) {
	var from indices
	of.packedIndices(&from, part, c)
	of.numbers(x, &from)
}

// numbers looks indices up.
func (of *Traits) numbers(x *Numbers, from *indices) {
	t := tables()
	w0, w1, w2 := from.words[0], from.words[1], from.words[2]
	b0, b1 := from.bytes[0], from.bytes[1]
	low := uint64(w0) | uint64(w1)<<32
	switch of.Book {
	case bookOfIQ2XXS:
		for l := range 4 {
			x.Bytes[l] = signed(t.xxs2[byte(w0>>(8*l))], t.odd[w1>>(7*l)&127])
		}
		x.scale(w1>>28, w1>>28)
	case bookOfIQ2XS:
		for l := range 4 {
			q := uint16(low >> (16 * l))
			x.Bytes[l] = signed(t.xs2[q&511], t.odd[q>>9])
		}
		x.scale(uint32(b0&15), uint32(b0>>4))
	case bookOfIQ2S:
		for l := range 4 {
			at := w0>>(8*l)&255 | uint32(b1)>>(2*l)&3<<8
			x.Bytes[l] = signed(t.s2[at], t.signs[byte(w1>>(8*l))])
		}
		x.scale(uint32(b0&15), uint32(b0>>4))
	case bookOfIQ3XXS:
		for l := range 4 {
			two := uint16(low >> (16 * l))
			n := uint64(t.xxs3[two&255]) | uint64(t.xxs3[two>>8])<<32
			x.Bytes[l] = signed(n, t.odd[w2>>(7*l)&127])
		}
		x.scale(w2>>28, w2>>28)
	case bookOfIQ3S:
		for l := range 4 {
			two, upper := uint16(low>>(16*l)), uint16(b1)>>(2*l)<<8
			n := uint64(t.s3[two&255|upper&256]) | uint64(t.s3[two>>8|upper>>1&256])<<32
			x.Bytes[l] = signed(n, t.signs[byte(w2>>(8*l))])
		}
		x.scale(uint32(b0&15), uint32(b0&15))
	case bookOfIQ1S:
		upper := uint32(b0) | uint32(b1)<<8
		for l := range 4 {
			x.Bytes[l] = shifted(t.one[w0>>(8*l)&255|upper>>(3*l)&7<<8], upper>>15)
		}
		x.scale(upper>>12&7, upper>>12&7)
	case bookOfIQ1M:
		upper := uint32(b1) | uint32(from.bytes[2])<<8
		for l := range 4 {
			nibble := upper >> (4 * l) & 15
			x.Bytes[l] = shifted(t.one[w0>>(8*l)&255|nibble&7<<8], nibble>>3)
		}
		x.scale(uint32(b0&7), uint32(b0>>3&7))
	}
}

// scale sets the scales from their codes.
func (x *Numbers) scale(first, second uint32) {
	x.Scales = [2]int8{int8(2*first + 1), int8(2*second + 1)}
}

// signed negates the bytes of x, which are not 0, where those of a mask are 0xff.
func signed(x, mask uint64) uint64 { return (x ^ mask) + mask&ofTwo }

// shifted is entries of IQ1 times 8, plus 1, or minus 1 if less is 1. x includes the 1.
func shifted(x uint64, less uint32) uint64 {
	return (x ^ 0x80*ofTwo) - uint64(2*less)*ofTwo ^ 0x80*ofTwo // no byte borrows from the next
}

// bookTables are the entries of all books as bytes, and the masks of signs.
type bookTables struct {
	xxs2  [256]uint64
	xs2   [512]uint64
	s2    [1024]uint64
	xxs3  [256]uint32
	s3    [512]uint32
	one   [2048]uint64
	signs [256]uint64 // bit i is the sign of number i
	odd   [128]uint64 // likewise, where the eighth makes the number of bits even
}

var (
	allTables bookTables
	made      sync.Once
)

// tables returns the tables, which the first call makes: nothing happens when a program starts, so
// that programs without matrices do not have them.
func tables() *bookTables {
	made.Do(makeTables)
	return &allTables
}

func makeTables() {
	t := &allTables
	levels := []byte{8, 25, 43}
	expand(t.xxs2[:], bookIQ2XXS[:], 2, levels)
	expand(t.xs2[:], bookIQ2XS[:], 2, levels)
	expand(t.s2[:], bookIQ2S[:], 2, levels)
	expand(t.xxs3[:], bookIQ3XXS[:], 3, []byte{4, 12, 20, 28, 36, 44, 52, 62})
	expand(t.s3[:], bookIQ3S[:], 3, []byte{1, 3, 5, 7, 9, 11, 13, 15})
	expand(t.one[:], bookIQ1[:], 2, []byte{0xf9, 1, 9}) // −7, 1, 9
	for i := range t.signs {
		for bit := range 8 {
			t.signs[i] |= uint64(0xff*(i>>bit&1)) << (8 * bit)
		}
	}
	for i := range t.odd {
		t.odd[i] = t.signs[i|bits.OnesCount(uint(i))&1<<7]
	}
}

// expand makes bytes of the levels of entries.
func expand[T uint32 | uint64](to []T, book []uint16, width int, levels []byte) {
	for i, entry := range book {
		for at := 0; at*width+width <= 16 && T(1)<<(8*at) != 0; at++ {
			to[i] |= T(levels[int(entry)>>(at*width)&(1<<width-1)]) << (8 * at)
		}
	}
}
