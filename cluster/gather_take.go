package cluster

import (
	"cmp"
	"errors"
	"slices"

	"github.com/seed-1415985d/attn"
)

// keepAnswer keeps the states of an answer. It returns only an error that every other copy would
// return, too.
func (g *gather) keepAnswer(a *answer) error {
	for i, b := range a.blocks {
		if err := g.takeBlock(a, i, b); err != nil {
			return err
		}
	}
	return nil
}

// takeBlock keeps the state of a block, or notes the errors.
func (g *gather) takeBlock(a *answer, number int, b block) (fatal error) {
	errs := make([]error, b.to-b.at)
	for n := range errs {
		if errs[n] = a.err; a.err == nil {
			errs[n] = a.reply.groups[number].errors[n]
		}
		if a.ride == a.copies[b.at+n] && a.outcome.err != nil {
			errs[n] = a.outcome.err // which is why
		}
	}
	if !failed(errs) {
		var err error
		if data := a.reply.groups[number].state; a.request.whole {
			err = g.keepOutputs(data)
		} else {
			err = g.keepState(b.first, b.end, data)
		}
		for n := range errs {
			errs[n] = err
		}
	}
	allFailed := failed(errs)
	for n, err := range errs {
		p := &g.parts[a.parts[b.at+n]]
		p.running--
		if allFailed && !p.done { // otherwise another copy was faster
			fatal = cmp.Or(g.note(a, b.at+n, err), fatal)
		}
	}
	return fatal
}

// note handles the error of a copy, or of other copies of the same block. It returns errors that
// every other copy would return, too.
func (g *gather) note(a *answer, n int, err error) (fatal error) {
	p, x := &g.parts[a.parts[n]], a.copies[n]
	switch {
	case err == nil: // it may be asked again, without the others
		p.tried = slices.DeleteFunc(p.tried, func(y *partCopy) bool { return y == x })
		return nil
	case errors.Is(err, errStale) && g.cutSince(a.cuts): // it is asked again
	case errors.Is(err, errUnknown), errors.Is(err, errStale):
		g.call.client.lose(x)
	case refuses(err), errors.Is(err, attn.ErrCapacity):
		p.refused, p.refusal = append(p.refused, x), err
	case errors.Is(err, ErrProtocol), errors.Is(err, attn.ErrFormat):
		g.call.client.suspect(a.worker)
	case !transient(err):
		return err
	}
	p.cause = err
	return nil
}

// cutSince reports whether epochs have changed since cuts were counted, were changing then, or will
// change again.
func (g *gather) cutSince(cuts int) bool {
	c := g.call
	c.mu.Lock()
	defer c.mu.Unlock()
	return cuts%2 == 1 || c.cuts != cuts || c.broken
}

// keepState stores a state, if it has the keys of some parts and the call's rows. It replaces
// states of fewer parts, which it includes: blocks of parts are nested or disjoint.
func (g *gather) keepState(first, end int, data []byte) error {
	parts, keys, missing := g.parts[first:end], 0, 0
	for i := range parts {
		keys += g.call.snapshot[first+i].keys
		if !parts[i].done {
			missing++
		}
	}
	if missing == 0 {
		return nil
	}
	s := new(attn.State)
	if err := s.UnmarshalBinary(data); err != nil {
		return err
	}
	if s.Config() != g.config || s.Keys() != keys {
		defer s.Close()
		return fail(ErrProtocol, "a state is %+v of %d keys, want %+v of %d", s.Config(), s.Keys(),
			g.config, keys)
	}
	finishParts(parts)
	parts[0].state, parts[0].span = s, end-first
	g.left -= missing
	return nil
}

// finishParts marks parts as done whose keys another state includes.
func finishParts(parts []gatherPart) {
	for i := range parts {
		_ = parts[i].state.Close() // it is open, or nil
		parts[i].done, parts[i].state, parts[i].span = true, nil, 0
	}
}

// keepOutputs stores outputs of all keys.
func (g *gather) keepOutputs(data []byte) error {
	if g.left == 0 {
		return nil
	}
	x, err := readOutputs(data, &g.config, g.call.keys)
	if err != nil {
		return err
	}
	finishParts(g.parts)
	g.outputs, g.left = &x, 0
	return nil
}
