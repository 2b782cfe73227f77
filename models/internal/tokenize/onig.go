package tokenize

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Patterns of tokenizer.json are Oniguruma's, the engine of Hugging Face's tokenizers. Here regexp2
// matches, whose language is that of .NET. dotNet writes a pattern so that it means the same there;
// what cannot be written so is an error.
func dotNet(pattern string) (string, error) {
	t := &translator{rest: []rune(pattern)}
	for len(t.rest) > 0 && t.err == nil {
		t.element()
	}
	if t.err != nil {
		return "", fmt.Errorf("the pattern %q %w", pattern, t.err)
	}
	return t.out.String(), nil
}

// What \w means in a class, and the six numbers that it means outside of classes, too, as
// Oniguruma has a table of its own for the letters of Latin-1.
const (
	wordLetters = `\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\p{Other_Alphabetic}`
	latinWord   = `\u00B2\u00B3\u00B9\u00BC-\u00BE`
)

const (
	wordSet    = `[` + wordLetters + latinWord + `]`
	noWordSet  = `[^` + wordLetters + latinWord + `]`
	boundary   = `(?:(?<=` + wordSet + `)(?!` + wordSet + `)|(?<!` + wordSet + `)(?=` + wordSet + `))`
	noBoundary = `(?:(?<=` + wordSet + `)(?=` + wordSet + `)|(?<!` + wordSet + `)(?!` + wordSet + `))`
)

// otherLetters are all that wordLetters are not: .NET's classes have no complement of several
// categories beside others.
var otherLetters = func() string {
	var b strings.Builder
	b.WriteString(`\p{No}\p{Z}\p{C}\p{Pd}\p{Ps}\p{Pe}\p{Pi}\p{Pf}\p{Po}\p{Sm}\p{Sc}\p{Sk}`)
	add := func(from, to, stride rune) {
		for r := from; r <= to; r += stride {
			if !unicode.Is(unicode.Other_Alphabetic, r) {
				b.WriteRune(r)
			}
		}
	}
	for _, r := range unicode.So.R16 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	for _, r := range unicode.So.R32 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	return b.String()
}()

// translator is between a pattern and what was written of it.
type translator struct {
	rest []rune
	out  strings.Builder
	err  error
}

func (t *translator) fail(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf(format, args...)
	}
}

// next takes a letter, 0 at the end.
func (t *translator) next() rune {
	if len(t.rest) == 0 {
		return 0
	}
	r := t.rest[0]
	t.rest = t.rest[1:]
	return r
}

// begins says whether the rest begins so.
func (t *translator) begins(text string) bool {
	n := len([]rune(text))
	return len(t.rest) >= n && string(t.rest[:n]) == text
}

// take writes what is next as it is.
func (t *translator) take(n int) {
	t.out.WriteString(string(t.rest[:n]))
	t.rest = t.rest[n:]
}

// element writes what begins with the next letter, outside of classes.
func (t *translator) element() {
	switch r := t.next(); r {
	case '\\':
		t.escape()
	case '[':
		t.class()
	case '(':
		t.group()
	case '^': // of a line
		t.out.WriteString(`(?:\A|(?<=\n)(?!\z))`)
	case '$':
		t.out.WriteString(`(?=\n|\z)`)
	case '{':
		t.times()
	default:
		t.out.WriteRune(r)
	}
}

// escape writes what a backslash and a letter mean outside of classes.
func (t *translator) escape() {
	switch r := t.next(); r {
	case 'w':
		t.out.WriteString(wordSet)
	case 'W':
		t.out.WriteString(noWordSet)
	case 'b':
		t.out.WriteString(boundary)
	case 'B':
		t.out.WriteString(noBoundary)
	case '<', '\'': // would begin the name of a group
		t.out.WriteRune(r)
	case 'A', 'Z', 'z', 'k':
		t.out.WriteString(`\` + string(r))
	default:
		t.letter(r)
	}
}

// letter writes an escape that means the same within classes and outside.
func (t *translator) letter(r rune) {
	const known = `dDsSpPnrtfvaexuc0123456789`
	switch isLetter := r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)); {
	case r == 0:
		t.fail(`ends in a backslash, want a letter after it`)
	case isLetter && !strings.ContainsRune(known, r), t.begins("{^"):
		t.fail(`has \%c%s, want one of \w \W \b \B \A \Z \z \k and \ before %s, and no ^ in properties`, r,
			string(t.rest[:min(2, len(t.rest))]), known)
	}
	t.out.WriteString(`\` + string(r))
}

// class writes one after its bracket.
func (t *translator) class() {
	t.out.WriteString("[")
	if t.begins("^") {
		t.take(1)
	}
	t.set()
	t.out.WriteString("]")
}

// set writes the members of a class up to its end. Classes within it are more members.
func (t *translator) set() {
	for first := true; t.err == nil; first = false {
		switch r := t.next(); {
		case r == 0:
			t.fail("has a class without an end, want a ]")
		case r == ']' && !first:
			return
		case r == ']':
			t.out.WriteString(`\]`)
		case r == '\\':
			t.member()
		case r == '[':
			t.inner()
		case r == '&' && t.begins("&"):
			t.fail("has && in a class, want one without")
		case r == '-' && t.begins("["):
			t.fail(`has -[ in a class, want \- or no class within another`)
		default:
			t.out.WriteRune(r)
		}
	}
}

// member writes what a backslash and a letter mean in a class.
func (t *translator) member() {
	switch r := t.next(); r {
	case 'w':
		t.out.WriteString(wordLetters)
	case 'W':
		t.out.WriteString(otherLetters)
	case 'b':
		t.out.WriteString(`\b`) // a backspace
	default:
		t.letter(r)
	}
}

// inner writes a class within another, after its bracket.
func (t *translator) inner() {
	switch {
	case t.begins(":"):
		t.fail("has %q in a class, want categories, as \\p{L}", "["+t.upTo(']'))
	case t.begins("^"):
		t.fail("has a class [^…] within another, want it outside")
	}
	t.set()
}

// upTo is the rest up to a letter, "" if that does not come.
func (t *translator) upTo(end rune) string {
	return string(t.rest[:slices.Index(t.rest, end)+1])
}

// groups are the beginnings of groups that mean the same.
var groups = []string{"?:", "?=", "?!", "?<=", "?<!", "?>", "?#", "?i:", "?-i:"}

// group writes the beginning of one after its bracket.
func (t *translator) group() {
	t.out.WriteString("(")
	if !t.begins("?") {
		return
	}
	for _, g := range groups {
		if t.begins(g) {
			t.take(len(g))
			return
		}
	}
	atStart := t.out.Len() == len("(")
	switch name := t.upTo('>'); {
	case t.begins("?i)") && atStart:
		t.take(len("?i)"))
	case t.begins("?<") && isName(strings.Trim(name, "?<>")):
		t.take(len(name))
	default:
		t.fail("has a group (%s…, want ( or (%s, or (?i) at the beginning",
			string(t.rest[:min(4, len(t.rest))]), strings.Join(groups, ", ("))
	}
}

func isName(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool {
		return r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	}) < 0
}

// times writes how often something comes, after its bracket, or the bracket alone.
func (t *translator) times() {
	t.out.WriteString("{")
	body := t.upTo('}')
	low, high, both := strings.Cut(strings.TrimSuffix(body, "}"), ",")
	if body == "" || low+high == "" || strings.Trim(low+high, "0123456789") != "" {
		return // it is a letter like others
	}
	if low == "" {
		t.out.WriteString("0")
	}
	if t.take(len(body)); !both && t.begins("?") {
		t.fail("has {%s?, want no ? there: it makes all of them optional", body)
	}
}
