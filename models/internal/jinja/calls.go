package jinja

import "slices"

// argumentList is the arguments of a call in a template.
type argumentList struct {
	positions []expression
	names     []string
	values    []expression
	list      expression // after *, or nil
	dict      expression // after **, or nil
}

// arguments is the values of a call.
type arguments struct {
	positions []value
	names     []string
	values    []value
}

func (l *argumentList) eval(r *run, s *scope) *arguments {
	a := &arguments{}
	if l == nil {
		return a
	}
	a.positions = r.evalAll(l.positions, s)
	if l.list != nil {
		a.positions = append(a.positions, r.each(r.eval(l.list, s))...)
	}
	for i, name := range l.names {
		a.add(r, name, r.eval(l.values[i], s))
	}
	if l.dict == nil {
		return a
	}
	d, ok := r.eval(l.dict, s).(*dict)
	if !ok {
		fail("** is before no mapping")
	}
	for i, k := range d.keys {
		name, ok := k.(text)
		if !ok {
			fail("** has a key of type %s, want texts", typeName(k))
		}
		a.add(r, r.plain(name), d.values[i])
	}
	return a
}

func (a *arguments) add(r *run, name string, v value) {
	r.charge(workOfEntry + len(a.names))
	if slices.Contains(a.names, name) {
		fail("the argument %s is there twice", name)
	}
	a.names, a.values = append(a.names, name), append(a.values, v)
}

// valuesOf returns the values of a function's parameters, of which the first need ones are
// mandatory: nil for parameters that the call omits.
func (a *arguments) valuesOf(function string, need int, params ...string) []value {
	if len(a.positions) > len(params) {
		fail("%s has %d arguments, want at most %d", function, len(a.positions), len(params))
	}
	made := make([]value, len(params))
	copy(made, a.positions)
	for i, name := range a.names {
		at := slices.Index(params, name)
		if at < 0 {
			fail("%s has no parameter %s", function, name)
		} else if made[at] != nil {
			fail("%s has two values for %s", function, name)
		}
		made[at] = a.values[i]
	}
	if at := slices.Index(made[:need], nil); at >= 0 {
		fail("%s has no value for %s", function, params[at])
	}
	return made
}

// textOr returns an argument that is a text, or a default if it is omitted.
func textOr(v value, usual string) text {
	switch v := v.(type) {
	case nil:
		return textOf(usual, 0)
	case text:
		return v
	}
	defined(v)
	fail("an argument is of type %s, want a text", typeName(v))
	return nil
}

// intOr returns an argument that is an integer, or a default if it is omitted.
func intOr(v value, usual int64) int64 {
	if v == nil {
		return usual
	}
	defined(v)
	n, ok := integer(v)
	if !ok {
		fail("an argument is of type %s, want an integer", typeName(v))
	}
	return n
}

func truthOr(v value, usual bool) bool {
	if v == nil {
		return usual
	}
	return truth(v)
}

// call is a function with its arguments.
type call struct {
	function  expression
	arguments *argumentList
}

func (c *call) eval(r *run, s *scope) value {
	f := r.eval(c.function, s)
	return r.call(f, c.arguments.eval(r, s))
}

func (r *run) call(f value, a *arguments) value {
	switch f := f.(type) {
	case callable:
		return f.call(r, a)
	case *loop:
		return f.again(r, a)
	}
	defined(f)
	fail("a value of type %s is called, want a function", typeName(f))
	return nil
}
