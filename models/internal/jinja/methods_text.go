package jinja

import (
	"slices"
	"unicode"
)

type textMethod func(r *run, t text, a *arguments) value

// textMethods are the methods of Python's str.
var textMethods = map[string]textMethod{
	"capitalize": changes("capitalize", func(_ text, i int) letterCase {
		if i == 0 {
			return titleCase
		}
		return lowerCase
	}),
	"center":       padded("center", func(pad, width int) int { return pad/2 + pad&width&1 }),
	"count":        countText,
	"endswith":     affixMethod("endswith", text.hasSuffix),
	"find":         finds("find", (*run).index, false),
	"format":       formatMethod,
	"index":        finds("index", (*run).index, true),
	"isalnum":      everyCharacter("isalnum", func(r rune) bool { return isAlpha(r) || isNumeric(r) }),
	"isalpha":      everyCharacter("isalpha", isAlpha),
	"isdecimal":    everyCharacter("isdecimal", isDecimal),
	"isdigit":      everyCharacter("isdigit", isDigits),
	"islower":      hasCase("islower", isLower, isUpper),
	"isspace":      everyCharacter("isspace", isSpace),
	"isupper":      hasCase("isupper", isUpper, isLower),
	"join":         joinMethod,
	"ljust":        padded("ljust", func(int, int) int { return 0 }),
	"lower":        changes("lower", func(text, int) letterCase { return lowerCase }),
	"lstrip":       strips("lstrip", true, false),
	"partition":    partition("partition", (*run).index),
	"removeprefix": removes("removeprefix", true),
	"removesuffix": removes("removesuffix", false),
	"replace":      replaceMethod,
	"rfind":        finds("rfind", (*run).lastIndex, false),
	"rindex":       finds("rindex", (*run).lastIndex, true),
	"rjust":        padded("rjust", func(pad, _ int) int { return pad }),
	"rpartition":   partition("rpartition", (*run).lastIndex),
	"rsplit":       splits("rsplit", true),
	"rstrip":       strips("rstrip", false, true),
	"split":        splits("split", false),
	"splitlines":   splitLinesMethod,
	"startswith":   affixMethod("startswith", text.hasPrefix),
	"strip":        strips("strip", true, true),
	"swapcase": changes("swapcase", func(t text, i int) letterCase {
		if isUpper(t[i]) {
			return lowerCase
		} else if isLower(t[i]) {
			return upperCase
		}
		return sameCase
	}),
	"title": changes("title", func(t text, i int) letterCase {
		if i > 0 && isCased(t[i-1]) {
			return lowerCase
		}
		return titleCase
	}),
	"upper": changes("upper", func(text, int) letterCase { return upperCase }),
	"zfill": zeroFill,
}

func changes(name string, choose func(t text, i int) letterCase) textMethod {
	return func(r *run, t text, a *arguments) value {
		a.valuesOf(name, 0)
		return r.cased(t, func(i int) letterCase { return choose(t, i) })
	}
}

// everyCharacter is a method that tests all characters.
func everyCharacter(name string, is func(rune) bool) textMethod {
	return func(r *run, t text, a *arguments) value {
		a.valuesOf(name, 0)
		r.charge(len(t))
		return len(t) > 0 && !slices.ContainsFunc(t, func(r rune) bool { return !is(r) })
	}
}

// hasCase is a method that requires characters of one case and none of the other.
func hasCase(name string, is, isNot func(rune) bool) textMethod {
	return func(r *run, t text, a *arguments) value {
		a.valuesOf(name, 0)
		r.charge(len(t))
		isOther := func(r rune) bool { return isNot(r) || unicode.IsTitle(char(r)) }
		return slices.ContainsFunc(t, is) && !slices.ContainsFunc(t, isOther)
	}
}

func isAlpha(r rune) bool   { return unicode.IsLetter(char(r)) }
func isDecimal(r rune) bool { return unicode.Is(unicode.Nd, char(r)) }
func isNumeric(r rune) bool { return unicode.IsNumber(char(r)) }

// isDigits is Python's isdigit of a character. It does not know which numeric characters other than
// decimal digits Python accepts.
func isDigits(r rune) bool {
	if isNumeric(r) && !isDecimal(r) {
		fail("isdigit of %q is not supported, want decimal digits or none", char(r))
	}
	return isDecimal(r)
}

func strips(name string, left, right bool) textMethod {
	return func(r *run, t text, a *arguments) value {
		return strip(r, name, t, a.valuesOf(name, 0, "chars")[0], left, right)
	}
}

// strip removes white space, or the characters of chars, from the ends.
func strip(r *run, name string, t text, chars value, left, right bool) text {
	if chars == nil || chars == value(none{}) {
		r.charge(len(t))
		return t.trim(left, right, isSpace)
	}
	drop := map[rune]bool{}
	for _, x := range textOr(chars, "") {
		r.charge(workOfEntry)
		drop[char(x)] = true
	}
	r.charge(workOfItem * len(t))
	return t.trim(left, right, func(x rune) bool { return drop[char(x)] })
}

// bounded returns the part of a text that a method searches.
func bounded(t text, from, to value) (part text, first int, ok bool) {
	bound := func(v value, usual int) int {
		if v == value(none{}) {
			v = nil
		}
		n := intOr(v, int64(usual))
		if n < 0 {
			n = max(n+int64(len(t)), 0)
		}
		return int(min(n, int64(len(t)+1)))
	}
	first, end := bound(from, 0), min(bound(to, len(t)), len(t))
	if first > end {
		return nil, 0, false
	}
	return t[first:end], first, true
}

func affixMethod(name string, has func(t, affix text) bool) textMethod {
	return func(r *run, t text, a *arguments) value {
		args := a.valuesOf(name, 1, "prefix", "start", "end")
		part, _, ok := bounded(t, args[1], args[2])
		affixes, several := args[0].(tuple)
		if !several {
			affixes = tuple{args[0]}
		}
		return slices.ContainsFunc(affixes, func(v value) bool {
			affix := textOr(v, "")
			r.charge(len(affix))
			return ok && has(part, affix)
		})
	}
}

func finds(name string, find func(r *run, t, p text) int, must bool) textMethod {
	return func(r *run, t text, a *arguments) value {
		args := a.valuesOf(name, 1, "sub", "start", "end")
		wanted := textOr(args[0], "")
		at := -1
		if part, first, ok := bounded(t, args[1], args[2]); ok {
			if at = find(r, part, wanted); at >= 0 {
				at += first
			}
		}
		if at < 0 && must {
			fail("%s: the text is not there", name)
		}
		return int64(at)
	}
}

func countText(r *run, t text, a *arguments) value {
	args := a.valuesOf("count", 1, "sub", "start", "end")
	wanted := textOr(args[0], "")
	part, _, ok := bounded(t, args[1], args[2])
	if ok && len(wanted) == 0 {
		return int64(len(part) + 1)
	}
	n := int64(0)
	for ok {
		at := r.index(part, wanted)
		if at < 0 {
			break
		}
		n, part = n+1, part[at+len(wanted):]
	}
	return n
}

func joinMethod(r *run, t text, a *arguments) value {
	var texts []text
	for _, item := range r.each(a.valuesOf("join", 1, "iterable")[0]) {
		texts = append(texts, textOr(item, ""))
	}
	return r.join(texts, t)
}

func replaceMethod(r *run, t text, a *arguments) value {
	args := a.valuesOf("replace", 2, "old", "new", "count")
	return r.replaced(t, textOr(args[0], ""), textOr(args[1], ""), intOr(args[2], -1))
}

// replaced replaces old by another text, count times, or everywhere if count is negative.
func (r *run) replaced(t, old, by text, count int64) text {
	if len(old) == 0 {
		fail("an empty text is replaced, want one of some letters")
	}
	var parts []text
	for ; count != 0; count-- {
		at := r.index(t, old)
		if at < 0 {
			break
		}
		r.charge(workOfItem)
		parts, t = append(parts, t[:at]), t[at+len(old):]
	}
	return r.join(append(parts, t), by)
}

func partition(name string, find func(r *run, t, p text) int) textMethod {
	return func(r *run, t text, a *arguments) value {
		by := textOr(a.valuesOf(name, 1, "sep")[0], "")
		if len(by) == 0 {
			fail("%s: the separator is empty", name)
		}
		at := find(r, t, by)
		switch {
		case at >= 0:
			return tuple{t[:at], by, t[at+len(by):]}
		case name == "partition":
			return tuple{t, text(nil), text(nil)}
		}
		return tuple{text(nil), text(nil), t}
	}
}

func removes(name string, prefix bool) textMethod {
	return func(r *run, t text, a *arguments) value {
		affix := textOr(a.valuesOf(name, 1, "affix")[0], "")
		r.charge(len(affix))
		switch {
		case prefix && t.hasPrefix(affix):
			return t[len(affix):]
		case !prefix && t.hasSuffix(affix):
			return t[:len(t)-len(affix)]
		}
		return t
	}
}

// padded is a method that pads to a width; left returns how much of the padding is before the text.
func padded(name string, left func(pad, width int) int) textMethod {
	return func(r *run, t text, a *arguments) value {
		args := a.valuesOf(name, 1, "width", "fillchar")
		fill := textOr(args[1], " ")
		if len(fill) != 1 {
			fail("%s fills with %d characters, want 1", name, len(fill))
		}
		pad := max(intOr(args[0], 0)-int64(len(t)), 0)
		before := int64(left(int(min(pad, mostSource)), len(t)+int(min(pad, mostSource))))
		if pad > mostSource {
			fail("%s has a width of more than %d", name, mostSource)
		}
		return r.join([]text{r.repeated(fill, before).(text), t,
			r.repeated(fill, pad-before).(text)}, nil)
	}
}

func zeroFill(r *run, t text, a *arguments) value {
	sign := 0
	if len(t) > 0 && (char(t[0]) == '-' || char(t[0]) == '+') {
		sign = 1
	}
	zeros := r.repeated(text{'0'}, intOr(a.valuesOf("zfill", 1, "width")[0], 0)-int64(len(t)))
	return r.join([]text{t[:sign], zeros.(text), t[sign:]}, nil)
}
