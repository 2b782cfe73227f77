package main

import (
	"math/bits"
	"slices"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/dev/blocktypes"
)

// The properties of a block type that kernels depend on; they follow from the type's row in
// internal/blocks. internal/dev/blocktypes lists the kernels.

// blockSums says how sums of products of a block are scaled, and which scales follow its bytes.
type blockSums blocks.Scaling

const (
	plainSums  = blockSums(blocks.One)    // d: sum + n·(a·d)
	minimaSums = blockSums(blocks.Minima) // d, dmin, scale and minimum, these as integers
	halvesSums = blockSums(blocks.Halves) // d, the scales of both halves, and for AVX2 pairs of them
	offsetSums = blockSums(blocks.Offset) // d and m, which the sum of the inputs is multiplied by
	scaledSums = blockSums(blocks.Scaled) // d, and a scale as float32
	// d, dmin, pairs of minima; the bytes are multiplied by their scales
	pairsSums  = blockSums(blocks.Pairs)
	floatsSums = blockSums(blocks.Floats) // d of each half
	// As scaledSums and as halvesSums, of bytes with 128 added, or with sign; both with two scales.
	singleSums = blockSums(blocks.Single)
	oddSums    = blockSums(blocks.Odd)
)

// multiplyVNNI are products of many rows by unpacked blocks with VNNI. Tiles of AMX are in
// tiles_blocks.go.
var multiplyVNNI = []struct {
	sums         blockSums
	avx512, simd string
}{
	{plainSums, "multiplyPlainVNNIAVX512", "multiplyPlainVNNISIMD"},
	{minimaSums, "multiplyMinimaVNNIAVX512", "multiplyMinimaVNNISIMD"},
	{halvesSums, "multiplyHalvesVNNIAVX512", "multiplyHalvesVNNISIMD"},
	{offsetSums, "multiplyOffsetVNNIAVX512", "multiplyOffsetVNNISIMD"},
	{scaledSums, "multiplyScaledVNNIAVX512", "multiplyScaledVNNISIMD"},
	{pairsSums, "multiplyPairsVNNIAVX512", "multiplyPairsVNNISIMD"},
	{floatsSums, "multiplyFloatsVNNIAVX512", "multiplyFloatsVNNISIMD"},
	{singleSums, "multiplySingleVNNIAVX512", "multiplySingleVNNISIMD"},
	{oddSums, "multiplyOddVNNIAVX512", "multiplyOddVNNISIMD"},
}

// multiplyAVX2 are the kernels for many rows with AVX2. A type uses the first kernel with its sums
// whose words hold the products of its bytes.
var multiplyAVX2 = []blockSums8{
	{"multiplyNibblesSIMD", plainSums, 8, 4},
	{"multiplyLevelsSIMD", plainSums, 4, 3},
	{"multiplyBytesSIMD", plainSums, 1, 0},
	{"multiplyQ4KSIMD", minimaSums, 8, 0},
	{"multiplyQ5KSIMD", minimaSums, 4, 0},
	{"multiplyQ6KSIMD", halvesSums, 2, 0},
	{"multiplyOffsetSIMD", offsetSums, 4, 0},
	{"multiplyScaledSIMD", scaledSums, 1, 0},
	{"multiplyPairsSIMD", pairsSums, 2, 0},
	{"multiplyFloatsSIMD", floatsSums, 4, 3},
	{"multiplyOddSIMD", oddSums, 1, 0},
}

// blockForm is how blocks of a type lie in a panel (internal/blocks).
type blockForm struct {
	*blocks.Traits
	sums  blockSums
	codes blockCodes
	less  int // added to codes that are not looked up
}

// formOf is the form of a type.
func formOf(t blocks.Type) blockForm {
	of := t.Traits()
	f := blockForm{Traits: of, sums: blockSums(of.Scaling), less: int(of.Less)}
	f.codes = map[blocks.Codes]blockCodes{blocks.EightBits: eightBits,
		blocks.FourBits: plainFourBits, blocks.FiveBits: fiveBits, blocks.SixBits: sixBits,
		blocks.OneBit:  oneBit,
		blocks.TwoBits: twoBits, blocks.ThreeBits: threeBits, blocks.Trits: trits,
		blocks.Indices: entriesOfBook}[of.Codes]
	if of.Levels != nil {
		f.codes, f.less = fourBits, 0
		if f.sums == floatsSums {
			f.codes = halfNibbles
		}
	}
	return f
}

// fewForm is the form of a type in products of few rows: with AVX2 levels that are integers need no
// table.
func (s blockSet) fewForm(t blocks.Type) blockForm {
	f := formOf(t)
	if !s.vnni && f.Levels != nil && f.Less != 0 {
		f.codes, f.less = plainFourBits, int(f.Less)
	}
	return f
}

// parts is how many times 32 inputs share d.
func (f blockForm) parts() int { return f.Inputs / blocks.Inputs }

// shared is the bytes of codes that lie together.
func (f blockForm) shared() int {
	if f.codes == trits {
		return f.Packed - f.Header()
	}
	return 0
}

// looksUp reports whether codes are looked up in a table.
func (f blockForm) looksUp() bool { return f.codes == fourBits || f.codes == halfNibbles }

// halved reports whether inputs 0 to 15 have a sum of their own.
func (f blockForm) halved() bool {
	return f.sums == halvesSums || f.sums == pairsSums || f.sums == floatsSums
}

// like reports whether blocks of two types are unpacked alike, but for their levels.
func (f blockForm) like(g blockForm) bool {
	return f.sums == g.sums && f.codes == g.codes && f.less == g.less && f.Inputs == g.Inputs &&
		f.PowerOf2 == g.PowerOf2 && f.Book == g.Book
}

// The instruction sets of kernels over blocks.
var wideBlocks, dotBlocks, narrowBlocks = blockSet{wide: true, vnni: true}, blockSet{vnni: true},
	blockSet{}

// of picks the kernel of a set, "" for none.
func (s blockSet) of(kernels blocktypes.AMD64) string {
	switch s {
	case wideBlocks, roundedWide:
		return kernels.AVX512
	case dotBlocks:
		return kernels.VNNI
	}
	return kernels.AVX2
}

// eachKernel calls emit once for each kernel of a set.
func (s blockSet) eachKernel(which func(blocktypes.Row) blocktypes.AMD64,
	form func(blocks.Type) blockForm, emit func(name string, form blockForm, row blocktypes.Row)) {
	emitted := map[string]blockForm{}
	for _, row := range blocktypes.Rows {
		name, f := s.of(which(row)), form(row.Type)
		g, again := emitted[name]
		switch {
		case name == "":
		case !again:
			emitted[name] = f
			emit(name, f, row)
		case !f.like(g):
			panic(name + " is for types that lie in different ways, of which one is " + f.Name)
		}
	}
}

// unpackKernels emits kernels that unpack blocks.
func unpackKernels() {
	which := func(row blocktypes.Row) blocktypes.AMD64 { return row.Unpack }
	for _, s := range []blockSet{wideBlocks, narrowBlocks, dotBlocks} {
		s.eachKernel(which, formOf, func(name string, form blockForm, _ blocktypes.Row) {
			if form.codes == entriesOfBook {
				s.unpackBook(name, form)
				return
			}
			s.unpackBlocks(name, form)
		})
	}
}

// fewRowsKernels emits products of few rows.
func fewRowsKernels() {
	which := func(row blocktypes.Row) blocktypes.AMD64 { return row.Few }
	for _, s := range []blockSet{wideBlocks, dotBlocks, narrowBlocks} {
		s.eachKernel(which, s.fewForm, func(name string, form blockForm, row blocktypes.Row) {
			switch {
			case s == narrowBlocks && form.codes == trits:
				multiplyFewTrits(name, form)
			case s == narrowBlocks && form.codes == entriesOfBook:
				multiplyRowOfBook(name, form)
			default:
				s.multiplyFew(name, form, s.wide && row.Eight)
			}
		})
	}
}

// bias is added to levels so that bytes are unsigned. With AVX2 it is 0 if products of such bytes
// would not fit in 16 bits.
func (s blockSet) bias(f blockForm) int {
	least := -int(slices.Min(f.Levels[:]))
	switch {
	case s.vnni && f.sums == floatsSums:
		return 32
	case s.vnni:
		return 128
	case least <= 8:
		return 8
	case least <= 16:
		return 16
	}
	return 0
}

// added is added to unpacked integers that are not looked up: with VNNI 128, or 32 where halves
// have sums; with AVX2 8 for trits and pairs.
func (s blockSet) added(f blockForm) int {
	switch {
	case f.less == 0:
		return 0
	case f.sums == halvesSums:
		return 32
	case s.vnni:
		return 128
	case f.less == 1:
		return 8
	}
	return f.less
}

// signed reports whether bytes keep their sign.
func (s blockSet) signed(f blockForm) bool {
	return f.codes == eightBits || f.looksUp() && s.bias(f) == 0
}

// largest is the largest of bytes without sign, to which nothing was added.
func (s blockSet) largest(f blockForm) int {
	if f.looksUp() {
		return int(slices.Max(f.Levels[:])) + s.bias(f)
	}
	return map[blockCodes]int{plainFourBits: 15, fiveBits: 31, sixBits: 63, oneBit: 2, twoBits: 3,
		threeBits: 7, trits: 2}[f.codes]
}

// wordsFor is how many groups of four products by bytes of up to some size fit in words of AVX2.
func wordsFor(largest int) int {
	switch {
	case largest <= 15:
		return 8
	case largest <= 31:
		return 4
	}
	return 2
}

// fewWords is wordsFor a type in products of few rows: 1 for bytes with sign, 0 with VNNI. Groups
// of half of the inputs are at most four.
func (s blockSet) fewWords(f blockForm) int {
	switch {
	case s.vnni:
		return 0
	case s.signed(f):
		return 1
	case f.halved():
		return min(4, wordsFor(s.largest(f)))
	}
	return wordsFor(s.largest(f))
}

// fewShift is the shift of the start of sums of few rows. The start is for 128, or 32 for halves,
// and with AVX2 scales of halves are multiplied by it.
func (s blockSet) fewShift(f blockForm) uint64 {
	from, added := 128, f.less
	if f.sums == halvesSums {
		from = 32
	}
	switch {
	case !s.vnni && f.looksUp():
		added = s.bias(f)
	case !s.vnni && f.sums == halvesSums:
		added = 0
	}
	if added == 0 {
		return 0
	}
	return uint64(bits.TrailingZeros(uint(from / added)))
}

// multiplyAVX2Of is the kernel of a type.
func multiplyAVX2Of(t blocks.Type) *blockSums8 {
	s, f := narrowBlocks, formOf(t)
	most := 1 // groups of products in a word
	if !s.signed(f) {
		largest := s.largest(f) + max(0, s.added(f)-f.less)
		if f.sums == pairsSums {
			largest *= 15 // their scales
		}
		most = wordsFor(largest)
	}
	if f.sums == singleSums {
		f.sums = oddSums
	}
	for i, k := range multiplyAVX2 {
		if k.sums == f.sums && k.words <= most {
			return &multiplyAVX2[i]
		}
	}
	panic("no product with AVX2 is for " + t.String())
}
