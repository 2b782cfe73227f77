package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/linattn"
	"github.com/seed-1415985d/attn/nn"
)

// pages is a cache in this process: a store of pages for each layer with keys and values.
type pages struct {
	*model
	stores   []*attn.Store // nil for layers that keep states
	open     map[*linattn.State]bool
	pool     *attn.Pool
	integers bool
}

// paged has a part in each store, and states of its own.
type paged struct {
	cache  *pages
	layers []*attn.Sequence // nil for layers that keep states,
	kept   []kept           // which are here
}

// newPages has room for a prefix, and in each place for a whole context, or for a layer with a
// window for what its tokens see: the longest step comes to the window, and whole pages go.
func newPages(m *model, s *settings, pool *attn.Pool) (cache, error) {
	c := &pages{model: m, pool: pool, integers: s.attendsInIntegers(), open: map[*linattn.State]bool{}}
	for i, window := range m.Windows {
		if m.States.of(i) {
			c.stores = append(c.stores, nil)
			continue
		}
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
	s := paged{cache: c, kept: make([]kept, len(c.stores))}
	for i, store := range c.stores {
		if store != nil {
			s.layers = append(s.layers, store.NewSequence())
			continue
		}
		k, err := newKept(c.layers[i].delta, &c.States)
		if err != nil {
			s.release()
			return nil, err
		}
		s.layers, s.kept[i], c.open[k.state] = append(s.layers, nil), k, true
	}
	return s, nil
}

// states are those of a layer.
func (c *pages) states(layer int, pieces []piece) (
	convs []*nn.Conv, all []*linattn.State, _ error,
) {
	for _, p := range pieces {
		k := p.seq.(paged).kept[layer]
		convs, all = append(convs, k.conv), append(all, k.state)
	}
	return convs, all, nil
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
		seqs, err = append(seqs, s), cmp.Or(err,
			c.pool.AppendSequence(s, k.Slice(from, to), v.Slice(from, to)))
	})
	return seqs, err
}

func (c *pages) forks() bool { return true }

// inUse is the pages that are not free, and all states.
func (c *pages) inUse() (bytes int) {
	for s := range c.open {
		bytes += s.MemoryUse()
	}
	for _, s := range c.stores {
		if s == nil {
			continue
		}
		n := s.Config().Pages
		bytes += s.MemoryUse() / n * (n - s.FreePages())
	}
	return bytes
}

func (c *pages) close() {
	for _, s := range c.stores {
		if s != nil {
			_ = s.Close() // it is open, so nothing can fail
		}
	}
	for s := range c.open {
		_ = s.Close() // likewise
	}
}

func (s paged) length() int {
	if s.layers[0] == nil {
		return s.kept[0].state.Len()
	}
	return s.layers[0].Len()
}

// fork shares the pages of the first n tokens: a prompt that is common to many is there once, and
// is read once for all of them. States go back to the begin of a chunk at most: before that, there
// are none to share.
func (s paged) fork(n int) (sequence, error) {
	f := paged{cache: s.cache, kept: make([]kept, len(s.kept))}
	for i, q := range s.layers {
		if q == nil {
			k, ok := s.kept[i].fork(n)
			if !ok {
				f.release()
				return s.cache.newSequence()
			}
			f.layers, f.kept[i], s.cache.open[k.state] = append(f.layers, nil), k, true
			continue
		}
		f.layers = append(f.layers, q.Fork())
		_ = f.layers[i].Truncate(n) // q has as many
	}
	return f, nil
}

func (s paged) mark() {
	for i := range s.kept {
		if k := &s.kept[i]; k.state != nil {
			k.conv.Checkpoint()
			k.state.Checkpoint()
			k.mark = k.state.Len()
		}
	}
}

func (s paged) back(n int) (err error) {
	for _, k := range s.kept {
		if k.state != nil && n < k.state.Len()/linattn.Chunk*linattn.Chunk {
			n = min(n, k.mark)
		}
	}
	for i, q := range s.layers {
		if q != nil {
			err = cmp.Or(err, q.Truncate(n))
		} else {
			err = cmp.Or(err, s.kept[i].conv.Truncate(n), s.kept[i].state.Truncate(n))
		}
	}
	return err
}

func (s paged) slide() {
	for i, q := range s.layers {
		if w := s.cache.Windows[i]; w > 0 {
			_ = q.DropBefore(max(0, q.Len()-w+1)) // which is at most Len
		}
	}
}

// save writes what each layer has.
func (s paged) save(to io.Writer) (err error) {
	for i, q := range s.layers {
		if k := s.kept[i]; q != nil {
			_, err = q.Save(to)
		} else if _, err = k.conv.Save(to); err == nil {
			_, err = k.state.Save(to)
		}
		if err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
	}
	return nil
}

// load reads what save wrote of some tokens, into an empty sequence.
func (s paged) load(from io.Reader, tokens int) (err error) {
	for i, q := range s.layers {
		lens := [2]int{tokens, tokens}
		if k := s.kept[i]; q != nil {
			_, err = q.Load(from)
			lens = [2]int{q.Len() - q.First(), q.Len()}
		} else if _, err = k.conv.Load(from); err == nil {
			_, err = k.state.Load(from)
			lens = [2]int{k.conv.Len(), k.state.Len()}
		}
		if err == nil && lens != [2]int{tokens, tokens} {
			err = fmt.Errorf("it has %d and %d tokens, want %d", lens[0], lens[1], tokens)
		}
		if err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
	}
	return nil
}

func (s paged) release() {
	for i, q := range s.layers {
		if q != nil {
			q.Release()
		}
		delete(s.cache.open, s.kept[i].state)
		s.kept[i].release()
	}
}
