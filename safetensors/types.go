package safetensors

import (
	"fmt"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/modelfile"
)

// DType is the type of a tensor's elements, with its name in files. A file may have other types
// than the constants.
type DType string

// The types that can be decoded and packed.
const (
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
)

// widths has the bits of an element for each type of the format.
var widths = map[DType]int{
	"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
	"BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
	"F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
	"U16": 16, "I16": 16, F16: 16, BF16: 16,
	"U32": 32, "I32": 32, F32: 32,
	"U64": 64, "I64": 64, "F64": 64, "C64": 64,
}

// BlockTypeOf returns the block type of [attn.PackBlocks] for a file's type; a block is one number.
// Other types than F16 and BF16 are [attn.ErrUnsupported]; pack F32 by [attn.PackMatrix].
func BlockTypeOf(t DType) (attn.BlockType, error) {
	switch t {
	case F16:
		return attn.BlockF16, nil
	case BF16:
		return attn.BlockBF16, nil
	}
	return 0, fmt.Errorf("safetensors: dtype %s is no type of blocks that are multiplied, want F16 "+
		"or BF16: %w", t, attn.ErrUnsupported)
}

// Decode converts elements to float32, exactly. A type without a decoder is [attn.ErrUnsupported];
// data that has not exactly len(dst) elements is [attn.ErrLength]. On an error dst is unchanged.
func (t DType) Decode(dst []float32, data []byte) error {
	decode := modelfile.FromF32
	switch t {
	case F32:
	case F16:
		decode = modelfile.FromF16
	case BF16:
		decode = modelfile.FromBF16
	default:
		return fmt.Errorf("safetensors: dtype %s is not decoded, want F32, F16 or BF16: %w", t,
			attn.ErrUnsupported)
	}
	if width := widths[t] / 8; len(data) != len(dst)*width {
		return fmt.Errorf("safetensors: len(dst) is %d and len(data) %d, want %d bytes an element of "+
			"%s: %w", len(dst), len(data), width, t, attn.ErrLength)
	}
	decode(dst, data)
	return nil
}
