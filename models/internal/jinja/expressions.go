package jinja

// expression is a part of a template that has a value.
type expression interface {
	eval(r *run, s *scope) value
}

// eval computes a value.
func (r *run) eval(e expression, s *scope) value {
	defer r.deeper()()
	r.charge(workOfStep)
	return e.eval(r, s)
}

func (r *run) evalAll(list []expression, s *scope) (values []value) {
	r.charge(workOfItem * len(list))
	for _, e := range list {
		values = append(values, r.eval(e, s))
	}
	return values
}

type constant struct{ value value }

func (c *constant) eval(*run, *scope) value { return c.value }

type variable struct{ name string }

func (v *variable) eval(r *run, s *scope) value { return r.variable(v.name, s) }

// variable returns the value of a name, which may be undefined.
func (r *run) variable(name string, s *scope) value {
	v, ok := s.get(name)
	if why, unknown := v.(Unknown); unknown {
		fail("%s is not known: %s", name, string(why))
	}
	if !ok && jinjaOnly[name] {
		fail("%s is not supported", name)
	} else if !ok {
		return undefined{name + " is undefined"}
	}
	return v
}

type listOf struct{ items []expression }

func (l *listOf) eval(r *run, s *scope) value { return &listValue{r.evalAll(l.items, s)} }

type tupleOf struct{ items []expression }

func (t *tupleOf) eval(r *run, s *scope) value { return tuple(r.evalAll(t.items, s)) }

type dictOf struct{ keys, values []expression }

func (d *dictOf) eval(r *run, s *scope) value {
	made := newDict()
	for i, k := range d.keys {
		r.set(made, r.eval(k, s), r.eval(d.values[i], s))
	}
	return made
}

// binary is an arithmetic operation on two numbers, texts or lists.
type binary struct {
	op          kind
	left, right expression
}

func (b *binary) eval(r *run, s *scope) value {
	left := r.eval(b.left, s)
	if f, ok := float(left); ok && b.op == "**" && f < 0 {
		fail("a negative number before ** is not supported: Jinja2 has two results for it")
	}
	return r.arithmetic(b.op, left, r.eval(b.right, s))
}

// logical is and, or or: its value is the value of the side that decides.
type logical struct {
	op          kind
	left, right expression
}

func (l *logical) eval(r *run, s *scope) value {
	left := r.eval(l.left, s)
	if truth(left) == (l.op == "or") {
		return left
	}
	return r.eval(l.right, s)
}

type not struct{ of expression }

func (n *not) eval(r *run, s *scope) value { return !truth(r.eval(n.of, s)) }

type minus struct{ of expression }

func (m *minus) eval(r *run, s *scope) value { return negate(r.eval(m.of, s)) }

type plus struct{ of expression }

func (p *plus) eval(r *run, s *scope) value {
	v := r.eval(p.of, s)
	if defined(v); typeName(v) == "bool" {
		return number64(v.(bool))
	} else if _, ok := float(v); !ok {
		fail("+ before a value of type %s", typeName(v))
	}
	return v
}

// joined is the operator ~.
type joined struct{ parts []expression }

func (j *joined) eval(r *run, s *scope) value {
	var texts []text
	for _, v := range r.evalAll(j.parts, s) {
		texts = append(texts, r.str(v))
	}
	return r.join(texts, nil)
}

// comparison is a chain: each operator is between its neighbours.
type comparison struct {
	first expression
	ops   []kind
	rest  []expression
}

func (c *comparison) eval(r *run, s *scope) value {
	left := r.eval(c.first, s)
	for i, op := range c.ops {
		right := r.eval(c.rest[i], s)
		if !r.compared(op, left, right) {
			return false
		}
		left = right
	}
	return true
}

// choice is a if b else c, which is undefined without c.
type choice struct{ test, yes, no expression }

func (c *choice) eval(r *run, s *scope) value {
	if truth(r.eval(c.test, s)) {
		return r.eval(c.yes, s)
	} else if c.no == nil {
		return undefined{"the if in an expression was false and has no else"}
	}
	return r.eval(c.no, s)
}

// filtered is a value with a filter.
type filtered struct {
	name      string
	filter    filter
	value     expression // nil in the filter of a block
	arguments *argumentList
}

func (f *filtered) eval(r *run, s *scope) value { return f.apply(r, s, r.eval(f.value, s)) }

func (f *filtered) apply(r *run, s *scope, v value) value {
	if f.filter == nil {
		fail("there is no filter %s", f.name)
	}
	return f.filter(r, v, f.arguments.eval(r, s))
}

// tested is a value with a test.
type tested struct {
	name      string
	test      test
	value     expression
	arguments *argumentList
}

func (t *tested) eval(r *run, s *scope) value {
	if t.test == nil {
		fail("there is no test %s", t.name)
	}
	v := r.eval(t.value, s)
	return t.test(r, v, t.arguments.eval(r, s))
}
