// Package lmcache keeps the keys and values of a language model of package lm on a cluster: other
// machines store them and attend over them. Answers have the same bits as on one machine.
package lmcache

import (
	"context"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster"
	"github.com/seed-1415985d/attn/models/lm"
)

// New returns a function for lm.Options.Cache, which makes caches on the workers of a client. Each
// step of a layer is one round trip for all sequences of a batch. The caches end with ctx. The
// caller closes the client after the model.
func New(ctx context.Context, c *cluster.Client) func(lm.CacheConfig) (lm.Cache, error) {
	return func(shape lm.CacheConfig) (lm.Cache, error) {
		return &cache{ctx: ctx, client: c, shape: cluster.SequenceConfig{Layers: shape.Layers,
			KVHeads: shape.KVHeads, HeadDim: shape.HeadDim, ValueDim: shape.HeadDim, Format: shape.Keys,
			ValueFormat: valueFormat(shape)}}, nil
	}
}

// valueFormat returns 0 for values in the format of keys.
func valueFormat(shape lm.CacheConfig) attn.Format {
	if shape.Values == shape.Keys {
		return 0
	}
	return shape.Values
}

// Segments returns a ClientConfig.Segments that spreads a context of some tokens over up to 16
// parts of a sequence.
func Segments(tokens int) int {
	n := 1
	for n < 16 && n*16*attn.Segment < tokens {
		n *= 2
	}
	return n
}

// cache implements lm.Cache.
type cache struct {
	ctx    context.Context
	client *cluster.Client
	shape  cluster.SequenceConfig
	seqs   []*cluster.Sequence // of the current step
}

func (c *cache) NewSequence() (lm.CacheSequence, error) {
	s, err := c.client.NewSequence(c.shape)
	if err != nil {
		return nil, err
	}
	return sequence{s}, nil
}

func (c *cache) Step(layer int, dst, q, k, v attn.Tensor, seqs []lm.CacheSequence,
	opt *attn.Options) error {
	c.seqs = c.seqs[:0]
	for _, s := range seqs {
		c.seqs = append(c.seqs, s.(sequence).Sequence)
	}
	return c.client.Steps(c.ctx, layer, dst, q, k, v, c.seqs, opt)
}

// sequence implements lm.CacheSequence.
type sequence struct{ *cluster.Sequence }

func (s sequence) Len() int { return s.Sequence.Len(0) }

func (s sequence) Release() { s.Sequence.Release() }
