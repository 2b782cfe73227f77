package attn

import "slices"

// attendSequences puts each batch entry's keys and values into a sequence of a store, of which some
// have forks, and attends over all sequences in one call with packed queries.
func attendSequences(dst, q, k, v Tensor, opt *Options) error {
	return attendPacked(dst, q, k, v, opt, AttendSequences)
}

// attendPooledSequences is attendSequences with a pool that divides even the smallest call.
func attendPooledSequences(dst, q, k, v Tensor, opt *Options) error {
	return attendPacked(dst, q, k, v, opt, func(dst, q Tensor, seqs []*Sequence, opt *Options) error {
		return pooled(dst, func(j *job) error {
			j.plan = newPlan(dst, q, Tensor{}, Tensor{}, opt)
			return j.plan.initSequences(&j.call, j.call.take(seqs), opt)
		})
	})
}

func attendPacked(dst, q, k, v Tensor, opt *Options,
	attend func(dst, q Tensor, seqs []*Sequence, opt *Options) error) error {
	err := Attend(dst, q, k, v, opt)
	if err != nil || dst.empty() || k.empty() || opt.Offset != 0 {
		return err
	}
	c, err := newPackedCall(q, k, v, opt)
	if err != nil {
		return err
	}
	out := BHLD(nans(q.H*c.q.L*v.D), 1, q.H, c.q.L, v.D)
	if err := attend(out, c.q, c.seqs, &c.opt); err != nil {
		return err
	}
	c.unpack(dst, out, opt)
	return nil
}

// packedCall is a call over sequences that is equal to one over a batch.
type packedCall struct {
	q    Tensor
	seqs []*Sequence
	lens []int
	opt  Options
}

func newPackedCall(q, k, v Tensor, opt *Options) (*packedCall, error) {
	c := &packedCall{lens: opt.QueryLens, opt: *opt}
	if c.lens == nil {
		c.lens = slices.Repeat([]int{q.L}, q.B)
	}
	store, err := NewStore(StoreConfig{KVHeads: k.H, HeadDim: k.D, ValueDim: v.D,
		Pages: q.B * (k.L/Block + 2), Format: formatFor(opt), ValuesInKeys: latent(k, v)})
	if err != nil {
		return nil, err
	}
	longest := 0
	for b := range q.B {
		n := k.L
		if opt.KeyLens != nil {
			n = opt.KeyLens[b]
		}
		s := store.NewSequence()
		keys, values := entryOf(k, b, n), entryOf(v, b, n)
		add := func(from, n int) error {
			x, y := rowsOf(keys, from, n), rowsOf(values, from, n)
			if latent(k, v) {
				y = Tensor{}
			}
			return s.Append(x, y)
		}
		if err := add(0, n); err != nil {
			return nil, err
		}
		if s.Fork(); n%2 == 1 { // pages have another user, and one is a copy
			if err := s.Truncate(n - 1); err != nil {
				return nil, err
			}
			if err := add(n-1, 1); err != nil {
				return nil, err
			}
		}
		c.seqs = append(c.seqs, s)
		longest = max(longest, n)
	}
	c.q = packed(q, c.lens, q.H, q.D)
	c.opt.KeyLens, c.opt.QueryLens = nil, c.lens
	if !opt.Mask.none() {
		mask := packed(opt.Mask, c.lens, opt.Mask.H, longest)
		c.opt.Mask = mask
	}
	if !opt.Bias.none() {
		bias := packed(opt.Bias, c.lens, opt.Bias.H, longest)
		c.opt.Bias = bias
	}
	if opt.LSE != nil {
		c.opt.LSE = nans(q.H * c.q.L)
	}
	if !opt.Weights.none() {
		weights := BHLD(nans(q.H*c.q.L*longest), 1, q.H, c.q.L, longest)
		c.opt.Weights = weights
	}
	return c, nil
}

// entryOf is the first n rows of one batch entry.
func entryOf(x Tensor, b, n int) Tensor {
	sb, _, _ := x.Strides()
	x = x.Slice(0, n)
	x.Data, x.B = x.Data[b*sb:], 1
	return x
}

// packed is the first rows of each batch entry, one after the other, d elements of each.
func packed[T any](x View[T], lens []int, heads, d int) View[T] {
	n := 0
	for _, l := range lens {
		n += l
	}
	y := BHLD(make([]T, heads*n*d), 1, heads, n, d)
	at := 0
	for b, l := range lens {
		for h := range heads {
			for i := range l {
				copy(y.Row(0, h, at+i), x.Row(b%x.B, h, i)[:d])
			}
		}
		at += l
	}
	return y
}

// unpack writes the results to where those of the batch are.
func (c *packedCall) unpack(dst, out Tensor, opt *Options) {
	at := 0
	for b, n := range c.lens {
		for h := range dst.H {
			for i := range dst.L {
				row := at + i
				if i >= n {
					row = -1
				}
				c.unpackRow(dst, out, opt, b, h, i, row)
			}
		}
		at += n
	}
}

// unpackRow writes one row; −1 is a row of nothing.
func (c *packedCall) unpackRow(dst, out Tensor, opt *Options, b, h, i, row int) {
	to, lse := dst.Row(b, h, i), negInf
	if clear(to); row >= 0 {
		copy(to, out.Row(0, h, row))
	}
	if opt.LSE != nil {
		if row >= 0 {
			lse = c.opt.LSE[h*out.L+row]
		}
		opt.LSE[(b*dst.H+h)*dst.L+i] = lse
	}
	if opt.Weights.none() {
		return
	}
	if to = opt.Weights.Row(b, h, i); row >= 0 {
		copy(to, c.opt.Weights.Row(0, h, row))
		to = to[c.opt.Weights.D:]
	}
	clear(to)
}
