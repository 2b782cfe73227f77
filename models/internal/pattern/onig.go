package pattern

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// dotNet translates a pattern of Oniguruma into the language of .NET, which the parser reads. A
// pattern without a translation is an error.
func dotNet(pattern string) (string, error) {
	const most = 1 << 20
	t := &translator{rest: []rune(pattern)}
	for len(t.rest) > 0 && t.err == nil {
		if t.element(); len(t.out) > most {
			t.fail("has too much when \\w and \\W are written out, want at most %d bytes", most)
		}
	}
	if t.refers > t.plain || t.refers > 0 && t.named {
		t.fail(`refers to \%d, want the number of a group, with no groups that have names`, t.refers)
	}
	if t.err != nil {
		return "", fmt.Errorf("the pattern %q %w", pattern, t.err)
	}
	return string(t.out), nil
}

// What \w matches in a class. Outside of classes it also matches six numbers, since Oniguruma has
// another table for the letters of Latin-1.
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

// otherLetters are all letters that wordLetters are not: .NET's classes have no complement of
// several categories next to others.
var otherLetters = sync.OnceValue(func() string {
	var b strings.Builder
	b.WriteString(`\p{No}\p{Z}\p{C}\p{Pd}\p{Ps}\p{Pe}\p{Pi}\p{Pf}\p{Po}\p{Sm}\p{Sc}\p{Sk}`)
	isWord := func(r rune) bool { return unicode.Is(unicode.Other_Alphabetic, r) }
	add := func(from, to, stride rune) {
		for first := from; first <= to; first += stride {
			if isWord(first) {
				continue
			}
			last := first
			for stride == 1 && last < to && !isWord(last+1) {
				last++
			}
			b.WriteString(string(first) + "-" + string(last))
			first = last
		}
	}
	for _, r := range unicode.So.R16 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	for _, r := range unicode.So.R32 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	return b.String()
})

// translator is the state of a translation.
type translator struct {
	rest []rune
	out  []byte
	err  error

	open    []group
	ignores bool // case
	last    int  // where the last element begins in out
	plain   int  // groups without a name so far
	named   bool
	refers  int // the largest number of a group that a reference names
	atomic  int // atomic groups so far
}

// group is an open group: where it begins in out, what ends it, and whether case is ignored after
// it.
type group struct {
	at      int
	end     string
	ignores bool
}

func (t *translator) write(text string) { t.out = append(t.out, text...) }

func (t *translator) fail(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf(format, args...)
	}
}

// next returns the next letter, 0 at the end.
func (t *translator) next() rune {
	if len(t.rest) == 0 {
		return 0
	}
	r := t.rest[0]
	t.rest = t.rest[1:]
	return r
}

// begins reports whether the rest begins with a text.
func (t *translator) begins(text string) bool {
	n := len([]rune(text))
	return len(t.rest) >= n && string(t.rest[:n]) == text
}

// copyBytes copies n bytes.
func (t *translator) copyBytes(n int) {
	t.write(string(t.rest[:n]))
	t.rest = t.rest[n:]
}

// element translates an element outside of classes.
func (t *translator) element() {
	at := len(t.out)
	switch r := t.next(); r {
	case '\\':
		t.escape()
	case '[':
		t.class()
	case '(':
		t.group()
		return
	case ')':
		at = t.closeGroup()
	case '^': // matches at the beginning of a line
		t.write(`(?:\A|(?<=\n)(?!\z))`)
	case '$':
		t.write(`(?=\n|\z)`)
	case '*', '+', '?':
		t.times(string(r))
		return
	case '{':
		if body, isTimes := t.counts(); isTimes {
			t.exactly(body)
			return
		}
		t.write(`\{`)
	default:
		t.write(string(r))
	}
	t.last = at
}

// times translates the quantifier of the last element. A + after it makes the loop possessive.
func (t *translator) times(often string) {
	t.write(often)
	switch {
	case t.begins("?"):
		t.copyBytes(1)
	case t.begins("+"):
		t.next()
		begin, end := t.atomicGroup()
		t.out = slices.Insert(t.out, t.last, []byte(begin)...)
		t.write(end)
	}
}

// atomicGroup returns the brackets of an atomic group. They include a group with a name that no
// pattern can have, because the parser would multiply counts of loops: (?>a+)? is not (?>a*).
func (t *translator) atomicGroup() (begin, end string) {
	t.atomic++
	return fmt.Sprintf("(?<ω%d>(?>", t.atomic), "))"
}

// closeGroup writes the end of a group, and returns where the group begins.
func (t *translator) closeGroup() int {
	if len(t.open) == 0 {
		t.fail("has a ) too many, want a ( before it")
		return 0
	}
	g := t.open[len(t.open)-1]
	t.open = t.open[:len(t.open)-1]
	t.write(g.end)
	t.ignores = g.ignores
	return g.at
}

// escape translates an escape outside of classes.
func (t *translator) escape() {
	switch r := t.next(); r {
	case 'w':
		t.write(wordSet)
	case 'W':
		t.write(noWordSet)
	case 'b':
		t.write(boundary)
	case 'B':
		t.write(noBoundary)
	case '<', '\'': // it would begin the name of a group
		t.write(string(r))
	case 'A', 'Z', 'z':
		t.write(`\` + string(r))
	case 'k':
		if name := strings.Trim(t.upTo('>'), "<>"); !isName(name) || unicode.IsDigit(rune(name[0])) {
			t.fail(`has \k%s, want the name of a group, as \k<name>`, t.upTo('>'))
		}
		t.write(`\k`)
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		digits := string(r)
		for len(t.rest) > 0 && unicode.IsDigit(t.rest[0]) {
			digits += string(t.next())
		}
		number, _ := strconv.Atoi(digits) // one that is too large here is too large below, too
		t.refers = max(t.refers, number)
		t.write(`\` + digits)
	default:
		t.letter(r)
	}
}

// letter translates an escape that means the same within classes and outside.
func (t *translator) letter(r rune) {
	const known = `dDsSpPnrtfvaexuc0123456789`
	switch isLetter := r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)); {
	case r == 0:
		t.fail(`ends in a backslash, want a letter after it`)
	case isLetter && !strings.ContainsRune(known, r):
		t.fail(`has \%c%s, want one of \w \W \b \B \A \Z \z \k and \ before %s`, r,
			string(t.rest[:min(2, len(t.rest))]), known)
	case t.ignores && (r == 'p' || r == 'P') && slices.Contains(cases, t.upTo('}')):
		t.fail(`has \%c%s where case is ignored, want it outside of (?i)`, r, t.upTo('}'))
	case (r == 'p' || r == 'P') && !isProperty(t.upTo('}')):
		t.fail(`has \%c%s, want the name of a category or script in braces, as \p{L}`, r, t.upTo('}'))
	}
	t.write(`\` + string(r))
	if strings.ContainsRune("pPx", r) && t.begins("{") {
		t.copyBytes(len([]rune(t.upTo('}'))))
	}
}

// cases are properties that (?i) changes in the parser, but not, or for fewer letters, in
// Oniguruma.
var cases = []string{"{Lu}", "{Ll}", "{Lt}"}

// isProperty reports whether a name in braces means the same to Oniguruma and to the parser, which
// also has names of its own.
func isProperty(text string) bool {
	name, ok := strings.CutPrefix(strings.TrimSuffix(text, "}"), "{")
	if !ok {
		return false
	}
	for _, names := range []map[string]*unicode.RangeTable{unicode.Categories, unicode.Scripts,
		unicode.Properties} {
		if _, ok := names[name]; ok {
			return true
		}
	}
	return false
}

// class translates a class after its bracket.
func (t *translator) class() {
	t.write("[")
	if t.begins("^") {
		t.copyBytes(1)
	}
	t.set()
	t.write("]")
}

// set translates the members of a class up to its end. Classes within it add members.
func (t *translator) set() {
	for first := true; t.err == nil; first = false {
		switch r := t.next(); {
		case r == 0:
			t.fail("has a class without an end, want a ]")
		case r == ']' && !first:
			return
		case r == ']':
			t.write(`\]`)
		case r == '\\':
			t.member()
		case r == '[':
			t.inner()
		case r == '&' && t.begins("&"):
			t.fail("has && in a class, want one without")
		case r == '-' && t.begins("["):
			t.fail(`has -[ in a class, want \- or no class within another`)
		default:
			t.write(string(r))
		}
	}
}

// member translates an escape in a class.
func (t *translator) member() {
	switch r := t.next(); r {
	case 'w':
		t.write(wordLetters)
	case 'W':
		t.write(otherLetters())
	case 'b':
		t.write(`\b`) // a backspace
	default:
		t.letter(r)
	}
}

// inner translates a class within another, after its bracket.
func (t *translator) inner() {
	switch {
	case t.begins(":"):
		t.fail("has %q in a class, want categories, as \\p{L}", "["+t.upTo(']'))
	case t.begins("^"):
		t.fail("has a class [^…] within another, want it outside")
	}
	t.set()
}

// upTo returns the rest up to a letter, "" if there is none.
func (t *translator) upTo(end rune) string {
	return string(t.rest[:slices.Index(t.rest, end)+1])
}

// groups are the beginnings of groups that mean the same in both languages.
var groups = []string{"?:", "?=", "?!", "?<=", "?<!", "?>", "?#", "?i:", "?-i:"}

// group translates the beginning of a group, after its bracket.
func (t *translator) group() {
	begin, end, ignores := "(", ")", t.ignores
	atStart := len(t.out) == 0
	name := t.upTo('>')
	switch i := slices.IndexFunc(groups, t.begins); {
	case !t.begins("?"):
		t.plain++
	case t.begins("?#"):
		t.comment()
		return
	case t.begins("?>"):
		begin, end = t.atomicGroup()
		t.rest = t.rest[len("?>"):]
	case i >= 0:
		begin += groups[i]
		t.rest = t.rest[len(groups[i]):]
		t.ignores = groups[i] == "?i:" || groups[i] != "?-i:" && ignores
	case t.begins("?i)") && atStart:
		t.write("(")
		t.copyBytes(len("?i)"))
		t.ignores = true
		return
	case t.begins("?<") && isName(strings.Trim(name, "?<>")):
		t.named = true
	default:
		t.fail("has a group (%s…, want ( or (%s, or (?i) at the beginning",
			string(t.rest[:min(4, len(t.rest))]), strings.Join(groups, ", ("))
	}
	t.open = append(t.open, group{len(t.out), end, ignores})
	t.write(begin)
}

// comment drops a comment.
func (t *translator) comment() {
	end := slices.Index(t.rest, ')')
	if end < 0 {
		t.fail("has a comment without an end, want a )")
		return
	}
	t.rest = t.rest[end+1:]
}

func isName(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool {
		return r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	}) < 0
}

// counts returns the text in braces, if it is a quantifier.
func (t *translator) counts() (body string, ok bool) {
	body = t.upTo('}')
	low, high, _ := strings.Cut(strings.TrimSuffix(body, "}"), ",")
	return body, body != "" && low+high != "" && strings.Trim(low+high, "0123456789") == ""
}

// exactly writes such a quantifier.
func (t *translator) exactly(body string) {
	t.write("{")
	if strings.HasPrefix(body, ",") {
		t.write("0")
	}
	t.copyBytes(len(body))
	switch both := strings.Contains(body, ","); {
	case t.begins("?") && !both:
		t.fail("has {%s?, want no ? there: it makes all of them optional", body)
	case t.begins("?"):
		t.copyBytes(1)
	}
	if t.begins("+") {
		t.fail("has {%s+, want no + there: it is another loop around that", body)
	}
}
