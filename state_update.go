package attn

import (
	"runtime"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/online"
	"github.com/seed-1415985d/attn/internal/segment"
)

// Update adds a chunk of any number of keys, after the keys of earlier Updates:
//
//	q [B, H, L, D]      the same queries each time
//	k [B, KVH, n, D]    the keys at positions Keys() to Keys()+n−1
//	v [B, KVH, n, Dv]
//
// Options are as in [Attend], with these differences. Mask and Bias [B or 1, H or 1, L, n] cover
// the chunk, and KeyLens says how many keys of the chunk exist. Rows beyond QueryLens do not see
// the chunk. Offset, and with it TopLeft, Window and Slopes, counts from the first key of the
// state; for a state that begins with key j of a longer sequence, Offset is the position of query 0
// minus j, so its range is −2²⁹ to 2²⁹. BottomRight is an error because the number of keys is not
// known yet: use TopLeft and Offset. Sinks are kept until Finish, which counts them once; they must
// be the same in every Update that has them. LSE is an output of Finish. Weights are not supported,
// because they need the final maximum, nor are Tree, Keys and Distance.
//
// Scores are in natural units with Softcap, Bias or Slopes, and otherwise in units of the Scale, or
// with Integers of the Scale times the scale of the row's query. The first Update sets the unit of
// the state. An Update in another unit converts both to natural units, with one rounding of each
// maximum; maxima that overflow become the largest number.
//
// Values of a [Store] of I8 with ValuesInKeys are rotated, and Finish rotates outputs back. If an
// Update has rotated values after unrotated ones, or the reverse, it first rotates the outputs so
// far, with rounding errors.
//
// Update allocates when the number of segments reaches a new power of two, and returns [ErrMemory]
// if the system has too little memory. If it returns an error, the state has not changed.
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

// add adds the keys of a validated call; seqs are its sequences, if it has several.
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

// beginAdd reserves memory for the keys of a call, and makes the units of call and state equal.
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

// initUpdate validates the arguments of an Update except its keys.
func (s *State) initUpdate(p *plan, opt *Options) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	return p.initUpdate(s.stateShape, s.sinks, opt)
}

// UpdateSequence is [State.Update] over all tokens of a sequence, for parts of a context that are
// in pages, here or elsewhere, and are merged: the first token of the sequence is at position
// Keys(), and dropped tokens do not exist, as if masked.
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

// UpdateSequences is [State.UpdateSequence] over the concatenated tokens of several sequences:
// Mask, Bias and Blocks cover all of them. The sequences may be of several stores that differ only
// in their number of pages. Each but the last must have a multiple of [Block] tokens, or the result
// has other roundings. It is faster than an update for each, and an error leaves the state
// unchanged.
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

// beginUpdates registers an update over several sequences, and returns their number of tokens.
func beginUpdates(seqs []*Sequence) (tokens int, err error) {
	if len(seqs) == 0 {
		return 0, fail(ErrOption, "seqs is empty, want at least one sequence")
	}
	if err := beginCalls(seqs, inStoresAlike); err != nil {
		return 0, err
	}
	for _, seq := range seqs {
		tokens = min(tokens+seq.table.Len(), maxLength+1) // a number that is refused
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

// initUpdate validates the arguments of an Update of a state except its keys.
func (p *plan) initUpdate(s stateShape, sinks []float32, opt *Options) error {
	if p.update = true; p.parents != nil {
		return fail(ErrOption, "Tree is set in an Update, want nil: its last keys are not known yet")
	}
	if !p.distant.none() {
		return fail(ErrOption, "Distance is set in an Update, want none: use Bias")
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

// checkSinks verifies that sinks, if any, equal those of a state.
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

// stateUpdate adds the keys of a call to the nodes of a state. Each chunk of rows adds all keys, as
// in Attend. The first nodes do not change.
type stateUpdate struct {
	*State
	kept int
	seqs []*Sequence // the sequences with the keys, if there are several
}

// addChunk adds the keys to the rows of one chunk.
func (u *stateUpdate) addChunk(w *scratch, p *plan, i int) {
	var c chunk
	padding := p.chunk(i, &c)
	if c.rows > 0 {
		w.loadQueries(p, &c)
		u.addRows(w, p, &c)
	}
	if padding > 0 { // rows that see none of the keys, but whose nodes merge as others do
		c.row, c.rows, c.lo, c.hi = c.row+c.rows, padding, 0, 0
		u.unitsOf(w, p, &c)
		u.addRows(w, p, &c)
	}
}

// addRows adds the keys to rows: it copies their nodes to scratch, adds the keys segment by
// segment, and copies the nodes back.
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
			w.fit(p) // its notes are for the sequence before
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

// addKeys adds some keys to the last nodes of the tree, and to new ones. The first key is at
// position; the chunk counts keys from 0.
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

// The nodes of a State: memory, units of maxima, and rotation of outputs.

// reserve allocates memory for some more nodes.
func (s *State) reserve(nodes int) error {
	if err := s.tree.Reserve(nodes, s.rows(), s.d); err != nil {
		return fail(ErrMemory, "node %d of the State is %d×%d×%d×(%d+2) numbers: %v",
			len(s.tree.Rows)+len(s.tree.Spare), s.b, s.h, s.l, s.d, err)
	}
	return nil
}

// fixUnit makes the units of state and plan equal.
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

// unitsOf returns the units of all rows of a call in integers, in the order of a State's rows.
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

// toNatural converts the maxima to natural units.
func (s *State) toNatural() {
	for i := range s.tree.Rows {
		s.tree.Rows[i].ToNatural(s.rows(), &s.units)
	}
	s.units.All, s.units.Own = 1, s.units.Own[:0]
}

// A State's outputs over rotated values (kind_latent.go) stay rotated until Finish, so that
// marshaled parts merge without a change. The matrix is its own inverse.

// rotation returns the size of the matrix by which values of the state's dimension are rotated.
func (s *State) rotation() int { return s.d & -s.d }

// fixRotation makes the outputs so far rotated, or not, like the next values.
func (s *State) fixRotation(rotated bool) {
	if s.rotated != rotated {
		s.rotateNodes(s.tree.Rows)
	}
	s.rotated = rotated
}

// fixRotations makes copies of t's nodes rotated, or not, like the nodes of s.
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
