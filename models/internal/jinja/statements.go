package jinja

// statement is a part of a template that runs. It returns how the enclosing loop continues.
type statement interface {
	run(r *run, s *scope) flow
}

// flow is the effect of a statement on the enclosing loop.
type flow int

const (
	goesOn flow = iota
	breaks
	continues
)

// all runs statements until one of them leaves the turn of the loop.
func (r *run) all(body []statement, s *scope) flow {
	defer r.deeper()()
	for _, part := range body {
		r.charge(workOfStep)
		if f := part.run(r, s); f != goesOn {
			return f
		}
	}
	return goesOn
}

// words is text of the template.
type words struct{ text text }

func (w *words) run(r *run, _ *scope) flow {
	r.print(w.text)
	return goesOn
}

func (r *run) print(t text) {
	r.charge(len(t))
	r.out = append(r.out, t...)
}

// position is the line of a statement.
type position struct{ line int }

// start sets the line for errors.
func (a position) start(r *run) { r.line = a.line }

type printed struct {
	position
	value expression
}

func (p *printed) run(r *run, s *scope) flow {
	p.start(r)
	r.print(r.str(r.eval(p.value, s)))
	return goesOn
}

// branches are the parts of an if; the last one may have no test.
type branches struct{ list []branch }

type branch struct {
	position
	test expression
	body []statement
}

func (b *branches) run(r *run, s *scope) flow {
	for _, one := range b.list {
		one.start(r)
		if one.test == nil || truth(r.eval(one.test, s)) {
			return r.all(one.body, s)
		}
	}
	return goesOn
}

// jump is a break or continue.
type jump struct{ flow flow }

func (j *jump) run(*run, *scope) flow { return j.flow }

// target is what a value is assigned to: a name, an attribute of a namespace, or several targets.
type target struct {
	name, attribute string
	parts           []target // if there is no name
}

func (t *target) set(r *run, s *scope, v value) {
	switch {
	case t.name == "":
		items := r.each(v)
		if len(items) != len(t.parts) {
			fail("%d values are given to %d names", len(items), len(t.parts))
		}
		for i := range t.parts {
			t.parts[i].set(r, s, items[i])
		}
	case t.attribute != "":
		n, ok := r.variable(t.name, s).(*namespace)
		if !ok {
			fail("%s is no namespace, want one to set %s of it", t.name, t.attribute)
		}
		r.set(n.attributes, textOf(t.attribute, 0), v)
	default:
		s.vars[t.name] = v
	}
}

// set is a set statement with a value.
type set struct {
	position
	target target
	value  expression
}

func (t *set) run(r *run, s *scope) flow {
	t.start(r)
	t.target.set(r, s, r.eval(t.value, s))
	return goesOn
}

// section is a body whose text goes through filters, then into a variable or to the output.
type section struct {
	position
	target  *target
	filters []*filtered
	body    []statement
}

func (b *section) run(r *run, s *scope) flow {
	var v value = r.capture(func() { r.all(b.body, s.inner()) })
	b.start(r)
	for _, f := range b.filters {
		v = f.apply(r, s, v)
	}
	if b.target != nil {
		b.target.set(r, s, v)
	} else {
		r.print(r.str(v))
	}
	return goesOn
}

// with declares variables of its own. Their values cannot refer to each other.
type with struct {
	position
	targets []target
	values  []expression
	body    []statement
}

func (w *with) run(r *run, s *scope) flow {
	w.start(r)
	inner := s.inner()
	for i := range w.targets {
		w.targets[i].set(r, inner, r.eval(w.values[i], s))
	}
	return r.all(w.body, inner)
}
