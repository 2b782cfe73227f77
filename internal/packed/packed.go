// Package packed is the byte layout of tokens in the blocks of a cache or the pages of a store: the
// size of a block, and writing, reading, moving and checking tokens. It does not depend on calls,
// and returns no errors for users.
package packed

import (
	"math"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/pages"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// panel is the number of adjacent keys, or columns of values.
const panel = kernel.Panel

// Blocks is packed blocks of keys and values; the blocks of a head are adjacent. In a cache the
// heads are those of each batch entry in turn, and the blocks of a head form a ring: a token is in
// the block of its position, modulo their number.
//
//	[head][block] × (keys, values)
//	keys    F32, F16, BF16: [Block/panel][HeadDim][panel]
//	        I8: [Block/panel][HeadDim/4][panel][4], then float32 scales [Block]
//	        I4: [Block/panel][HeadDim/8][panel][4], two codes a byte (kernel/int4), then scales
//	values  F32, F16, BF16: [ValueDim/panel][Block][panel]
//	        I8: [Block/4][ValueDim][4], then float32 scales [Block]
//	        I4: [Block/8][ValueDim][4], two codes a byte, then scales
//	        none where values are part of keys
//
// ValueDim is rounded up to a multiple of panel, and HeadDim/4 and HeadDim/8 to a whole number.
//
// Code that reads or writes Data must keep the cache or store alive until the last access, by
// [runtime.KeepAlive] if nothing else does: Data alone does not keep the memory.
type Blocks struct {
	memory *memory.Mapping // the memory of Data; nil if it was released
	Data   []byte

	K, V     Side
	Heads    int // of a batch entry
	D, DV    int // HeadDim and ValueDim
	Cols     int // ValueDim in whole panels
	rotation int // size of the Walsh–Hadamard matrix by which keys are multiplied; 1: none

	ValuesInKeys bool // values are the first ValueDim channels of keys, which are rotated separately:
	rotationRest int  // the channels after them, by a matrix of this size
	Rotates      bool // keys are rotated
	Unrotate     int  // size of the matrix by which outputs are rotated back; 1: none

	KeyBytes   int // of a block's keys, scales included
	Size       int // of a block, in bytes
	headStride int // of all blocks of a head
	Count      int // of the blocks of a head
}

// Side is the format of keys, or of values.
type Side struct {
	Format kernel.Format
	kernel.Traits
	Read       kernel.Format // as kernels read it
	Codes      bool          // elements are codes of levels, which become the integers of Read
	scaleBytes int           // of the scales of a block
}

func newSide(f kernel.Format) Side {
	s := Side{Format: f, Traits: *f.Traits(), Read: f, Codes: f == kernel.I4}
	if s.Codes {
		s.Read = kernel.I8
	}
	if s.Scaled {
		s.scaleBytes = 4 * kernel.Block
	}
	return s
}

// bytesOf returns the size of a block with some elements a token, scales included.
func (s *Side) bytesOf(elements int) int { return int(s.bytes64(elements)) }

// bytes64 is bytesOf for sizes that may overflow an int.
func (s *Side) bytes64(elements int) uint64 {
	return uint64(kernel.Block/8*s.Bits)*uint64(elements) + uint64(s.scaleBytes)
}

// New describes blocks of keys and values in formats; they have no memory yet.
func New(keys, values kernel.Format, heads, d, dv int, valuesInKeys bool) Blocks {
	s := Blocks{K: newSide(keys), V: newSide(values), Heads: heads, D: d, DV: dv,
		rotation: 1, ValuesInKeys: valuesInKeys, rotationRest: 1, Unrotate: 1}
	s.Cols = kernel.RoundUp(dv, panel)
	switch {
	case s.K.Rotated && valuesInKeys:
		s.rotation, s.rotationRest = dv&-dv, max(1, (d-dv)&-(d-dv))
		s.Unrotate = s.rotation
	case s.K.Rotated:
		s.rotation = d & -d
	}
	if s.V.Codes {
		s.Unrotate = dv & -dv
	}
	s.Rotates = s.rotation > 1 || s.rotationRest > 1
	s.KeyBytes = s.K.bytesOf(kernel.RoundUp(d, s.K.Whole))
	if s.Size = s.KeyBytes; !valuesInKeys {
		s.Size += s.V.bytesOf(s.Cols)
	}
	return s
}

// Allocate allocates memory for some blocks of each head of a batch.
func (s *Blocks) Allocate(batch, blocks int) (err error) {
	s.headStride, s.Count = blocks*s.Size, blocks
	if s.memory, err = memory.Allocate(batch * s.Heads * s.headStride); err == nil {
		s.Data = s.memory.Bytes()
	}
	return err
}

// Place uses memory of the caller for some blocks of each head of a batch.
func (s *Blocks) Place(data []byte, blocks int) {
	s.headStride, s.Count, s.Data = blocks*s.Size, blocks, data
}

// Alike reports whether blocks have the same shape and format.
func (s *Blocks) Alike(t *Blocks) bool {
	return s.Heads == t.Heads && s.D == t.D && s.DV == t.DV && s.K.Format == t.K.Format &&
		s.V.Format == t.V.Format && s.ValuesInKeys == t.ValuesInKeys
}

// Fits reports whether some blocks of each head of a batch are at most that many words of four
// bytes. It does not use Size, which may have overflowed.
func (s *Blocks) Fits(batch, blocks, most int) bool {
	size := s.K.bytes64(kernel.RoundUp(s.D, s.K.Whole))
	if !s.ValuesInKeys {
		size += s.V.bytes64(s.Cols)
	}
	return 4*uint64(most)/size/uint64(batch)/uint64(s.Heads)/uint64(blocks) > 0
}

// At returns the memory of a block.
func (s *Blocks) At(head, block int) []byte {
	return s.Data[head*s.headStride+block*s.Size:][:s.Size]
}

// OffsetOf returns the offset of the block with token j: in the page of a table or, without a
// table, in the ring of blocks of a cache's head.
func (s *Blocks) OffsetOf(t *pages.Table, entry, head, j int) int {
	block := j / kernel.Block
	if t != nil {
		block = t.Page(j)
	} else if block >= s.Count { // only then: a division costs more than everything else here
		block %= s.Count
	}
	return (entry*s.Heads+head)*s.headStride + block*s.Size
}

// Keys returns the packed keys of a block, and their scales if they have some.
func (s *Blocks) Keys(x []byte) (keys []byte, scales []float32) {
	return s.K.Split(x[:s.KeyBytes])
}

// Values returns the packed values of a block, and their scales if they have some.
func (s *Blocks) Values(x []byte) (values []byte, scales []float32) {
	return s.V.Split(x[s.KeyBytes:s.Size])
}

// Split separates the scales from the end of a block's keys or values.
func (s *Side) Split(x []byte) (packed []byte, scales []float32) {
	if !s.Scaled {
		return x, nil
	}
	end := len(x) - s.scaleBytes
	return x[:end], kernel.Elements[float32](x[end:])
}

// ValueLayout returns the layout of the first keys values of a block, for kernels; I4 and I8 have
// the same numbers.
func (s *Blocks) ValueLayout(keys int) kernel.PanelLayout {
	l := kernel.PanelLayout{Keys: keys, Cols: s.Cols, Stride: panel, PanelStride: kernel.Block * panel}
	if s.V.Group > 1 {
		l.Stride, l.PanelStride = s.V.Group*s.Cols, s.V.Group*panel
	}
	return l
}

// Rotate rotates contiguous rows of keys, or rotates them back.
func (s *Blocks) Rotate(isa tuning.ISA, x []float32) {
	if !s.ValuesInKeys {
		integers.Rotate(isa, x, x, 1, len(x), len(x), len(x), s.rotation)
		return
	}
	rows := len(x) / s.D
	if s.rotation > 1 {
		integers.Rotate(isa, x, x, rows, s.DV, s.D, s.D, s.rotation)
	}
	if s.rotationRest > 1 {
		integers.Rotate(isa, x[s.DV:], x[s.DV:], rows, s.D-s.DV, s.D, s.D, s.rotationRest)
	}
}

// Close releases the memory.
func (s *Blocks) Close() error {
	m := s.memory
	s.memory, s.Data = nil, nil
	return m.Close()
}

// Open reports whether there is memory.
func (s *Blocks) Open() bool { return s.memory != nil }

// OnePage returns blocks in x: one for each head.
func (s *Blocks) OnePage(x []byte) Blocks {
	page := *s
	page.memory, page.Data, page.headStride, page.Count = nil, x, s.Size, 1
	return page
}

// KeyLimit returns the largest magnitude of a key's elements for which all sums of the rotation are
// finite; 0 if there is no limit, since elements have no scale.
func (s *Blocks) KeyLimit() float32 {
	if !s.K.Scaled {
		return 0
	}
	return math.MaxFloat32 / float32(max(s.rotation, s.rotationRest))
}

// ValueLimit is KeyLimit for values.
func (s *Blocks) ValueLimit() float32 {
	if !s.V.Scaled || s.ValuesInKeys {
		return 0
	}
	return math.MaxFloat32 / float32(s.Unrotate)
}
