package lm_test

import (
	"context"
	"fmt"
	"log"
	"slices"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/lm"
)

// counting is an lm.Cache: a store for each layer, and a count of the tokens added. A program that
// keeps keys and values on a disk or on other machines has the same three methods.
type counting struct {
	stores []*attn.Store
	tokens int
}

// open is for lm.Options.Cache.
func (c *counting) open(shape lm.CacheConfig) (lm.Cache, error) {
	const sequences = 4
	pages := (shape.Context/attn.Block + 2) * sequences
	for range shape.Layers {
		store, err := attn.NewStore(attn.StoreConfig{KVHeads: shape.KVHeads, HeadDim: shape.HeadDim,
			ValueDim: shape.HeadDim, Pages: pages, Format: shape.Keys, ValueFormat: shape.Values})
		if err != nil {
			return nil, err
		}
		c.stores = append(c.stores, store)
	}
	return c, nil
}

// NewSequence returns a sequence without tokens.
func (c *counting) NewSequence() (lm.CacheSequence, error) {
	s := &counted{}
	for _, store := range c.stores {
		s.layers = append(s.layers, store.NewSequence())
	}
	return s, nil
}

// Step appends a layer's keys and values and computes attention over them.
func (c *counting) Step(layer int, dst, q, k, v attn.Tensor, seqs []lm.CacheSequence,
	opt *attn.Options) error {
	var all []*attn.Sequence
	from := 0
	for i, s := range seqs {
		to := from + opt.QueryLens[i]
		one := s.(*counted).layers[layer]
		if err := one.Append(k.Slice(from, to), v.Slice(from, to)); err != nil {
			return err
		}
		all, from = append(all, one), to
	}
	if layer == 0 {
		c.tokens += from
	}
	return attn.AttendSequences(dst, q, all, opt)
}

// counted is an lm.CacheSequence.
type counted struct{ layers []*attn.Sequence }

func (s *counted) Len() int { return s.layers[0].Len() }

func (s *counted) Release() {
	for _, l := range s.layers {
		l.Release()
	}
}

// Keep keys and values in a program's own Cache: answers have the same bits.
func ExampleCache() {
	answer := func(o lm.Options) (ids []int32) {
		o.Context = 256
		m, err := lm.Random(lm.Sizes{Layers: 2, Hidden: 64, FFN: 96, Seed: 7}, o)
		if err != nil {
			log.Fatal(err)
		}
		defer m.Close()
		g := lm.Generation{MaxTokens: 6, Sampling: lm.Sampling{Temperature: 1, Seed: 2}}
		for token, err := range m.Complete(context.Background(), "Keys and values", g) {
			if err != nil {
				log.Fatal(err)
			}
			ids = append(ids, token.ID)
		}
		return ids
	}
	mine := &counting{}
	same := slices.Equal(answer(lm.Options{Cache: mine.open}), answer(lm.Options{}))
	fmt.Println(same, mine.tokens, "tokens")
	// Output: true 20 tokens
}
