package attn

// attendDocuments is Attend with Options.Documents. To the engine a document is what a sequence of
// a store is, but for where its keys are: so documents are divided by how much work they are, and
// each row takes the steps that it takes in a call of its own.
func attendDocuments(dst, q, k, v Tensor, opt *Options) error {
	w := scratches.Get().(*scratch)
	p := newPlan(dst, q, k, v, opt)
	err := p.initDocuments(&w.call, opt)
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

// initDocuments validates the arguments of a call over documents.
func (p *plan) initDocuments(s *sequenceCall, opt *Options) error {
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
	if err := s.takeDocuments(opt.Documents, opt.KeyDocuments, p.lq, p.lk); err != nil {
		return err
	}
	p.sequences = s
	return p.initOptions(opt)
}

// checkDocuments makes sure that nothing else says where queries and keys are.
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

// takeDocuments notes the documents of a call that have queries.
func (s *sequenceCall) takeDocuments(documents, keyDocuments []int, queries, keys int) error {
	if err := checkSum("Documents", documents, "q.L", queries); err != nil {
		return err
	}
	if keyDocuments == nil {
		if keys != queries {
			return fail(ErrShape, "k.L is %d, want the sum of Documents, %d, or KeyDocuments", keys, queries)
		}
		keyDocuments = documents
	} else if err := checkSum("KeyDocuments", keyDocuments, "k.L", keys); err != nil {
		return err
	}
	s.documents, s.sequences = true, s.sequences[:0]
	s.longest, s.keys, s.blockRows = 0, 0, partsOf(queries, Block)
	x := callSequence{}
	for i, n := range documents {
		if x.queries, x.keys = n, keyDocuments[i]; n > 0 {
			s.sequences = append(s.sequences, x)
			s.longest, s.keys = max(s.longest, n), max(s.keys, x.keys)
		}
		x.query, x.key = x.query+n, x.key+x.keys
	}
	return nil
}

// checkSum makes sure that lengths of parts add up to a dimension.
func checkSum(name string, lens []int, dimension string, total int) error {
	sum := 0
	for i, n := range lens {
		if n < 0 || n > total-sum {
			return fail(ErrLength, "%s[%d] is %d, want 0 to %d: %s is %d, of which those before take %d",
				name, i, n, total-sum, dimension, total, sum)
		}
		sum += n
	}
	if sum != total {
		return fail(ErrShape, "%s is %d, want the sum of %s, %d", dimension, total, name, sum)
	}
	return nil
}
