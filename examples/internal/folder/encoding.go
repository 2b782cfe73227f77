package folder

import (
	"encoding/binary"
	"math"

	"github.com/seed-1415985d/attn"
)

// encoding is how a file keeps numbers: in blocks of some elements of a row.
type encoding struct {
	name            string
	elements, bytes int // of a block
	format          attn.Format
	block           attn.BlockType // 0: float32
	quantized       bool           // blocks have integers and scales
	decode          func(to []float32, block []byte)
	as              *reblocked // what it is packed as, if that is of another type
}

// The encodings of safetensors files, and those that GGUF files have, too.
var (
	floats = encoding{name: "F32", elements: 1, bytes: 4, format: attn.F32, decode: decodeFloats}
	halves = encoding{name: "F16", elements: 1, bytes: 2, format: attn.F16, block: attn.BlockF16,
		decode: decodeHalves}
	brains = encoding{name: "BF16", elements: 1, bytes: 2, format: attn.BF16, block: attn.BlockBF16,
		decode: decodeBrains}
)

// row decodes consecutive blocks.
func (e *encoding) row(to []float32, data []byte) {
	if e.elements == 1 { // without a call for each
		e.decode(to, data)
		return
	}
	for len(data) > 0 {
		e.decode(to[:e.elements], data[:e.bytes])
		to, data = to[e.elements:], data[e.bytes:]
	}
}

// size is the bytes of a row.
func (e *encoding) size(elements int) int { return elements / e.elements * e.bytes }

func decodeFloats(to []float32, data []byte) {
	for i := range to {
		to[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
}

func decodeHalves(to []float32, data []byte) {
	for i := range to {
		to[i] = halfAt(data[2*i:])
	}
}

func decodeBrains(to []float32, data []byte) {
	for i := range to {
		to[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(data[2*i:])) << 16)
	}
}

// halfAt is the half that bytes begin with.
func halfAt(data []byte) float32 { return half(uint32(binary.LittleEndian.Uint16(data))) }

// half is the value of an IEEE 754 half.
func half(bits uint32) float32 {
	sign, rest := bits&0x8000<<16, bits&0x7fff<<13
	if rest >= 0x7c00<<13 { // infinity or NaN
		return math.Float32frombits(sign | 0xff<<23 | rest)
	}
	// The exponents' biases are 127 and 15; the product is exact, for subnormal halves, too.
	return math.Float32frombits(sign|rest) * 0x1p112
}
