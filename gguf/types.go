package gguf

import (
	"fmt"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/modelfile"
)

// Type is the type of a tensor's elements, with its number in files. A row is divided into blocks
// of elements.
type Type uint32

// The known types. A file may have other numbers; Bytes of such tensors is an error.
const (
	F32     Type = 0
	F16     Type = 1
	Q4_0    Type = 2
	Q4_1    Type = 3
	Q5_0    Type = 6
	Q5_1    Type = 7
	Q8_0    Type = 8
	Q8_1    Type = 9
	Q2_K    Type = 10
	Q3_K    Type = 11
	Q4_K    Type = 12
	Q5_K    Type = 13
	Q6_K    Type = 14
	Q8_K    Type = 15
	IQ2_XXS Type = 16
	IQ2_XS  Type = 17
	IQ3_XXS Type = 18
	IQ1_S   Type = 19
	IQ4_NL  Type = 20
	IQ3_S   Type = 21
	IQ2_S   Type = 22
	IQ4_XS  Type = 23
	I8      Type = 24
	I16     Type = 25
	I32     Type = 26
	I64     Type = 27
	F64     Type = 28
	IQ1_M   Type = 29
	BF16    Type = 30
	TQ1_0   Type = 34
	TQ2_0   Type = 35
	MXFP4   Type = 39
	NVFP4   Type = 40
	Q1_0    Type = 41
	Q2_0    Type = 42

	lastType = Q2_0
)

// traits are the properties of a type.
type traits struct {
	name            string
	elements, bytes int                              // of a block
	block           attn.BlockType                   // 0 if attn does not multiply it
	decode          func(dst []float32, data []byte) // decodes blocks of one number
}

// blockTypes maps types to attn's block types.
var blockTypes = map[Type]attn.BlockType{Q4_0: attn.Q4_0, Q4_1: attn.Q4_1, Q5_0: attn.Q5_0,
	Q5_1: attn.Q5_1, Q8_0: attn.Q8_0, Q2_K: attn.Q2_K, Q3_K: attn.Q3_K, Q4_K: attn.Q4_K,
	Q5_K: attn.Q5_K, Q6_K: attn.Q6_K, IQ4_NL: attn.IQ4_NL, IQ4_XS: attn.IQ4_XS, MXFP4: attn.MXFP4,
	NVFP4: attn.NVFP4, TQ1_0: attn.TQ1_0, TQ2_0: attn.TQ2_0, Q1_0: attn.Q1_0,
	Q2_0: attn.Q2_0, IQ2_XXS: attn.IQ2_XXS, IQ2_XS: attn.IQ2_XS, IQ2_S: attn.IQ2_S,
	IQ3_XXS: attn.IQ3_XXS, IQ3_S: attn.IQ3_S, IQ1_S: attn.IQ1_S, IQ1_M: attn.IQ1_M}

// types has the other types.
var types = map[Type]traits{
	F32:  {name: "F32", elements: 1, bytes: 4, decode: modelfile.FromF32},
	F16:  {"F16", 1, 2, attn.BlockF16, modelfile.FromF16},
	BF16: {"BF16", 1, 2, attn.BlockBF16, modelfile.FromBF16},

	Q8_1: {name: "Q8_1", elements: 32, bytes: 36},
	Q8_K: {name: "Q8_K", elements: 256, bytes: 292},
	I8:   {name: "I8", elements: 1, bytes: 1},
	I16:  {name: "I16", elements: 1, bytes: 2},
	I32:  {name: "I32", elements: 1, bytes: 4},
	I64:  {name: "I64", elements: 1, bytes: 8},
	F64:  {name: "F64", elements: 1, bytes: 8},
}

// traits returns the type's properties, and whether it is known.
func (t Type) traits() (of traits, ok bool) {
	if block := blockTypes[t]; block != 0 {
		in := blocks.Type(block).Traits()
		return traits{name: in.Name, elements: in.Inputs, bytes: in.Bytes, block: block}, true
	}
	of, ok = types[t]
	return of, ok
}

// String returns the type's name, or its number if it is unknown.
func (t Type) String() string {
	if of, ok := t.traits(); ok {
		return of.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Block returns the number of elements and of bytes in a block, 0 for an unknown type.
func (t Type) Block() (elements, bytes int) {
	of, _ := t.traits()
	return of.elements, of.bytes
}

// BlockTypeOf returns the block type of [attn.PackBlocks] for a file's type. F32, unknown types and
// types that attn does not multiply are [attn.ErrUnsupported]; if [Type.Decode] supports such a
// type, pack its elements by [attn.PackMatrix].
func BlockTypeOf(t Type) (attn.BlockType, error) {
	if of, _ := t.traits(); of.block != 0 {
		return of.block, nil
	}
	return 0, fmt.Errorf("gguf: %v is no type of blocks that are multiplied%s, want %s: %w", t,
		t.why(), listed(func(of traits) bool { return of.block != 0 }), attn.ErrUnsupported)
}

// why returns the reason that products by a type are unsupported, for errors, or "".
func (t Type) why() string {
	if t == Q8_1 || t == Q8_K {
		return ": it is one of inputs, not of weights"
	}
	return ""
}

// Decode decodes whole blocks to float32, each number rounded once. A type without a decoder is
// [attn.ErrUnsupported]; data that has not exactly the blocks of len(dst) elements is
// [attn.ErrLength]. On an error dst is unchanged.
func (t Type) Decode(dst []float32, data []byte) error {
	of, _ := t.traits()
	switch {
	case !of.decodes():
		return fmt.Errorf("gguf: %v is not decoded%s, want %s: %w", t, t.why(),
			listed(traits.decodes), attn.ErrUnsupported)
	case len(dst)%of.elements != 0 || len(data) != len(dst)/of.elements*of.bytes:
		return fmt.Errorf("gguf: len(dst) is %d and len(data) %d, want %d bytes for each %d elements of "+
			"%v: %w", len(dst), len(data), of.bytes, of.elements, t, attn.ErrLength)
	case of.elements == 1: // one call decodes all
		of.decode(dst, data)
		return nil
	}
	blocks.Decode(blocks.Type(of.block), dst, data)
	return nil
}

// decodes reports whether the type can be decoded to float32.
func (of traits) decodes() bool { return of.block != 0 || of.decode != nil }

// listed returns the names of the types that a condition holds for.
func listed(want func(of traits) bool) string {
	var names []string
	for t := range lastType + 1 {
		if of, ok := t.traits(); ok && want(of) {
			names = append(names, of.name)
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
