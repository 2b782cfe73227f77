package attn

import (
	"fmt"

	"github.com/seed-1415985d/attn/internal/views"
)

// initLists validates Options.Keys.
func (p *plan) initLists(opt *Options) error {
	if opt.Keys.none() {
		return nil
	}
	v := &p.lists
	view := *v
	if v.D == 0 { // like other empty views
		view.L, view.D = 0, 1
	}
	if err := checkView("Keys", &view); err != nil {
		return err
	}
	v.SB, v.SH, v.SL = view.SB, view.SH, view.SL
	if v.B != p.batch && v.B != 1 || v.H != p.heads && v.H != p.kvHeads && v.H != 1 || v.L != p.lq {
		heads := views.OrOne(p.kvHeads)
		if p.heads != p.kvHeads {
			heads = fmt.Sprintf("%d or %s", p.heads, heads)
		}
		return fail(ErrShape, "Keys is [%d %d %d %d], want [%s, %s, %d, …]",
			v.B, v.H, v.L, v.D, views.OrOne(p.batch), heads, p.lq)
	}
	if v.B == 1 {
		v.SB = 0
	}
	if v.H == 1 {
		v.SH = 0
	}
	switch {
	case !opt.Blocks.none():
		return fail(ErrOption, "Keys are set with Blocks, want one of them")
	case opt.Documents != nil || opt.KeyDocuments != nil:
		return fail(ErrOption, "Keys are set with Documents, want one of them")
	case p.parents != nil:
		return fail(ErrOption, "Keys are set with Tree, want one of them")
	case p.empty():
		return nil
	}
	p.listed = true
	return p.checkLists()
}

// checkLists verifies that the lists of all queries name existing keys, in order.
func (p *plan) checkLists() error {
	for b := range p.batch {
		if p.sequences != nil {
			for i := range p.sequences.Sequences {
				x := &p.sequences.Sequences[i]
				if err := p.checkListsOf(b, x.Query, x.Queries, x.Table.Len()); err != nil {
					return err
				}
			}
			continue
		}
		queries := p.lq
		if p.queryLens != nil {
			queries = p.queryLens[b]
		}
		if b > 0 && p.lists.SB == 0 && p.queryLens == nil {
			return nil // all entries have the same lists
		}
		if err := p.checkListsOf(b, 0, queries, p.lk); err != nil {
			return err
		}
	}
	return nil
}

// checkListsOf verifies that the lists of n queries from query on name keys below keys. Repeated
// lists are checked once.
func (p *plan) checkListsOf(b, query, n, keys int) error {
	heads := p.lists.H
	if p.lists.SH == 0 {
		heads = 1
	}
	if p.lists.SL == 0 {
		n = min(n, 1)
	}
	for h := range heads {
		for i := query; i < query+n; i++ {
			at := p.lists.offset(b, h, i)
			list := p.lists.Data[at:][:p.lists.D]
			if x := views.WrongKey(list, keys); x < len(list) {
				return fail(ErrOption, "Keys has %d at [%d %d %d %d], want positions below %d, ascending, "+
					"then -1", list[x], min(b, p.lists.B-1), h, i, x, keys)
			}
		}
	}
	return nil
}

// initTree validates Tree, and treats it as a causal order of the queries, from which look removes
// keys that a row does not see. In the window, depths replace positions: on the left it hides
// tokens further up a path, and there are none on the right of a query.
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
	return views.CheckParents(p.parents, 0)
}

// checkTrees validates the trees of a call over sequences.
func (p *plan) checkTrees() error {
	for i := range p.sequences.Sequences {
		s := &p.sequences.Sequences[i]
		if n := s.Table.Len(); n < s.Queries {
			return fail(ErrLength, "seqs[%d] has %d tokens, want at least %d with Tree: the last ones are "+
				"those of its queries", i, n, s.Queries)
		}
		if err := views.CheckParents(p.parents[s.Query:][:s.Queries], s.Query); err != nil {
			return err
		}
	}
	return nil
}

// initDistance validates Distance.
func (p *plan) initDistance() error {
	x := &p.distant
	if x.none() {
		return nil
	}
	key := !x.Key.none()
	if key && p.sequences != nil && !p.sequences.Documents {
		return fail(ErrOption, "Distance.Key is set over sequences, want Query alone")
	}
	if !x.Query.none() {
		if err := checkPairs("Distance.Query", &x.Query, p, 3, p.lq, max(1, x.Query.D)); err != nil {
			return err
		}
	}
	if key {
		if err := checkPairs("Distance.Key", &x.Key, p, 2, p.lk, max(1, x.Key.D)); err != nil {
			return err
		}
	}
	alone := p.bias.Data == nil && !p.listed && p.parents == nil
	return p.near.Init(tuned.ISA, viewed(&x.Query), viewed(&x.Key), x.Buckets, alone)
}
