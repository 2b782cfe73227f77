package attn

// initSequences validates the arguments of a call over sequences of a store.
func (p *plan) initSequences(s *sequenceCall, packed *packedKV, opt *Options) error {
	if opt != nil && opt.KeyLens != nil {
		return errKeyLens(opt)
	}
	if opt != nil && opt.Offset != 0 {
		return fail(ErrOption, "Offset is %d, want 0: positions are those of each sequence", opt.Offset)
	}
	lens := p.queryLens
	p.sequences, p.queryLens = s, nil
	keys, err := s.assignQueries(lens, p.q.L)
	if err != nil {
		return err
	}
	if packed == nil { // a call over no sequence, whatever the shapes
		p.kvHeads, p.d, p.dv = p.q.H, p.q.D, p.dst.D
		return p.initCall(1, opt)
	}
	return p.initPacked(packed, 1, keys, opt)
}

func errKeyLens(opt *Options) error {
	return fail(ErrOption, "KeyLens has %d lengths, want nil: a sequence knows its length",
		len(opt.KeyLens))
}

// assignQueries notes which of the queries are of which sequence; lens is nil if each has one. It
// returns the length of the longest sequence.
func (s *sequenceCall) assignQueries(lens []int, queries int) (keys int, err error) {
	if lens != nil && len(lens) != len(s.sequences) {
		return 0, fail(ErrLength, "len(QueryLens) is %d, want one for each of %d sequences",
			len(lens), len(s.sequences))
	}
	if lens == nil && queries != len(s.sequences) {
		return 0, fail(ErrShape, "q.L is %d, want one query for each of %d sequences, or QueryLens",
			queries, len(s.sequences))
	}
	s.longest, s.blockRows = 0, 0
	at := 0
	for i := range s.sequences {
		n := 1
		if lens != nil {
			n = lens[i]
		}
		if n < 0 || n > queries-at {
			return 0, fail(ErrLength, "QueryLens[%d] is %d, want 0 to %d: q.L is %d, of which those before "+
				"take %d", i, n, queries-at, queries, at)
		}
		x := &s.sequences[i]
		x.query, x.queries, x.blockRow = at, n, s.blockRows
		s.blockRows += (n + Block - 1) / Block
		s.longest, keys = max(s.longest, n), max(keys, x.table.Len())
		at += n
	}
	if at != queries {
		return 0, fail(ErrShape, "q.L is %d, want the sum of QueryLens, %d", queries, at)
	}
	return keys, nil
}
