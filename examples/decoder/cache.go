package main

import "github.com/seed-1415985d/attn"

// cache is the keys and values of sequences: a store of pages for each layer.
type cache struct {
	stores []*attn.Store
	pages  int // of a store
}

// sequence has a part in each store.
type sequence []*attn.Sequence

// newCache has room for some sequences of some tokens each.
func newCache(m *model, kind attn.Format, sequences, tokens int) (*cache, error) {
	c := &cache{pages: sequences * ((tokens + attn.Block - 1) / attn.Block)}
	for range m.Layers {
		store, err := attn.NewStore(attn.StoreConfig{KVHeads: m.KVHeads, HeadDim: m.HeadDim,
			ValueDim: m.HeadDim, Pages: c.pages, Format: kind})
		if err != nil {
			c.close()
			return nil, err
		}
		c.stores = append(c.stores, store)
	}
	return c, nil
}

func (c *cache) newSequence() (s sequence) {
	for _, store := range c.stores {
		s = append(s, store.NewSequence())
	}
	return s
}

// inUse is the bytes of the pages that are not free, as many in each store.
func (c *cache) inUse() int {
	s := c.stores[0]
	return len(c.stores) * (s.MemoryUse() / c.pages) * (c.pages - s.FreePages())
}

func (c *cache) close() {
	for _, s := range c.stores {
		_ = s.Close() // it is open, so nothing can fail
	}
}

// fork shares the pages of the first n tokens: a prompt that is common to many is there once, and
// is read once for all of them.
func (s sequence) fork(n int) (f sequence) {
	for i, q := range s {
		f = append(f, q.Fork())
		_ = f[i].Truncate(n) // q has as many
	}
	return f
}

func (s sequence) release() {
	for _, q := range s {
		q.Release()
	}
}
