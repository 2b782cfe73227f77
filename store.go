package attn

import "github.com/seed-1415985d/attn/internal/pages"

// StoreConfig is the shape of a [Store]. Every size must be at least 1.
type StoreConfig struct {
	KVHeads  int    // key/value heads
	HeadDim  int    // dimension of queries and keys
	ValueDim int    // dimension of values and outputs
	Pages    int    // a page holds Block tokens of all heads
	Format   Format // F32 is the zero value

	ValuesInKeys bool // values are the first ValueDim channels of keys, see CacheConfig
}

// Store is a fixed number of pages for the keys and values of many sequences (a paged KV cache). A
// page holds [Block] tokens of all heads. Sequences join, grow, fork, shrink and leave;
// [AttendSequences] attends over any number of them in one call.
//
// All memory for tokens is allocated by NewStore: what a [Cache] of Pages·Block tokens takes.
// NewSequence and Fork allocate a small handle; the tables of their pages, 4 bytes for each page of
// the store, are used again after Release. Nothing else allocates, but what [Attend] does.
//
// All methods but Close are safe for concurrent use, and so are calls over different sequences,
// forks of each other among them.
type Store struct {
	config StoreConfig
	packed packedKV
	pages  *pages.Pool
}

// A page of the store is a block of each head.
const _ = uint(Block-pages.Tokens) + uint(pages.Tokens-Block)

// NewStore allocates a store without sequences. The error is [ErrShape] for a size outside 1 to
// 2²⁸, a store larger than memory can be, or a ValueDim above HeadDim with ValuesInKeys,
// [ErrMemory] for one that the system has no memory for, [ErrOption] for a format that does not
// exist. What [NewCache] says of memory holds for a store, too.
func NewStore(c StoreConfig) (*Store, error) {
	sizes := [...]namedSize{{"KVHeads", c.KVHeads}, {"HeadDim", c.HeadDim},
		{"ValueDim", c.ValueDim}, {"Pages", c.Pages}}
	packed, err := openPacked("StoreConfig", c.Format, sizes[:],
		1, c.KVHeads, c.HeadDim, c.ValueDim, c.Pages, c.ValuesInKeys)
	if err != nil {
		return nil, err
	}
	return &Store{config: c, packed: packed, pages: pages.NewPool(c.Pages)}, nil
}

// Config returns the configuration that the store has.
func (s *Store) Config() StoreConfig { return s.config }

// FreePages returns the number of pages that no sequence has.
func (s *Store) FreePages() int { return s.pages.Free() }

// MemoryUse returns the bytes that the store takes for keys and values, whatever part of them is in
// use; 0 after Close.
func (s *Store) MemoryUse() int { return len(s.packed.data) }

// Close gives the store's memory back. Calls over its sequences that begin later return
// [ErrClosed], as does closing it again. Closing a store while another goroutine uses one of its
// sequences ends the program.
func (s *Store) Close() error {
	if s == nil {
		return nil
	}
	if s.packed.memory == nil {
		return fail(ErrClosed, "the store was closed, or is not from NewStore")
	}
	return s.packed.close()
}

// NewSequence returns a sequence without tokens.
func (s *Store) NewSequence() *Sequence {
	return &Sequence{store: s, table: s.pages.NewTable()}
}

// copyPage copies a page of all heads.
func (s *Store) copyPage(dst, src int32) {
	for h := range s.config.KVHeads {
		copy(s.packed.at(h, int(dst)), s.packed.at(h, int(src)))
	}
}
