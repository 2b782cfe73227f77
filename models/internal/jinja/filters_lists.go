package jinja

import (
	"slices"
	"strconv"
	"strings"
)

func lengthFilter(_ *run, v value, a *arguments) value {
	a.valuesOf("length", 0)
	n, ok := length(v)
	if !ok {
		fail("a value of type %s has no length, want a text, list or mapping", typeName(v))
	}
	return int64(n)
}

func listFilter(r *run, v value, a *arguments) value {
	a.valuesOf("list", 0)
	return &listValue{r.both(r.each(v), nil)}
}

func firstFilter(r *run, v value, a *arguments) value {
	a.valuesOf("first", 0)
	if items := r.each(v); len(items) > 0 {
		return items[0]
	}
	return undefined{"there is no first item"}
}

func last(r *run, v value, a *arguments) value {
	a.valuesOf("last", 0)
	if _, ok := v.(*iterator); ok {
		fail("last is of what a filter makes, want | list before it")
	}
	if items := r.each(v); len(items) > 0 {
		return items[len(items)-1]
	}
	return undefined{"there is no last item"}
}

func itemsFilter(_ *run, v value, a *arguments) value {
	a.valuesOf("items", 0)
	switch v := v.(type) {
	case undefined:
		return &iterator{}
	case *dict:
		return &iterator{view{v, "items"}.items()}
	}
	fail("items is of a value of type %s, want a mapping", typeName(v))
	return nil
}

func reverseFilter(r *run, v value, a *arguments) value {
	a.valuesOf("reverse", 0)
	if t, ok := v.(text); ok {
		t = slices.Clone(t)
		r.charge(len(t))
		slices.Reverse(t)
		return t
	}
	items := r.both(r.each(v), nil)
	slices.Reverse(items)
	return &iterator{items}
}

func joinFilter(r *run, v value, a *arguments) value {
	args := a.valuesOf("join", 0, "d", "attribute")
	var between text
	if args[0] != nil {
		between = r.str(args[0])
	}
	get := r.getter(args[1], nil)
	var texts []text
	for _, item := range r.each(v) {
		r.charge(workOfStep)
		texts = append(texts, r.str(get(item)))
	}
	return r.join(texts, between)
}

// getter returns a function that gets an attribute of a value: by a name, by several names with
// dots, or by an index.
func (r *run) getter(attribute, usual value) func(value) value {
	var parts []value
	switch a := attribute.(type) {
	case nil, none:
	case int64:
		parts = []value{a}
	default:
		for part := range strings.SplitSeq(r.plain(textOr(a, "")), ".") {
			if n, err := strconv.ParseUint(part, 10, 32); err == nil {
				parts = append(parts, int64(n))
			} else {
				parts = append(parts, textOf(part, 0))
			}
		}
	}
	return func(v value) value {
		for _, part := range parts {
			r.charge(workOfStep)
			v = r.item(v, part)
			if _, missing := v.(undefined); missing && usual != nil {
				v = usual
			}
		}
		return v
	}
}

// applied returns a function that applies a filter with some arguments to a value.
func (r *run) applied(what string, a *arguments) func(value) value {
	if len(a.positions) == 0 {
		fail("%s: want a filter's name or attribute=", what)
	}
	name := r.plain(textOr(a.positions[0], ""))
	f := filtersByName[name]
	if f == nil {
		fail("there is no filter %s", name)
	}
	more := &arguments{a.positions[1:], a.names, a.values}
	return func(v value) value { return f(r, v, more) }
}

func mapFilter(r *run, v value, a *arguments) value {
	change := r.applied
	if len(a.positions) == 0 && slices.Contains(a.names, "attribute") {
		change = func(what string, a *arguments) func(value) value {
			args := a.valuesOf(what, 0, "attribute", "default")
			return r.getter(args[0], args[1])
		}
	}
	made := &iterator{}
	to := change("map", a)
	for _, item := range r.each(v) {
		r.charge(workOfStep)
		made.items = append(made.items, to(item))
	}
	return made
}

// ofSome is a filter that returns nothing for a false value, such as none, whatever the arguments:
// in Jinja2 templates filter tools that are none in this way.
func ofSome(f filter) filter {
	return func(r *run, v value, a *arguments) value {
		if !truth(v) {
			return &iterator{}
		}
		return f(r, v, a)
	}
}

// chooseFilter keeps the items whose test, or whose attribute's test, has the wanted result.
func chooseFilter(what string, attribute, want bool) filter {
	return func(r *run, v value, a *arguments) value {
		get, a := func(v value) value { return v }, &arguments{a.positions, a.names, a.values}
		if attribute {
			if len(a.positions) == 0 {
				fail("%s: want the name of an attribute", what)
			}
			get, a.positions = r.getter(a.positions[0], nil), a.positions[1:]
		}
		is := r.asked(a)
		made := &iterator{}
		for _, item := range r.each(v) {
			r.charge(workOfStep)
			if is(get(item)) == want {
				made.items = append(made.items, item)
			}
		}
		return made
	}
}

// asked returns a function that computes a test with some arguments, or truth if there are none.
func (r *run) asked(a *arguments) func(value) bool {
	if len(a.positions) == 0 {
		return truth
	}
	name := r.plain(textOr(a.positions[0], ""))
	t := tests[name]
	if t == nil {
		fail("there is no test %s", name)
	}
	more := &arguments{a.positions[1:], a.names, a.values}
	return func(v value) bool { return t(r, v, more) }
}

// folded returns a value for comparisons, with texts in lower case unless caseCounts.
func (r *run) folded(v value, caseCounts bool) value {
	if t, ok := v.(text); ok && !caseCounts {
		return textMethods["lower"](r, t, &arguments{})
	}
	return v
}

// keyed is an item and the key that it is compared by.
type keyed struct{ by, item value }

// ordered sorts items by their keys.
func (r *run) ordered(list []keyed, reverse bool) []value {
	sign := 1
	if reverse {
		sign = -1
	}
	slices.SortStableFunc(list, func(a, b keyed) int {
		return sign * r.order("<", a.by, b.by)
	})
	var items []value
	for _, k := range list {
		items = append(items, k.item)
	}
	return items
}

func sorted(r *run, v value, a *arguments) value {
	args := a.valuesOf("sort", 0, "reverse", "case_sensitive", "attribute")
	gets := []func(value) value{r.getter(args[2], nil)}
	if t, ok := args[2].(text); ok {
		gets = nil
		for name := range strings.SplitSeq(r.plain(t), ",") {
			gets = append(gets, r.getter(textOf(name, 0), nil))
		}
	}
	var all []keyed
	for _, item := range r.each(v) {
		r.charge(workOfEntry)
		by := &listValue{}
		for _, get := range gets {
			by.items = append(by.items, r.folded(get(item), truthOr(args[1], false)))
		}
		all = append(all, keyed{by, item})
	}
	return &listValue{r.ordered(all, truthOr(args[0], false))}
}

func dictSort(r *run, v value, a *arguments) value {
	args := a.valuesOf("dictsort", 0, "case_sensitive", "by", "reverse")
	defined(v)
	d, ok := v.(*dict)
	if !ok {
		fail("dictsort is of a value of type %s, want a mapping", typeName(v))
	}
	at := map[string]int{"key": 0, "value": 1}
	by, ok := at[r.plain(textOr(args[1], "key"))]
	if !ok {
		fail("dictsort is by neither key nor value")
	}
	var all []keyed
	for _, pair := range r.each(view{d, "items"}) {
		all = append(all, keyed{r.folded(pair.(tuple)[by], truthOr(args[0], false)), pair})
	}
	return &listValue{r.ordered(all, truthOr(args[2], false))}
}

func unique(r *run, v value, a *arguments) value {
	args := a.valuesOf("unique", 0, "case_sensitive", "attribute")
	get := r.getter(args[1], nil)
	seen, made := newDict(), &iterator{}
	for _, item := range r.each(v) {
		by := r.folded(get(item), truthOr(args[0], false))
		defined(by)
		if _, ok := r.get(seen, by); !ok {
			r.set(seen, by, true)
			made.items = append(made.items, item)
		}
	}
	return made
}

// extreme is a filter that returns the greatest or least item.
func extreme(what string, sign int) filter {
	return func(r *run, v value, a *arguments) value {
		args := a.valuesOf(what, 0, "case_sensitive", "attribute")
		get := r.getter(args[1], nil)
		var best, found value = nil, undefined{"there is no item"}
		for i, item := range r.each(v) {
			by := r.folded(get(item), truthOr(args[0], false))
			if i == 0 || sign*r.order("<", by, best) > 0 {
				best, found = by, item
			}
		}
		return found
	}
}

func sum(r *run, v value, a *arguments) value {
	args := a.valuesOf("sum", 0, "attribute", "start")
	get := r.getter(args[0], nil)
	total := value(int64(0))
	if args[1] != nil {
		total = args[1]
	}
	if _, ok := total.(text); ok {
		fail("sum is of texts, want join")
	}
	for _, item := range r.each(v) {
		total = r.arithmetic("+", total, get(item))
	}
	return total
}
