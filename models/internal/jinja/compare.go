package jinja

import "slices"

// equal is Python's ==.
func (r *run) equal(a, b value) bool {
	defer r.deeper()()
	r.charge(workOfStep)
	if x, y, f, g, ints, floats := bothNumbers(a, b); ints {
		return x == y
	} else if floats {
		return f == g
	}
	switch a := plainText(a).(type) {
	case none:
		return b == value(none{})
	case undefined:
		_, ok := b.(undefined)
		return ok
	case text:
		b, ok := plainText(b).(text)
		r.charge(min(len(a), len(b)))
		return ok && sameText(a, b)
	case *listValue:
		b, ok := b.(*listValue)
		return ok && (a == b || r.equalItems(a.items, b.items))
	case tuple:
		b, ok := b.(tuple)
		return ok && r.equalItems(a, b)
	case *dict:
		b, ok := b.(*dict)
		return ok && (a == b || r.equalDicts(a, b))
	case span:
		if b, ok := b.(span); ok {
			return a == b
		}
	}
	if typeName(a) == typeName(b) {
		fail("values of type %s are not compared", typeName(a))
	}
	return false
}

func (r *run) equalItems(a, b []value) bool {
	return slices.EqualFunc(a, b, r.equal)
}

func (r *run) equalDicts(a, b *dict) bool {
	if len(a.keys) != len(b.keys) {
		return false
	}
	for i, k := range a.keys {
		if v, ok := r.get(b, k); !ok || !r.equal(a.values[i], v) {
			return false
		}
	}
	return true
}

// order is negative, 0 or positive if a is less than, equal to, or greater than b.
func (r *run) order(op kind, a, b value) int {
	defer r.deeper()()
	r.charge(workOfStep)
	defined(a)
	defined(b)
	if x, y, f, g, ints, floats := bothNumbers(a, b); ints {
		return compare(x, y)
	} else if floats {
		if f != f || g != g {
			fail("%s with a number that is none", op)
		}
		return compare(f, g)
	}
	switch x := a.(type) {
	case text:
		if y, ok := b.(text); ok {
			r.charge(min(len(x), len(y)))
			return slices.CompareFunc(x, y, func(a, b rune) int { return compare(char(a), char(b)) })
		}
	case *listValue:
		if y, ok := b.(*listValue); ok {
			return r.orderItems(op, x.items, y.items)
		}
	case tuple:
		if y, ok := b.(tuple); ok {
			return r.orderItems(op, x, y)
		}
	}
	fail("%s between values of types %s and %s", op, typeName(a), typeName(b))
	return 0
}

func (r *run) orderItems(op kind, a, b []value) int {
	for i := range min(len(a), len(b)) {
		if !r.equal(a[i], b[i]) {
			return r.order(op, a[i], b[i])
		}
	}
	return compare(len(a), len(b))
}

func compare[N int | int64 | float64 | rune](a, b N) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// contains is Python's in.
func (r *run) contains(in, item value) bool {
	switch in := in.(type) {
	case text:
		t, ok := item.(text)
		if !ok {
			defined(item)
			fail("in a text is looked for a value of type %s, want a text", typeName(item))
		}
		return r.index(in, t) >= 0
	case *dict:
		_, ok := r.get(in, item)
		return ok
	}
	return slices.ContainsFunc(r.each(in), func(v value) bool { return r.equal(v, item) })
}

// compared computes a comparison of two values.
func (r *run) compared(op kind, a, b value) bool {
	switch op {
	case "==":
		return r.equal(a, b)
	case "!=":
		return !r.equal(a, b)
	case "in":
		return r.contains(b, a)
	case "not in":
		return !r.contains(b, a)
	case "<":
		return r.order(op, a, b) < 0
	case "<=":
		return r.order(op, a, b) <= 0
	case ">":
		return r.order(op, a, b) > 0
	}
	return r.order(op, a, b) >= 0
}
