package main

import (
	"cmp"

	"github.com/seed-1415985d/attn"
)

// pages is a cache in this process: a store of pages for each layer.
type pages struct {
	*model
	stores   []*attn.Store
	pool     *attn.Pool
	integers bool
}

// paged has a part in each store.
type paged struct {
	*config
	layers []*attn.Sequence
}

// newPages has room for a prefix, and in each place for a whole context, or for a layer with a
// window for what its tokens see: the longest step comes to the window, and whole pages go.
func newPages(m *model, s *settings, pool *attn.Pool) (cache, error) {
	c := &pages{model: m, pool: pool, integers: s.attendsInIntegers()}
	for _, window := range m.Windows {
		place := pagesOf(s.context)
		if window > 0 {
			place = min(place, pagesOf(window+min(s.chunk, s.context)+attn.Block-2))
		}
		store, err := attn.NewStore(storeConfig(m, s, pagesOf(s.context)+s.places*place))
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

func storeConfig(m *model, s *settings, pages int) attn.StoreConfig {
	return attn.StoreConfig{KVHeads: m.KVHeads, HeadDim: m.HeadDim, ValueDim: m.HeadDim, Pages: pages,
		Format: s.kind, ValueFormat: s.values}
}

func (c *pages) newSequence() (sequence, error) {
	s := paged{config: &c.config}
	for _, store := range c.stores {
		s.layers = append(s.layers, store.NewSequence())
	}
	return s, nil
}

// step attends in one call for prompts and decoding together.
func (c *pages) step(layer int, dst, q, k, v attn.Tensor, pieces []piece) error {
	seqs, err := c.append(layer, k, v, pieces)
	if err != nil {
		return err
	}
	return c.pool.AttendSequences(dst, q, seqs, c.options(layer, pieces, c.integers))
}

// append adds rows to a layer's sequences, which it returns.
func (c *pages) append(layer int, k, v attn.Tensor, pieces []piece) (seqs []*attn.Sequence,
	err error) {
	each(pieces, func(i, from, to int) {
		s := pieces[i].seq.(paged).layers[layer]
		seqs, err = append(seqs, s), cmp.Or(err, s.Append(k.Slice(from, to), v.Slice(from, to)))
	})
	return seqs, err
}

func (c *pages) forks() bool { return true }

// inUse is the pages that are not free.
func (c *pages) inUse() (bytes int) {
	for _, s := range c.stores {
		n := s.Config().Pages
		bytes += s.MemoryUse() / n * (n - s.FreePages())
	}
	return bytes
}

func (c *pages) close() {
	for _, s := range c.stores {
		_ = s.Close() // it is open, so nothing can fail
	}
}

func (s paged) length() int { return s.layers[0].Len() }

// fork shares the pages of the first n tokens: a prompt that is common to many is there once, and
// is read once for all of them.
func (s paged) fork(n int) (sequence, error) {
	f := paged{config: s.config}
	for i, q := range s.layers {
		f.layers = append(f.layers, q.Fork())
		_ = f.layers[i].Truncate(n) // q has as many
	}
	return f, nil
}

func (s paged) slide() {
	for i, q := range s.layers {
		if w := s.Windows[i]; w > 0 {
			_ = q.DropBefore(max(0, q.Len()-w+1)) // which is at most Len
		}
	}
}

func (s paged) release() {
	for _, q := range s.layers {
		q.Release()
	}
}
