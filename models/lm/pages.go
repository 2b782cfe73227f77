package lm

import (
	"cmp"
	"fmt"
	"io"
	"sync"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/linattn"
	"github.com/seed-1415985d/attn/nn"
)

// pages is a cache in this process: a store of pages for each layer with keys and values.
type pages struct {
	*model
	stores    []*attn.Store // nil for layers that keep states
	pairs     *attn.Store   // of the layer for further tokens; nil for none
	all       []*attn.Store // all of these
	groups    []pageGroup
	pool      *attn.Pool
	integers  bool
	slots     int // most sequences where layers have windows or keep states; 0: no bound
	mu        sync.Mutex
	sequences int                     // how many exist now
	open      map[*linattn.State]bool // the open states

	// for one step
	seqs    []*attn.Sequence
	convs   []*nn.Conv
	kept    []*linattn.State
	queries []int
}

// paged is a sequence with a part in each store, and with states of its own.
type paged struct {
	cache  *pages
	layers []*attn.Sequence // nil for layers that keep states,
	kept   []layerState     // the states of those layers
	pairs  *pairs           // of the layer for further tokens; nil for none
}

// newPages makes stores that fill the memory of the settings or, without a bound, hold a sequence
// in each place and one more.
func newPages(m *model, s *settings, pool *attn.Pool) (*pages, error) {
	c := &pages{model: m, pool: pool, integers: s.attendsInIntegers(),
		open: map[*linattn.State]bool{}}
	sizes, err := c.sizes(s)
	if err != nil {
		return nil, err
	}
	if m.further != nil { // it keeps all tokens, as layers without a window do
		if c.pairs, err = c.newStore(m.further.model, s, 0, sizes.full); err != nil {
			return nil, err
		}
		c.groups = append(c.groups, pageGroup{layer: ofPairs, store: c.pairs})
	}
	known := map[int]bool{} // windows
	for i, window := range m.Windows[:m.cached()] {
		if m.States.of(i) {
			c.stores = append(c.stores, nil)
			continue
		}
		count, most := sizes.full, 0
		if window > 0 {
			most = windowPages(window, s)
			count = min(count, (most+1)*c.slots)
		}
		store, err := c.newStore(m, s, i, count)
		if err != nil {
			c.close()
			return nil, err
		}
		if c.stores = append(c.stores, store); !known[window] {
			known[window] = true
			c.groups = append(c.groups, pageGroup{layer: i, store: store, most: most})
		}
	}
	return c, nil
}

// newStore makes a store of some pages for a layer.
func (c *pages) newStore(m *model, s *settings, layer, count int) (*attn.Store, error) {
	store, err := attn.NewStore(storeConfig(m, s, layer, count))
	if err == nil {
		c.all = append(c.all, store)
	}
	return store, err
}

// windowPages returns the most pages of a sequence in a layer with a window: the longest step with
// the tokens that its first token sees. Whole pages are dropped.
func windowPages(window int, s *settings) int {
	return min(pagesOf(s.context), pagesOf(window+min(s.chunk, s.context)+attn.Block-2))
}

// pageCounts divides memory among layers.
type pageCounts struct {
	full int // pages of each layer without a window
}

// sizes computes how many pages the stores have, and sets slots to the most sequences if that is
// bounded. Layers with windows or states get half of the memory if other layers need the rest.
func (c *pages) sizes(s *settings) (n pageCounts, err error) {
	page, each := 0, 0 // bytes of a page in all layers without a window; of a sequence in the others
	for i, window := range c.Windows[:c.cached()] {
		switch {
		case c.States.of(i):
			bytes, err := c.States.memoryUse()
			if err != nil {
				return n, err
			}
			each += bytes
		case window > 0:
			bytes, err := pageBytes(c.model, s, i)
			if err != nil {
				return n, err
			}
			each += (windowPages(window, s) + 1) * bytes
		default:
			bytes, err := pageBytes(c.model, s, i)
			if err != nil {
				return n, err
			}
			page += bytes
		}
	}
	if c.further != nil {
		bytes, err := pageBytes(c.further.model, s, 0)
		if err != nil {
			return n, err
		}
		page += bytes
	}
	full := pagesOf(s.context) + 1
	n.full = full * (s.places + 1)
	if each > 0 {
		c.slots = 2*s.places + 2
	}
	if s.memory == 0 {
		return n, nil
	}
	left := s.memory
	if each > 0 {
		share := left
		if page > 0 {
			share /= 2
		}
		c.slots = int(min(share/int64(each), int64(4*s.places+64)))
		if left -= int64(c.slots) * int64(each); c.slots < 1 {
			return n, fmt.Errorf("%w: Options.Memory is %d bytes, and one sequence needs %d in layers with "+
				"windows or states", attn.ErrMemory, s.memory, each)
		}
	}
	if page > 0 {
		n.full = int(min(left/int64(page), int64(full)*int64(4*s.places)))
	}
	if n.full < 2 {
		return n, fmt.Errorf("%w: Options.Memory is %d bytes, and a page of %d tokens needs %d",
			attn.ErrMemory, s.memory, attn.Block, page)
	}
	return n, nil
}

// pageBytes returns the size of a page in a layer.
func pageBytes(m *model, s *settings, layer int) (int, error) {
	page, err := attn.NewStore(storeConfig(m, s, layer, 1))
	if err != nil {
		return 0, err
	}
	bytes := page.MemoryUse()
	return bytes, page.Close()
}

// pagesOf returns how many pages tokens fill.
func pagesOf(tokens int) int { return (tokens + attn.Block - 1) / attn.Block }

func storeConfig(m *model, s *settings, layer, count int) attn.StoreConfig {
	dim := m.headDim(layer)
	return attn.StoreConfig{KVHeads: m.kvHeads(layer), HeadDim: dim, ValueDim: dim, Pages: count,
		Format: s.keys, ValueFormat: s.values}
}

func (c *pages) newSequence() (sequence, error) {
	s := c.sequence()
	if c.pairs != nil {
		s.pairs = &pairs{kept: c.pairs.NewSequence()}
	}
	for i, store := range c.stores {
		if store != nil {
			s.layers = append(s.layers, store.NewSequence())
			continue
		}
		k, err := newKept(&c.layers[i], &c.States)
		if err != nil {
			s.release()
			return nil, err
		}
		s.setLayerStates(i, k)
	}
	return s, nil
}

// sequence returns a sequence without layers.
func (c *pages) sequence() paged {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sequences++
	return paged{cache: c, kept: make([]layerState, len(c.stores))}
}

// setLayerStates sets the states of a layer.
func (s *paged) setLayerStates(layer int, k layerState) {
	s.layers, s.kept[layer] = append(s.layers, nil), k
	if k.state != nil {
		s.cache.mu.Lock()
		s.cache.open[k.state] = true
		s.cache.mu.Unlock()
	}
}

// states returns the convolutions and states of a layer, which are valid until the next call.
func (c *pages) states(layer int, pieces []piece) ([]*nn.Conv, []*linattn.State, error) {
	c.convs, c.kept = c.convs[:0], c.kept[:0]
	for _, p := range pieces {
		k := p.seq.(paged).kept[layer]
		c.convs, c.kept = append(c.convs, k.conv), append(c.kept, k.state)
	}
	return c.convs, c.kept, nil
}

// step computes attention for prompts and decoding in one call.
func (c *pages) step(layer int, dst, q, k, v attn.Tensor, pieces []piece) error {
	return c.attend(layer, dst, q, k, v, pieces)
}

// ofPairs is the number of the layer for further tokens.
const ofPairs = -1

// attend is step, also for the layer for further tokens.
func (c *pages) attend(layer int, dst, q, k, v attn.Tensor, pieces []piece) error {
	seqs, err := c.append(layer, k, v, pieces)
	if err != nil {
		return err
	}
	m := c.model
	if layer == ofPairs {
		m, layer = c.further.model, 0
	}
	c.queries = queriesOf(pieces, c.queries)
	return c.pool.AttendSequences(dst, q, seqs, m.options(layer, c.queries, c.integers))
}

// append adds rows to a layer's sequences, which it returns, valid until the next call. Without
// rows of keys, it only returns them.
func (c *pages) append(layer int, k, v attn.Tensor, pieces []piece) (
	_ []*attn.Sequence, err error) {
	c.seqs = c.seqs[:0]
	eachPiece(pieces, func(i, from, to int) {
		s := pieces[i].seq.(paged).keys(layer)
		c.seqs = append(c.seqs, s)
		if k.Data != nil {
			err = cmp.Or(err, c.pool.AppendSequence(s, k.Slice(from, to), v.Slice(from, to)))
		}
	})
	return c.seqs, err
}

// keys returns the keys and values of a layer.
func (s paged) keys(layer int) *attn.Sequence {
	if layer == ofPairs {
		return s.pairs.kept
	}
	return s.layers[layer]
}

func (c *pages) forks() bool { return true }

// inUse returns the bytes of pages in use and of all states.
func (c *pages) inUse() (bytes int) {
	c.mu.Lock()
	for s := range c.open {
		bytes += s.MemoryUse()
	}
	c.mu.Unlock()
	for _, s := range c.all {
		n := s.Config().Pages
		bytes += s.MemoryUse() / n * (n - s.FreePages())
	}
	return bytes
}

func (c *pages) close() {
	for _, s := range c.all {
		_ = s.Close() // it is open, so Close cannot fail
	}
	for s := range c.open {
		_ = s.Close() // likewise
	}
}

func (s paged) length() int {
	if s.layers[0] == nil {
		return s.kept[0].conv.Len()
	}
	return s.layers[0].Len()
}

// fork shares the pages of the first n tokens, for an n that reach returned: a prompt that many
// sequences have in common is stored once, and read once for all of them.
func (s paged) fork(n int) (sequence, error) {
	f := s.cache.sequence()
	if s.pairs != nil {
		f.pairs = s.pairs.fork(n, s.cache.Dim)
	}
	for i, q := range s.layers {
		if q != nil {
			f.layers = append(f.layers, q.Fork())
			if err := f.layers[i].Truncate(n); err != nil {
				f.release()
				return nil, err
			}
			continue
		}
		k, ok := s.kept[i].fork(n)
		if !ok {
			f.release()
			return s.cache.newSequence()
		}
		f.setLayerStates(i, k)
	}
	return f, nil
}

// reach returns the most of the first n tokens that a fork can have. States go back to the
// beginning of a chunk or to their mark, and layers with windows have only what the last tokens
// see.
func (s paged) reach(n int) int {
	for _, m := range []int{n, s.marked()} {
		if m <= n && s.reaches(m) {
			return m
		}
	}
	return 0
}

// marked returns the position of the states' mark, 0 for none.
func (s paged) marked() int {
	for _, k := range s.kept {
		if k.conv != nil {
			return k.mark
		}
	}
	return 0
}

func (s paged) reaches(n int) bool {
	for i, q := range s.layers {
		switch {
		case q == nil && !s.kept[i].reaches(n):
			return false
		case q != nil && q.First() > s.cache.sees(i, n):
			return false
		}
	}
	return n <= s.length()
}

func (s paged) mark() {
	for i := range s.kept {
		if k := &s.kept[i]; k.conv != nil {
			k.checkpoint()
		}
	}
}

func (s paged) back(n int) (err error) {
	if s.pairs != nil {
		s.pairs.back(n, s.cache.Dim)
	}
	for _, k := range s.kept {
		if k.conv != nil && !k.reaches(n) {
			n = min(n, k.mark)
		}
	}
	for i, q := range s.layers {
		if q != nil {
			err = cmp.Or(err, q.Truncate(n))
		} else {
			err = cmp.Or(err, s.kept[i].truncate(n))
		}
	}
	return err
}

func (s paged) slide() {
	for i, q := range s.layers {
		if q != nil {
			_ = q.DropBefore(s.cache.sees(i, q.Len())) // the argument is at most Len
		}
	}
}

// sees returns the first token that is visible, in a layer, to the token after n tokens.
func (c *pages) sees(layer, n int) int {
	if w := c.Windows[layer]; w > 0 {
		return max(0, n-w+1)
	}
	return 0
}

// save writes the keys, values and states of each layer.
func (s paged) save(to io.Writer) (all int64, err error) {
	for i, q := range s.layers {
		var n int64
		if q != nil {
			n, err = q.Save(to)
		} else {
			n, err = s.kept[i].save(to)
		}
		if all += n; err != nil {
			return all, fmt.Errorf("layer %d: %w", i, err)
		}
	}
	return all, nil
}

// load reads what save wrote for some tokens, into an empty sequence.
func (s paged) load(from io.Reader, tokens int) (all int64, err error) {
	for i, q := range s.layers {
		var n int64
		lens := [2]int{tokens, tokens}
		if q != nil {
			n, err = q.Load(from)
			lens[0] = q.Len()
		} else {
			n, lens, err = s.kept[i].load(from)
		}
		all += n
		if err == nil && lens != [2]int{tokens, tokens} {
			err = fmt.Errorf("%w: it has %d and %d tokens, want %d", attn.ErrFormat, lens[0], lens[1],
				tokens)
		} else if err == nil && q != nil && q.First() > s.cache.sees(i, tokens) {
			err = fmt.Errorf("%w: its tokens begin at %d, want what the window of %d sees",
				attn.ErrFormat, q.First(), s.cache.Windows[i])
		}
		if err != nil {
			return all, fmt.Errorf("layer %d: %w", i, err)
		}
	}
	return all, nil
}

func (s paged) release() {
	s.cache.mu.Lock()
	s.cache.sequences--
	s.cache.mu.Unlock()
	if s.pairs != nil {
		s.pairs.kept.Release()
	}
	for i, q := range s.layers {
		if q != nil {
			q.Release()
		}
		if k := s.kept[i]; k.state != nil {
			s.cache.mu.Lock()
			delete(s.cache.open, k.state)
			s.cache.mu.Unlock()
			k.release()
		}
	}
}
