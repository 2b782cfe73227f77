package attn

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/pages"
)

// source is where the keys and values of a call come from: views of the caller, or blocks that were packed before.
type source struct {
	k, v  Tensor
	store *blockStore // if not nil, instead of views
}

// blockStore is packed blocks of keys and values, those of a head one after the other:
//
//	[batch][heads][block] × (keys [Block/panel][HeadDim][panel], values [ValueDim/panel][Block][panel])
type blockStore struct {
	data       []float32
	heads      int
	keyBlock   int // elements of the keys of a block
	block      int // elements of a block
	headStride int // elements of all blocks of a head
}

// at is where the block with key j starts.
func (s *blockStore) at(b, kv, j int) int {
	return (b*s.heads+kv)*s.headStride + j/Block*s.block
}

// keys returns the packed keys of the block with key j.
func (s *blockStore) keys(b, kv, j int) []float32 {
	at := s.at(b, kv, j)
	return s.data[at : at+s.keyBlock]
}

// values returns the packed values of the block with key j.
func (s *blockStore) values(b, kv, j int) []float32 {
	at := s.at(b, kv, j)
	return s.data[at+s.keyBlock : at+s.block]
}

// alignedFloats allocates n elements that start at a cache line, in huge pages if the system gives them.
func alignedFloats(n int) []float32 {
	const line = 64 / 4
	data := make([]float32, n+line-1)
	pages.Huge(data)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(data)))/4) & (line - 1)
	return data[skip:][:n:n]
}
