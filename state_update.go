package attn

import (
	"runtime"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/online"
	"github.com/seed-1415985d/attn/internal/segment"
)

// Update adds a chunk of any number of keys, which follow those of the Updates before:
//
//	q [B, H, L, D]      the same queries each time
//	k [B, KVH, n, D]    the keys at positions Keys() to Keys()+n−1
//	v [B, KVH, n, Dv]
//
// Options mean what they mean to [Attend], with these differences. Mask and Bias [B or 1, H or 1,
// L, n] cover the chunk, and KeyLens says how many keys of the chunk exist. Rows beyond QueryLens
// do not see the chunk. Offset, and with it TopLeft, Window and Slopes, counts from the first key
// of the state; a state that begins with key j of a longer sequence takes Offset = position of
// query 0 − j, so it is at most 2²⁹ either way. BottomRight is an error because the number of keys
// is not known yet: use TopLeft and Offset. Sinks are remembered until Finish counts them once;
// they must be the same in every Update that has them. LSE belongs to Finish. Weights are not
// supported: they need the final maximum.
//
// Scores are in natural units where Softcap, Bias or Slopes are given, and otherwise in units of
// the Scale, or with Integers of the Scale times the scale of the row's query. The first Update
// decides which the state has. An Update in another unit brings both to natural units, with one
// rounding of each maximum; what overflows there becomes the largest number.
//
// Values of a [Store] of I8 with ValuesInKeys are rotated, and outputs are rotated back by Finish.
// An Update over values that are not, or the other way round, first rotates the outputs so far,
// with rounding errors of that.
//
// Update allocates when the number of keys passes a power of two of segments that it has not
// reached before, and returns [ErrMemory] if the system has no memory. If it returns an error, the
// state has not changed.
func (s *State) Update(q, k, v Tensor, opt *Options) error {
	p := newPlan(Tensor{}, q, k, v, opt)
	if err := p.initKeys(); err != nil {
		return err
	}
	if err := s.initUpdate(&p, opt); err != nil {
		return err
	}
	return s.add(&p, nil)
}

// add adds the keys of a validated call: of some sequences, if it is over several.
func (s *State) add(p *plan, seqs []*Sequence) error {
	if p.lk > 0 && !p.q.empty() {
		u, err := s.beginAdd(p, seqs)
		if err != nil {
			return err
		}
		p.decide(&tuned, 1)
		w := scratches.Get().(*scratch)
		w.fit(p)
		for i := range p.chunks {
			u.addChunk(w, p, i)
		}
		scratches.Put(w)
		s.tree.Extend(s.keys, s.keys+p.lk)
	}
	s.countAdd(p)
	return nil
}

// beginAdd makes sure that there is memory for the keys of a call, and that their unit is the
// state's.
func (s *State) beginAdd(p *plan, seqs []*Sequence) (u stateUpdate, err error) {
	nodes, kept := s.tree.Shape.Replay(s.keys, s.keys+p.lk)
	if err := s.reserve(nodes - len(s.tree.Rows)); err != nil {
		return u, err
	}
	w := scratches.Get().(*scratch)
	s.fixUnit(w, p)
	scratches.Put(w)
	s.fixRotation(p.unrotate > 1)
	for len(s.tree.Rows) < nodes {
		s.tree.Rows = append(s.tree.Rows, s.tree.Reserved())
	}
	return stateUpdate{s, kept, seqs}, nil
}

// countAdd counts the keys of a call.
func (s *State) countAdd(p *plan) {
	s.keepSinks(p.sinks)
	s.keys += p.lk
	runtime.KeepAlive(s) // and with it its memory
}

// initUpdate validates the arguments of an Update but for its keys.
func (s *State) initUpdate(p *plan, opt *Options) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	return p.initUpdate(s.stateShape, s.sinks, opt)
}

// UpdateSequence is [State.Update] over all tokens of a sequence, for parts of a context that are
// held in pages, here or elsewhere, and merged: the first token of the sequence is at position
// Keys(), and tokens that DropBefore took do not exist, as if masked.
//
//	q [1, H, L, D]      the same queries each time
//
// KeyLens is nil, because a sequence knows its length.
func (s *State) UpdateSequence(q Tensor, seq *Sequence, opt *Options) error {
	if err := seq.beginUpdate(); err != nil {
		return err
	}
	defer seq.endCall()
	p := newPlan(Tensor{}, q, Tensor{}, Tensor{}, opt)
	p.table, p.first = &seq.table, seq.table.First()
	if err := s.initSequence(&p, seq.store, seq.table.Len(), opt); err != nil {
		return err
	}
	return s.add(&p, nil)
}

// UpdateSequences is [State.UpdateSequence] over several sequences, whose tokens follow each other:
// Mask, Bias and Blocks cover those of all. The sequences may be of several stores that differ in
// their number of pages only. Each but the last has a multiple of [Block] tokens, or the result has
// other roundings. It takes less time than an update for each, and an error leaves the state as it
// was.
func (s *State) UpdateSequences(q Tensor, seqs []*Sequence, opt *Options) error {
	tokens, err := beginUpdates(seqs)
	if err != nil {
		return err
	}
	defer endCalls(seqs)
	p := newPlan(Tensor{}, q, Tensor{}, Tensor{}, opt)
	if err := s.initSequence(&p, seqs[0].store, tokens, opt); err != nil {
		return err
	}
	return s.add(&p, seqs)
}

// beginUpdates registers an update over several sequences, and returns how many tokens these have.
func beginUpdates(seqs []*Sequence) (tokens int, err error) {
	if len(seqs) == 0 {
		return 0, fail(ErrOption, "seqs is empty, want at least one sequence")
	}
	if err := beginCalls(seqs, inStoresAlike); err != nil {
		return 0, err
	}
	for _, seq := range seqs {
		tokens = min(tokens+seq.table.Len(), maxLength+1) // which is refused
	}
	return tokens, nil
}

// beginUpdate is beginCall for a sequence that is an argument.
func (s *Sequence) beginUpdate() error {
	if s == nil {
		return fail(ErrOption, "seq is nil, want a sequence")
	}
	return s.beginCall()
}

// initSequence validates the arguments of an Update over some tokens of a store.
func (s *State) initSequence(p *plan, store *Store, tokens int, opt *Options) error {
	if opt != nil && opt.KeyLens != nil {
		return errKeyLens(opt)
	}
	p.packed = &store.packed
	p.unrotate = p.packed.Unrotate
	p.kvHeads, p.lk, p.d, p.dv = p.packed.Heads, tokens, p.packed.D, p.packed.DV
	p.k.B = 1
	return s.initUpdate(p, opt)
}

// initUpdate validates the arguments of an Update of a state but for its keys.
func (p *plan) initUpdate(s stateShape, sinks []float32, opt *Options) error {
	if p.update = true; p.parents != nil {
		return fail(ErrOption, "Tree is set in an Update, want nil: its last keys are not known yet")
	}
	if opt != nil && !opt.Keys.none() {
		return fail(ErrOption, "Keys are set in an Update, want none: a State sees all keys of its "+
			"chunks")
	}
	if err := p.initQueries(p.k.B); err != nil {
		return err
	}
	if err := p.initOptions(opt); err != nil {
		return err
	}
	switch {
	case p.batch != s.b || p.heads != s.h || p.lq != s.l:
		return fail(ErrShape, "q is [%d %d %d …], want the state's [%d %d %d …]",
			p.batch, p.heads, p.lq, s.b, s.h, s.l)
	case p.dv != s.d:
		return fail(ErrShape, "v.D is %d, want the state's %d", p.dv, s.d)
	case p.lk > maxLength-s.keys:
		return fail(ErrLength, "k.L is %d after %d keys, want at most %d in all", p.lk, s.keys, maxLength)
	case p.blocked.Data != nil && s.keys%Block != 0:
		return fail(ErrOption, "Blocks are set after %d keys, want a multiple of %d keys before", s.keys,
			Block)
	case p.causal == BottomRight:
		return fail(ErrOption, "Causal is BottomRight, want TopLeft with Offset: the number of keys is "+
			"not known yet")
	case p.lse != nil:
		return fail(ErrOption, "LSE is set in an Update, want nil: Finish returns it")
	case opt != nil && !opt.Weights.none():
		return fail(ErrUnsupported, "Weights are set in an Update, want nil: they need the maximum over "+
			"all keys")
	}
	p.offset -= s.keys // the chunk's keys count from 0
	return checkSinks("Sinks", p.sinks, sinks)
}

// checkSinks makes sure that sinks, if any, are the ones that a state has.
func checkSinks(name string, sinks, has []float32) error {
	if len(has) == 0 {
		return nil
	}
	for h, e := range sinks {
		if e != has[h] && (e == e || has[h] == has[h]) {
			return fail(ErrOption, "%s[%d] is %v, want %v as before", name, h, e, has[h])
		}
	}
	return nil
}

// stateUpdate is the keys of a call that go to the nodes of a state. Chunks of rows take them one
// after another, each all of its keys, as those of Attend do. The first nodes stay as they are.
type stateUpdate struct {
	*State
	kept int
	seqs []*Sequence // whose tokens are the keys, if they are of several
}

// addChunk adds the keys to the rows of one chunk.
func (u *stateUpdate) addChunk(w *scratch, p *plan, i int) {
	var c chunk
	padding := p.chunk(i, &c)
	if c.rows > 0 {
		w.loadQueries(p, &c)
		u.addRows(w, p, &c)
	}
	if padding > 0 { // rows that see none of the keys, though their nodes merge as others do
		c.row, c.rows, c.lo, c.hi = c.row+c.rows, padding, 0, 0
		u.unitsOf(w, p, &c)
		u.addRows(w, p, &c)
	}
}

// addRows adds the keys to rows: their nodes go to scratch, take the keys segment by segment, and
// go back.
func (u *stateUpdate) addRows(w *scratch, p *plan, c *chunk) {
	t := &w.tree
	t.Shape = append(t.Shape, u.tree.Shape...)
	for i := range u.tree.Shape[u.kept:] {
		u.load(t.New(w.fitted.rows, w.fitted.oStride), &u.tree.Rows[u.kept+i].State, p, c)
	}
	if len(u.seqs) == 0 {
		w.addKeys(p, c, u.keys, p.lk)
	}
	sees, position := c.lo < c.hi, c.position
	for _, s := range u.seqs {
		c.table, c.packed, c.from, c.keys = &s.table, &s.store.packed, s.table.First(), s.table.Len()
		if c.position = position - c.base; sees {
			w.fit(p) // what it knows is of the sequence before
			p.bound(c)
		}
		w.addKeys(p, c, u.keys+c.base, c.keys)
		c.base += c.keys
	}
	c.base, c.position = 0, position
	for i := range t.Rows {
		u.store(&u.tree.Rows[u.kept+i].State, &t.Rows[i].State, p, c)
	}
	t.Reset()
}

// addKeys adds some keys to the last nodes of the tree, and new ones. They follow those before a
// position; the chunk counts them from 0.
func (w *scratch) addKeys(p *plan, c *chunk, position, keys int) {
	t, rows := &w.tree, c.heads*c.rows
	for at, all := position, position+keys; at < all; {
		end := segment.End(at, all)
		shape, merges := t.Shape.Take(at)
		t.Merge(tuned.ISA, shape, merges, rows, p.oStride, &w.units)
		if t.Shape[len(t.Shape)-1].Keys == 0 {
			t.New(w.fitted.rows, w.fitted.oStride).Restart(rows)
		}
		st := &t.Rows[len(t.Rows)-1].State
		if lo, hi := max(at-position, c.lo), min(end-position, c.hi); lo < hi {
			w.addSegment(p, c, st, lo, hi)
		} else if st.Overwrite {
			st.Reset(rows, p.oStride)
		}
		shape, merges = t.Shape.Fill(end)
		t.Merge(tuned.ISA, shape, merges, rows, p.oStride, &w.units)
		at = end
	}
}

// The nodes of a State: their memory, the units of their maxima, and whether their outputs are
// rotated.

// reserve makes sure that there is memory for some more nodes.
func (s *State) reserve(nodes int) error {
	if err := s.tree.Reserve(nodes, s.rows(), s.d); err != nil {
		return fail(ErrMemory, "node %d of the State is %d×%d×%d×(%d+2) numbers: %v",
			len(s.tree.Rows)+len(s.tree.Spare), s.b, s.h, s.l, s.d, err)
	}
	return nil
}

// fixUnit makes the state's unit and the plan's the same.
func (s *State) fixUnit(w *scratch, p *plan) {
	u := online.Units{All: p.unit}
	if p.integers && !p.natural {
		u.Own = w.unitsOf(p)
	}
	if s.units.All == 0 {
		s.units.Set(&u)
	}
	if !s.units.Equal(&u) {
		s.toNatural()
		p.natural, p.unit, p.c = true, 1, f32.Log2E
	}
}

// unitsOf is the units of all rows of a call in integers, in the order of a State's rows.
func (w *scratch) unitsOf(p *plan) []float32 {
	x := &w.ints
	x.row, w.q = grow(x.row, kernel.RoundUp(p.d, 4)), grow(w.q, p.d)
	x.all = grow(x.all, p.batch*p.heads*p.lq)
	units := x.all[:p.batch*p.heads*p.lq]
	for r := range units {
		query := p.q.row(r/p.lq/p.heads, r/p.lq%p.heads, r%p.lq)
		units[r], _ = x.quantizeQuery(p, w.q[:p.d], query)
	}
	return units
}

// toNatural brings the maxima to natural units.
func (s *State) toNatural() {
	for i := range s.tree.Rows {
		s.tree.Rows[i].ToNatural(s.rows(), &s.units)
	}
	s.units.All, s.units.Own = 1, s.units.Own[:0]
}

// A State's outputs over values that are rotated (kind_latent.go) stay rotated until Finish, so
// that parts which travel merge as they are. The matrix is its own inverse.

// rotation is the size of the matrix that values of the state's dimension are rotated by.
func (s *State) rotation() int { return s.d & -s.d }

// fixRotation makes outputs so far rotated, or not, as the values that come next.
func (s *State) fixRotation(rotated bool) {
	if s.rotated != rotated {
		s.rotateNodes(s.tree.Rows)
	}
	s.rotated = rotated
}

// fixRotations makes copies of t's nodes rotated if those of s are.
func (s *State) fixRotations(t *State, copies []online.Node) {
	if s.units.All == 0 {
		s.rotated = t.rotated
	} else if s.rotated != t.rotated {
		s.rotateNodes(copies)
	}
}

// rotateNodes rotates the outputs of nodes, or back.
func (s *State) rotateNodes(nodes []online.Node) {
	for i := range nodes {
		integers.RotateAll(tuned.ISA, nodes[i].O[:s.rows()*s.d], s.rotation())
	}
}
