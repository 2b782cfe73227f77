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

// Update is [State.Update] on all workers of the pool.
func (p *Pool) Update(s *State, q, k, v Tensor, opt *Options) error {
	if p == nil {
		return s.Update(q, k, v, opt)
	}
	j, err := p.begin()
	if err != nil {
		return err
	}
	defer p.end(j)
	j.plan = newPlan(Tensor{}, q, k, v, opt)
	if err := j.plan.initKeys(); err != nil {
		return err
	}
	if err := s.initUpdate(&j.plan, opt); err != nil {
		return err
	}
	return s.addPooled(p, j)
}

// UpdateSequence is [State.UpdateSequence] on all workers of the pool.
func (p *Pool) UpdateSequence(s *State, q Tensor, seq *Sequence, opt *Options) error {
	if p == nil {
		return s.UpdateSequence(q, seq, opt)
	}
	if err := seq.beginUpdate(); err != nil {
		return err
	}
	defer seq.end()
	j, err := p.begin()
	if err != nil {
		return err
	}
	defer p.end(j)
	j.plan = newPlan(Tensor{}, q, Tensor{}, Tensor{}, opt)
	if err := s.initSequence(&j.plan, seq, opt); err != nil {
		return err
	}
	return s.addPooled(p, j)
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
	p.packed, p.table = &seq.store.packed, &seq.table
	p.unrotate = p.packed.unrotate
	p.kvHeads, p.lk, p.d, p.dv = p.packed.heads, seq.table.Len(), p.packed.d, p.packed.dv
	p.k.B = 1
	return s.initUpdate(p, opt)
}

// addPooled is add by the workers of a pool, which take the chunks of a segment, one segment after
// the other.
func (s *State) addPooled(pool *Pool, j *job) error {
	p := &j.plan
	if err := s.beginAdd(p); err != nil {
		return err
	}
	if p.lk > 0 && !p.q.empty() {
		j.cost = p.cost(&tuned) / float64((p.lk+Segment-1)/Segment) // of a segment, about
		workers := pool.workersFor(j.cost)
		p.decide(&tuned, workers)
		for lo := 0; lo < p.lk; {
			node, hi := s.openSegment(p, lo)
			s.shared = stateUpdate{node, lo, hi}
			j.other, j.units, j.workers = s, p.chunks, workers
			j.next.Store(0)
			pool.run(j)
			s.tree.fill(s.keys+hi, s.rows(), s.d, &s.units)
			lo = hi
		}
		s.shared = stateUpdate{}
	}
	s.endAdd(p)
	return nil
}

// stateUpdate is keys [lo, hi) of a call, all of one segment, that go to a node of a state.
type stateUpdate struct {
	node   *state
	lo, hi int
}

// shareUnit is one chunk of what the workers share.
func (s *State) shareUnit(w *scratch, p *plan, i int) {
	s.updateNode(w, p, s.shared.node, i, s.shared.lo, s.shared.hi)
}
