package weights

import (
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/gguf"
	"github.com/seed-1415985d/attn/safetensors"
)

// encoding is how a file stores numbers: in blocks of some elements of a row.
type encoding struct {
	name            string
	elements, bytes int            // of a block
	format          attn.Format    // -1 for none
	block           attn.BlockType // 0 for none
	quantized       bool           // blocks have integers and scales
	// nil for a type that is not supported
	decode func(to []float32, data []byte) error
}

// size returns the bytes of a row.
func (e *encoding) size(elements int) int { return elements / e.elements * e.bytes }

// plain are the types without blocks, by their names in both kinds of files.
var plain = map[string]encoding{
	"F32":  {elements: 1, bytes: 4, format: attn.F32},
	"F16":  {elements: 1, bytes: 2, format: attn.F16, block: attn.BlockF16},
	"BF16": {elements: 1, bytes: 2, format: attn.BF16, block: attn.BlockBF16},
}

// encodingOf returns the encoding of a type of safetensors files.
func encodingOf(t safetensors.DType) *encoding {
	e, ok := plain[string(t)]
	e.name = string(t)
	if e.decode = t.Decode; !ok {
		e = encoding{name: e.name, format: -1}
	}
	return &e
}

// encodingOfGGUF returns the encoding of a type of GGUF files.
func encodingOfGGUF(t gguf.Type) *encoding {
	e, ok := plain[t.String()]
	if !ok {
		e.elements, e.bytes = t.Block()
		e.format = -1
		e.block, _ = gguf.BlockTypeOf(t) // 0 for none
		e.quantized = true
	}
	e.name = t.String()
	if t.Decode(nil, nil) == nil {
		e.decode = t.Decode
	}
	return &e
}

// typesRead lists the supported types of GGUF files.
func typesRead() string {
	var names []string
	for t := range gguf.Type(64) { // more than there are
		if t.Decode(nil, nil) == nil {
			names = append(names, t.String())
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
