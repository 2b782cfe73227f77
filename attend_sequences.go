package attn

import "github.com/seed-1415985d/attn/internal/ragged"

// AttendSequences computes attention of the queries of several sequences of one [Store], each over
// its own tokens, on the calling goroutine. Queries and outputs are packed one sequence after the
// other, in the order of seqs:
//
//	q   [1, H, Σ queries, HeadDim]     KVHeads divides H
//	dst [1, H, Σ queries, ValueDim]
//
// Options.QueryLens holds the number of queries of each sequence, which may be 0; nil is one each,
// as in decoding. So one call may continue the prompt of one sequence and decode others. To decode,
// append the new tokens and attend with BottomRight: the last query of each sequence sees its last
// token.
//
// A sequence knows its length, so KeyLens is nil, and Offset is 0. LSE has 1×H×Σ queries elements.
// Mask, Bias and Weights are [1, H or 1, Σ queries, longest Len], Weights with all H; their last
// index is a position in the sequence. So are the positions in Keys [1, H or KVHeads or 1, Σ
// queries, n], with which Weights have n columns. Distance has a Query of one row or Σ queries
// rows, and no Key. Tree has Σ queries parents, counted in each sequence. Tokens that DropBefore
// dropped do not exist, as if masked. A sequence may be in seqs more than once.
//
// Sequences that begin with the same pages, because of [Sequence.Fork], read these once for all of
// their queries, unless Keys are given. Every row has the bits of a
// call for it alone, and of a [Cache] with the same tokens.
//
// The error is [ErrOption] for a nil sequence and for sequences of different stores, [ErrClosed]
// for a released sequence. Nothing has been written then.
func AttendSequences(dst, q Tensor, seqs []*Sequence, opt *Options) error {
	if err := beginCalls(seqs, inOneStore); err != nil {
		return err
	}
	defer endCalls(seqs)
	w := scratches.Get().(*scratch)
	p := newPlan(dst, q, Tensor{}, Tensor{}, opt)
	return w.attendSequences(&p, p.initSequences(&w.call, seqs, opt))
}

// attendSequences computes a call over sequences or documents, unless err is not nil, and returns
// the scratch memory to the pool.
func (w *scratch) attendSequences(p *plan, err error) error {
	if err == nil && !p.dst.empty() {
		p.decideSequences(&tuned, 1)
		w.fit(p)
		for i := range p.chunks {
			w.attendChunk(p, i, i+1)
		}
	}
	w.call.Drop()
	scratches.Put(w)
	return err
}

// initSequences validates the arguments of a call over sequences of a store.
func (p *plan) initSequences(s *ragged.Call, seqs []*Sequence, opt *Options) error {
	if opt != nil && opt.KeyLens != nil {
		return errKeyLens(opt)
	}
	if opt != nil && opt.Offset != 0 {
		return fail(ErrOption, "Offset is %d, want 0: positions are those of each sequence", opt.Offset)
	}
	lens := p.queryLens
	p.sequences, p.queryLens = s, nil
	if err := s.Begin(len(seqs), lens, p.q.L); err != nil {
		return err
	}
	for i, seq := range seqs {
		n := 1
		if lens != nil {
			n = lens[i]
		}
		s.Add(&seq.table, n)
	}
	if len(seqs) == 0 { // a call over no sequence, whatever the shapes
		p.kvHeads, p.d, p.dv = p.q.H, p.q.D, p.dst.D
		return p.initCall(1, opt)
	}
	return p.initPacked(&seqs[0].store.packed, 1, s.Keys, opt)
}

// attendDocuments is Attend with Options.Documents. For the engine a document is like a sequence of
// a store, with keys elsewhere: so documents are divided by their work, and each row has the steps
// of a call for its document alone.
func attendDocuments(dst, q, k, v Tensor, opt *Options) error {
	w := scratches.Get().(*scratch)
	p := newPlan(dst, q, k, v, opt)
	return w.attendSequences(&p, p.initDocuments(&w.call, opt))
}

// initDocuments validates the arguments of a call over documents.
func (p *plan) initDocuments(s *ragged.Call, opt *Options) error {
	if err := opt.checkDocuments(); err != nil {
		return err
	}
	if err := p.initKeys(); err != nil {
		return err
	}
	if p.k.B != 1 {
		return fail(ErrShape, "k.B is %d, want 1 with Documents", p.k.B)
	}
	if err := p.initQueries(1); err != nil {
		return err
	}
	if err := p.initOutput(); err != nil {
		return err
	}
	if err := s.SetDocuments(opt.Documents, opt.KeyDocuments, p.lq, p.lk); err != nil {
		return err
	}
	p.sequences = s
	return p.initOptions(opt)
}

// checkDocuments refuses other options that say where queries and keys are.
func (o *Options) checkDocuments() error {
	switch {
	case o.KeyDocuments != nil && len(o.KeyDocuments) != len(o.Documents):
		return fail(ErrLength, "len(KeyDocuments) is %d, want one for each of %d Documents",
			len(o.KeyDocuments), len(o.Documents))
	case o.Offset != 0:
		return fail(ErrOption, "Offset is %d, want 0 with Documents: positions are those of each",
			o.Offset)
	case o.QueryLens != nil:
		return fail(ErrOption, "QueryLens has %d lengths, want nil with Documents", len(o.QueryLens))
	case o.Tree != nil:
		return fail(ErrOption, "Tree has %d parents, want nil with Documents", len(o.Tree))
	case !o.Keys.none():
		return fail(ErrOption, "Keys are set with Documents, want one of them")
	case o.KeyLens != nil:
		return fail(ErrOption, "KeyLens has %d lengths, want nil with Documents", len(o.KeyLens))
	}
	return nil
}
