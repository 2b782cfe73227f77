package attn

import (
	"runtime"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/memory"
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
	return s.add(&p)
}

// add adds the keys of a validated call.
func (s *State) add(p *plan) error {
	if err := s.prepareAdd(p); err != nil {
		return err
	}
	if p.lk > 0 && !p.q.empty() {
		p.decide(&tuned, 1)
		w := scratches.Get().(*scratch)
		w.fit(p)
		for lo := 0; lo < p.lk; {
			node, hi := s.openSegment(p, lo)
			for i := range p.chunks {
				s.updateNode(w, p, node, i, lo, hi)
			}
			s.closeSegment(hi)
			lo = hi
		}
		scratches.Put(w)
	}
	s.finishAdd(p)
	return nil
}

// prepareAdd makes sure that there is memory for the keys of a call, and that their unit is the
// state's.
func (s *State) prepareAdd(p *plan) error {
	if p.lk == 0 || p.q.empty() {
		return nil
	}
	if err := s.reserve(s.tree.shape.peak(s.keys, s.keys+p.lk) - len(s.tree.rows)); err != nil {
		return err
	}
	w := scratches.Get().(*scratch)
	s.fixUnit(w, p)
	scratches.Put(w)
	s.fixRotation(p.unrotate > 1)
	return nil
}

// finishAdd counts the keys of a call.
func (s *State) finishAdd(p *plan) {
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
	if err := s.initSequence(&p, seq, opt); err != nil {
		return err
	}
	return s.add(&p)
}

// beginUpdate is beginCall for a sequence that is an argument.
func (s *Sequence) beginUpdate() error {
	if s == nil {
		return fail(ErrOption, "seq is nil, want a sequence")
	}
	return s.beginCall()
}

// initSequence validates the arguments of an Update over a sequence.
func (s *State) initSequence(p *plan, seq *Sequence, opt *Options) error {
	if opt != nil && opt.KeyLens != nil {
		return errKeyLens(opt)
	}
	p.packed, p.table, p.first = &seq.store.packed, &seq.table, seq.table.First()
	p.unrotate = p.packed.unrotate
	p.kvHeads, p.lk, p.d, p.dv = p.packed.heads, seq.table.Len(), p.packed.d, p.packed.dv
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

// openSegment returns the node that takes the keys of a call from lo on, and where the segment of
// these ends.
func (s *State) openSegment(p *plan, lo int) (node *state, hi int) {
	at := s.keys + lo
	return s.openNode(at), min(p.lk, (at/Segment+1)*Segment-s.keys)
}

// closeSegment gives the node the keys of a call before hi, and merges what merges then.
func (s *State) closeSegment(hi int) {
	shape, merges := s.tree.shape.fill(s.keys + hi)
	s.tree.merge(shape, merges, s.rows(), s.d, &s.units)
}

// openNode returns the node that takes the key at a position, the next one.
func (s *State) openNode(position int) *state {
	t := &s.tree
	shape, merges := t.shape.take(position)
	t.merge(shape, merges, s.rows(), s.d, &s.units)
	if len(t.rows) < len(t.shape) {
		t.rows = append(t.rows, s.newRows())
		t.rows[len(t.rows)-1].reset(s.rows(), s.d)
	}
	return &t.rows[len(t.rows)-1].state
}

// updateNode adds keys [lo, hi) of the call, which are of one segment, to a node's rows of chunk i.
func (s *State) updateNode(w *scratch, p *plan, node *state, i, lo, hi int) {
	var c chunk
	if p.chunk(i, &c); c.rows == 0 || max(lo, c.lo) >= min(hi, c.hi) {
		return
	}
	w.loadQueries(p, &c)
	s.load(&w.part, node, p, &c)
	w.addSegment(p, &c, &w.part, max(lo, c.lo), min(hi, c.hi))
	s.store(node, &w.part, p, &c)
}

// stateUpdate is keys [lo, hi) of a call, all of one segment, that go to a node of a state.
type stateUpdate struct {
	*State
	node   *state
	lo, hi int
}

// unit adds them to the rows of one chunk.
func (u *stateUpdate) unit(w *scratch, p *plan, i int) { u.updateNode(w, p, u.node, i, u.lo, u.hi) }

// The nodes of a State: their memory, the units of their maxima, and whether their outputs are
// rotated.

// reserve makes sure that there is memory for some more nodes.
func (s *State) reserve(nodes int) error {
	for len(s.tree.spare) < nodes {
		rows := s.rows()
		m, err := memory.Allocate(4 * rows * (s.d + 2)) // zero, and at a cache line
		if err != nil {
			return fail(ErrMemory, "node %d of the State is %d×%d×%d×(%d+2) numbers: %v",
				len(s.tree.rows)+len(s.tree.spare), s.b, s.h, s.l, s.d, err)
		}
		x := m.Floats()
		st := state{m: x[:rows], l: x[rows : 2*rows], o: x[2*rows:]}
		s.tree.spare = append(s.tree.spare, nodeRows{st, m})
	}
	return nil
}

// newRows returns memory that was reserved.
func (s *State) newRows() nodeRows {
	last := len(s.tree.spare) - 1
	x := s.tree.spare[last]
	s.tree.spare[last] = nodeRows{}
	s.tree.spare = s.tree.spare[:last]
	return x
}

// fixUnit makes the state's unit and the plan's the same.
func (s *State) fixUnit(w *scratch, p *plan) {
	u := units{all: p.unit}
	if p.integers && !p.natural {
		u.own = w.unitsOf(p)
	}
	if s.units.all == 0 {
		s.units.set(&u)
	}
	if !s.units.equal(&u) {
		s.toNatural()
		p.natural, p.unit, p.c = true, 1, f32.Log2E
	}
}

// unitsOf is the units of all rows of a call in integers, in the order of a State's rows.
func (w *scratch) unitsOf(p *plan) []float32 {
	x := &w.ints
	x.row, w.q = grow(x.row, roundUp(p.d, 4)), grow(w.q, p.d)
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
	for i := range s.tree.rows {
		s.tree.rows[i].toNatural(s.rows(), &s.units)
	}
	s.units.all, s.units.own = 1, s.units.own[:0]
}

// A State's outputs over values that are rotated (kind_latent.go) stay rotated until Finish, so
// that parts which travel merge as they are. The matrix is its own inverse.

// rotation is the size of the matrix that values of the state's dimension are rotated by.
func (s *State) rotation() int { return s.d & -s.d }

// fixRotation makes outputs so far rotated, or not, as the values that come next.
func (s *State) fixRotation(rotated bool) {
	if s.rotated != rotated {
		s.rotateNodes(s.tree.rows)
	}
	s.rotated = rotated
}

// fixRotations makes copies of t's nodes rotated if those of s are.
func (s *State) fixRotations(t *State, copies []nodeRows) {
	if s.units.all == 0 {
		s.rotated = t.rotated
	} else if s.rotated != t.rotated {
		s.rotateNodes(copies)
	}
}

// rotateNodes rotates the outputs of nodes, or back.
func (s *State) rotateNodes(nodes []nodeRows) {
	for i := range nodes {
		rotateAll(nodes[i].o[:s.rows()*s.d], s.rotation())
	}
}
