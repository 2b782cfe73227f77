package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// text is a string. Its elements are characters, as in Python. Characters of an Input keep the bit
// fromInput through all operations of a template.
type text []rune

const fromInput = 1 << 24

// A byte that is not UTF-8 is a character, as with Python's surrogateescape.
const byteBase, byteFirst, byteLast = 0xdc00, 0xdc80, 0xdcff

// char returns a character without the bit.
func char(r rune) rune { return r &^ fromInput }

// textOf returns the text of a string, with the same bit for all characters.
func textOf(s string, bit rune) text {
	t := make(text, 0, len(s))
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			r = byteBase + rune(s[i])
		}
		t = append(t, r|bit)
		i += n
	}
	return t
}

// plain returns the string and charges the work.
func (r *run) plain(t text) string {
	r.charge(workOfItem * len(t))
	return t.plain()
}

// plain returns the string; its length is bounded already.
func (t text) plain() string {
	var b strings.Builder
	for _, r := range t {
		write(&b, r)
	}
	return b.String()
}

func write(b *strings.Builder, r rune) {
	if r = char(r); r >= byteFirst && r <= byteLast {
		b.WriteByte(byte(r - byteBase))
	} else {
		b.WriteRune(r)
	}
}

// pieces divides a text where the bit changes.
func (t text) pieces() (pieces []Piece) {
	for i := 0; i < len(t); {
		var b strings.Builder
		bit := t[i] & fromInput
		for ; i < len(t) && t[i]&fromInput == bit; i++ {
			write(&b, t[i])
		}
		pieces = append(pieces, Piece{b.String(), bit != 0})
	}
	return pieces
}

// isSpace is Python's isspace for a character.
func isSpace(r rune) bool {
	r = char(r)
	return r >= 0x1c && r <= 0x1f || unicode.IsSpace(r)
}

// trim removes characters from the ends.
func (t text) trim(left, right bool, drop func(rune) bool) text {
	for left && len(t) > 0 && drop(t[0]) {
		t = t[1:]
	}
	for right && len(t) > 0 && drop(t[len(t)-1]) {
		t = t[:len(t)-1]
	}
	return t
}

// hasPrefix compares without the bits.
func (t text) hasPrefix(p text) bool {
	return len(t) >= len(p) && sameText(t[:len(p)], p)
}

func (t text) hasSuffix(p text) bool {
	return len(t) >= len(p) && sameText(t[len(t)-len(p):], p)
}

func sameText(a, b text) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if char(a[i]) != char(b[i]) {
			return false
		}
	}
	return true
}

// index returns where p begins in t first, or -1.
func (r *run) index(t, p text) int {
	for i := 0; i+len(p) <= len(t); i++ {
		n := 0
		for n < len(p) && char(t[i+n]) == char(p[n]) {
			n++
		}
		r.charge(n + 1)
		if n == len(p) {
			return i
		}
	}
	return -1
}

// lastIndex returns where p begins in t last, or -1.
func (r *run) lastIndex(t, p text) int {
	for i := len(t) - len(p); i >= 0; i-- {
		r.charge(len(p) + 1)
		if sameText(t[i:i+len(p)], p) {
			return i
		}
	}
	return -1
}

// join concatenates texts.
func (r *run) join(list []text, between text) text {
	size := 0
	for i, t := range list {
		size += len(t)
		if i > 0 {
			size += len(between)
		}
		r.charge(len(t) + len(between))
	}
	all := make(text, 0, size)
	for i, t := range list {
		if i > 0 {
			all = append(all, between...)
		}
		all = append(all, t...)
	}
	return all
}

// letterCase is the case that a character is converted to; the result may be several characters.
type letterCase int

const (
	sameCase letterCase = iota
	upperCase
	lowerCase
	titleCase
)

// cased converts the case of characters, each as choose says.
func (r *run) cased(t text, choose func(i int) letterCase) text {
	r.charge(32 * len(t)) // the library's time for letters that are not ASCII
	casers := map[letterCase]cases.Caser{upperCase: cases.Upper(language.Und),
		lowerCase: cases.Lower(language.Und), titleCase: cases.Title(language.Und)}
	made := make(text, 0, len(t))
	for i, x := range t {
		y, bit, to := char(x), x&fromInput, choose(i)
		switch {
		case to == sameCase || y >= byteFirst && y <= byteLast:
			made = append(made, x)
		case y < utf8.RuneSelf && to == lowerCase:
			made = append(made, unicode.ToLower(y)|bit)
		case y < utf8.RuneSelf:
			made = append(made, unicode.ToUpper(y)|bit)
		case to == lowerCase && y == 'Σ':
			made = append(made, sigma(t, i)|bit)
		default:
			for _, z := range casers[to].String(string(y)) {
				made = append(made, z|bit)
			}
		}
	}
	return made
}

// sigma is what the Greek letter at i is in lower case: another one at the end of a word.
func sigma(t text, i int) rune {
	before, after := i-1, i+1
	for before >= 0 && caseIgnorable(t[before]) {
		before--
	}
	for after < len(t) && caseIgnorable(t[after]) {
		after++
	}
	if before >= 0 && isCased(t[before]) && (after == len(t) || !isCased(t[after])) {
		return 'ς'
	}
	return 'σ'
}

// caseIgnorable reports whether the search for the end of a word skips a character.
func caseIgnorable(r rune) bool {
	return unicode.In(char(r), unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) ||
		strings.ContainsRune("'.:·‘’․﹒＇．：", char(r))
}

func isLower(r rune) bool {
	return unicode.IsLower(char(r)) || unicode.Is(unicode.Other_Lowercase, char(r))
}

func isUpper(r rune) bool {
	return unicode.IsUpper(char(r)) || unicode.Is(unicode.Other_Uppercase, char(r))
}

func isCased(r rune) bool { return isLower(r) || isUpper(r) || unicode.IsTitle(char(r)) }
