package jinja

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// value is the value of an expression: none, bool, int64, float64, text, markup, *list, tuple,
// *dict, view, span, *iterator, *namespace, *loop, callable or undefined. nil is an omitted
// argument.
type value any

// none is Python's None.
type none struct{}

// undefined is the value of a name that was not set. Most operations on it are errors.
type undefined struct{ why string }

// markup is a text that is HTML because of escape or safe. Other texts are escaped when they are
// added to it. Apart from printing, nothing else is supported.
type markup struct{ text }

type listValue struct{ items []value }

type tuple []value

// dict is a mapping in the order of insertion.
type dict struct {
	keys, values []value
	places       map[any]int
}

// view is the result of a mapping's keys, values and items.
type view struct {
	of   *dict
	kind string
}

// span is the result of range.
type span struct{ start, stop, step int64 }

// iterator yields its items once.
type iterator struct{ items []value }

// namespace is an object whose attributes a template may set.
type namespace struct{ attributes *dict }

// callable is a function with a name.
type callable struct {
	name string
	call func(r *run, a *arguments) value
}

// typeName returns the name of the type in Python.
func typeName(v value) string {
	switch v := v.(type) {
	case none:
		return "NoneType"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case text:
		return "str"
	case *listValue:
		return "list"
	case tuple:
		return "tuple"
	case *dict:
		return "dict"
	case view:
		return "dict_" + v.kind
	case span:
		return "range"
	case *iterator:
		return "generator"
	case callable:
		return "function"
	case markup:
		return "Markup"
	case *namespace:
		return "Namespace"
	case *loop:
		return "LoopContext"
	case undefined:
		return "Undefined"
	}
	return fmt.Sprintf("%T", v)
}

// defined fails if a value is undefined.
func defined(v value) {
	if u, ok := v.(undefined); ok {
		fail("%s", u.why)
	}
}

// truth is Python's bool(v).
func truth(v value) bool {
	switch v := v.(type) {
	case none, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	}
	n, ok := length(v)
	return !ok || n > 0
}

// length is Python's len(v), for values that have one.
func length(v value) (int, bool) {
	switch v := v.(type) {
	case undefined:
		return 0, true
	case text:
		return len(v), true
	case markup:
		return len(v.text), true
	case *listValue:
		return len(v.items), true
	case tuple:
		return len(v), true
	case *dict:
		return len(v.keys), true
	case view:
		return len(v.of.keys), true
	case span:
		return v.len(), true
	}
	return 0, false
}

// each returns the items that a loop visits.
func (r *run) each(v value) []value {
	n, _ := length(v)
	switch v.(type) {
	case text, view: // their items are created here
		r.charge(workOfEntry * n)
	default:
		r.charge(workOfItem * n)
	}
	items, ok := r.items(v)
	if !ok {
		fail("a value of type %s has no items, want a sequence", typeName(v))
	}
	return items
}

func (r *run) items(v value) (items []value, ok bool) {
	switch v := v.(type) {
	case undefined:
	case text:
		for i := range v {
			items = append(items, v[i:i+1])
		}
	case *listValue:
		return v.items, true
	case tuple:
		return v, true
	case *dict:
		return v.keys, true
	case view:
		return v.items(), true
	case span:
		for i := range v.len() {
			items = append(items, v.start+int64(i)*v.step)
		}
	case *iterator:
		items, v.items = v.items, nil
	default:
		return nil, false
	}
	return items, true
}

func (v view) items() (items []value) {
	switch v.kind {
	case "keys":
		return v.of.keys
	case "values":
		return v.of.values
	}
	for i, key := range v.of.keys {
		items = append(items, tuple{key, v.of.values[i]})
	}
	return items
}

// len returns how many numbers a range has, or a number above mostRange if there are more.
func (s span) len() int {
	way, step := uint64(s.stop)-uint64(s.start), uint64(s.step)
	if s.step < 0 {
		way, step = -way, -step
	}
	if s.step > 0 == (s.start < s.stop) && s.start != s.stop {
		return int(min((way-1)/step, mostRange)) + 1
	}
	return 0
}

func newDict() *dict { return &dict{places: map[any]int{}} }

// key returns a comparable key for a mapping: 1, 1.0 and True are the same.
func (r *run) key(v value) any {
	switch v := v.(type) {
	case none:
		return v
	case bool:
		return number64(v)
	case int64:
		return v
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
		return v
	case text:
		r.charge(len(v))
		return v.plain()
	}
	fail("a value of type %s is no key, want a text or number", typeName(v))
	return nil
}

// get returns the value of a key. A tuple and undefined are never keys here.
func (r *run) get(d *dict, k value) (value, bool) {
	switch k.(type) {
	case tuple, undefined:
		return nil, false
	}
	i, ok := d.places[r.key(k)]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

// set sets the value of a key.
func (r *run) set(d *dict, k, v value) {
	r.charge(workOfEntry)
	at := r.key(k)
	if i, ok := d.places[at]; ok {
		d.values[i] = v
		return
	}
	d.places[at] = len(d.keys)
	d.keys, d.values = append(d.keys, k), append(d.values, v)
}

// add adds another mapping.
func (r *run) add(d, more *dict) {
	for i, k := range more.keys {
		r.set(d, k, more.values[i])
	}
}

// imported converts a value of the program.
func (r *run) imported(v any) value {
	r.read += workOfStep
	switch v := v.(type) {
	case nil:
		return none{}
	case bool, float64, Unknown:
		return v
	case int:
		return int64(v)
	case string:
		r.read += len(v)
		return textOf(v, 0)
	case Input:
		r.read += len(v)
		return textOf(string(v), fromInput)
	case []any:
		l := &listValue{}
		for _, item := range v {
			l.items = append(l.items, r.imported(item))
		}
		return l
	case Dict:
		d := newDict()
		for _, entry := range v {
			r.set(d, textOf(entry.Key, 0), r.imported(entry.Value))
		}
		return d
	case map[string]any:
		d := newDict()
		for _, key := range slices.Sorted(maps.Keys(v)) {
			r.set(d, r.imported(Input(key)), r.imported(v[key]))
		}
		return d
	}
	fail("a variable is of type %T, want a text, number, list or Dict", v)
	return nil
}
