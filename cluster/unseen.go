package cluster

import "github.com/seed-1415985d/attn"

// unseen is keys that no query sees, for which no worker is asked: states include them like keys
// that a mask hides.
type unseen struct {
	q       attn.Tensor
	kvHeads int
	options *attn.Options // for any position
	biased  bool          // other keys have a bias, so maxima are in natural units
}

// add adds n unseen keys to a state with whole segments, or to a new one if s is nil.
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

// follow merges state next, which it closes, with the state s of the keys before it, nil if there
// are none, and some unseen keys between them.
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

// blockFrom returns how many of n keys from a position on are an aligned power of two of segments,
// or end in the first one.
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

// block returns the state of a power of two of segments, or of a part of one. It is made by
// doubling, since the time of an update grows with its segments.
func (u *unseen) block(c attn.StateConfig, keys int) (*attn.State, error) {
	s, err := attn.NewState(c)
	if err != nil {
		return nil, err
	}
	n := min(keys, attn.Segment)
	opt := *u.options
	if opt.KeyLens = []int{0}; u.biased { // the values do not matter, only that there is one
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

// sameRow returns a tensor of zeros whose rows are all the same memory.
func sameRow(heads, length, d int) attn.Tensor {
	return attn.Tensor{Data: make([]float32, d), B: 1, H: heads, L: length, D: d,
		SB: attn.Broadcast, SH: attn.Broadcast, SL: attn.Broadcast}
}
