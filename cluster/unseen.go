package cluster

import "github.com/seed-1415985d/attn"

// unseen is keys that no query sees, of which nothing is asked: states have them as they have those
// that a mask hides.
type unseen struct {
	q       attn.Tensor
	kvHeads int
	options attn.Options // of any position
	biased  bool         // others have a bias, so maxima are in natural units
}

// add adds some of them to a state that has whole segments.
func (u *unseen) add(s *attn.State, n int) error {
	for n > 0 {
		keys := blockFrom(s.Keys(), n)
		x, err := u.block(s.Config(), keys)
		if err == nil {
			err = s.Merge(x)
		}
		_ = x.Close() // it is open, or nil
		if err != nil {
			return err
		}
		n -= keys
	}
	return nil
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
	opt := u.options
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
