package jinja

import "slices"

var constants = map[string]value{"true": true, "True": true, "false": false, "False": false,
	"none": none{}, "None": none{}}

// keywords cannot be names of variables here.
var keywords = map[string]bool{"and": true, "or": true, "not": true, "in": true, "is": true,
	"if": true, "else": true, "elif": true}

// expression parses a whole expression, up to a if b else c.
func (p *parser) expression() expression {
	defer p.deeper()()
	made := p.or()
	for p.skip("if") {
		c := &choice{yes: made}
		p.ifs++
		c.test = p.or()
		if p.skip("else") {
			c.no = p.expression()
		}
		p.ifs--
		made = c
	}
	return made
}

// tuple parses an expression, or several separated by commas, up to an end.
func (p *parser) tuple(choices bool, ends ...kind) expression {
	made, several := p.several(choices, ends...)
	if len(made) == 0 {
		p.fail("%s is not expected here, want an expression", p.now().shown())
	} else if !several {
		return made[0]
	}
	return &tupleOf{made}
}

func (p *parser) several(choices bool, ends ...kind) (list []expression, several bool) {
	ends = append(ends, endOut, endBlock, ")")
	for {
		if slices.ContainsFunc(ends, p.now().is) {
			return list, several
		}
		if choices {
			list = append(list, p.expression())
		} else {
			list = append(list, p.or())
		}
		if !p.skip(",") {
			return list, several
		}
		several = true
	}
}

func (p *parser) or() expression {
	left := p.and()
	for p.skip("or") {
		left = &logical{"or", left, p.and()}
	}
	return left
}

func (p *parser) and() expression {
	left := p.not()
	for p.skip("and") {
		left = &logical{"and", left, p.not()}
	}
	return left
}

func (p *parser) not() expression {
	if p.now().is("not") {
		defer p.deeper()()
		p.step()
		return &not{p.not()}
	}
	return p.comparison()
}

func (p *parser) comparison() expression {
	c := &comparison{first: p.sum()}
	for {
		op := p.now().kind
		switch {
		case p.skip("not"):
			if !p.now().is("in") {
				p.fail("not is not followed by in")
			}
			p.step()
			op = "not in"
		case p.skip("in"):
			op = "in"
		case slices.Contains([]kind{"==", "!=", "<", "<=", ">", ">="}, op):
			p.step()
		case len(c.ops) == 0:
			return c.first
		default:
			return c
		}
		c.ops, c.rest = append(c.ops, op), append(c.rest, p.sum())
	}
}

func (p *parser) sum() expression {
	return p.chain(p.joined, "+", "-")
}

// chain parses left-associative operations.
func (p *parser) chain(operand func() expression, ops ...kind) expression {
	left := operand()
	for slices.Contains(ops, p.now().kind) {
		op := p.step().kind
		left = &binary{op, left, operand()}
	}
	return left
}

func (p *parser) joined() expression {
	parts := []expression{p.product()}
	for p.skip("~") {
		parts = append(parts, p.product())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return &joined{parts}
}

func (p *parser) product() expression { return p.chain(p.power, "*", "/", "//", "%") }

// power is left-associative, unlike in Python.
func (p *parser) power() expression {
	return p.chain(func() expression { return p.unary(true) }, "**")
}

// unary parses signs, which bind tighter than ** and filters.
func (p *parser) unary(filters bool) expression {
	defer p.deeper()()
	var made expression
	switch p.now().kind {
	case "-":
		p.step()
		made = &minus{p.unary(false)}
	case "+":
		p.step()
		made = &plus{p.unary(false)}
	default:
		made = p.primary()
	}
	made = p.postfix(made)
	if filters {
		made = p.filtered(made)
	}
	return made
}

func (p *parser) primary() expression {
	t := p.step()
	switch t.kind {
	case identifier:
		if v, ok := constants[t.text]; ok {
			return &constant{v}
		} else if !keywords[t.text] {
			if p.seen != nil {
				p.seen[t.text] = true
			}
			return &variable{t.text}
		}
	case literal:
		made := t.value.(text)
		for p.now().kind == literal {
			made = append(made, p.step().value.(text)...)
		}
		return &constant{made}
	case numeral:
		return &constant{t.value}
	case "(":
		made, several := p.several(true)
		p.want(")")
		if len(made) == 1 && !several {
			return made[0]
		}
		return &tupleOf{made}
	case "[":
		return &listOf{p.list()}
	case "{":
		return p.dict()
	}
	failAt(t.line, "%s is not expected here, want an expression", t.shown())
	return nil
}

func (p *parser) list() (items []expression) {
	for !p.skip("]") {
		if len(items) > 0 {
			p.want(",")
			if p.skip("]") {
				break
			}
		}
		items = append(items, p.expression())
	}
	return items
}

func (p *parser) dict() expression {
	d := &dictOf{}
	for !p.skip("}") {
		if len(d.keys) > 0 {
			p.want(",")
			if p.skip("}") {
				break
			}
		}
		d.keys = append(d.keys, p.expression())
		p.want(":")
		d.values = append(d.values, p.expression())
	}
	return d
}

// postfix parses attributes, items and calls.
func (p *parser) postfix(made expression) expression {
	for {
		switch {
		case p.skip("."):
			t := p.step()
			switch t.kind {
			case identifier:
				made = &attributeOf{made, t.text}
			case numeral:
				if _, ok := t.value.(int64); !ok {
					p.fail("%s is no place in a list", t.text)
				}
				made = &subscript{made, &constant{t.value}}
			default:
				failAt(t.line, "%s is not expected here, want a name", t.shown())
			}
		case p.skip("["):
			made = p.subscript(made)
		case p.skip("("):
			made = &call{made, p.arguments()}
		default:
			return made
		}
	}
}

// subscript parses an item or a slice.
func (p *parser) subscript(of expression) expression {
	var parts [3]expression
	colons := 0
	for !p.skip("]") {
		if p.skip(":") {
			if colons++; colons > 2 {
				p.fail("a part has more than two colons")
			}
		} else if parts[colons] == nil {
			parts[colons] = p.expression()
		} else {
			p.fail("%s is not expected here, want ]", p.now().shown())
		}
	}
	if colons == 0 && parts[0] == nil {
		p.fail("[] has nothing in it, want an expression")
	} else if colons == 0 {
		return &subscript{of, parts[0]}
	}
	return &slice{of, parts[0], parts[1], parts[2]}
}

// arguments parses the arguments of a call, after the parenthesis.
func (p *parser) arguments() *argumentList {
	a := &argumentList{}
	for first := true; !p.skip(")"); first = false {
		if !first {
			p.want(",")
			if p.skip(")") {
				break
			}
		}
		p.argument(a)
	}
	return a
}

func (p *parser) argument(a *argumentList) {
	switch {
	case p.now().is("*") && a.list == nil && a.dict == nil:
		p.step()
		a.list = p.expression()
	case p.now().is("**") && a.dict == nil:
		p.step()
		a.dict = p.expression()
	case p.now().kind == identifier && p.then().is("=") && a.dict == nil:
		a.names = append(a.names, p.step().text)
		p.step()
		a.values = append(a.values, p.expression())
	case a.list == nil && a.dict == nil && len(a.names) == 0:
		a.positions = append(a.positions, p.expression())
	default:
		p.fail("arguments without names come after others, want them first")
	}
}

// filtered parses filters and tests after a value, and calls after these.
func (p *parser) filtered(made expression) expression {
	for {
		switch {
		case p.skip("|"):
			f := p.filter()
			f.value = made
			made = f
		case p.skip("is"):
			made = p.tested(made)
		case p.skip("("):
			made = &call{made, p.arguments()}
		default:
			return made
		}
	}
}

// filters parses the filters of a block, whose body is their value.
func (p *parser) filters() (list []*filtered) {
	for list == nil || p.skip("|") {
		list = append(list, p.filter())
	}
	return list
}

func (p *parser) filter() *filtered {
	t := p.want(identifier)
	f := &filtered{name: t.text, filter: filtersByName[t.text]}
	if f.filter == nil && p.ifs == 0 {
		failAt(t.line, "there is no filter %s", t.text)
	}
	if p.skip("(") {
		f.arguments = p.arguments()
	}
	return f
}

// tested parses a test, which may have one argument without parentheses.
func (p *parser) tested(of expression) expression {
	inverted := p.skip("not")
	t := p.want(identifier)
	made := &tested{name: t.text, test: tests[t.text], value: of}
	if made.test == nil && p.ifs == 0 {
		failAt(t.line, "there is no test %s", t.text)
	}
	switch now := p.now(); {
	case p.skip("("):
		made.arguments = p.arguments()
	case now.is("is"):
		p.fail("a test comes after another, want brackets around that")
	case now.kind == identifier && !now.is("else") && !now.is("or") && !now.is("and"),
		now.kind == literal, now.kind == numeral, now.is("["), now.is("{"):
		made.arguments = &argumentList{positions: []expression{p.postfix(p.primary())}}
	}
	if inverted {
		return &not{made}
	}
	return made
}
