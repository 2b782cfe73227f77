package attn

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
	defer seq.end()
	p := newPlan(Tensor{}, q, Tensor{}, Tensor{}, opt)
	if err := s.initSequence(&p, seq, opt); err != nil {
		return err
	}
	return s.add(&p)
}

// beginUpdate is begin for a sequence that is an argument.
func (s *Sequence) beginUpdate() error {
	if s == nil {
		return fail(ErrOption, "seq is nil, want a sequence")
	}
	return s.begin()
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
