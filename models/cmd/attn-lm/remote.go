package main

import (
	"context"
	"errors"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster"
	"github.com/seed-1415985d/attn/linattn"
	"github.com/seed-1415985d/attn/nn"
)

// remote is a cache on a cluster: other processes keep the keys and values and attend over them.
type remote struct {
	*model
	client   *cluster.Client
	shape    cluster.SequenceConfig
	integers bool
	page     int // bytes of one in all layers
	open     map[*far]bool
}

// far is a sequence on a cluster.
type far struct {
	*cluster.Sequence
	cache *remote
}

func newRemote(m *model, s *settings) (cache, error) {
	if m.States.Layers != nil {
		return nil, errors.New("-cluster is there, and the model has layers that keep states, want a " +
			"model whose layers all have keys and values")
	}
	page, err := attn.NewStore(storeConfig(m, s, 1)) // for its size
	if err != nil {
		return nil, err
	}
	defer func() { _ = page.Close() }() // it is open, so nothing can fail
	return &remote{model: m, client: s.cluster, integers: s.attendsInIntegers(),
		page: m.Layers * page.MemoryUse(), open: map[*far]bool{},
		shape: cluster.SequenceConfig{Layers: m.Layers, KVHeads: m.KVHeads, HeadDim: m.HeadDim,
			ValueDim: m.HeadDim, Format: s.kind, ValueFormat: s.values}}, nil
}

func (c *remote) newSequence() (sequence, error) {
	s, err := c.client.NewSequence(c.shape)
	if err != nil {
		return nil, err
	}
	f := &far{s, c}
	c.open[f] = true
	return f, nil
}

// step is a round trip, for all pieces at once.
func (c *remote) step(layer int, dst, q, k, v attn.Tensor, pieces []piece) error {
	var seqs []*cluster.Sequence
	for _, p := range pieces {
		seqs = append(seqs, p.seq.(*far).Sequence)
	}
	return c.client.Steps(context.Background(), layer, dst, q, k, v, seqs,
		c.options(layer, pieces, c.integers))
}

// states: there are none.
func (c *remote) states(int, []piece) ([]*nn.Conv, []*linattn.State, error) {
	return nil, nil, errors.New("layers that keep states have none on a cluster")
}

// forks: workers keep the tokens of one sequence apart from those of others.
func (c *remote) forks() bool { return false }

// inUse is what a store of this process would need; workers keep each token twice.
func (c *remote) inUse() (bytes int) {
	for s := range c.open {
		bytes += pagesOf(s.length()) * c.page
	}
	return bytes
}

func (c *remote) close() {
	for s := range c.open {
		s.release()
	}
}

func (s *far) length() int { return s.Len(0) }

func (s *far) fork(int) (sequence, error) { return s.cache.newSequence() }

// mark: there is no way back.
func (s *far) mark() {}

func (s *far) back(int) error {
	return errors.New("a sequence on a cluster does not go back")
}

// slide leaves workers what they have: they drop no tokens, and none that a window has left behind
// changes a bit.
func (s *far) slide() {}

func (s *far) release() {
	delete(s.cache.open, s)
	s.Release()
}
