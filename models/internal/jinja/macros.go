package jinja

// macro is the definition of a macro, or the body of a call block.
type macro struct {
	position
	name     string
	params   []string
	defaults []expression // of the last parameters
	body     []statement
	// The body uses these names; with the first two a call may have more arguments.
	varargs, kwargs, caller bool
}

func (m *macro) run(r *run, s *scope) flow {
	s.vars[m.name] = m.callable(s)
	return goesOn
}

// callable returns the macro as a function. Its body sees the variables of its definition.
func (m *macro) callable(s *scope) callable {
	return callable{m.name, func(r *run, a *arguments) value {
		defer r.deeper()()
		line := r.line
		inner := s.inner()
		m.bind(r, inner, a)
		made := r.capture(func() { r.all(m.body, inner) })
		r.line = line
		return made
	}}
}

// bind assigns arguments to parameters.
func (m *macro) bind(r *run, s *scope, a *arguments) {
	named := map[string]value{}
	for i, name := range a.names {
		named[name] = a.values[i]
	}
	for i, name := range m.params {
		v, isNamed := named[name]
		delete(named, name)
		switch first := len(m.params) - len(m.defaults); {
		case i < len(a.positions) && isNamed:
			fail("%s has two values for %s", m.name, name)
		case i < len(a.positions):
			v = a.positions[i]
		case !isNamed && i >= first:
			v = r.eval(m.defaults[i-first], s)
		case !isNamed:
			v = undefined{"parameter " + name + " was not provided"}
		}
		s.vars[name] = v
	}
	m.bindMore(r, s, a, named)
}

// bindMore assigns arguments without a parameter to varargs, kwargs and caller.
func (m *macro) bindMore(r *run, s *scope, a *arguments, named map[string]value) {
	if m.caller {
		s.vars["caller"] = undefined{"no caller is defined"}
		if v, ok := named["caller"]; ok {
			s.vars["caller"] = v
			delete(named, "caller")
		}
	}
	more := a.positions[min(len(a.positions), len(m.params)):]
	if m.varargs {
		s.vars["varargs"] = tuple(more)
	} else if len(more) > 0 {
		fail("%s has %d arguments, want at most %d", m.name, len(a.positions), len(m.params))
	}
	kwargs := newDict()
	for i, name := range a.names {
		if _, ok := named[name]; ok {
			r.set(kwargs, textOf(name, 0), a.values[i])
		}
	}
	if m.kwargs {
		s.vars["kwargs"] = kwargs
	} else if len(kwargs.keys) > 0 {
		fail("%s has no parameter %s", m.name, kwargs.keys[0].(text).plain())
	}
}

// callBlock calls a macro, which may call the body of the block.
type callBlock struct {
	position
	call   *call
	caller *macro
}

func (c *callBlock) run(r *run, s *scope) flow {
	c.start(r)
	f := r.eval(c.call.function, s)
	a := c.call.arguments.eval(r, s)
	a.add(r, "caller", c.caller.callable(s))
	r.print(r.str(r.call(f, a)))
	return goesOn
}
