package attn

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/memory"
)

// source is where the keys and values of a call come from: views of the caller, or blocks that were packed before.
type source struct {
	k, v  Tensor
	store *blockStore // if not nil, instead of views
}

// blockStore is packed blocks of keys and values, those of a head one after the other, where a head is one of a batch entry if there are
// several:
//
//	[head][block] × (keys, values)
//	keys    F32, F16, BF16: [Block/panel][HeadDim][panel]       I8: [Block/panel][HeadDim/4][panel][4], then float32 scales [Block]
//	values  F32, F16, BF16: [ValueDim/panel][Block][panel]      I8: [Block/4][ValueDim][4], then float32 scales [Block]
//
// ValueDim goes up to a multiple of panel, and HeadDim/4 to a whole number.
//
// Whoever reads or writes data holds the store until the last access, by [runtime.KeepAlive] if nothing else does: data alone
// does not keep the memory.
type blockStore struct {
	memory *memory.Mapping // what data is in; nil if it was given back
	data   []byte
	kind   Format
	heads  int
	d, dv  int // HeadDim, and ValueDim in whole panels

	rotation   int // keys are multiplied by the Walsh–Hadamard matrix of this size, block by block; 1: as they are
	keyBytes   int // of the keys of a block, scales included
	block      int // bytes of a block
	headStride int // bytes of all blocks of a head
}

// newBlockStore describes the blocks of a type; it has no memory yet.
func newBlockStore(kind Format, heads, d, dv int, rotated bool) blockStore {
	s := blockStore{kind: kind, heads: heads, d: d, dv: roundUp(dv, panel), rotation: 1}
	if rotated {
		s.rotation = d & -d
	}
	s.keyBytes = Block * d * kind.bytes()
	values := Block * s.dv * kind.bytes()
	if kind == I8 {
		s.keyBytes = Block*roundUp(d, 4) + 4*Block
		values += 4 * Block
	}
	s.block = s.keyBytes + values
	return s
}

// allocate takes memory for so many blocks of each head of a batch.
func (s *blockStore) allocate(batch, blocks int) (err error) {
	s.headStride = blocks * s.block
	if s.memory, err = memory.Allocate(batch * s.heads * s.headStride); err == nil {
		s.data = s.memory.Bytes()
	}
	return err
}

// at is the memory of a block.
func (s *blockStore) at(head, block int) []byte { return s.data[s.place(head, block):][:s.block] }

// place is where a block begins.
func (s *blockStore) place(head, block int) int { return head*s.headStride + block*s.block }

// keys returns the packed keys of a block, and their scales if they have some.
func (s *blockStore) keys(x []byte) (keys []byte, scales []float32) {
	x = x[:s.keyBytes]
	if s.kind != I8 {
		return x, nil
	}
	return x[:s.keyBytes-4*Block], elements[float32](x[s.keyBytes-4*Block:])
}

// values returns the packed values of a block, and their scales if they have some.
func (s *blockStore) values(x []byte) (values []byte, scales []float32) {
	x = x[s.keyBytes:]
	if s.kind != I8 {
		return x, nil
	}
	return x[:len(x)-4*Block], elements[float32](x[len(x)-4*Block:])
}

// valueLayout is the layout of the values of a block for accumulateTyped and widen, but for access.
func (s *blockStore) valueLayout(keys int) panelLayout {
	if s.kind == I8 {
		return panelLayout{keys: keys, cols: s.dv, stride: 4 * s.dv, panelStride: 4 * panel}
	}
	return panelLayout{keys: keys, cols: s.dv, stride: panel, panelStride: Block * panel}
}

// elements is memory as elements of another type.
func elements[T any](x []byte) []T {
	var e T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(x))), len(x)/int(unsafe.Sizeof(e)))
}

// close gives the memory back.
func (s *blockStore) close() error {
	m := s.memory
	s.memory, s.data = nil, nil
	return m.Close()
}

// allocateFloats allocates n elements, at most maxElements, that are zero and start at a cache line. They live as long as the mapping.
func allocateFloats(n int) (*memory.Mapping, []float32, error) {
	m, err := memory.Allocate(4 * n)
	if err != nil {
		return nil, nil, err
	}
	return m, m.Floats(), nil
}
