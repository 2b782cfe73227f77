package jinja

import "slices"

// splits is the methods split and rsplit.
func splits(name string, fromEnd bool) textMethod {
	return func(r *run, t text, a *arguments) value {
		args := a.valuesOf(name, 0, "sep", "maxsplit")
		most := intOr(args[1], -1)
		next := r.spaced
		if args[0] != nil && args[0] != value(none{}) {
			by := textOr(args[0], "")
			if len(by) == 0 {
				fail("%s: the separator is empty", name)
			}
			t = notNil(t)
			next = func(t text, fromEnd bool) (part, rest text, more bool) {
				return r.cut(t, by, fromEnd)
			}
		} else if t = t.trim(!fromEnd, fromEnd, isSpace); len(t) == 0 {
			return &listValue{}
		}
		return r.split(t, most, fromEnd, next)
	}
}

// split cuts parts off a text, at most most of them, or all if most is negative.
func (r *run) split(t text, most int64, fromEnd bool,
	next func(t text, fromEnd bool) (part, rest text, more bool)) value {
	made := &listValue{}
	for ; most != 0; most-- {
		r.charge(workOfStep)
		part, rest, more := next(t, fromEnd)
		if !more {
			break
		}
		made.items = append(made.items, part)
		if t = rest; t == nil {
			break
		}
	}
	if t != nil {
		made.items = append(made.items, t)
	}
	if fromEnd {
		slices.Reverse(made.items)
	}
	return made
}

// cut divides at a separator.
func (r *run) cut(t, by text, fromEnd bool) (part, rest text, more bool) {
	find := r.index
	if fromEnd {
		find = r.lastIndex
	}
	at := find(t, by)
	if at < 0 {
		return nil, nil, false
	}
	before, after := notNil(t[:at]), notNil(t[at+len(by):])
	if fromEnd {
		return after, before, true
	}
	return before, after, true
}

// notNil returns an empty text that is not nil.
func notNil(t text) text {
	if t == nil {
		return text{}
	}
	return t
}

// spaced divides at white space. The rest is nil if only white space is left.
func (r *run) spaced(t text, fromEnd bool) (part, rest text, more bool) {
	if len(t) == 0 {
		return nil, nil, false
	}
	r.charge(len(t))
	if fromEnd {
		at := len(t)
		for at > 0 && !isSpace(t[at-1]) {
			at--
		}
		part, rest = t[at:], t[:at].trim(false, true, isSpace)
	} else {
		at := slices.IndexFunc(t, isSpace)
		if at < 0 {
			at = len(t)
		}
		part, rest = t[:at], t[at:].trim(true, false, isSpace)
	}
	if len(rest) == 0 {
		rest = nil
	}
	return part, rest, true
}

func splitLinesMethod(r *run, t text, a *arguments) value {
	args := a.valuesOf("splitlines", 0, "keepends")
	r.charge(workOfItem * len(t))
	made := &listValue{}
	for _, line := range splitLines(t, truthOr(args[0], false)) {
		made.items = append(made.items, line)
	}
	return made
}

// splitLines divides at each of Unicode's line ends.
func splitLines(t text, keep bool) (lines []text) {
	for len(t) > 0 {
		at := slices.IndexFunc(t, endsLine)
		if at < 0 {
			return append(lines, t)
		}
		end := at + 1
		if char(t[at]) == '\r' && end < len(t) && char(t[end]) == '\n' {
			end++
		}
		if keep {
			at = end
		}
		lines, t = append(lines, t[:at]), t[end:]
	}
	return lines
}

func endsLine(r rune) bool {
	switch r = char(r); r {
	case '\n', '\r', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
		return true
	}
	return false
}
