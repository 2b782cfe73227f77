package attn

// AttendSequences computes attention of the queries of several sequences of one [Store], each over
// its own tokens, on the calling goroutine. Queries and outputs are packed one sequence after the
// other, in the order of seqs:
//
//	q   [1, H, Σ queries, HeadDim]     KVHeads divides H
//	dst [1, H, Σ queries, ValueDim]
//
// Options.QueryLens says how many queries each sequence has, 0 included; nil is one each, as in
// decoding. So one call may continue the prompt of one sequence and decode others. To decode,
// append the new tokens and attend with BottomRight: the last query of each sequence sees its last
// token.
//
// A sequence knows its length, so KeyLens is nil, and Offset is 0. LSE has 1×H×Σ queries elements.
// Mask, Bias and Weights are [1, H or 1, Σ queries, longest Len], Weights with all H; their last
// index is a position in the sequence. So are the positions in Keys [1, H or KVHeads or 1,
// Σ queries, n], with which Weights have n columns. Tree has Σ queries parents, counted in each
// sequence. Tokens that DropBefore took do not exist, as if masked. A sequence may be in seqs more
// than once.
//
// Where sequences begin with the same pages, because of [Sequence.Fork], these are read once for
// all of their queries, unless Mask, Bias, Slopes or Keys are given. Every row has the bits that it
// has alone, and those of a [Cache] with the same tokens.
//
// A nil sequence, or sequences of two stores, are [ErrOption], a released sequence is [ErrClosed].
// Nothing has been written then.
func AttendSequences(dst, q Tensor, seqs []*Sequence, opt *Options) error {
	if err := beginCalls(seqs, inOneStore); err != nil {
		return err
	}
	defer endCalls(seqs)
	w := scratches.Get().(*scratch)
	p := newPlan(dst, q, Tensor{}, Tensor{}, opt)
	err := p.initSequences(&w.call, seqs, opt)
	if err == nil && !p.dst.empty() {
		p.decideSequences(&tuned, 1)
		w.fit(&p)
		for i := range p.chunks {
			w.attendChunk(&p, i, i+1)
		}
	}
	w.call.drop()
	scratches.Put(w)
	return err
}

// AttendSequences works like the function [AttendSequences], on all workers of the pool. The call
// is divided by how much work its sequences are.
func (p *Pool) AttendSequences(dst, q Tensor, seqs []*Sequence, opt *Options) error {
	if p == nil {
		return AttendSequences(dst, q, seqs, opt)
	}
	j, err := p.takeJob()
	if err != nil {
		return err
	}
	defer p.putJob(j)
	if err := beginCalls(seqs, inOneStore); err != nil {
		return err
	}
	defer endCalls(seqs)
	j.plan = newPlan(dst, q, Tensor{}, Tensor{}, opt)
	if err := j.plan.initSequences(&j.call, seqs, opt); err != nil {
		return err
	}
	p.attend(j)
	return nil
}

// initSequences validates the arguments of a call over sequences of a store.
func (p *plan) initSequences(s *sequenceCall, seqs []*Sequence, opt *Options) error {
	if opt != nil && opt.KeyLens != nil {
		return errKeyLens(opt)
	}
	if opt != nil && opt.Offset != 0 {
		return fail(ErrOption, "Offset is %d, want 0: positions are those of each sequence", opt.Offset)
	}
	lens := p.queryLens
	p.sequences, p.queryLens = s, nil
	if err := s.assignQueries(seqs, lens, p.q.L); err != nil {
		return err
	}
	if len(seqs) == 0 { // a call over no sequence, whatever the shapes
		p.kvHeads, p.d, p.dv = p.q.H, p.q.D, p.dst.D
		return p.initCall(1, opt)
	}
	return p.initPacked(&seqs[0].store.packed, 1, s.keys, opt)
}

// assignQueries notes the sequences of a call, and which of the queries are of which; lens is nil
// if each has one.
func (s *sequenceCall) assignQueries(seqs []*Sequence, lens []int, queries int) error {
	if lens != nil && len(lens) != len(seqs) {
		return fail(ErrLength, "len(QueryLens) is %d, want one for each of %d sequences",
			len(lens), len(seqs))
	}
	if lens == nil && queries != len(seqs) {
		return fail(ErrShape, "q.L is %d, want one query for each of %d sequences, or QueryLens",
			queries, len(seqs))
	}
	if lens != nil {
		if err := checkSum("QueryLens", lens, "q.L", queries); err != nil {
			return err
		}
	}
	s.documents, s.sequences = false, s.sequences[:0]
	s.longest, s.keys, s.blockRows = 0, 0, 0
	at := 0
	for i, seq := range seqs {
		n := 1
		if lens != nil {
			n = lens[i]
		}
		s.sequences = append(s.sequences, callSequence{table: &seq.table, query: at, queries: n,
			blockRow: s.blockRows})
		s.blockRows += (n + Block - 1) / Block
		s.longest, s.keys = max(s.longest, n), max(s.keys, seq.table.Len())
		at += n
	}
	return nil
}
