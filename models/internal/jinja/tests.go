package jinja

import "slices"

// test is a test of a value, after is.
type test func(r *run, v value, a *arguments) bool

var tests map[string]test

// Some tests use the names of tests.
func init() {
	tests = map[string]test{
		"boolean":  ofType("bool"),
		"callable": plainTest(isCallable),
		"defined":  plainTest(func(v value) bool { return !isUndefined(v) }),
		"divisibleby": func(r *run, v value, a *arguments) bool {
			by := a.valuesOf("divisibleby", 1, "num")[0]
			return r.equal(r.arithmetic("%", v, by), int64(0))
		},
		"even":   func(r *run, v value, a *arguments) bool { return r.rest(v, a) == 0 },
		"false":  plainTest(func(v value) bool { return v == value(false) }),
		"filter": nameTest(func(name string) bool { return filtersByName[name] != nil }),
		"float":  ofType("float"),
		"in": func(r *run, v value, a *arguments) bool {
			return r.contains(a.valuesOf("in", 1, "seq")[0], v)
		},
		"integer":   ofType("int"),
		"iterable":  plainTest(isIterable),
		"lower":     textTest("islower"),
		"mapping":   ofType("dict"),
		"none":      ofType("NoneType"),
		"number":    ofType("int", "float", "bool"),
		"odd":       func(r *run, v value, a *arguments) bool { return r.rest(v, a) == 1 },
		"sameas":    sameAs,
		"sequence":  plainTest(isSequence),
		"string":    ofType("str", "Markup"),
		"test":      nameTest(func(name string) bool { return tests[name] != nil }),
		"true":      plainTest(func(v value) bool { return v == value(true) }),
		"undefined": plainTest(isUndefined),
		"upper":     textTest("isupper"),
	}
	for op, names := range map[kind][]string{"==": {"==", "eq", "equalto"}, "!=": {"!=", "ne"},
		"<": {"<", "lt", "lessthan"}, "<=": {"<=", "le"}, ">": {">", "gt", "greaterthan"},
		">=": {">=", "ge"}} {
		for _, name := range names {
			tests[name] = func(r *run, v value, a *arguments) bool {
				return r.compared(op, v, a.valuesOf(name, 1, "other")[0])
			}
		}
	}
}

// plainTest is a test without arguments.
func plainTest(is func(value) bool) test {
	return func(_ *run, v value, a *arguments) bool {
		a.valuesOf("a test", 0)
		return is(v)
	}
}

// nameTest tests whether a name exists.
func nameTest(is func(name string) bool) test {
	return func(r *run, v value, a *arguments) bool {
		a.valuesOf("a test", 0)
		return is(r.plain(textOr(v, "")))
	}
}

// ofType tests for types.
func ofType(names ...string) test {
	return plainTest(func(v value) bool { return slices.Contains(names, typeName(v)) })
}

// textTest does the same as a method of texts.
func textTest(method string) test {
	return func(r *run, v value, a *arguments) bool {
		a.valuesOf("a test", 0)
		return textMethods[method](r, r.soft(v), a).(bool)
	}
}

// rest is the remainder of a number divided by 2.
func (r *run) rest(v value, a *arguments) float64 {
	a.valuesOf("a test", 0)
	f, _ := float(r.arithmetic("%", v, int64(2)))
	return f
}

func isUndefined(v value) bool {
	_, ok := v.(undefined)
	return ok
}

func isCallable(v value) bool {
	switch v.(type) {
	case callable, *loop, undefined:
		return true
	}
	return false
}

func isIterable(v value) bool {
	switch v.(type) {
	case undefined, text, markup, *listValue, tuple, *dict, view, span, *iterator:
		return true
	}
	return false
}

func isSequence(v value) bool {
	switch v.(type) {
	case undefined, text, markup, *listValue, tuple, *dict, span:
		return true
	}
	return false
}

// sameAs tests whether two values are the same object. For most values that depends on the
// implementation of Python.
func sameAs(_ *run, v value, a *arguments) bool {
	other := a.valuesOf("sameas", 1, "other")[0]
	switch v := v.(type) {
	case none, bool, *listValue, *dict:
		return v == other
	}
	if typeName(v) == typeName(other) {
		fail("sameas is of values of type %s, want ==", typeName(v))
	}
	return false
}
