package main

import (
	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/examples/decoder/internal/folder"
)

// cache keeps keys and values of sequences and attends over them. pagedCache is attn; plainCache is what attn is compared with.
type cache interface {
	newSequence() sequence
	append(layer int, s sequence, k, v attn.Tensor) error
	attend(layer int, dst, q attn.Tensor, pieces []piece) error // the queries of each piece are its sequence's last tokens
	inUse() int                                                 // bytes
	close()
}

type sequence interface {
	length() int
	fork() sequence
	release()
}

// pagedCache has a store of pages for each layer.
type pagedCache struct {
	pool   *attn.Pool
	stores []*attn.Store
	pages  int // of a store

	seqs    []*attn.Sequence // of one call
	queries []int
}

// pagedSequence is a sequence in each store.
type pagedSequence []*attn.Sequence

// newPagedCache has room for some sequences of some tokens each.
func newPagedCache(c *folder.Config, pool *attn.Pool, kind attn.CacheType, sequences, tokens int) (*pagedCache, error) {
	p := &pagedCache{pool: pool, pages: sequences * ((tokens + attn.Block - 1) / attn.Block)}
	for range c.Layers {
		store, err := attn.NewStore(attn.StoreConfig{KVHeads: c.KVHeads, HeadDim: c.HeadDim, ValueDim: c.HeadDim, Pages: p.pages, Type: kind})
		if err != nil {
			p.close()
			return nil, err
		}
		p.stores = append(p.stores, store)
	}
	return p, nil
}

func (p *pagedCache) newSequence() sequence {
	var s pagedSequence
	for _, store := range p.stores {
		s = append(s, store.NewSequence())
	}
	return s
}

func (p *pagedCache) append(layer int, s sequence, k, v attn.Tensor) error {
	return s.(pagedSequence)[layer].Append(k, v)
}

// attend is one call for prompts and decoding together.
func (p *pagedCache) attend(layer int, dst, q attn.Tensor, pieces []piece) error {
	p.seqs, p.queries = p.seqs[:0], p.queries[:0]
	for _, x := range pieces {
		p.seqs, p.queries = append(p.seqs, x.seq.(pagedSequence)[layer]), append(p.queries, len(x.tokens))
	}
	return p.pool.AttendSequences(dst, q, p.seqs, &attn.Options{Causal: attn.BottomRight, QueryLens: p.queries})
}

func (p *pagedCache) inUse() int {
	n := 0
	for _, s := range p.stores {
		n += s.MemoryUse() / p.pages * (p.pages - s.Free())
	}
	return n
}

func (p *pagedCache) close() {
	for _, s := range p.stores {
		_ = s.Close() // it is open, so nothing can fail
	}
}

func (s pagedSequence) length() int { return s[0].Len() }

// fork shares all pages: a prompt that is common to many is there once, and is read once for all of them.
func (s pagedSequence) fork() sequence {
	var f pagedSequence
	for _, q := range s {
		f = append(f, q.Fork())
	}
	return f
}

func (s pagedSequence) release() {
	for _, q := range s {
		q.Release()
	}
}
