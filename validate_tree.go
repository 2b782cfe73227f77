package attn

// initTree validates Tree, and makes it the causal order of the queries, of which a look takes out
// what a row does not see. Depths take the place of positions in the window: what it hides on the
// left are tokens further up a path, and on the right of a query there is none.
func (p *plan) initTree() error {
	switch {
	case len(p.parents) != p.lq:
		return fail(ErrLength, "len(Tree) is %d, want one parent for each of %d queries",
			len(p.parents), p.lq)
	case p.causal != Full:
		return fail(ErrOption, "Causal is %v with Tree, want Full: a query sees its ancestors", p.causal)
	case p.offset != 0:
		return fail(ErrOption, "Offset is %d with Tree, want 0: the last keys are the queries' own",
			p.offset)
	case p.queryLens != nil:
		return fail(ErrOption, "QueryLens has %d lengths with Tree, want nil: the last keys are the "+
			"queries' own", len(p.queryLens))
	}
	p.causal, p.along, p.left, p.right = BottomRight, p.left, -1, -1
	if p.sequences != nil {
		return p.checkTrees()
	}
	for b, n := range p.keyLens {
		if n < p.lq {
			return fail(ErrLength, "KeyLens[%d] is %d, want at least %d with Tree: the last keys are the "+
				"queries' own", b, n, p.lq)
		}
	}
	if p.lk < p.lq {
		return fail(ErrLength, "there are %d keys, want at least %d with Tree: the last ones are the "+
			"queries' own", p.lk, p.lq)
	}
	return checkParents(p.parents, 0)
}

// checkTrees validates the trees of a call over sequences.
func (p *plan) checkTrees() error {
	for i := range p.sequences.sequences {
		s := &p.sequences.sequences[i]
		if n := s.table.Len(); n < s.queries {
			return fail(ErrLength, "seqs[%d] has %d tokens, want at least %d with Tree: the last ones are "+
				"those of its queries", i, n, s.queries)
		}
		if err := checkParents(p.parents[s.query:][:s.queries], s.query); err != nil {
			return err
		}
	}
	return nil
}

// checkParents makes sure that parents come before their queries, the first of which has an index.
func checkParents(parents []int, first int) error {
	for i, parent := range parents {
		if parent < -1 || parent >= i {
			return fail(ErrOption, "Tree[%d] is %d, want -1 to %d, the index of a query before it",
				first+i, parent, i-1)
		}
	}
	return nil
}
