package jinja

// loops is a for statement.
type loops struct {
	position
	target    target
	over      expression
	test      expression // which items to visit, or nil for all
	recursive bool
	body      []statement
	otherwise []statement
}

// loop is the variable loop in the body of a for.
type loop struct {
	of      *loops
	outside *scope
	items   []value
	turn    int
	depth   int
	last    []value // the last arguments of changed
}

func (l *loops) run(r *run, s *scope) flow {
	l.start(r)
	return l.each(r, s, r.eval(l.over, s), 0)
}

// each runs the body for the items of a value.
func (l *loops) each(r *run, s *scope, over value, depth int) flow {
	v := &loop{of: l, outside: s, depth: depth, items: l.chosen(r, s, r.each(over))}
	if len(v.items) == 0 {
		return r.all(l.otherwise, s.inner())
	}
	for v.turn = range v.items {
		r.charge(workOfEntry)
		inner := s.inner()
		inner.vars["loop"] = v
		l.start(r)
		l.target.set(r, inner, v.items[v.turn])
		if r.all(l.body, inner) == breaks {
			break
		}
	}
	return goesOn
}

// chosen returns the items that pass the test.
func (l *loops) chosen(r *run, s *scope, items []value) []value {
	if l.test == nil {
		return items
	}
	var chosen []value
	for _, item := range items {
		inner := s.inner()
		l.target.set(r, inner, item)
		if truth(r.eval(l.test, inner)) {
			chosen = append(chosen, item)
		}
	}
	return chosen
}

// again is the call of a recursive loop with other items.
func (v *loop) again(r *run, a *arguments) value {
	if !v.of.recursive {
		fail("loop is called, want recursive after its items")
	}
	over := a.valuesOf("loop", 1, "items")[0]
	return r.capture(func() { v.of.each(r, v.outside, over, v.depth+1) })
}

// attribute returns an attribute of the variable loop.
func (v *loop) attribute(name string) (value, bool) {
	n := len(v.items)
	switch name {
	case "index":
		return int64(v.turn + 1), true
	case "index0":
		return int64(v.turn), true
	case "revindex":
		return int64(n - v.turn), true
	case "revindex0":
		return int64(n - v.turn - 1), true
	case "first":
		return v.turn == 0, true
	case "last":
		return v.turn == n-1, true
	case "length":
		return int64(n), true
	case "depth":
		return int64(v.depth + 1), true
	case "depth0":
		return int64(v.depth), true
	case "previtem":
		return v.item(v.turn-1, "there is no previous item"), true
	case "nextitem":
		return v.item(v.turn+1, "there is no next item"), true
	case "cycle":
		return callable{"cycle", v.cycle}, true
	case "changed":
		return callable{"changed", v.changed}, true
	}
	return nil, false
}

func (v *loop) item(i int, missing string) value {
	if i < 0 || i >= len(v.items) {
		return undefined{missing}
	}
	return v.items[i]
}

func (v *loop) cycle(_ *run, a *arguments) value {
	if len(a.positions) == 0 || len(a.names) > 0 {
		fail("cycle: want values")
	}
	return a.positions[v.turn%len(a.positions)]
}

// changed reports whether its arguments differ from those in the turn before.
func (v *loop) changed(r *run, a *arguments) value {
	if len(a.names) > 0 {
		fail("changed: want values without names")
	}
	changed := v.last == nil || !r.equalItems(v.last, a.positions)
	v.last = append([]value{}, a.positions...)
	return changed
}
