package jinja

import "slices"

// parser turns tokens into statements.
type parser struct {
	tokens []token
	at     int
	depth  int
	loops  int             // loops that a break may leave
	ifs    int             // ifs that may keep an unknown filter from being called
	seen   map[string]bool // names in the current macro
}

// mostNested bounds the depth of a template.
const mostNested = 200

// deeper increases the depth until the returned function is called.
func (p *parser) deeper() func() {
	if p.depth++; p.depth > mostNested {
		p.fail("parts are more than %d deep in one another", mostNested)
	}
	return func() { p.depth-- }
}

func (p *parser) fail(format string, args ...any) { failAt(p.now().line, format, args...) }

func (p *parser) now() token { return p.tokens[p.at] }

// then returns the token after the current one.
func (p *parser) then() token { return p.tokens[min(p.at+1, len(p.tokens)-1)] }

// step returns the current token and moves to the next one.
func (p *parser) step() token {
	t := p.now()
	p.at = min(p.at+1, len(p.tokens)-1)
	return t
}

// is reports whether the token is of a kind, or a name with that text.
func (t token) is(what kind) bool {
	return t.kind == what || t.kind == identifier && t.text == string(what)
}

// skip skips a token if it is the current one.
func (p *parser) skip(what kind) bool {
	if !p.now().is(what) {
		return false
	}
	p.step()
	return true
}

// want returns the current token, which must be of a kind, and moves to the next one.
func (p *parser) want(what kind) token {
	if !p.now().is(what) {
		p.fail("%s is not expected here, want %s", p.now().shown(), what)
	}
	return p.step()
}

func (t token) shown() string {
	if t.text == "" || t.kind == data {
		return string(t.kind)
	}
	return t.text
}

// body parses statements up to a tag with one of the ends, which it skips and returns. Without ends
// it parses the whole template.
func (p *parser) body(ends ...string) (list []statement, end string) {
	defer p.deeper()()
	first := p.now().line
	for {
		t := p.step()
		switch t.kind {
		case ending:
			if len(ends) > 0 {
				failAt(first, "the block has no end, want %s", ends[len(ends)-1])
			}
			return list, ""
		case data:
			list = append(list, &words{textOf(t.text, 0)})
		case output:
			list = append(list, &printed{position{t.line}, p.tuple(true)})
			p.want(endOut)
		default:
			tag := p.want(identifier)
			if slices.Contains(ends, tag.text) {
				return list, tag.text
			}
			list = append(list, p.statement(tag))
		}
	}
}

// only parses a body with one end, and the rest of the end's tag.
func (p *parser) only(end string) []statement {
	p.want(endBlock)
	list, _ := p.body(end)
	p.want(endBlock)
	return list
}

// apart is only for a body that break and continue cannot leave.
func (p *parser) apart(end string) []statement {
	outer := p.loops
	p.loops = 0
	list := p.only(end)
	p.loops = outer
	return list
}

// statement parses a statement after the name of its tag.
func (p *parser) statement(tag token) statement {
	where := position{tag.line}
	switch tag.text {
	case "if":
		return p.branches(where)
	case "for":
		return p.loop(where)
	case "set":
		return p.set(where)
	case "macro":
		return p.macro(where)
	case "call":
		return p.callBlock(where)
	case "filter":
		filters := p.filters()
		return &section{where, nil, filters, p.apart("endfilter")}
	case "generation": // marks answers, for training only
		return &section{where, nil, nil, p.apart("endgeneration")}
	case "with":
		return p.with(where)
	case "break", "continue":
		if p.loops == 0 {
			failAt(tag.line, "%s is in no loop", tag.text)
		}
		p.want(endBlock)
		return &jump{map[string]flow{"break": breaks, "continue": continues}[tag.text]}
	}
	failAt(tag.line, "the tag %s is not supported", tag.text)
	return nil
}

func (p *parser) branches(where position) statement {
	defer func(n int) { p.ifs = n }(p.ifs)
	p.ifs++
	made := &branches{}
	for end := "if"; end != "endif"; {
		b := branch{position: where}
		ends := []string{"elif", "else", "endif"}
		if end == "else" {
			ends = ends[2:]
		} else {
			b.test = p.tuple(false)
		}
		p.want(endBlock)
		b.body, end = p.body(ends...)
		where = position{p.now().line}
		made.list = append(made.list, b)
	}
	p.want(endBlock)
	return made
}

func (p *parser) loop(where position) statement {
	l := &loops{position: where, target: p.targets()}
	if l.target.has("loop") {
		failAt(where.line, "loop is the loop's own variable, want another name")
	}
	p.want("in")
	l.over = p.tuple(false, "recursive")
	if p.skip("if") {
		l.test = p.expression()
	}
	l.recursive = p.skip("recursive")
	p.want(endBlock)
	p.loops++
	var end string
	l.body, end = p.body("else", "endfor")
	p.loops--
	p.want(endBlock)
	if end == "else" {
		l.otherwise, _ = p.body("endfor")
		p.want(endBlock)
	}
	return l
}

func (p *parser) set(where position) statement {
	t := p.targets()
	if p.loops > 0 && t.has("loop") {
		failAt(where.line, "loop is the loop's own variable, want another name")
	}
	if p.skip("=") {
		s := &set{where, t, p.tuple(true)}
		p.want(endBlock)
		return s
	}
	s := &section{position: where, target: &t}
	if p.skip("|") {
		s.filters = p.filters()
	}
	s.body = p.apart("endset")
	return s
}

// targets parses one or more names that are assigned.
func (p *parser) targets() target {
	if p.then().is(".") {
		t := target{name: p.want(identifier).text}
		p.step()
		t.attribute = p.want(identifier).text
		return t
	}
	var all []target
	for several := false; ; several = true {
		all = append(all, p.target())
		if !p.skip(",") {
			if several {
				return target{parts: all}
			}
			return all[0]
		}
	}
}

// target parses a name, or several in parentheses.
func (p *parser) target() target {
	defer p.deeper()()
	if p.skip("(") {
		t := p.targets()
		p.want(")")
		return t
	}
	t := p.want(identifier)
	if _, ok := constants[t.text]; ok || keywords[t.text] {
		failAt(t.line, "%s is no name of a variable", t.text)
	}
	return target{name: t.text}
}

// has reports whether a name is assigned.
func (t *target) has(name string) bool {
	return t.name == name && t.attribute == "" ||
		slices.ContainsFunc(t.parts, func(part target) bool { return part.has(name) })
}

func (p *parser) with(where position) statement {
	w := &with{position: where}
	for !p.now().is(endBlock) {
		if len(w.targets) > 0 {
			p.want(",")
		}
		w.targets = append(w.targets, p.target())
		p.want("=")
		w.values = append(w.values, p.expression())
	}
	w.body = p.only("endwith")
	return w
}

// macro parses a macro, and notes which of varargs, kwargs and caller its body uses.
func (p *parser) macro(where position) statement {
	m := &macro{position: where, name: p.target().name}
	p.want("(")
	p.parameters(m)
	p.inside(m, "endmacro")
	return m
}

func (p *parser) parameters(m *macro) {
	for !p.skip(")") {
		if len(m.params) > 0 {
			p.want(",")
		}
		param := p.target().name
		if param == "" || slices.Contains(m.params, param) {
			p.fail("the parameters of %s are not names that differ", m.name)
		}
		m.params = append(m.params, param)
		if p.skip("=") {
			m.defaults = append(m.defaults, p.expression())
		} else if len(m.defaults) > 0 {
			p.fail("a parameter without a value comes after one with a value")
		}
	}
}

// inside parses the body of a macro.
func (p *parser) inside(m *macro, end string) {
	outer := p.seen
	p.seen = map[string]bool{}
	m.body = p.apart(end)
	m.varargs, m.kwargs, m.caller = p.seen["varargs"], p.seen["kwargs"], p.seen["caller"]
	p.seen = outer
}

func (p *parser) callBlock(where position) statement {
	c := &callBlock{position: where, caller: &macro{position: where, name: "caller"}}
	if p.skip("(") {
		p.parameters(c.caller)
	}
	called, ok := p.expression().(*call)
	if !ok {
		failAt(where.line, "call is not followed by a call")
	}
	c.call = called
	p.inside(c.caller, "endcall")
	return c
}
