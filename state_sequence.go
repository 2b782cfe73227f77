package attn

import "runtime"

// UpdateSequence is [State.Update] over all tokens of a sequence, for parts of a context that are held in pages, here or elsewhere, and merged:
// the first token of the sequence is at position Keys(), and tokens that DropFront took do not exist, as if masked.
//
//	q [1, H, L, D]      the same queries each time
//
// KeyLens is nil, because a sequence knows its length.
func (s *State) UpdateSequence(q Tensor, seq *Sequence, opt *Options) error {
	p := newPlan(Tensor{}, q, Tensor{}, Tensor{}, opt)
	err := s.initSequence(&p, seq, opt)
	if err == nil {
		err = s.add(&p)
	}
	runtime.KeepAlive(s) // and with them their memory
	runtime.KeepAlive(seq)
	return err
}

// UpdateSequence is [State.UpdateSequence] on all workers of the pool.
func (p *Pool) UpdateSequence(s *State, q Tensor, seq *Sequence, opt *Options) error {
	_ = s.keys // a nil pointer panics before the call counts as running
	j, err := p.begin()
	if err != nil {
		return err
	}
	j.plan = newPlan(Tensor{}, q, Tensor{}, Tensor{}, opt)
	if err = s.initSequence(&j.plan, seq, opt); err == nil {
		err = s.addPooled(p, j)
	}
	p.end(j)
	runtime.KeepAlive(s) // and with them their memory
	runtime.KeepAlive(seq)
	return err
}

// initSequence validates the arguments of an Update over a sequence.
func (s *State) initSequence(p *plan, seq *Sequence, opt *Options) error {
	if err := checkSequences([]*Sequence{seq}); err != nil {
		return err
	}
	if opt != nil && opt.KeyLens != nil {
		return fail(ErrOption, "KeyLens has %d lengths, want nil: a sequence knows its length", len(opt.KeyLens))
	}
	t := seq.store
	p.store, p.pages = &t.blocks, &seq.pages
	p.kvHeads, p.lk, p.d, p.dv = t.config.KVHeads, seq.length, t.config.HeadDim, t.config.ValueDim
	p.k.B = 1
	return s.initUpdate(p, opt)
}

// addPooled is add by the workers of a pool, which take the chunks of a segment, one segment after the other.
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
			j.other, j.units, j.workers = s, p.chunks(), workers
			j.next.Store(0)
			pool.run(j)
			s.closeSegment(p, node, hi)
			lo = hi
		}
		s.shared = stateUpdate{}
	}
	s.endAdd(p)
	return nil
}

// stateUpdate is keys [lo, hi) of a call, all of one segment, that go to a node of a state.
type stateUpdate struct {
	node   *stateNode
	lo, hi int
}

// shareUnit is one chunk of what the workers share.
func (s *State) shareUnit(w *scratch, p *plan, i int) {
	s.updateNode(w, p, s.shared.node, i, s.shared.lo, s.shared.hi)
}
