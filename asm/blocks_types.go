package main

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/dev/blocktypes"
	"github.com/seed-1415985d/attn/internal/dev/generate"
)

// The properties of a block type that kernels depend on; they follow from the type's row in
// internal/blocks. internal/dev/blocktypes lists the kernels.

// blockSums says how the sums of a block are scaled.
type blockSums blocks.Scaling

const (
	plainSums  = blockSums(blocks.One)    // d
	minimaSums = blockSums(blocks.Minima) // d, −dmin, scale, minimum
	halvesSums = blockSums(blocks.Halves) // d and the scale of each half
	// d, −dmin, and the factor of −32 times the sum of each half
	pairsSums  = blockSums(blocks.Pairs)
	floatsSums = blockSums(blocks.Floats) // d of each half
	// Of few rows; of many they are minima and halves.
	offsetSums = blockSums(blocks.Offset) // d, and m that is added
	scaledSums = blockSums(blocks.Scaled) // d and the scale
	singleSums = blockSums(blocks.Single) // as halvesSums
	oddSums    = blockSums(blocks.Odd)    // likewise
)

// vectors is how many vectors of scales there are after unpacked bytes.
func (s blockSums) vectors() int {
	switch s {
	case plainSums:
		return 1
	case floatsSums:
		return 2
	}
	return 4
}

// multiplyKernels are the kernels for many rows: each with the other types that it serves and the
// rows of its tiles. For most types, kernels of few rows compute the remaining rows.
var multiplyKernels = []struct {
	name  string
	sums  []blockSums
	sizes []int
}{
	{"multiplyPlainDot", []blockSums{plainSums}, []int{4, 1}},
	{"multiplyMinimaDot", []blockSums{minimaSums, offsetSums}, []int{4}},
	{"multiplyHalvesDot", []blockSums{halvesSums, scaledSums, singleSums,
		oddSums}, []int{2, 1}},
	{"multiplyPairsDot", []blockSums{pairsSums}, []int{2, 1}},
	{"multiplyFloatsDot", []blockSums{floatsSums}, []int{4, 1}},
}

// fewForm holds the differences between types in products of few rows.
type fewForm struct {
	*blocks.Traits
	codes fewCodes
	kind  blockSums
	parts int // of 32 inputs that share d
	// A number is subtracted from the codes: 128 >> shift, or 32 for types with sums of halves. Sums
	// of products begin with the blockRow's correction for it.
	less  bool
	shift int
}

// fewCodes is how the integers of 32 inputs lie in words.
type fewCodes int

const (
	eightBits fewCodes = iota
	fourBits
	fourBitLevels // which are looked up
	fiveBits
	sixBits
	threeBits
)

// formOf is the form of a type.
func formOf(t blocks.Type) fewForm {
	of := t.Traits()
	codes, ok := map[blocks.Codes]fewCodes{blocks.EightBits: eightBits, blocks.FourBits: fourBits,
		blocks.FiveBits: fiveBits, blocks.SixBits: sixBits, blocks.ThreeBits: threeBits}[of.Codes]
	if !ok {
		panic(fmt.Sprintf("asm: no kernel of few rows has the codes of %v", t))
	}
	f := fewForm{Traits: of, codes: codes, kind: blockSums(of.Scaling),
		parts: of.Inputs / blocks.Inputs,
		less:  of.Less != 0}
	start := uint(128)
	if f.halved() {
		start = 32
	}
	switch {
	case f.less:
		f.shift = bits.TrailingZeros(start / uint(of.Less))
	case of.Levels != nil:
		f.codes = fourBitLevels
	}
	return f
}

// tiles are numbers of rows: of types that few files have, two and three rows are one at a time.
func (f *fewForm) tiles() []int {
	if f.codes == threeBits || f.kind == scaledSums {
		return []int{1, 4}
	}
	return []int{1, 2, 4}
}

// halved reports whether sums of each 16 inputs are apart.
func (f *fewForm) halved() bool { return f.kind == halvesSums }

// levelWords returns the levels as words, and their name.
func (f *fewForm) levelWords() (name string, words []uint32) {
	var bytes [16]byte
	for i, e := range f.Levels {
		bytes[i] = byte(e)
	}
	for i := range 4 {
		words = append(words, binary.LittleEndian.Uint32(bytes[4*i:]))
	}
	return map[*blocks.Levels]string{&blocks.LevelsIQ4: "levels of IQ4_NL",
		&blocks.LevelsMXFP: "levels of MXFP4"}[f.Levels], words
}

// blockTypesGo is the Go code of package blockwise that chooses among the kernels of a type, and
// their stubs.
func blockTypesGo() ([]byte, error) {
	const call, twin = "x *blockCall", "multiplyBlocksGeneric"
	g := generate.NewGo("asm", "!purego", "blockwise",
		"github.com/seed-1415985d/attn/internal/blocks")
	const parameters = "dst, packed, fields *byte, n int"
	var few, many, vectors, books []generate.Case
	for _, row := range blocktypes.Rows {
		if row.Type.Traits().Codes == blocks.Indices {
			g.Stub(row.Unpack.AVX2, parameters, "unpackBlockGeneric", row.Type.String())
			books = append(books, generate.Case{Value: blocktypes.TypeName(row.Type),
				Do: row.Unpack.AVX2 + "(dst, packed, fields, n)"})
		}
		if kernel := row.FewDot; kernel != "" {
			few = append(few, generate.Case{Value: blocktypes.TypeName(row.Type), Do: kernel + "(x)"})
			g.Stub(kernel, call, twin, row.Type.String())
		}
	}
	for _, k := range multiplyKernels {
		for _, s := range k.sums {
			name := blocktypes.ScalingName(blocks.Scaling(s))
			many = append(many, generate.Case{Value: name, Do: k.name + "(x)"})
			vectors = append(vectors, generate.Case{Value: name,
				Do: fmt.Sprintf("return %d", s.vectors())})
			g.Stub(k.name, call, twin, strings.TrimPrefix(name, "blocks."))
		}
	}
	g.Comment("unpackBooks unpacks n blocks of a panel.")
	g.Switch("unpackBooks(t blocks.Type, "+parameters+")", "t", books, "")
	g.Comment("fewDot multiplies few rows by blocks of some panels.")
	g.Switch("fewDot(t blocks.Type, "+call+")", "t", few, "")
	g.Comment("multiplyDot multiplies rows by unpacked blocks of a panel.")
	g.Switch("multiplyDot(s blocks.Scaling, "+call+")", "s", many, "")
	g.Comment("scaleVectors is how many vectors of numbers unpacked bytes have after them.")
	g.Switch("scaleVectors(s blocks.Scaling) int", "s", vectors[1:], vectors[0].Do)
	g.Comment("fewRowsOf is how many rows fewDot multiplies where there are fewer than four, at " +
		"most; " +
		"0 of a type that it does not multiply.")
	g.Line("var fewRowsOf = [...]uint8{")
	for _, row := range blocktypes.Rows {
		most := 0
		if row.FewDot != "" {
			form := formOf(row.Type)
			tiles := form.tiles()
			most = tiles[len(tiles)-2] // the last is four
		}
		g.Line("%s: %d,", blocktypes.TypeName(row.Type), most)
	}
	g.Line("}")
	return g.Bytes()
}
