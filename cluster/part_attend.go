package cluster

import (
	"cmp"
	"slices"

	"github.com/seed-1415985d/attn"
)

// reach is the keys [from, to) of a copy, counted from the first one that a request asks for, which
// begin a segment; or, without a copy, as many keys that no query sees.
type reach struct {
	part     *part
	asked    *attendPart
	from, to int

	number int // number of the part in the request
	layer  *partLayer
}

// attend adds keys of copies, each but the last of which ends a run, to a state in one update,
// because in several the code would be evicted from the caches while keys are read. Query 0 is at
// position offset, counted from the state's first key. An error belongs to part number of the
// request.
func (r *attendRequest) attend(s *attn.State, all []reach, offset int) (number int, err error) {
	unlock, number, err := lockAll(r.layer, all)
	if err != nil {
		return number, err
	}
	defer unlock()
	var seqs []*attn.Sequence
	keys, first := 0, &all[0]
	for i := range all {
		x := &all[i]
		if err := r.checkReach(x, &first.part.shape); err != nil {
			return x.number, err
		}
		var last *attn.Sequence
		from, to := x.asked.first+x.from, x.asked.first+x.to
		if seqs, last, err = x.layer.sequences(seqs, from, to); last != nil {
			defer last.Release()
		}
		if err != nil {
			return x.number, err
		}
		keys += x.to - x.from
	}
	q := attn.BHLD(r.q, 1, r.heads, r.rows, first.part.shape.HeadDim)
	return first.number, s.UpdateSequences(q, seqs, r.at(first.asked, offset, first.from, keys))
}

// lockAll locks copies and a layer of each for reading. All calls lock in the order of the copies'
// numbers, so there is no deadlock. An error belongs to part number of the request.
func lockAll(layer uint32, all []reach) (unlock func(), number int, err error) {
	order := make([]*reach, len(all))
	for i := range all {
		order[i] = &all[i]
	}
	slices.SortFunc(order, func(a, b *reach) int { return cmp.Compare(a.part.copy, b.part.copy) })
	held := make([]*reach, 0, len(all))
	unlock = func() {
		for _, x := range held {
			x.layer.mu.RUnlock()
			x.part.mu.RUnlock()
		}
	}
	for i, x := range order {
		if i > 0 && x.part == order[i-1].part { // a waiting writer could come between two read locks
			err = fail(ErrProtocol, "copy %d joins itself", x.part.copy)
		} else {
			x.layer, err = x.part.layer(x.asked.epoch, layer)
		}
		if err != nil {
			unlock()
			return nil, x.number, err
		}
		x.layer.mu.RLock()
		held = append(held, x)
	}
	return unlock, 0, nil
}

// checkReach verifies that a locked copy has the wanted keys and shape.
func (r *attendRequest) checkReach(x *reach, wanted *shape) error {
	switch h, a := &x.part.shape, x.asked; {
	case a.first%x.part.long != 0:
		return fail(ErrProtocol, "the first key is %d, want a multiple of %d, where runs begin", a.first,
			x.part.long)
	case a.first+a.keys > x.layer.length:
		return fail(errStale, "%d keys from %d on, want at most %d, the tokens that are there", a.keys,
			a.first, x.layer.length)
	case *h != *wanted:
		return fail(attn.ErrShape, "copy %d is %+v, want the shape of those it joins, %+v", x.part.copy,
			*h, *wanted)
	case int64(len(r.q)) != int64(r.heads)*int64(r.rows)*int64(h.HeadDim):
		return fail(attn.ErrShape, "q has %d elements, want those of %d heads, %d rows and %d dimensions",
			len(r.q), r.heads, r.rows, h.HeadDim)
	}
	return nil
}

// sequences appends the runs with tokens [from, to) of a layer to seqs. If the last run has more
// tokens, it returns a truncated fork of it, to be released.
func (l *partLayer) sequences(seqs []*attn.Sequence, from, to int) (all []*attn.Sequence,
	last *attn.Sequence, err error) {
	first := 0
	for _, next := range l.runs {
		if first >= to {
			break
		}
		if first >= from {
			seqs = append(seqs, next.Sequence)
		}
		first += next.Len()
	}
	if first > to {
		end := len(seqs) - 1
		last = seqs[end].Fork()
		err, seqs[end] = last.Truncate(last.Len()-(first-to)), last
	}
	return seqs, last, err
}

// at returns the options for n of the wanted keys, from key first on.
func (r *attendRequest) at(a *attendPart, offset, first, n int) *attn.Options {
	o := *r.options
	o.Offset = offset
	o.Mask = pairsOf(a.mask, r.pairs.mask, r.rows, a.keys, first, n)
	o.Bias = pairsOf(a.bias, r.pairs.bias, r.rows, a.keys, first, n)
	o.Blocks = pairsOf(a.blocks, r.pairs.blocks, blocksOf(r.rows), blocksOf(a.keys),
		first/attn.Block, blocksOf(n))
	return &o
}

// pairsOf returns some columns of elements for pairs, none if there are no heads.
func pairsOf[T any](data []T, heads, rows, width, first, n int) attn.View[T] {
	if heads == 0 {
		return attn.View[T]{}
	}
	x := attn.BHLD(data[first:], 1, heads, rows, width)
	x.D = n // rows keep their distance
	return x
}
