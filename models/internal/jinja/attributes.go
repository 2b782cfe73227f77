package jinja

import "strings"

// attributeOf is v.name, the attribute of a value.
type attributeOf struct {
	of   expression
	name string
}

func (a *attributeOf) eval(r *run, s *scope) value {
	v := r.eval(a.of, s)
	if found, ok := r.attribute(v, a.name); ok {
		return found
	}
	if found, ok := r.element(v, textOf(a.name, 0)); ok {
		return found
	}
	return missingValue(v, a.name)
}

// subscript is v[key], an item of a value.
type subscript struct{ of, key expression }

func (i *subscript) eval(r *run, s *scope) value {
	v := r.eval(i.of, s)
	return r.item(v, r.eval(i.key, s))
}

func (r *run) item(v, k value) value {
	if found, ok := r.element(v, k); ok {
		return found
	}
	t, ok := k.(text)
	if !ok {
		return missingValue(v, string(r.repr(k)))
	}
	name := r.plain(t)
	if found, ok := r.attribute(v, name); ok {
		return found
	}
	return missingValue(v, name)
}

func missingValue(v value, name string) value {
	return undefined{"a value of type " + typeName(v) + " has no " + name}
}

// attribute returns an attribute of a value, by the names in Python.
func (r *run) attribute(v value, name string) (value, bool) {
	defined(v)
	if strings.HasPrefix(name, "_") {
		fail("%s is no name of what templates may use", name)
	}
	switch v := v.(type) {
	case *namespace:
		return r.get(v.attributes, textOf(name, 0))
	case *loop:
		return v.attribute(name)
	}
	return methodOf(v, name)
}

// element returns the element of a sequence or mapping at a key.
func (r *run) element(v, k value) (value, bool) {
	defined(v)
	n, isInt := integer(k)
	switch v := v.(type) {
	case *dict:
		return r.get(v, k)
	case text:
		if i, ok := place(n, len(v)); ok && isInt {
			return v[i : i+1], true
		}
	case *listValue:
		if i, ok := place(n, len(v.items)); ok && isInt {
			return v.items[i], true
		}
	case tuple:
		if i, ok := place(n, len(v)); ok && isInt {
			return v[i], true
		}
	case span:
		if i, ok := place(n, v.len()); ok && isInt {
			return v.start + int64(i)*v.step, true
		}
	case markup:
		fail("parts of a text after safe or escape are not supported")
	}
	return nil, false
}

// place returns the index of the n-th of some elements, counted from the end if n is negative.
func place(n int64, elements int) (int, bool) {
	if n < 0 {
		n += int64(elements)
	}
	return int(max(min(n, int64(elements)), 0)), n >= 0 && n < int64(elements)
}

// slice is v[from:to:step].
type slice struct{ of, from, to, step expression }

func (p *slice) eval(r *run, s *scope) value {
	v := r.eval(p.of, s)
	defined(v)
	n, ok := length(v)
	switch v.(type) {
	case text, *listValue, tuple:
	default:
		ok = false
	}
	if !ok {
		fail("a part of a value of type %s, want a text or list", typeName(v))
	}
	step := p.bound(r, s, p.step, 1)
	if step == 0 {
		fail("a part of a value has step 0, want another one")
	}
	step = max(-int64(n)-1, min(step, int64(n)+1))
	var at []int
	for i, to := p.range64(r, s, int64(n), step); (step > 0) == (i < to) && i != to; i += step {
		at = append(at, int(i))
	}
	r.charge(workOfItem * len(at))
	return pick(v, at)
}

// range64 returns where a slice begins and ends, both within the value.
func (p *slice) range64(r *run, s *scope, n, step int64) (from, to int64) {
	low, high, first, end := int64(0), n, int64(0), n
	if step < 0 {
		low, high, first, end = -1, n-1, n-1, -1
	}
	within := func(e expression, usual int64) int64 {
		if e == nil {
			return usual
		}
		const unset = -1 << 62
		i := p.bound(r, s, e, unset)
		if i == unset {
			return usual
		} else if i < 0 {
			i += n
		}
		return max(low, min(i, high))
	}
	return within(p.from, first), within(p.to, end)
}

// bound returns a bound of a slice.
func (p *slice) bound(r *run, s *scope, e expression, usual int64) int64 {
	if e == nil {
		return usual
	}
	v := r.eval(e, s)
	if v == value(none{}) {
		return usual
	}
	return intOr(v, usual)
}

// pick returns the elements at some indices.
func pick(v value, at []int) value {
	switch v := v.(type) {
	case text:
		made := make(text, 0, len(at))
		for _, i := range at {
			made = append(made, v[i])
		}
		return made
	case tuple:
		return tuple(picked(v, at))
	}
	return &listValue{picked(v.(*listValue).items, at)}
}

func picked(items []value, at []int) []value {
	made := make([]value, 0, len(at))
	for _, i := range at {
		made = append(made, items[i])
	}
	return made
}
