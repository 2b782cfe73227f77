package lm

import (
	"errors"
	"fmt"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/linattn"
	"github.com/seed-1415985d/attn/nn"
)

// CacheConfig is what a [Cache] keeps: keys and values of Layers layers, with KVHeads heads of
// HeadDim elements each, in two formats.
type CacheConfig struct {
	Layers, KVHeads, HeadDim int
	Keys, Values             attn.Format
	Context                  int // most tokens of a sequence
}

// Cache keeps keys and values of sequences elsewhere than in this process, and attends over them
// there. Calls come one after another. Where keys and values are changes no bit of an answer.
type Cache interface {
	// NewSequence returns a sequence without tokens.
	NewSequence() (CacheSequence, error)
	// Step appends rows of keys and values to a layer of sequences and writes to dst what rows of
	// queries, which are their last tokens, see of them: as [attn.AttendSequences] with opt, whose
	// QueryLens says how many rows each sequence has.
	Step(layer int, dst, q, k, v attn.Tensor, seqs []CacheSequence, opt *attn.Options) error
}

// CacheSequence is a sequence of a [Cache].
type CacheSequence interface {
	Len() int // tokens of the first layer
	Release()
}

// remote is a cache elsewhere.
type remote struct {
	*model
	to       Cache
	integers bool
	page     int // bytes of one in all layers
	open     map[*far]bool
	seqs     []CacheSequence // of one step
	queries  []int           // likewise
}

// far is a sequence of such a cache.
type far struct {
	CacheSequence
	cache *remote
}

func newRemote(m *model, s *settings) (cache, error) {
	if m.States.Layers != nil {
		return nil, fmt.Errorf("%w: Options.Cache is there, and the model has layers that keep states, "+
			"want a model whose layers all have keys and values", attn.ErrOption)
	}
	page, err := pageBytes(m, s)
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

// states: there are none.
func (c *remote) states(int, []piece) ([]*nn.Conv, []*linattn.State, error) {
	return nil, nil, errors.New("layers that keep states have none in Options.Cache")
}

// forks: a cache keeps the tokens of one sequence apart from others.
func (c *remote) forks() bool { return false }

// inUse is what a store of this process would need.
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

// mark: there is no way back.
func (s *far) mark() {}

func (s *far) back(int) error {
	return errors.New("a sequence of Options.Cache does not go back")
}

// slide leaves the cache what it has.
func (s *far) slide() {}

func (s *far) release() {
	delete(s.cache.open, s)
	s.Release()
}
