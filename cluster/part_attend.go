package cluster

import (
	"cmp"
	"slices"

	"github.com/seed-1415985d/attn"
)

// reach is keys [from, to) of those of a copy that a request asks for, which begin a segment; or,
// without a copy, as many that no query sees.
type reach struct {
	part     *part
	asked    *attendPart
	from, to int

	number int // of the part in the request
	layer  *partLayer
}

// attend adds keys of copies, of which each but the last ends a run, to a state of queries, in one
// update: code of several would leave the caches while keys are read. Query 0 is at the given
// position, counted from the state's first key. An error is that of some part.
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

// lockAll locks copies and a layer of each for reading, in the order of their numbers, which all
// calls have: so none waits for another in a circle. An error is that of some part.
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
		if i > 0 && x.part == order[i-1].part { // whose lock who waits to write may be between
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

// checkReach makes sure that a copy, which is locked, has the keys that are asked for, and is of a
// shape.
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

// sequences adds those of the runs with tokens [from, to) of a layer to others. Where more than
// these were appended to the last one, it is a fork, to be released.
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

// at are the options for n of the keys asked for, from one on.
func (r *attendRequest) at(a *attendPart, offset, first, n int) *attn.Options {
	o := *r.options
	o.Offset = offset
	o.Mask = pairsOf(a.mask, r.pairs.mask, r.rows, a.keys, first, n)
	o.Bias = pairsOf(a.bias, r.pairs.bias, r.rows, a.keys, first, n)
	o.Blocks = pairsOf(a.blocks, r.pairs.blocks, blocksOf(r.rows), blocksOf(a.keys),
		first/attn.Block, blocksOf(n))
	return &o
}

// pairsOf is some columns of what has an element for each pair, none if it has no heads.
func pairsOf[T any](data []T, heads, rows, width, first, n int) attn.View[T] {
	if heads == 0 {
		return attn.View[T]{}
	}
	x := attn.BHLD(data[first:], 1, heads, rows, width)
	x.D = n // of rows that are as far apart as before
	return x
}
