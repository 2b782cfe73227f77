package attn

import (
	"slices"
	"sync"
)

// StoreConfig is the shape of a [Store]. Every size must be at least 1.
type StoreConfig struct {
	KVHeads  int       // key/value heads
	HeadDim  int       // dimension of queries and keys
	ValueDim int       // dimension of values and outputs
	Pages    int       // a page holds Block tokens of all heads
	Format   Format // F32 is the zero value
	Rotate   bool      // spread outlier channels of keys, see docs/low-precision.md
}

// Store is a fixed pool of pages for the keys and values of many sequences (a paged KV cache). A page holds [Block] tokens of all heads.
// Sequences join, grow, fork, shrink and leave; [AttendSequences] attends over any number of them in one call.
//
// All memory for tokens is allocated by NewStore: what a [Cache] of Pages·Block tokens takes. A [Sequence] is a handle of some kilobytes
// and 4 bytes for each page of the store, allocated when there is no released one to use again; nothing else allocates.
//
// All methods but Close are safe for concurrent use, and so are calls over different sequences, forks of each other among them.
type Store struct {
	config StoreConfig
	blocks blockStore

	mu       sync.Mutex
	users    []int32     // for each page the number of sequences that have it
	free     []int32     // pages that nobody has; the last one is taken next
	released []*Sequence // handles to use again
	handles  int
}

// NewStore allocates a store without sequences. The error is [ErrShape] for a size outside 1 to 2²⁸ or a store larger than memory can be,
// [ErrMemory] for one that the system has no memory for, [ErrOption] for a type that does not exist. What [NewCache] says of memory holds
// for a store, too.
func NewStore(config StoreConfig) (*Store, error) {
	sizes := [...]namedSize{{"KVHeads", config.KVHeads}, {"HeadDim", config.HeadDim}, {"ValueDim", config.ValueDim}, {"Pages", config.Pages}}
	if err := checkConfig("StoreConfig", config.Format, sizes[:]); err != nil {
		return nil, err
	}
	perToken := roundUp(config.HeadDim, 4) + roundUp(config.ValueDim, panel)
	if _, ok := product(config.KVHeads, config.Pages, Block, perToken); !ok {
		return nil, fail(ErrShape, "StoreConfig is %d×%d×%d×(%d+%d) elements, want at most %d",
			config.KVHeads, config.Pages, Block, config.HeadDim, config.ValueDim, maxElements)
	}
	s := &Store{config: config, blocks: newBlockStore(config.Format, config.KVHeads, config.HeadDim, config.ValueDim, config.Rotate)}
	if err := s.blocks.allocate(1, config.Pages); err != nil {
		return nil, fail(ErrMemory, "StoreConfig is %d×%d×%d×(%d+%d) elements of %v: %v",
			config.KVHeads, config.Pages, Block, config.HeadDim, config.ValueDim, config.Format, err)
	}
	s.users, s.free = make([]int32, config.Pages), make([]int32, config.Pages)
	for i := range s.free {
		s.free[i] = int32(config.Pages - 1 - i) // a sequence that grows alone takes pages that follow each other
	}
	return s, nil
}

// Free returns the number of pages that no sequence has.
func (s *Store) Free() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.free)
}

// MemoryUse returns the bytes that the store takes for keys and values, whatever part of them is in use; 0 after Close.
func (s *Store) MemoryUse() int { return len(s.blocks.data) }

// Close gives the store's memory back. Calls over its sequences that begin later return [ErrClosed], as does closing it again. Closing a store
// while another goroutine uses one of its sequences ends the program.
func (s *Store) Close() error {
	if s.blocks.memory == nil {
		return fail(ErrClosed, "the store was closed, or is not from NewStore")
	}
	return s.blocks.close()
}

// NewSequence returns a sequence without tokens.
func (s *Store) NewSequence() *Sequence {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newSequence()
}

// newSequence is NewSequence for who has locked the store.
func (s *Store) newSequence() *Sequence {
	if last := len(s.released) - 1; last >= 0 {
		q := s.released[last]
		s.released = s.released[:last]
		q.live = true
		return q
	}
	s.handles++
	s.released = slices.Grow(s.released, s.handles) // so that Release allocates nothing
	return &Sequence{store: s, live: true, pages: pages{table: make([]int32, 0, s.config.Pages)}, writer: newTokenWriter(&s.blocks)}
}

// take adds n pages to a table. The store is locked, and has so many.
func (s *Store) take(table []int32, n int) []int32 {
	for range n {
		last := len(s.free) - 1
		page := s.free[last]
		s.free = s.free[:last]
		s.users[page] = 1
		table = append(table, page)
	}
	return table
}

// drop takes a user from each page, the last one first, so that pages that follow each other are taken so again. The store is locked.
func (s *Store) drop(table []int32) {
	for _, page := range slices.Backward(table) {
		if s.users[page]--; s.users[page] == 0 {
			s.free = append(s.free, page)
		}
	}
}

// copyPage copies a page of all heads.
func (s *Store) copyPage(dst, src int32) {
	for h := range s.config.KVHeads {
		copy(s.blocks.at(h, int(dst)), s.blocks.at(h, int(src)))
	}
}
