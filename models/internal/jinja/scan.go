package jinja

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is the kind of a token. For operators and names of blocks it is their text.
type kind string

const (
	data       kind = "text"
	output     kind = "{{"
	endOut     kind = "}}"
	block      kind = "{%"
	endBlock   kind = "%}"
	identifier kind = "a name"
	literal    kind = "a string"
	numeral    kind = "a number"
	ending     kind = "the template's end"
)

// token is a part of a template. An operator's kind is its text.
type token struct {
	kind  kind
	text  string
	value value // of literals
	line  int
}

// space is \s of Python's regular expressions.
const space = `[\s\x0b\x1c-\x1f\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}` +
	`\x{205f}\x{3000}]`

var (
	rawBegin = regexp.MustCompile(`^\{%[-+]?` + space + `*raw` + space + `*(-%\}` + space + `*|%\})`)
	rawEnd   = regexp.MustCompile(`\{%([-+]?)` + space + `*endraw` + space +
		`*(\+%\}|-%\}` + space + `*|%\}\n?)`)
	commentEnd = regexp.MustCompile(`\+#\}|-#\}` + space + `*|#\}\n?`)
	blockEnd   = regexp.MustCompile(`^(\+%\}|-%\}` + space + `*|%\}\n?)`)
	outputEnd  = regexp.MustCompile(`^(-\}\}` + space + `*|\}\})`)
	spaces     = regexp.MustCompile(`^` + space + `+`)
	decimals   = regexp.MustCompile(`^(\d+_)*\d+((\.(\d+_)*\d+)?[eE][-+]?(\d+_)*\d+|\.(\d+_)*\d+)`)
	integers   = regexp.MustCompile(`^(0[bB](_?[01])+|0[oO](_?[0-7])+|0[xX](_?[\da-fA-F])+|` +
		`[1-9](_?\d)*|0(_?0)*)`)
	nameText  = regexp.MustCompile(`^[\pL_][\pL\pN\pM_]*`)
	strings1  = regexp.MustCompile(`(?s)^('(\\.|[^'\\])*'|"(\\.|[^"\\])*")`)
	operators = regexp.MustCompile(`^(//|\*\*|==|!=|>=|<=|[-+/*%~\[\](){}<>=.:|,;])`)
)

// scanner divides a template into tokens.
type scanner struct {
	source string
	at     int
	line   int
	tokens []token
	open   []byte // open brackets
	// newline reports that the last tag skipped the end of its line, or that nothing was read yet.
	newline bool
}

// scan returns the tokens of a template. The last one is its end.
func scan(source string) []token {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	s := &scanner{source: strings.TrimSuffix(source, "\n"), line: 1, newline: true}
	for s.at < len(s.source) {
		s.root()
	}
	s.add(ending, "", nil)
	return s.tokens
}

func (s *scanner) rest() string { return s.source[s.at:] }

// skipText skips a text.
func (s *scanner) skipText(t string) {
	s.at += len(t)
	s.line += strings.Count(t, "\n")
}

func (s *scanner) add(k kind, t string, v value) {
	s.tokens = append(s.tokens, token{k, t, v, s.line})
}

// root reads the text up to a tag, and the tag.
func (s *scanner) root() {
	rest := s.rest()
	n := 0
	for ; n < len(rest); n++ {
		if rest[n] == '{' && n+1 < len(rest) && strings.IndexByte("{%#", rest[n+1]) >= 0 {
			break
		}
	}
	if n == len(rest) {
		s.text(rest, "", false)
		return
	}
	tag := rest[n : n+2]
	sign := signOf(rest[n+2:])
	s.text(rest[:n], sign, tag != "{{")
	begin := rawBegin.FindString(rest[n:])
	switch {
	case begin != "":
		s.skipText(begin)
		s.raw()
	case tag == "{#":
		s.skipText(tag + sign)
		s.comment()
	case tag == "{{":
		s.skipText(tag + sign)
		s.tag(output, endOut, outputEnd)
	default:
		s.skipText(tag + sign)
		s.tag(block, endBlock, blockEnd)
	}
	s.newline = strings.HasSuffix(s.source[:s.at], "\n")
}

// signOf returns the sign for white space at the beginning of a tag.
func signOf(rest string) string {
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		return rest[:1]
	}
	return ""
}

// text reads the text before a tag. The sign - of the tag removes all white space at its end; tags
// other than {{ remove the beginning of their line if it is white space.
func (s *scanner) text(t, sign string, line bool) {
	kept := t
	if sign == "-" {
		kept = strings.TrimRightFunc(t, isSpace)
	} else if sign == "" && line {
		begin := strings.LastIndexByte(t, '\n') + 1
		if (begin > 0 || s.newline) && strings.TrimFunc(t[begin:], isSpace) == "" {
			kept = t[:begin]
		}
	}
	if kept != "" {
		s.add(data, kept, nil)
	}
	s.skipText(t)
}

func (s *scanner) comment() {
	at := commentEnd.FindStringIndex(s.rest())
	if at == nil {
		failAt(s.line, "{# has no end, want #}")
	}
	s.skipText(s.rest()[:at[1]])
}

func (s *scanner) raw() {
	at := rawEnd.FindStringSubmatchIndex(s.rest())
	if at == nil {
		failAt(s.line, "{%% raw %%} has no end, want {%% endraw %%}")
	}
	rest := s.rest()
	s.newline = strings.HasSuffix(s.source[:s.at], "\n")
	s.text(rest[:at[0]], rest[at[2]:at[3]], true)
	s.skipText(rest[at[0]:at[1]])
}

// tag reads the tokens of a tag.
func (s *scanner) tag(begin, end kind, ends *regexp.Regexp) {
	s.add(begin, "", nil)
	s.open = s.open[:0]
	for s.at < len(s.source) {
		if t := ends.FindString(s.rest()); t != "" && len(s.open) == 0 {
			s.add(end, "", nil)
			s.skipText(t)
			return
		}
		s.token()
	}
}

// token reads a token of an expression.
func (s *scanner) token() {
	rest := s.rest()
	afterDot := s.at > 0 && s.source[s.at-1] == '.'
	if t := spaces.FindString(rest); t != "" {
		s.skipText(t)
	} else if t := decimals.FindString(rest); t != "" && !afterDot {
		x, _ := strconv.ParseFloat(strings.ReplaceAll(t, "_", ""), 64) // infinite if out of range
		s.add(numeral, t, x)
		s.skipText(t)
	} else if t := integers.FindString(rest); t != "" {
		n, err := strconv.ParseInt(t, 0, 64)
		if err != nil {
			n, err = strconv.ParseInt(strings.ReplaceAll(t, "_", ""), 10, 64) // 00
		}
		if err != nil {
			failAt(s.line, "%.40s is too large, want integers of 64 bits", t)
		}
		s.add(numeral, t, n)
		s.skipText(t)
	} else if t := nameText.FindString(rest); t != "" {
		s.add(identifier, t, nil)
		s.skipText(t)
	} else if t := strings1.FindString(rest); t != "" {
		s.add(literal, t, textOf(s.unescape(t[1:len(t)-1]), 0))
		s.skipText(t)
	} else if t := operators.FindString(rest); t != "" {
		s.bracket(t)
		s.add(kind(t), t, nil)
		s.skipText(t)
	} else {
		r, _ := utf8.DecodeRuneInString(rest)
		failAt(s.line, "%q is not expected here", r)
	}
}

// bracket keeps track of brackets: a tag does not end within them.
func (s *scanner) bracket(t string) {
	switch t {
	case "(", "[", "{":
		s.open = append(s.open, map[string]byte{"(": ')', "[": ']', "{": '}'}[t])
	case ")", "]", "}":
		n := len(s.open) - 1
		if n < 0 || s.open[n] != t[0] {
			failAt(s.line, "%q closes no bracket", t)
		}
		s.open = s.open[:n]
	}
}

var letters = map[byte]string{'\n': "", '\\': "\\", '\'': "'", '"': "\"", 'a': "\a", 'b': "\b",
	'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v"}

// unescape returns the value of a string literal.
func (s *scanner) unescape(t string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(t, '\\')
		if i < 0 || i+1 == len(t) {
			b.WriteString(t)
			return b.String()
		}
		b.WriteString(t[:i])
		t = t[i+1:]
		n := 1
		if meant, ok := letters[t[0]]; ok {
			b.WriteString(meant)
		} else if digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[t[0]]; digits > 0 {
			n += digits
			b.WriteRune(s.escaped(t[1:min(n, len(t))], digits, 16))
		} else if n = octals(t); n > 0 {
			b.WriteRune(s.escaped(t[:n], n, 8))
		} else if t[0] == 'N' {
			failAt(s.line, "\\N is not supported, want the character itself")
		} else {
			b.WriteByte('\\')
		}
		t = t[n:]
	}
}

// octals returns how many octal digits a text begins with.
func octals(t string) (n int) {
	for n < min(3, len(t)) && t[n] >= '0' && t[n] <= '7' {
		n++
	}
	return n
}

func (s *scanner) escaped(digits string, n, base int) rune {
	x, err := strconv.ParseUint(digits, base, 32)
	if err != nil || len(digits) != n || x > unicode.MaxRune || !utf8.ValidRune(rune(x)) {
		failAt(s.line, "\\%.8s is no character", digits)
	}
	return rune(x)
}
