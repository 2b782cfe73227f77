package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/dev/blocktypes"
	"github.com/seed-1415985d/attn/internal/dev/generate"
)

// The Go code of package blockwise that chooses among the kernels of a type, and their stubs.

const (
	callParameters   = "x *blockCall"
	multiplyTwin     = "multiplyBlocksGeneric"
	unpackParameters = "dst, packed *byte, n int"
	bookParameters   = "dst, packed, fields *byte, n int, flip uint64"
)

// typesGo writes that file.
type typesGo struct {
	*generate.Go
	tables map[string][16]byte // levels with something added to them
}

// blockTypesGo is its text.
func blockTypesGo() ([]byte, error) {
	g := typesGo{tables: map[string][16]byte{}, Go: generate.NewGo("gen", "!purego", "blockwise",
		"github.com/seed-1415985d/attn/internal/blocks")}
	g.unpack(wideBlocks, "unpackAVX512", "", "with AVX-512 and VNNI")
	g.unpack(dotBlocks, "unpackAVXVNNI", "unpackAVX2(t, dst, packed, n)", "with AVX-VNNI")
	g.unpack(narrowBlocks, "unpackAVX2", "", "with AVX2")
	g.unpackSigned()
	g.unpackBooks(wideBlocks, "unpackBooksAVX512", "with AVX-512")
	g.unpackBooks(narrowBlocks, "unpackBooksAVX2", "with AVX2")
	g.few(wideBlocks, "fewAVX512", "", "with AVX-512 and VNNI")
	g.few(dotBlocks, "fewAVXVNNI", "fewAVX2(t, x)", "with AVX-VNNI")
	g.few(narrowBlocks, "fewAVX2", "", "with AVX2")
	g.rounded(roundedWide, "roundedAVX512", "with AVX-512")
	g.rounded(narrowBlocks, "roundedAVX2", "with AVX2")
	g.multiply()
	g.traits()
	g.levels()
	return g.Bytes()
}

// scalingName is the scaling of sums as Go code names it.
func scalingName(s blockSums) string { return blocktypes.ScalingName(blocks.Scaling(s)) }

// unpackCase is how blocks of a type are unpacked, its levels with something added to them.
func (g *typesGo) unpackCase(kernel string, t blocks.Type, bias int) generate.Case {
	parameters, table := unpackParameters, ""
	if formOf(t).looksUp() {
		parameters = strings.Replace(parameters, "packed", "packed, table", 1)
		table = fmt.Sprintf("&%s[0], ", g.table(t.Traits().Levels, bias))
	}
	g.Stub(kernel, parameters, "unpackBlockGeneric", t.String())
	return generate.Case{Value: blocktypes.TypeName(t), Do: fmt.Sprintf("%s(dst, packed, %sn)", kernel,
		table)}
}

// unpack writes the choice of kernels that unpack blocks. For a type for which a set has none,
// AVX2's kernel is called with the set's levels.
func (g *typesGo) unpack(s blockSet, name, others, with string) {
	var cases []generate.Case
	for _, row := range blocktypes.Rows {
		kernel, f := s.of(row.Unpack), formOf(row.Type)
		if f.codes == entriesOfBook {
			continue
		}
		if kernel == "" && f.looksUp() {
			kernel = row.Unpack.AVX2
		}
		if kernel != "" {
			bias := 0
			if f.looksUp() {
				bias = s.bias(f)
			}
			cases = append(cases, g.unpackCase(kernel, row.Type, bias))
		}
	}
	g.Comment("%s unpacks n blocks of a panel %s.", name, with)
	g.Switch(name+"(t blocks.Type, "+unpackParameters+")", "t", cases, others)
}

// unpackBooks writes the choice of kernels for types of indices.
func (g *typesGo) unpackBooks(s blockSet, name, with string) {
	var cases []generate.Case
	for _, row := range blocktypes.Rows {
		if kernel := s.of(row.Unpack); kernel != "" && formOf(row.Type).codes == entriesOfBook {
			g.Stub(kernel, bookParameters, "unpackBlockGeneric", row.Type.String())
			cases = append(cases, generate.Case{Value: blocktypes.TypeName(row.Type),
				Do: kernel + "(dst, packed, fields, n, flip)"})
		}
	}
	g.Comment("%s unpacks n blocks of a panel %s.", name, with)
	g.Switch(name+"(t blocks.Type, "+bookParameters+")", "t", cases, "")
}

// unpackSigned writes the choice for signed bytes, for types with signed levels.
func (g *typesGo) unpackSigned() {
	var cases []generate.Case
	for _, row := range blocktypes.Rows {
		if f := formOf(row.Type); f.looksUp() && narrowBlocks.bias(f) > 0 {
			cases = append(cases, g.unpackCase(row.Unpack.AVX2, row.Type, 0))
		}
	}
	g.Comment("unpackLevels unpacks n blocks of a panel into bytes with sign where these are " +
		"levels, " +
		"and others as unpackAVX2 does.")
	g.Switch("unpackLevels(t blocks.Type, "+unpackParameters+")", "t", cases,
		"unpackAVX2(t, dst, packed, n)")
}

// few writes the choice of products of few rows.
func (g *typesGo) few(s blockSet, name, others, with string) {
	var cases []generate.Case
	for _, row := range blocktypes.Rows {
		kernel, f := s.of(row.Few), s.fewForm(row.Type)
		if kernel == "" {
			continue
		}
		call := "x"
		if f.codes == entriesOfBook {
			call = "x.withFields(t)"
			if !s.wide {
				call = "x.withEntries(t)"
			}
		}
		if f.looksUp() {
			call = fmt.Sprintf("x.with(&%s)", g.table(f.Levels, s.bias(f)))
		}
		g.Stub(kernel, callParameters, multiplyTwin, row.Type.String())
		cases = append(cases, generate.Case{Value: blocktypes.TypeName(row.Type),
			Do: fmt.Sprintf("%s(%s)", kernel,
				call)})
	}
	g.Comment("%s multiplies few rows by blocks of some panels %s.", name, with)
	g.Switch(name+"(t blocks.Type, "+callParameters+")", "t", cases, others)
}

// rounded writes the choice of products of few rows in bfloat16.
func (g *typesGo) rounded(s blockSet, name, with string) {
	var cases []generate.Case
	for _, row := range blocktypes.Rows {
		kernel, f := s.of(row.Rounded), formOf(row.Type)
		if kernel == "" {
			continue
		}
		call := fmt.Sprintf("x.as(%d)", f.roundedForm(s.roundedForms(kernel)))
		if f.looksUp() {
			call += fmt.Sprintf(".with(&%s)", g.table(f.Levels, 0))
		}
		g.Stub(kernel, callParameters, "multiplyRoundedGeneric", row.Type.String())
		cases = append(cases, generate.Case{Value: blocktypes.TypeName(row.Type),
			Do: fmt.Sprintf("%s(%s)", kernel, call)})
	}
	g.Comment("%s multiplies few rows in bfloat16 by blocks of some panels %s.", name, with)
	g.Switch(name+"(t blocks.Type, "+callParameters+")", "t", cases, "")
}

// multiply writes the choices of products of many rows.
func (g *typesGo) multiply() {
	var wide, dot, narrow, tiles []generate.Case
	add := func(cases *[]generate.Case, typeName, kernel string) {
		g.Stub(kernel, callParameters, multiplyTwin, strings.TrimPrefix(typeName, "blocks."))
		*cases = append(*cases, generate.Case{Value: typeName, Do: kernel + "(x)"})
	}
	for _, k := range multiplyVNNI {
		add(&wide, scalingName(k.sums), k.avx512)
		add(&dot, scalingName(k.sums), k.simd)
	}
	for _, k := range multiplyAMX {
		add(&tiles, scalingName(k.sums), k.name)
	}
	for _, row := range blocktypes.Rows {
		add(&narrow, blocktypes.TypeName(row.Type), multiplyAVX2Of(row.Type).name)
	}
	const scaling, step = "(s blocks.Scaling, " + callParameters +
		")", "multiplies rows by unpacked " +
		"blocks of a panel"
	g.Comment("multiplyAVX512 " + step + " with AVX-512 and VNNI.")
	g.Switch("multiplyAVX512"+scaling, "s", wide, "")
	g.Comment("multiplyAVXVNNI " + step + " with AVX-VNNI.")
	g.Switch("multiplyAVXVNNI"+scaling, "s", dot, "")
	g.Comment("multiplyAVX2 " + step + " with AVX2.")
	g.Switch("multiplyAVX2(t blocks.Type, "+callParameters+")", "t", narrow, "")
	g.Comment("multiplyAMX " + step + " by tiles. Other blocks have none.")
	g.Switch("multiplyAMX"+scaling, "s", tiles, "")
}

// traits writes the properties of kernels that callers depend on.
func (g *typesGo) traits() {
	g.Comment("kernelsOf is what differs between kernels of a type.")
	g.Line("var kernelsOf = [...]struct {")
	g.Line("rowsAVX2  uint8 // multiplyAVX2 multiplies this many rows at a time")
	g.Line("addedAVX2 uint8 // to integers that unpackAVX2 does not look up")
	g.Line("fewAVX2   uint8 // the most rows of fewAVX2")
	g.Line("fewAVX512 uint8 // and of fewAVX512")
	g.Line("roundedAVX2, roundedAVX512 bool // these have kernels\n}{")
	for _, row := range blocktypes.Rows {
		f, few, fewWide := formOf(row.Type), 4, 4
		if f.codes == trits || f.codes == entriesOfBook {
			few = 1
		}
		if row.Eight {
			fewWide = 8
		} else if f.codes == entriesOfBook {
			fewWide = f.mostRows()
		}
		g.Line("%s: {%d, %d, %d, %d, %v, %v},", blocktypes.TypeName(row.Type),
			multiplyAVX2Of(row.Type).sizes()[0], narrowBlocks.added(f), few, fewWide,
			row.Rounded.AVX2 != "", row.Rounded.AVX512 != "")
	}
	g.Line("}")
	var vectors []generate.Case
	for _, k := range multiplyVNNI {
		vectors = append(vectors, generate.Case{Value: scalingName(k.sums),
			Do: fmt.Sprintf("return %d", blockVectors[k.sums])})
	}
	g.Comment("scaleVectors is how many vectors of numbers unpacked bytes have after them.")
	g.Switch("scaleVectors(s blocks.Scaling) int", "s", vectors[1:], vectors[0].Do)
}

// levelNames are the levels of types.
var levelNames = map[*blocks.Levels]string{&blocks.LevelsQ4: "levelsQ4",
	&blocks.LevelsIQ4: "levelsIQ4", &blocks.LevelsMXFP: "levelsMXFP"}

// table is the name of levels with something added to them, as bytes.
func (g *typesGo) table(levels *blocks.Levels, bias int) string {
	name := fmt.Sprintf("%sPlus%d", levelNames[levels], bias)
	var bytes [16]byte
	for i, e := range levels {
		bytes[i] = byte(int(e) + bias)
	}
	g.tables[name] = bytes
	return name
}

// levels writes the tables. They are no constants, since kernels are given their addresses.
func (g *typesGo) levels() {
	g.Comment("Levels of codes of four bits with a number added to them, as kernels look them up.")
	g.Line("var (")
	for _, name := range slices.Sorted(maps.Keys(g.tables)) {
		numbers := strings.Trim(fmt.Sprint(g.tables[name]), "[]")
		g.Line("%s = [16]byte{\n%s,\n}", name, strings.ReplaceAll(numbers, " ", ", "))
	}
	g.Line(")")
}
