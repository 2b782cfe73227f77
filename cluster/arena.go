package cluster

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-1415985d/attn"
)

// arena allocates memory for tokens. It allocates from the system in slabs, each a store of one
// shape, and frees a slab with its last run; so the same memory can serve one shape after another,
// and the bytes of all slabs never exceed the limit.
type arena struct {
	mu          sync.Mutex
	limit, used int64
	slabs       map[attn.StoreConfig][]*slab // keyed by a configuration without pages
	tokens      atomic.Int64                 // of all layers
}

// slab is a store and the number of its runs.
type slab struct {
	config attn.StoreConfig // without pages
	pages  int64
	store  *attn.Store
	runs   int
}

// run is consecutive tokens in one layer of a copy: a segment, or an aligned power of two of
// segments. Each but the last of a layer ends at a multiple of attn.Block, so that a state can add
// them one after another.
type run struct {
	*attn.Sequence
	slab *slab
}

// slabBytes is the approximate size of a slab, but at most one of slabShares of all memory, because
// other shapes cannot use the free part of a slab.
const (
	slabBytes  = 16 << 20
	slabShares = 16
)

// storeConfig returns the configuration of a store for a shape, without pages.
func (s *shape) storeConfig() attn.StoreConfig {
	return attn.StoreConfig{KVHeads: s.KVHeads, HeadDim: s.HeadDim, ValueDim: s.ValueDim,
		Format: s.Format, ValueFormat: s.ValueFormat, ValuesInKeys: s.ValuesInKeys}
}

// newRun returns a run in a slab that has enough free pages; if none has, in the one
// with the most.
func (a *arena) newRun(c attn.StoreConfig, pages int) (*run, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var best *slab
	for _, s := range a.slabs[c] {
		if best == nil || s.store.FreePages() > best.store.FreePages() {
			best = s
		}
	}
	if best == nil || best.store.FreePages() < pages {
		s, err := a.newSlab(c, pages)
		switch {
		case err == nil:
			best = s
		case best == nil || best.store.FreePages() == 0:
			return nil, err
		}
	}
	best.runs++
	return &run{best.store.NewSequence(), best}, nil
}

// newSlab allocates a slab of the usual size, or a smaller one of at least least pages if there is
// less memory. The lock is held.
func (a *arena) newSlab(c attn.StoreConfig, least int) (*slab, error) {
	page := pageBytes(&c)
	free := a.limit - a.used
	usual := min(slabBytes, a.limit/slabShares) / page
	for pages := max(int64(least), attn.Segment/attn.Block, usual); ; pages /= 2 {
		if pages == 0 {
			return nil, fail(attn.ErrCapacity, "a page of %d bytes is wanted, %d of %d are free", page, free,
				a.limit)
		}
		if pages*page > free {
			continue
		}
		config := c
		config.Pages = int(pages)
		store, err := attn.NewStore(config)
		if err != nil {
			return nil, err
		}
		if int64(store.MemoryUse()) > free { // pageBytes is an estimate
			_ = store.Close()
			continue
		}
		s := &slab{config: c, pages: pages, store: store}
		a.used += int64(store.MemoryUse())
		a.slabs[c] = append(a.slabs[c], s)
		return s, nil
	}
}

// pageBytes estimates the size of a page, without scales and padding.
func pageBytes(c *attn.StoreConfig) int64 {
	bits := [...]int64{attn.F32: 32, attn.F16: 16, attn.BF16: 16, attn.I8: 8, attn.I4: 4}
	token := int64(c.HeadDim) * bits[c.Format]
	if !c.ValuesInKeys {
		token += int64(c.ValueDim) * bits[c.ValueFormat]
	}
	return int64(c.KVHeads) * attn.Block / 8 * token
}

// free frees a run, which nobody uses any more, and its slab if that is empty.
func (a *arena) free(r *run) {
	r.Release()
	a.mu.Lock()
	defer a.mu.Unlock()
	s := r.slab
	if s.runs--; s.runs > 0 {
		return
	}
	a.used -= int64(s.store.MemoryUse())
	_ = s.store.Close() // it is open
	rest := slices.DeleteFunc(a.slabs[s.config], func(x *slab) bool { return x == s })
	if a.slabs[s.config] = rest; len(rest) == 0 {
		delete(a.slabs, s.config)
	}
}

// bytes returns the size of all slabs, and the part without tokens.
func (a *arena) bytes() (used, spare int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, slabs := range a.slabs {
		for _, s := range slabs {
			page := int64(s.store.MemoryUse()) / s.pages
			spare += page * int64(s.store.FreePages())
		}
	}
	return a.used, spare
}
