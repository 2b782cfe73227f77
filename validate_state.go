package attn

// stateShape is what a State is for, and how many keys it has seen.
type stateShape struct {
	b, h, l, d int
	keys       int
}

// initUpdate validates the arguments of an Update of a state but for its keys.
func (p *plan) initUpdate(s stateShape, sinks []float32, opt *Options) error {
	p.update = true
	if err := p.initQueries(p.k.B); err != nil {
		return err
	}
	if err := p.initOptions(opt); err != nil {
		return err
	}
	switch {
	case p.batch != s.b || p.heads != s.h || p.lq != s.l:
		return fail(ErrShape, "q is [%d %d %d …], want the state's [%d %d %d …]",
			p.batch, p.heads, p.lq, s.b, s.h, s.l)
	case p.dv != s.d:
		return fail(ErrShape, "v.D is %d, want the state's %d", p.dv, s.d)
	case p.lk > maxLength-s.keys:
		return fail(ErrLength, "k.L is %d after %d keys, want at most %d in all", p.lk, s.keys, maxLength)
	case p.blocked.Data != nil && s.keys%Block != 0:
		return fail(ErrOption, "Blocks are set after %d keys, want a multiple of %d keys before", s.keys,
			Block)
	case p.causal == BottomRight:
		return fail(ErrOption, "Causal is BottomRight, want TopLeft with Offset: the number of keys is "+
			"not known yet")
	case p.lse != nil:
		return fail(ErrOption, "LSE is set in an Update, want nil: Finish returns it")
	case opt != nil && !opt.Weights.none():
		return fail(ErrUnsupported, "Weights are set in an Update, want nil: they need the maximum over "+
			"all keys")
	}
	p.offset -= s.keys // the chunk's keys count from 0
	return checkSinks("Sinks", p.sinks, sinks)
}

// checkSinks makes sure that sinks, if any, are the ones that a state has.
func checkSinks(name string, sinks, has []float32) error {
	if len(has) == 0 {
		return nil
	}
	for h, e := range sinks {
		if e != has[h] && (e == e || has[h] == has[h]) {
			return fail(ErrOption, "%s[%d] is %v, want %v as before", name, h, e, has[h])
		}
	}
	return nil
}
