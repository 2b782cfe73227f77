package jinja

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// filter computes a value from another one.
type filter func(r *run, v value, a *arguments) value

var filtersByName map[string]filter

// Some filters use other filters by name.
func init() {
	filtersByName = map[string]filter{
		"abs": absolute, "capitalize": methodFilter("capitalize"), "count": lengthFilter,
		"d": defaultFilter, "default": defaultFilter, "dictsort": dictSort, "e": escapeFilter,
		"escape": escapeFilter, "first": firstFilter, "float": floatFilter, "format": formatFilter,
		"indent": indent,
		"int":    intFilter, "items": itemsFilter, "join": joinFilter, "last": last,
		"length": lengthFilter, "list": listFilter, "lower": methodFilter("lower"),
		"map": ofSome(mapFilter), "max": extreme("max", 1), "min": extreme("min", -1),
		"reject":     ofSome(chooseFilter("reject", false, false)),
		"rejectattr": ofSome(chooseFilter("rejectattr", true, false)), "replace": replace,
		"reverse": reverseFilter, "round": round, "safe": safeFilter,
		"select":     ofSome(chooseFilter("select", false, true)),
		"selectattr": ofSome(chooseFilter("selectattr", true, true)), "sort": sorted,
		"string": stringFilter, "sum": sum, "title": title, "tojson": toJSON, "trim": trim,
		"unique": unique, "upper": methodFilter("upper"),
	}
}

// soft returns the text of a value for a filter that changes it.
func (r *run) soft(v value) text {
	if _, ok := v.(markup); ok {
		fail("a text after safe or escape is not changed here, want safe or escape last")
	}
	return r.str(v)
}

// methodFilter is a filter that does the same as a method of texts.
func methodFilter(name string) filter {
	return func(r *run, v value, a *arguments) value {
		a.valuesOf(name, 0)
		return textMethods[name](r, r.soft(v), a)
	}
}

func absolute(r *run, v value, a *arguments) value {
	a.valuesOf("abs", 0)
	if f, ok := v.(float64); ok {
		return math.Abs(f)
	} else if n, ok := integer(v); ok && n >= 0 {
		return n
	}
	return negate(v)
}

func defaultFilter(_ *run, v value, a *arguments) value {
	args := a.valuesOf("default", 0, "default_value", "boolean")
	_, missing := v.(undefined)
	if missing || truthOr(args[1], false) && !truth(v) {
		if args[0] == nil {
			return text(nil)
		}
		return args[0]
	}
	return v
}

func stringFilter(r *run, v value, a *arguments) value {
	a.valuesOf("string", 0)
	if m, ok := v.(markup); ok {
		return m
	}
	return r.str(v)
}

func trim(r *run, v value, a *arguments) value {
	chars := a.valuesOf("trim", 0, "chars")[0]
	return strip(r, "trim", r.soft(v), chars, true, true)
}

func replace(r *run, v value, a *arguments) value {
	args := a.valuesOf("replace", 2, "old", "new", "count")
	count := int64(-1)
	if args[2] != nil && args[2] != value(none{}) {
		count = intOr(args[2], -1)
	}
	return r.replaced(r.soft(v), r.soft(args[0]), r.soft(args[1]), count)
}

// title capitalizes words, as Jinja divides them.
func title(r *run, v value, a *arguments) value {
	a.valuesOf("title", 0)
	t := r.soft(v)
	begins := true
	return r.cased(t, func(i int) letterCase {
		divides := isSpace(t[i]) || strings.ContainsRune("-({[<", char(t[i]))
		capital := begins && !divides
		if begins = divides; capital {
			return upperCase
		}
		return lowerCase
	})
}

func indent(r *run, v value, a *arguments) value {
	args := a.valuesOf("indent", 0, "width", "first", "blank")
	begin, isText := args[0].(text)
	if !isText {
		begin = r.repeated(text{' '}, intOr(args[0], 4)).(text)
	}
	lines := splitLines(append(slices.Clip(textOr(v, "")), '\n'), false)
	for i := range lines {
		if i == 0 && truthOr(args[1], false) ||
			i > 0 && (len(lines[i]) > 0 || truthOr(args[2], false)) {
			lines[i] = r.join([]text{begin, lines[i]}, nil)
		}
	}
	return r.join(lines, text{'\n'})
}

func formatFilter(r *run, v value, a *arguments) value {
	if len(a.positions) > 0 && len(a.names) > 0 {
		fail("format has arguments with names and without, want only one kind")
	}
	if len(a.names) == 0 {
		return r.formatted(r.soft(v), tuple(a.positions))
	}
	d := newDict()
	for i, name := range a.names {
		r.set(d, textOf(name, 0), a.values[i])
	}
	return r.formatted(r.soft(v), d)
}

// intFilter returns a number or text as an integer, or a default if it is none.
func intFilter(r *run, v value, a *arguments) value {
	args := a.valuesOf("int", 0, "default", "base")
	if intOr(args[1], 10) != 10 {
		fail("int has base %d, want 10", intOr(args[1], 10))
	}
	defined(v)
	if n, ok := integer(v); ok {
		return n
	} else if t, ok := v.(text); ok {
		s := r.digits(t)
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n
		} else if !strings.ContainsAny(s, ".eEnN") && parsed(s) != nil {
			fail("%.40s is too large, want integers of 64 bits", s)
		}
		v = parsed(s)
	}
	if f, ok := v.(float64); ok && !math.IsNaN(f) && !math.IsInf(f, 0) {
		return truncated(f)
	} else if args[0] != nil {
		return args[0]
	}
	return int64(0)
}

func truncated(f float64) int64 {
	if math.IsNaN(f) || math.Abs(f) >= 1<<63 {
		fail("%v is too large, want integers of 64 bits", f)
	}
	return int64(f)
}

// digits returns the text of a number in Go's syntax.
func (r *run) digits(t text) string {
	s := strings.TrimFunc(r.plain(t), isSpace)
	if i := strings.IndexFunc(s, func(r rune) bool { return r > '~' && isDecimal(r) }); i >= 0 {
		fail("digits other than 0 to 9 are not supported: %.40q", s)
	}
	var b strings.Builder
	for i := range len(s) { // single underscores between digits are ignored
		if s[i] != '_' || i == 0 || i+1 == len(s) || !isDigit(s[i-1]) || !isDigit(s[i+1]) {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// parsed returns the float64 of a text, or nil.
func parsed(s string) value {
	if strings.ContainsAny(s, "xXpP_") {
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return nil
	}
	return f
}

func floatFilter(r *run, v value, a *arguments) value {
	args := a.valuesOf("float", 0, "default")
	defined(v)
	if t, ok := v.(text); ok {
		v = parsed(r.digits(t))
	}
	if f, ok := float(v); ok {
		return f
	} else if args[0] != nil {
		return args[0]
	}
	return 0.0
}

func round(r *run, v value, a *arguments) value {
	args := a.valuesOf("round", 0, "precision", "method")
	precision := intOr(args[0], 0)
	if precision < 0 || precision > 300 {
		fail("round has precision %d, want 0 to 300", precision)
	}
	defined(v)
	f, ok := float(v)
	if !ok {
		fail("a value of type %s is rounded, want a number", typeName(v))
	}
	scale := math.Pow(10, float64(precision))
	switch method := r.plain(textOr(args[1], "common")); method {
	case "ceil":
		return math.Ceil(f*scale) / scale
	case "floor":
		return math.Floor(f*scale) / scale
	case "common":
		if n, ok := integer(v); ok {
			return n
		}
		f, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(precision), 64), 64)
		return f
	default:
		fail("round has method %.40q, want common, ceil or floor", method)
	}
	return nil
}
