package attn

// AttendSequences computes attention of the queries of several sequences of one [Store], each over its own tokens, on the calling goroutine.
// Queries and outputs are packed one sequence after the other, in the order of seqs:
//
//	q   [1, H, Σ queries, HeadDim]     KVHeads divides H
//	dst [1, H, Σ queries, ValueDim]
//
// Options.QueryLens says how many queries each sequence has, 0 included; nil is one each, as in decoding. So one call may continue the prompt of
// one sequence and decode others. To decode, append the new tokens and attend with BottomRight: the last query of each sequence sees its last
// token.
//
// A sequence knows its length, so KeyLens is nil, and Offset is 0. LSE has 1×H×Σ queries elements. Mask, Bias and Weights are [1, H or 1,
// Σ queries, longest Len], Weights with all H; their last index is a position in the sequence. Tokens that DropFront took do not exist, as if
// masked. A sequence may be in seqs more than once.
//
// Where sequences begin with the same pages, because of [Sequence.Fork], these are read once for all of their queries, unless Mask, Bias or
// Slopes are given. Every row has the bits that it has alone, and those of a [Cache] with the same tokens.
//
// A nil sequence, or sequences of two stores, are [ErrOption], a released sequence is [ErrClosed]. Nothing has been written then.
func AttendSequences(dst, q Tensor, seqs []*Sequence, opt *Options) error {
	if err := beginAll(seqs); err != nil {
		return err
	}
	defer endAll(seqs)
	w := scratches.Get().(*scratch)
	p := newPlan(dst, q, Tensor{}, Tensor{}, opt)
	err := p.initSequences(&w.ragged, seqs, opt)
	if err == nil && !p.dst.empty() {
		p.decideSequences(&tuned, 1)
		w.attendAll(&p)
	}
	w.ragged.drop()
	scratches.Put(w)
	return err
}

// AttendSequences works like the function [AttendSequences], on all workers of the pool. The call is
// divided by how much work its sequences are.
func (p *Pool) AttendSequences(dst, q Tensor, seqs []*Sequence, opt *Options) error {
	if p == nil {
		return AttendSequences(dst, q, seqs, opt)
	}
	j, err := p.begin()
	if err != nil {
		return err
	}
	defer p.end(j)
	if err := beginAll(seqs); err != nil {
		return err
	}
	defer endAll(seqs)
	j.plan = newPlan(dst, q, Tensor{}, Tensor{}, opt)
	if err := j.plan.initSequences(&j.ragged, seqs, opt); err != nil {
		return err
	}
	p.attend(j)
	return nil
}

// beginAll registers a call over sequences, which must be of one store that is open. It registers
// none if there is an error.
func beginAll(seqs []*Sequence) (err error) {
	for i, s := range seqs {
		if s == nil {
			err = fail(ErrOption, "seqs[%d] is nil, want a sequence", i)
		} else if e := s.begin(); e != nil {
			err = fail(ErrClosed, "seqs[%d] cannot be used: %v", i, e)
		} else if s.store != seqs[0].store {
			s.end()
			err = fail(ErrOption, "seqs[%d] is of another store than seqs[0], want sequences of one", i)
		}
		if err != nil {
			endAll(seqs[:i])
			return err
		}
	}
	return nil
}

// endAll is called after beginAll.
func endAll(seqs []*Sequence) {
	for _, s := range seqs {
		s.end()
	}
}

// initSequences validates the arguments of a call over sequences, which it notes in r.
func (p *plan) initSequences(r *ragged, seqs []*Sequence, opt *Options) error {
	if opt != nil && opt.KeyLens != nil {
		return fail(ErrOption, "KeyLens has %d lengths, want nil: a sequence knows its length", len(opt.KeyLens))
	}
	if opt != nil && opt.Offset != 0 {
		return fail(ErrOption, "Offset is %d, want 0: positions are those of each sequence", opt.Offset)
	}
	lens := p.queryLens
	p.ragged, p.queryLens = r, nil
	if err := r.pack(seqs, lens, p.q.L); err != nil {
		return err
	}
	if len(seqs) == 0 {
		p.d, p.dv = p.q.D, p.dst.D
		p.kvHeads = p.q.H
		return p.initCall(1, opt)
	}
	t := seqs[0].store
	p.packed = &t.packed
	p.kvHeads, p.lk, p.d, p.dv = t.config.KVHeads, r.mostKeys(), t.config.HeadDim, t.config.ValueDim
	if err := p.initCall(1, opt); err != nil {
		return err
	}
	p.measure()
	return nil
}

// pack notes the sequences and which of the queries are theirs; lens is nil if each has one.
func (r *ragged) pack(seqs []*Sequence, lens []int, queries int) error {
	if lens != nil && len(lens) != len(seqs) {
		return fail(ErrLength, "len(QueryLens) is %d, want one for each of %d sequences", len(lens), len(seqs))
	}
	r.sequences, r.longest = r.sequences[:0], 0
	at := 0
	for i, s := range seqs {
		n := 1
		if lens != nil {
			n = lens[i]
		}
		if n < 0 || n > queries-at {
			if lens == nil {
				break
			}
			return fail(ErrLength, "QueryLens[%d] is %d, want 0 to %d: q.L is %d, of which those before take %d", i, n, queries-at, queries, at)
		}
		r.sequences = append(r.sequences, raggedSequence{table: &s.table, query: at, queries: n})
		r.longest = max(r.longest, n)
		at += n
	}
	switch {
	case lens == nil && queries != len(seqs):
		return fail(ErrShape, "q.L is %d, want one query for each of %d sequences, or QueryLens", queries, len(seqs))
	case at != queries:
		return fail(ErrShape, "q.L is %d, want the sum of QueryLens, %d", queries, at)
	}
	return nil
}

// mostKeys is the length of the longest sequence.
func (r *ragged) mostKeys() int {
	most := 0
	for i := range r.sequences {
		most = max(most, r.sequences[i].table.Len())
	}
	return most
}
