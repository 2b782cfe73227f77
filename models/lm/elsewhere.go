package lm

import (
	"errors"
	"fmt"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/linattn"
	"github.com/seed-1415985d/attn/nn"
)

// CacheConfig describes the keys and values that a [Cache] keeps: of Layers layers with KVHeads
// heads of HeadDim elements, in two formats.
type CacheConfig struct {
	Layers, KVHeads, HeadDim int
	Keys, Values             attn.Format
	Context                  int // most tokens of a sequence
}

// Cache keeps the keys and values of sequences outside of this process, and computes attention over
// them there. Calls come one after another. Answers have the same bits as with pages in this
// process.
type Cache interface {
	// NewSequence returns a sequence without tokens.
	NewSequence() (CacheSequence, error)
	// Step appends rows of keys and values to a layer of sequences and writes to dst the attention of
	// rows of queries, which belong to the last tokens: [attn.AttendSequences] with opt, whose
	// QueryLens are the rows of each sequence.
	Step(layer int, dst, q, k, v attn.Tensor, seqs []CacheSequence, opt *attn.Options) error
}

// CacheSequence is a sequence of a [Cache].
type CacheSequence interface {
	Len() int // tokens of the first layer
	Release()
}

// remote is a cache outside of this process.
type remote struct {
	*model
	to       Cache
	integers bool
	page     int // bytes of a page in all layers
	open     map[*far]bool
	seqs     []CacheSequence // of one step
	queries  []int           // of one step
}

// far is a sequence of a remote cache.
type far struct {
	CacheSequence
	cache *remote
}

func newRemote(m *model, s *settings) (cache, error) {
	if m.States.Layers != nil {
		return nil, fmt.Errorf("%w: Options.Cache is there, and the model has layers that keep states, "+
			"want a model whose layers all have keys and values", attn.ErrOption)
	}
	if m.ByLayer != (byLayer{}) {
		return nil, fmt.Errorf("%w: Options.Cache is there, and the model has layers with keys and "+
			"values of different sizes, or without these, want a model whose layers are alike",
			attn.ErrOption)
	}
	page, err := pageBytes(m, s, 0)
	if err != nil {
		return nil, err
	}
	values := s.values
	if values == 0 {
		values = s.keys
	}
	to, err := s.cache(CacheConfig{Layers: m.Layers, KVHeads: m.KVHeads, HeadDim: m.HeadDim,
		Keys: s.keys, Values: values, Context: s.context})
	return &remote{model: m, to: to, integers: s.attendsInIntegers(), page: m.Layers * page,
		open: map[*far]bool{}}, err
}

func (c *remote) newSequence() (sequence, error) {
	s, err := c.to.NewSequence()
	if err != nil {
		return nil, err
	}
	f := &far{s, c}
	c.open[f] = true
	return f, nil
}

func (c *remote) step(layer int, dst, q, k, v attn.Tensor, pieces []piece) error {
	c.seqs = c.seqs[:0]
	for _, p := range pieces {
		c.seqs = append(c.seqs, p.seq.(*far).CacheSequence)
	}
	c.queries = queriesOf(pieces, c.queries)
	return c.to.Step(layer, dst, q, k, v, c.seqs, c.options(layer, c.queries, c.integers))
}

// states: a remote cache has none.
func (c *remote) states(int, []piece) ([]*nn.Conv, []*linattn.State, error) {
	return nil, nil, errors.New("layers that keep states have none in Options.Cache")
}

// forks: a remote cache does not share tokens between sequences.
func (c *remote) forks() bool { return false }

// inUse returns the bytes that a store of this process would need.
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

func (s *far) length() int { return s.Len() }

func (s *far) reach(int) int { return 0 }

func (s *far) fork(int) (sequence, error) { return s.cache.newSequence() }

// mark does nothing: a remote sequence cannot go back.
func (s *far) mark() {}

func (s *far) back(int) error {
	return errors.New("a sequence of Options.Cache does not go back")
}

// slide does nothing: the remote cache keeps all tokens.
func (s *far) slide() {}

func (s *far) release() {
	delete(s.cache.open, s)
	s.Release()
}
