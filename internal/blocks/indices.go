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

// BookForm is how the indices of a type lie in packed blocks. Each 32 inputs of 16 outputs have:
//
//   - the lowest eight bits of the indices: for two consecutive indices of each output 32 bytes,
//     index i of output c at 32·(i/2) + 2·c + i%2
//   - for each further bit as many bits in the same order. IQ1_M has one more: whether numbers are
//     one less or one more than a multiple of 8
//   - the signs of IQ2 and IQ3: four bits of each output for each of eight groups of four inputs,
//     inputs x, x+1, y and y+1: y is x plus the numbers of an entry. x rises by 2 within an entry.
//   - 16 bytes of two scales, the first one below, or 8 bytes of one scale: output c in byte c%8,
//     outputs below 8 lower. IQ1_S has the bit of IQ1_M for all inputs above the scale.
type BookForm struct {
	Four   bool // an entry is four numbers, not eight
	Bits   int  // of an index
	Halves bool // 16 inputs have a scale, not 32
	Signs  bool // numbers have signs
	Levels string
	Unit   float32 // the power of 2 that d includes
}

// Form returns the form of a type of indices.
func (of *Traits) Form() *BookForm { return &bookForms[of.Book] }

// Levels of types.
const (
	levels2  = "\x08\x19\x2b" // 8, 25, 43
	levels3  = "\x04\x0c\x14\x1c\x24\x2c\x34\x3e"
	levels3S = "\x01\x03\x05\x07\x09\x0b\x0d\x0f"
	levels1  = "\x00\x08\x10" // less 7 or 9
)

var bookForms = [...]BookForm{
	bookOfIQ2XXS: {Bits: 8, Signs: true, Levels: levels2, Unit: 1. / 8},
	bookOfIQ2XS:  {Bits: 9, Halves: true, Signs: true, Levels: levels2, Unit: 1. / 8},
	bookOfIQ2S:   {Bits: 10, Halves: true, Signs: true, Levels: levels2, Unit: 1. / 8},
	bookOfIQ3XXS: {Four: true, Bits: 8, Signs: true, Levels: levels3, Unit: 1. / 4},
	bookOfIQ3S:   {Four: true, Bits: 9, Signs: true, Levels: levels3S, Unit: 1},
	bookOfIQ1S:   {Bits: 11, Levels: levels1, Unit: 1. / 8},
	bookOfIQ1M:   {Bits: 11, Halves: true, Levels: levels1, Unit: 1. / 8},
}

// entries returns the entries of a book. A table of them would need code when a program starts,
// which would keep the books in all programs.
func (b Book) entries() []uint16 {
	switch b {
	case bookOfIQ2XXS:
		return bookIQ2XXS[:]
	case bookOfIQ2XS:
		return bookIQ2XS[:]
	case bookOfIQ2S:
		return bookIQ2S[:]
	case bookOfIQ3XXS:
		return bookIQ3XXS[:]
	case bookOfIQ3S:
		return bookIQ3S[:]
	case bookOfIQ1S, bookOfIQ1M:
		return bookIQ1[:]
	}
	return nil
}

// Pairs returns how many pairs of indices an output has.
func (f *BookForm) Pairs() int {
	if f.Four {
		return 4
	}
	return 2
}

// Bits that each index has apart from its lowest eight: of all Planes those from Bits − 8 on say
// which numbers are less.
func (f *BookForm) Planes() int {
	if f.Halves && !f.Signs {
		return f.Bits - 8 + 1
	}
	return f.Bits - 8
}

// PlaneAt returns the offset of bits of a pair of indices of all outputs, a word.
func (f *BookForm) PlaneAt(plane, pair int) int {
	return 2*Outputs*f.Pairs() + 4*(plane*f.Pairs()+pair)
}

// SignsAt returns the offset of the signs.
func (f *BookForm) SignsAt() int { return f.PlaneAt(f.Planes(), 0) }

// ScalesAt returns the offset of the scales.
func (f *BookForm) ScalesAt() int {
	if f.Signs {
		return f.SignsAt() + 8*Inputs/4
	}
	return f.SignsAt()
}

// Size returns the bytes of 32 inputs of 16 outputs.
func (f *BookForm) Size() int {
	if f.Halves {
		return f.ScalesAt() + Outputs
	}
	return f.ScalesAt() + Outputs/2
}

// indices are the indices of 32 inputs of an output.
type indices struct {
	entries [8]uint16
	signs   uint32 // one bit for each number; of IQ1_M one for each entry, set if it has less
	scales  byte   // two of four bits, or one, of IQ1_S with the bit of IQ1_M
}

// indicesOf reads the indices of part i of a file's block.
func (of *Traits) indicesOf(block []byte, i int) (x indices) {
	codes, upper := block[of.At.Codes:], block[of.At.Upper:]
	switch of.Book {
	case bookOfIQ2XXS:
		x.readBytes(codes[8*i:][:4])
		x.readSigns(fileWord(codes, 2*i+1))
	case bookOfIQ2XS:
		for l := range 4 {
			q := binary.LittleEndian.Uint16(codes[2*(4*i+l):])
			x.entries[l] = q & 511
			x.signs |= withParity(uint32(q>>9)) << (8 * l)
		}
		x.scales = block[of.At.Scales+i]
	case bookOfIQ2S:
		x.readBytes(codes[4*i:][:4])
		for l := range 4 {
			x.entries[l] |= uint16(upper[i]) >> (2 * l) & 3 << 8
		}
		x.signs, x.scales = fileWord(codes[Inputs:], i), block[of.At.Scales+i]
	case bookOfIQ3XXS:
		x.readBytes(codes[8*i:][:8])
		x.readSigns(fileWord(block[of.At.Scales:], i))
	case bookOfIQ3S:
		x.readBytes(codes[8*i:][:8])
		for l := range 8 {
			x.entries[l] |= uint16(upper[i]) >> l & 1 << 8
		}
		x.signs = fileWord(upper[8:], i)
		x.scales = block[of.At.Scales+i/2] >> (i % 2 * 4) & 15
	case bookOfIQ1S:
		h := binary.LittleEndian.Uint16(upper[2*i:])
		x.readBytes(codes[4*i:][:4])
		for l := range 4 {
			x.entries[l] |= h >> (3 * l) & 7 << 8
		}
		x.scales = byte(h >> 12)
	case bookOfIQ1M:
		h := binary.LittleEndian.Uint16(upper[2*i:])
		x.readBytes(codes[4*i:][:4])
		for l := range 4 {
			x.entries[l] |= h >> (4 * l) & 7 << 8
			x.signs |= uint32(h) >> (4*l + 3) & 1 << l
		}
		s := binary.LittleEndian.Uint16(block[of.At.Scales+i/2*2:]) >> (i % 2 * 6)
		x.scales = byte(s&7 | s>>3&7<<4)
	}
	return x
}

// readBytes reads the lowest bits of entries.
func (x *indices) readBytes(from []byte) {
	for l, e := range from {
		x.entries[l] = uint16(e)
	}
}

// readSigns reads four times seven signs and a scale above.
func (x *indices) readSigns(from uint32) {
	x.scales = byte(from >> 28)
	for l := range 4 {
		x.signs |= withParity(from>>(7*l)&127) << (8 * l)
	}
}

// withParity adds an eighth bit that makes the number of bits even.
func withParity(x uint32) uint32 { return x | uint32(bits.OnesCount32(x))&1<<7 }

// fileIndices reverses indicesOf. It adds bits to the block.
func (of *Traits) fileIndices(block []byte, x *indices, i int) {
	codes, upper := block[of.At.Codes:], block[of.At.Upper:]
	switch of.Book {
	case bookOfIQ2XXS:
		x.fileBytes(codes[8*i:][:4])
		orWord(codes, 2*i+1, x.fileSigns())
	case bookOfIQ2XS:
		for l := range 4 {
			orHalf(codes, 4*i+l, x.entries[l]|uint16(x.signs>>(8*l)&127)<<9)
		}
		block[of.At.Scales+i] = x.scales
	case bookOfIQ2S:
		x.fileBytes(codes[4*i:][:4])
		for l := range 4 {
			upper[i] |= byte(x.entries[l] >> 8 << (2 * l))
		}
		orWord(codes[Inputs:], i, x.signs)
		block[of.At.Scales+i] = x.scales
	case bookOfIQ3XXS:
		x.fileBytes(codes[8*i:][:8])
		orWord(block[of.At.Scales:], i, x.fileSigns())
	case bookOfIQ3S:
		x.fileBytes(codes[8*i:][:8])
		for l := range 8 {
			upper[i] |= byte(x.entries[l] >> 8 << l)
		}
		orWord(upper[8:], i, x.signs)
		block[of.At.Scales+i/2] |= x.scales & 15 << (i % 2 * 4)
	case bookOfIQ1S:
		x.fileBytes(codes[4*i:][:4])
		for l := range 4 {
			orHalf(upper, i, x.entries[l]>>8<<(3*l))
		}
		orHalf(upper, i, uint16(x.scales)<<12)
	case bookOfIQ1M:
		x.fileBytes(codes[4*i:][:4])
		for l := range 4 {
			orHalf(upper, i, (x.entries[l]>>8|uint16(x.signs)>>l&1<<3)<<(4*l))
		}
		orHalf(block[of.At.Scales:], i/2, uint16(x.scales&7|x.scales>>4&7<<3)<<(i%2*6))
	}
}

// fileBytes reverses readBytes.
func (x *indices) fileBytes(to []byte) {
	for l := range to {
		to[l] = byte(x.entries[l])
	}
}

// fileSigns reverses readSigns.
func (x *indices) fileSigns() (seven uint32) {
	for l := range 4 {
		seven |= x.signs >> (8 * l) & 127 << (7 * l)
	}
	return seven | uint32(x.scales)<<28
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

// packIndices packs the indices of output c, which is even, and of the next one.
func (p *packing) packIndices(part []byte, c int, a, b []byte) {
	f := p.Form()
	for i := range p.Inputs / Inputs {
		x, y := p.indicesOf(a, i), p.indicesOf(b, i)
		f.packTwo(part[i*p.part:][:p.part], c, &x, &y)
	}
}

// packTwo packs a part of two outputs.
func (f *BookForm) packTwo(part []byte, c int, x, y *indices) {
	for i := range f.Pairs() {
		e := [...]uint16{x.entries[2*i], x.entries[2*i+1], y.entries[2*i], y.entries[2*i+1]}
		for j, e := range e {
			part[2*Outputs*i+2*c+j] = byte(e)
		}
		for plane := range f.Planes() {
			four := byte(e[0]>>(8+plane)&1 | e[1]>>(8+plane)&1<<1 | e[2]>>(8+plane)&1<<2 |
				e[3]>>(8+plane)&1<<3)
			if plane == f.Bits-8 {
				four = byte(x.signs>>(2*i)&3 | y.signs>>(2*i)&3<<2)
			}
			putNibble(&part[f.PlaneAt(plane, i)+c/4], c%4*2, four)
		}
	}
	if f.Signs {
		s, t := f.groupSigns(x.signs), f.groupSigns(y.signs)
		for g := range Inputs / 4 {
			part[f.SignsAt()+8*g+c/2] = byte(s>>(4*g)&15 | t>>(4*g)&15<<4)
		}
	}
	if f.Halves {
		part[f.ScalesAt()+c], part[f.ScalesAt()+c+1] = x.scales, y.scales
		return
	}
	at := part[f.ScalesAt()+c%8:]
	putNibble(&at[0], c/8*4, x.scales)
	putNibble(&at[1], c/8*4, y.scales)
}

// putNibble replaces four bits, from bit 0 or 4 on.
func putNibble(to *byte, at int, x byte) { *to = *to&^(15<<at) | x<<at }

// groupSigns moves the bits of two numbers to their group.
func (f *BookForm) groupSigns(signs uint32) uint32 {
	x := uint64(signs)
	if !f.Four {
		x = swapWithin(x, 4, 0x00f000f0)
	}
	return uint32(swapWithin(x, 2, 0x0c0c0c0c))
}

// ungroupSigns reverses groupSigns.
func (f *BookForm) ungroupSigns(signs uint32) uint32 {
	x := swapWithin(uint64(signs), 2, 0x0c0c0c0c)
	if !f.Four {
		x = swapWithin(x, 4, 0x00f000f0)
	}
	return uint32(x)
}

// packedIndices reads the indices of output c of a part of a packed block.
func (f *BookForm) packedIndices(x *indices, part []byte, c int) {
	*x = indices{}
	for i := range f.Pairs() {
		for j := range 2 {
			x.entries[2*i+j] = uint16(part[2*Outputs*i+2*c+j])
			for plane := range f.Planes() {
				bit := part[f.PlaneAt(plane, i)+c/4] >> (c%4*2 + j) & 1
				if plane == f.Bits-8 {
					x.signs |= uint32(bit) << (2*i + j)
					continue
				}
				x.entries[2*i+j] |= uint16(bit) << (8 + plane)
			}
		}
	}
	if f.Signs {
		for g := range Inputs / 4 {
			x.signs |= uint32(part[f.SignsAt()+8*g+c/2]>>(c%2*4)&15) << (4 * g)
		}
		x.signs = f.ungroupSigns(x.signs)
	}
	if f.Halves {
		x.scales = part[f.ScalesAt()+c]
		return
	}
	x.scales = part[f.ScalesAt()+c%8] >> (c / 8 * 4) & 15
}

// clearIndices clears the indices of an odd output c.
func (f *BookForm) clearIndices(part []byte, c int) {
	var x, none indices
	f.packedIndices(&x, part, c-1)
	f.packTwo(part, c-1, &x, &none)
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
	of.Form().packedIndices(&from, part, c)
	of.numbers(x, &from)
}

// numbers looks indices up.
func (of *Traits) numbers(x *Numbers, from *indices) {
	t, f := tables(), of.Form()
	first, second := from.scales&15, from.scales>>4
	if !f.Halves {
		second = first
	}
	if !f.Signs {
		less := uint32(first>>3) * 15 // all entries
		if f.Halves {
			less = from.signs
		}
		for l := range 4 {
			x.Bytes[l] = shifted(t.one[from.entries[l]], less>>l&1)
		}
		first, second = first&7, second&7
	} else {
		for l := range 4 {
			x.Bytes[l] = signed(of.eight(t, from, l), t.signs[byte(from.signs>>(8*l))])
		}
	}
	x.Scales = [2]int8{int8(2*first + 1), int8(2*second + 1)}
}

// eight looks up eight numbers.
func (of *Traits) eight(t *bookTables, from *indices, l int) uint64 {
	switch of.Book {
	case bookOfIQ2XXS:
		return t.xxs2[from.entries[l]]
	case bookOfIQ2XS:
		return t.xs2[from.entries[l]]
	case bookOfIQ2S:
		return t.s2[from.entries[l]]
	case bookOfIQ3XXS:
		return uint64(t.xxs3[from.entries[2*l]]) | uint64(t.xxs3[from.entries[2*l+1]])<<32
	}
	return uint64(t.s3[from.entries[2*l]]) | uint64(t.s3[from.entries[2*l+1]])<<32
}

// signed negates the bytes of x, which are not 0, where those of a mask are 0xff.
func signed(x, mask uint64) uint64 { return (x ^ mask) + mask&ofTwo }

// shifted is bytes of multiples of 8 less 7, or less 9 if less is 1.
func shifted(x uint64, less uint32) uint64 {
	return x + uint64(0x79-2*less)*ofTwo ^ 0x80*ofTwo // no byte carries to the next
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

	fields [IQ1_M + 1][]uint16 // the entries as kernels look them up
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
	expand(t.one[:], bookIQ1[:], 2, []byte(levels1))
	for i := range t.signs {
		for bit := range 8 {
			t.signs[i] |= uint64(0xff*(i>>bit&1)) << (8 * bit)
		}
	}
	for typ := range t.fields {
		f, entries := types[typ].Form(), types[typ].Book.entries()
		t.fields[typ] = make([]uint16, len(entries))
		for i, entry := range entries {
			t.fields[typ][i] = f.fieldsOf(entry)
		}
	}
}

// Fields returns the entries of a type of indices as kernels look them up: number 2·i + j of an
// entry is field i of byte j, of two bits, or of four bits in entries of four numbers. Fields are
// levels if these fit, else their indices.
func (t Type) Fields() []uint16 { return tables().fields[t] }

// Entries returns the entries of a type of indices as bytes, eight numbers or four of each. Of IQ1
// they are multiples of 8, from which 7 or 9 is to be subtracted.
func (t Type) Entries() (eight []uint64, four []uint32) {
	all := tables()
	switch t {
	case IQ2_XXS:
		return all.xxs2[:], nil
	case IQ2_XS:
		return all.xs2[:], nil
	case IQ2_S:
		return all.s2[:], nil
	case IQ3_XXS:
		return nil, all.xxs3[:]
	case IQ3_S:
		return nil, all.s3[:]
	}
	return all.one[:], nil
}

// fieldsOf converts an entry of a book.
func (f *BookForm) fieldsOf(entry uint16) (fields uint16) {
	width, field := 2, 2
	if f.Four {
		width, field = 3, 4
	}
	for i := range 16 / field {
		level := entry >> (width * i) & (1<<width - 1)
		if f.Direct() {
			level = uint16(f.Levels[level])
		}
		fields |= level << (i%2*8 + i/2*field)
	}
	return fields
}

// Direct reports whether fields are levels.
func (f *BookForm) Direct() bool { return f.Four && f.Levels[len(f.Levels)-1] < 16 }

// expand makes bytes of the levels of entries.
func expand[T uint32 | uint64](to []T, book []uint16, width int, levels []byte) {
	for i, entry := range book {
		for at := 0; at*width+width <= 16 && T(1)<<(8*at) != 0; at++ {
			to[i] |= T(levels[int(entry)>>(at*width)&(1<<width-1)]) << (8 * at)
		}
	}
}
