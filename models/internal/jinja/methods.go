package jinja

import (
	"maps"
	"slices"
	"strings"
)

// methodsOf has the methods of Python's types that templates may call. Any other name of such a
// type is an error, not undefined.
type methodsOf struct {
	supported map[string]func(r *run, v value, a *arguments) value
	others    []string
}

var methods map[string]methodsOf

func init() {
	texts := map[string]func(r *run, v value, a *arguments) value{}
	for name, f := range textMethods {
		texts[name] = func(r *run, v value, a *arguments) value { return f(r, v.(text), a) }
	}
	numbers := strings.Fields("as_integer_ratio bit_count bit_length conjugate denominator " +
		"from_bytes fromhex hex imag is_integer numerator real to_bytes")
	sequence := map[string]func(r *run, v value, a *arguments) value{"count": countItems,
		"index": indexItem}
	lists := map[string]func(r *run, v value, a *arguments) value{"count": countItems,
		"index": indexItem, "copy": copyList}
	methods = map[string]methodsOf{
		"str": {texts, strings.Fields("casefold encode expandtabs format_map isascii isidentifier " +
			"isnumeric isprintable istitle maketrans translate")},
		"list":  {lists, strings.Fields("append clear extend insert pop remove reverse sort")},
		"tuple": {sequence, nil},
		"range": {sequence, strings.Fields("start stop step")},
		"dict":  {dictMethods, strings.Fields("clear fromkeys pop popitem setdefault update")},
		"int":   {nil, numbers}, "float": {nil, numbers}, "bool": {nil, numbers},
		"Markup": {nil, append(strings.Fields("striptags unescape escape"),
			slices.Collect(maps.Keys(texts))...)},
		"dict_keys":   {nil, []string{"isdisjoint", "mapping"}},
		"dict_values": {nil, []string{"mapping"}}, "dict_items": {nil, []string{"isdisjoint", "mapping"}},
		"generator": {nil, []string{"send", "throw", "close"}},
		"function":  {nil, []string{"arguments", "caller", "catch_kwargs", "catch_varargs", "name"}},
	}
}

// namedArguments are the methods that accept named arguments.
var namedArguments = map[string]bool{"format": true, "rsplit": true, "split": true,
	"splitlines": true}

// methodOf returns a value's method.
func methodOf(v value, name string) (value, bool) {
	known := methods[typeName(v)]
	if f := known.supported[name]; f != nil {
		return callable{name, func(r *run, a *arguments) value {
			if len(a.names) > 0 && !namedArguments[name] {
				fail("%s has no parameter %s by name", name, a.names[0])
			}
			return f(r, v, a)
		}}, true
	} else if slices.Contains(known.others, name) {
		fail("%s of a value of type %s is not supported", name, typeName(v))
	}
	return nil, false
}

var dictMethods = map[string]func(r *run, v value, a *arguments) value{
	"copy": func(r *run, v value, a *arguments) value {
		a.valuesOf("copy", 0)
		made := newDict()
		r.add(made, v.(*dict))
		return made
	},
	"get": func(r *run, v value, a *arguments) value {
		args := a.valuesOf("get", 1, "key", "default")
		if found, ok := r.get(v.(*dict), args[0]); ok {
			return found
		} else if args[1] != nil {
			return args[1]
		}
		return none{}
	},
	"items":  viewOf("items"),
	"keys":   viewOf("keys"),
	"values": viewOf("values"),
}

func viewOf(what string) func(r *run, v value, a *arguments) value {
	return func(_ *run, v value, a *arguments) value {
		a.valuesOf(what, 0)
		return view{v.(*dict), what}
	}
}

func copyList(r *run, v value, a *arguments) value {
	a.valuesOf("copy", 0)
	return &listValue{r.both(r.each(v), nil)}
}

func countItems(r *run, v value, a *arguments) value {
	item, n := a.valuesOf("count", 1, "value")[0], int64(0)
	for _, other := range r.each(v) {
		n += number64(r.equal(other, item))
	}
	return n
}

func indexItem(r *run, v value, a *arguments) value {
	item := a.valuesOf("index", 1, "value")[0]
	at := slices.IndexFunc(r.each(v), func(other value) bool { return r.equal(other, item) })
	if at < 0 {
		fail("index: the item is not there")
	}
	return int64(at)
}
