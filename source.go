package attn

import "github.com/seed-1415985d/attn/internal/memory"

// source is where the keys and values of a call come from: views of the caller, or blocks that were packed before.
type source struct {
	k, v  Tensor
	store *blockStore // if not nil, instead of views
}

// blockStore is packed blocks of keys and values, those of a head one after the other:
//
//	[batch][heads][block] × (keys [Block/panel][HeadDim][panel], values [ValueDim/panel][Block][panel])
//
// Whoever reads or writes data holds the store until the last access, by [runtime.KeepAlive] if nothing else does: data alone
// does not keep the memory.
type blockStore struct {
	memory     *memory.Mapping // what data is in; nil if it was given back
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
