package cluster

import "github.com/seed-1415985d/attn"

// unseen is keys that no query sees, of which nothing is asked: states have them as they have those
// that a mask hides.
type unseen struct {
	q       attn.Tensor
	kvHeads int
	options *attn.Options // of any position
	biased  bool          // others have a bias, so maxima are in natural units
}

// add adds some of them to a state that has whole segments, or begins one that is nil.
func (u *unseen) add(s *attn.State, c attn.StateConfig, n int) (_ *attn.State, err error) {
	if s == nil {
		s, err = attn.NewState(c)
	}
	for n > 0 && err == nil {
		keys := blockFrom(s.Keys(), n)
		var x *attn.State
		if x, err = u.block(c, keys); err == nil {
			err = s.Merge(x)
		}
		_ = x.Close() // it is open, or nil
		n -= keys
	}
	return s, err
}

// follow adds a state, which it takes, to that of the keys before it, which is nil where there are
// none, and some keys between them.
func (u *unseen) follow(s *attn.State, between int, next *attn.State) (_ *attn.State, err error) {
	if between > 0 {
		s, err = u.add(s, next.Config(), between)
	}
	if s == nil && err == nil {
		return next, nil
	}
	if err == nil {
		err = s.Merge(next)
	}
	_ = next.Close() // it is open
	return s, err
}

// blockFrom is how many of n keys from a position on are an aligned power of two segments, or end
// in the first one.
func blockFrom(position, n int) int {
	size := attn.Segment
	if n < size {
		return n
	}
	for 2*size <= n && position%(2*size) == 0 {
		size *= 2
	}
	return size
}

// block is the state of a power of two segments, or of a part of one: made by doubling, since an
// update takes as long as its segments are many.
func (u *unseen) block(c attn.StateConfig, keys int) (*attn.State, error) {
	s, err := attn.NewState(c)
	if err != nil {
		return nil, err
	}
	n := min(keys, attn.Segment)
	opt := *u.options
	if opt.KeyLens = []int{0}; u.biased { // its values do not matter, but that there is one
		opt.Bias = sameRow(1, u.q.L, n)
	}
	k, v := sameRow(u.kvHeads, n, u.q.D), sameRow(u.kvHeads, n, c.ValueDim)
	for err = s.Update(u.q, k, v, &opt); err == nil && n < keys; n *= 2 {
		err = s.Merge(s)
	}
	if err != nil {
		_ = s.Close() // it is open
		return nil, err
	}
	return s, nil
}

// sameRow is a tensor whose rows are all the same one, of zeros.
func sameRow(heads, length, d int) attn.Tensor {
	return attn.Tensor{Data: make([]float32, d), B: 1, H: heads, L: length, D: d,
		SB: attn.Broadcast, SH: attn.Broadcast, SL: attn.Broadcast}
}
