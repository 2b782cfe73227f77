package attn

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/pages"
)

// source is where the keys and values of a call come from: views of the caller, or blocks of a
// cache or store, which are packed already.
type source struct {
	k, v   Tensor
	packed *packedKV    // if not nil, instead of views
	table  *pages.Table // of the call's only sequence, nil if there is none or there are several
	first  int          // tokens before this position of the cache or sequence were dropped
}

// packedKV is packed blocks of keys and values, those of a head one after the other. In a cache the
// heads are those of each batch entry in turn, and their blocks form a ring: a token has the block
// of its position, modulo all of a head.
//
//	[head][block] × (keys, values)
//	keys    F32, F16, BF16: [Block/panel][HeadDim][panel]
//	        I8: [Block/panel][HeadDim/4][panel][4], then float32 scales [Block]
//	values  F32, F16, BF16: [ValueDim/panel][Block][panel]
//	        I8: [Block/4][ValueDim][4], then float32 scales [Block]
//	        none where values are part of keys, see kv_latent.go
//
// ValueDim goes up to a multiple of panel, and HeadDim/4 to a whole number.
//
// Whoever reads or writes data keeps the cache or store alive until the last access, by
// [runtime.KeepAlive] if nothing else does: data alone does not keep the memory.
type packedKV struct {
	memory *memory.Mapping // what data is in; nil if it was given back
	data   []byte

	format Format
	formatTraits
	heads    int // of a batch entry
	d, dv    int // HeadDim and ValueDim
	cols     int // ValueDim in whole panels
	rotation int // size of the Walsh–Hadamard matrix that keys are multiplied by; 1: as they are

	valuesInKeys bool // values are the first ValueDim channels of keys, which are rotated apart:
	rotationRest int  // those behind, by a matrix of this size
	rotates      bool // keys are rotated
	unrotate     int  // size of the matrix that outputs are rotated back by; 1: by none

	scaleBytes int // of the scales of a block's keys, and of its values
	keyBytes   int // of a block's keys, scales included
	block      int // of a block
	headStride int // of all blocks of a head,
	blocks     int // of which there are so many
}

// newPackedKV describes blocks of a format; they have no memory yet.
func newPackedKV(f Format, heads, d, dv int, valuesInKeys bool) packedKV {
	s := packedKV{format: f, formatTraits: *f.traits(), heads: heads, d: d, dv: dv, rotation: 1,
		valuesInKeys: valuesInKeys, rotationRest: 1, unrotate: 1}
	s.cols = roundUp(dv, panel)
	switch {
	case s.rotated && valuesInKeys:
		s.rotation, s.rotationRest = dv&-dv, max(1, (d-dv)&-(d-dv))
		s.unrotate = s.rotation
	case s.rotated:
		s.rotation = d & -d
	}
	s.rotates = s.rotation > 1 || s.rotationRest > 1
	if s.scaled {
		s.scaleBytes = 4 * Block
	}
	s.keyBytes = Block*roundUp(d, s.group)*s.bytes + s.scaleBytes
	if s.block = s.keyBytes; !valuesInKeys {
		s.block += Block*s.cols*s.bytes + s.scaleBytes
	}
	return s
}

// allocate takes memory for so many blocks of each head of a batch.
func (s *packedKV) allocate(batch, blocks int) (err error) {
	s.headStride, s.blocks = blocks*s.block, blocks
	if s.memory, err = memory.Allocate(batch * s.heads * s.headStride); err == nil {
		s.data = s.memory.Bytes()
	}
	return err
}

// at is the memory of a block.
func (s *packedKV) at(head, block int) []byte { return s.data[s.offset(head, block):][:s.block] }

// offset is where a block begins in data.
func (s *packedKV) offset(head, block int) int { return head*s.headStride + block*s.block }

// offsetOf is where the block with token j begins: in the page of a table, if there is one.
func (s *packedKV) offsetOf(t *pages.Table, entry, head, j int) int {
	if t != nil {
		return s.offset(head, t.Page(j))
	}
	return s.offset(entry*s.heads+head, s.ring(j))
}

// ring is which of a head's blocks has token j of a cache.
func (s *packedKV) ring(j int) int {
	i := j / Block
	if i >= s.blocks { // only then: a division takes longer than all else here
		i %= s.blocks
	}
	return i
}

// keys returns the packed keys of a block, and their scales if they have some.
func (s *packedKV) keys(x []byte) (keys []byte, scales []float32) {
	return s.split(x[:s.keyBytes])
}

// values returns the packed values of a block, and their scales if they have some.
func (s *packedKV) values(x []byte) (values []byte, scales []float32) {
	return s.split(x[s.keyBytes:s.block])
}

// split takes the scales from the end of a block's keys or values.
func (s *packedKV) split(x []byte) (packed []byte, scales []float32) {
	if !s.scaled {
		return x, nil
	}
	end := len(x) - s.scaleBytes
	return x[:end], elements[float32](x[end:])
}

// valueLayout is the layout of the first keys values of a block.
func (s *packedKV) valueLayout(keys int) panelLayout {
	l := panelLayout{keys: keys, cols: s.cols, stride: panel, panelStride: Block * panel}
	if s.group > 1 {
		l.stride, l.panelStride = s.group*s.cols, s.group*panel
	}
	return l
}

// elements is memory as elements of another type.
func elements[T any](x []byte) []T {
	var e T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(x))), len(x)/int(unsafe.Sizeof(e)))
}

// rotate rotates keys, or back, in rows that follow each other.
func (s *packedKV) rotate(x []float32) {
	if !s.valuesInKeys {
		rotateAll(x, s.rotation)
		return
	}
	rows := len(x) / s.d
	if s.rotation > 1 {
		rotate(x, rows, s.d, s.dv, s.rotation)
	}
	if s.rotationRest > 1 {
		rotate(x[s.dv:], rows, s.d, s.d-s.dv, s.rotationRest)
	}
}

// rawBytes is elements as memory.
func rawBytes[T any](x []T) []byte {
	var e T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(e)))
}

// close gives the memory back.
func (s *packedKV) close() error {
	m := s.memory
	s.memory, s.data = nil, nil
	return m.Close()
}
