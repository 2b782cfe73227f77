package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode"
)

// str returns the text of a value for printing: Python's str.
func (r *run) str(v value) text {
	switch v := v.(type) {
	case undefined:
		return nil
	case text:
		return v
	case markup:
		return v.text
	}
	return r.repr(v)
}

// repr is Python's repr, which lists use for their items.
func (r *run) repr(v value) (made text) {
	defer r.deeper()()
	r.charge(workOfStep)
	switch v := v.(type) {
	case none:
		return textOf("None", 0)
	case undefined:
		return textOf("Undefined", 0)
	case bool:
		return textOf(map[bool]string{true: "True", false: "False"}[v], 0)
	case int64:
		return textOf(strconv.FormatInt(v, 10), 0)
	case float64:
		return textOf(floatText(v), 0)
	case text:
		return r.quoted(v)
	case *listValue:
		return r.listed("[", v.items, "]")
	case tuple:
		if len(v) == 1 {
			return r.listed("(", v, ",)")
		}
		return r.listed("(", v, ")")
	case *dict:
		return r.pairs(v)
	case view:
		return r.join([]text{textOf("dict_"+v.kind+"([", 0), r.listed("", v.items(), ""),
			textOf("])", 0)}, nil)
	case span:
		items := []value{v.start, v.stop}
		if v.step != 1 {
			items = append(items, v.step)
		}
		return r.listed("range(", items, ")")
	}
	fail("a value of type %s has no text", typeName(v))
	return nil
}

// listed writes items separated by commas.
func (r *run) listed(begin string, items []value, end string) text {
	var all []text
	for _, item := range items {
		all = append(all, r.repr(item))
	}
	return r.join([]text{textOf(begin, 0), r.join(all, textOf(", ", 0)), textOf(end, 0)}, nil)
}

func (r *run) pairs(d *dict) text {
	var all []text
	for i, k := range d.keys {
		all = append(all, r.join([]text{r.repr(k), r.repr(d.values[i])}, textOf(": ", 0)))
	}
	return r.join([]text{textOf("{", 0), r.join(all, textOf(", ", 0)), textOf("}", 0)}, nil)
}

// quoted writes a string as a literal.
func (r *run) quoted(t text) text {
	r.charge(len(t))
	quote := rune('\'')
	plain := t.plain()
	if strings.ContainsRune(plain, '\'') && !strings.ContainsRune(plain, '"') {
		quote = '"'
	}
	made := text{quote}
	for _, x := range t {
		for _, y := range quotedRune(char(x), quote) {
			made = append(made, y|x&fromInput)
		}
	}
	return append(made, quote)
}

func quotedRune(r, quote rune) string {
	hex := func(letter string, digits int) string {
		s := strconv.FormatInt(int64(r), 16)
		return "\\" + letter + strings.Repeat("0", max(0, digits-len(s))) + s
	}
	switch {
	case r == quote || r == '\\':
		return "\\" + string(r)
	case r == '\n':
		return "\\n"
	case r == '\r':
		return "\\r"
	case r == '\t':
		return "\\t"
	case unicode.IsPrint(r):
		return string(r)
	case r < 0x100:
		return hex("x", 2)
	case r < 0x10000:
		return hex("u", 4)
	}
	return hex("U", 8)
}

// floatText returns the shortest text of a number, with a point or an exponent.
func floatText(x float64) string {
	switch {
	case math.IsInf(x, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(x, 'g', -1, 64)), "+")
	case math.IsNaN(x):
		return "nan"
	}
	s := strconv.FormatFloat(x, 'e', -1, 64)
	exponent, _ := strconv.Atoi(s[strings.IndexByte(s, 'e')+1:])
	if exponent < -4 || exponent >= 16 {
		return s
	}
	if s = strconv.FormatFloat(x, 'f', -1, 64); !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
