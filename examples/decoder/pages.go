package main

import (
	"cmp"

	"github.com/seed-1415985d/attn"
)

// pages is a cache in this process: a store of pages for each layer.
type pages struct {
	stores   []*attn.Store
	perStore int // pages
	pool     *attn.Pool
	integers bool
}

// paged has a part in each store.
type paged []*attn.Sequence

// newPages has room for a prefix and for a whole context in each place.
func newPages(m *model, s *settings, pool *attn.Pool) (cache, error) {
	c := &pages{perStore: (s.places + 1) * pagesOf(s.context), pool: pool, integers: s.integers}
	for range m.Layers {
		store, err := attn.NewStore(storeConfig(m, s.kind, c.perStore))
		if err != nil {
			c.close()
			return nil, err
		}
		c.stores = append(c.stores, store)
	}
	return c, nil
}

// pagesOf is how many pages some tokens fill.
func pagesOf(tokens int) int { return (tokens + attn.Block - 1) / attn.Block }

func storeConfig(m *model, kind attn.Format, pages int) attn.StoreConfig {
	return attn.StoreConfig{KVHeads: m.KVHeads, HeadDim: m.HeadDim, ValueDim: m.HeadDim, Pages: pages,
		Format: kind}
}

func (c *pages) newSequence() (sequence, error) {
	var s paged
	for _, store := range c.stores {
		s = append(s, store.NewSequence())
	}
	return s, nil
}

func (c *pages) append(layer int, k, v attn.Tensor, pieces []piece) (err error) {
	each(pieces, func(i, from, to int) {
		err = cmp.Or(err, pieces[i].seq.(paged)[layer].Append(k.Slice(from, to), v.Slice(from, to)))
	})
	return err
}

// attend is one call for prompts and decoding together.
func (c *pages) attend(layer int, dst, q attn.Tensor, pieces []piece) error {
	seqs, queries := []*attn.Sequence{}, []int{}
	for _, p := range pieces {
		seqs, queries = append(seqs, p.seq.(paged)[layer]), append(queries, len(p.tokens))
	}
	return c.pool.AttendSequences(dst, q, seqs, &attn.Options{Causal: attn.BottomRight,
		QueryLens: queries, Integers: c.integers})
}

func (c *pages) forks() bool { return true }

// inUse is as many pages in each store: those that are not free.
func (c *pages) inUse() int {
	s := c.stores[0]
	return len(c.stores) * (s.MemoryUse() / c.perStore) * (c.perStore - s.FreePages())
}

func (c *pages) close() {
	for _, s := range c.stores {
		_ = s.Close() // it is open, so nothing can fail
	}
}

func (s paged) length() int { return s[0].Len() }

// fork shares the pages of the first n tokens: a prompt that is common to many is there once, and
// is read once for all of them.
func (s paged) fork(n int) (sequence, error) {
	var f paged
	for i, q := range s {
		f = append(f, q.Fork())
		_ = f[i].Truncate(n) // q has as many
	}
	return f, nil
}

func (s paged) release() {
	for _, q := range s {
		q.Release()
	}
}
