package jinja

import (
	"math"
	"slices"
	"strconv"
	"unicode/utf16"
)

// toJSON is the filter tojson of transformers, Python's json.dumps: keys keep their order, and <
// and > stay as they are.
func toJSON(r *run, v value, a *arguments) value {
	args := a.valuesOf("tojson", 0, "ensure_ascii", "indent", "separators", "sort_keys")
	j := jsonWriter{run: r, ascii: truthOr(args[0], false), sort: truthOr(args[3], false),
		comma: textOf(", ", 0), colon: textOf(": ", 0)}
	switch i := args[1].(type) {
	case nil, none:
	case text:
		j.lines, j.indent, j.comma = true, i, text{','}
	default:
		j.lines, j.comma = true, text{','}
		j.indent = r.repeated(text{' '}, intOr(i, 0)).(text)
	}
	if args[2] != nil && args[2] != value(none{}) {
		pair := r.each(args[2])
		if len(pair) != 2 {
			fail("tojson has %d separators, want 2", len(pair))
		}
		j.comma, j.colon = textOr(pair[0], ""), textOr(pair[1], "")
	}
	j.value(v, 0)
	return j.made
}

type jsonWriter struct {
	*run
	made         text
	ascii, sort  bool
	lines        bool // each item has a line of its own
	indent       text
	comma, colon text
}

func (j *jsonWriter) write(t text) {
	j.charge(len(t))
	j.made = append(j.made, t...)
}

func (j *jsonWriter) value(v value, depth int) {
	defer j.deeper()()
	j.charge(workOfStep)
	switch v := v.(type) {
	case none:
		j.write(textOf("null", 0))
	case bool, int64, float64:
		j.write(j.number(v))
	case text:
		j.quoted(v)
	case markup:
		j.quoted(v.text)
	case *listValue:
		j.list(v.items, depth)
	case tuple:
		j.list(v, depth)
	case *dict:
		j.dict(v, depth)
	default:
		fail("tojson is of a value of type %s, want texts, numbers, lists and mappings", typeName(v))
	}
}

func (j *jsonWriter) number(v value) text {
	switch v := v.(type) {
	case bool:
		return textOf(strconv.FormatBool(v), 0)
	case float64:
		switch {
		case math.IsNaN(v):
			return textOf("NaN", 0)
		case math.IsInf(v, 1):
			return textOf("Infinity", 0)
		case math.IsInf(v, -1):
			return textOf("-Infinity", 0)
		}
	}
	return j.repr(v)
}

// items writes items between brackets.
func (j *jsonWriter) items(begin, end rune, n, depth int, item func(i int)) {
	j.write(text{begin})
	for i := range n {
		if i > 0 {
			j.write(j.comma)
		}
		j.newLine(depth + 1)
		item(i)
	}
	if n > 0 {
		j.newLine(depth)
	}
	j.write(text{end})
}

func (j *jsonWriter) newLine(depth int) {
	if j.lines {
		j.write(text{'\n'})
		for range depth {
			j.write(j.indent)
		}
	}
}

func (j *jsonWriter) list(items []value, depth int) {
	j.items('[', ']', len(items), depth, func(i int) { j.value(items[i], depth+1) })
}

func (j *jsonWriter) dict(d *dict, depth int) {
	order := make([]keyed, len(d.keys))
	for i, k := range d.keys {
		order[i] = keyed{k, d.values[i]}
	}
	if j.sort {
		slices.SortStableFunc(order, func(a, b keyed) int { return j.order("<", a.by, b.by) })
	}
	j.items('{', '}', len(order), depth, func(i int) {
		switch k := order[i].by.(type) {
		case text:
			j.quoted(k)
		case none:
			j.quoted(textOf("null", 0))
		default:
			j.quoted(j.number(k))
		}
		j.write(j.colon)
		j.value(order[i].item, depth+1)
	})
}

// quoted writes a string.
func (j *jsonWriter) quoted(t text) {
	j.charge(2 * len(t))
	j.made = append(j.made, '"')
	for _, x := range t {
		for _, y := range j.escaped(char(x)) {
			j.made = append(j.made, y|x&fromInput)
		}
	}
	j.made = append(j.made, '"')
}

var jsonLetters = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`,
	'\f': `\f`, '\b': `\b`}

func (j *jsonWriter) escaped(r rune) []rune {
	if s, ok := jsonLetters[r]; ok {
		return []rune(s)
	}
	if r >= ' ' && !(j.ascii && r > '~') {
		return []rune{r}
	}
	units := []rune{r}
	if a, b := utf16.EncodeRune(r); r > 0xffff {
		units = []rune{a, b}
	}
	var made []rune
	for _, u := range units {
		s := "000" + strconv.FormatInt(int64(u), 16)
		made = append(made, []rune(`\u`+s[len(s)-4:])...)
	}
	return made
}
