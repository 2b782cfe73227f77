package tokenize

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	ahocorasick "github.com/petar-dambovaliev/aho-corasick"
)

// addedToken is a token that is found in a text before the text is divided into words.
type addedToken struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // not found within a word
	Left       bool   `json:"lstrip"`      // includes the spaces before it
	Right      bool   `json:"rstrip"`      // includes the spaces after it
	Normalized bool   `json:"normalized"`  // found in the text after normalizers
	Special    bool   `json:"special"`
	control    bool   // not found in text from users
	from       string // the file that adds it, "" for the one with the vocabulary
}

// finder finds added tokens in linear time, the longest at each place: control tokens in the
// trusted part of a text, others in all of it.
type finder struct{ control, other *automaton }

// automaton finds some tokens.
type automaton struct {
	ahocorasick.AhoCorasick
	tokens []addedToken
}

// newFinder returns a finder of tokens, nil for none. written returns a token's text after the
// normalizers that come first.
func newFinder(tokens []addedToken, written func(content string) (string, error)) (*finder, error) {
	if len(tokens) == 0 {
		return nil, nil
	}
	var control, other []addedToken
	for _, t := range tokens {
		if t.control {
			control = append(control, t)
		} else {
			other = append(other, t)
		}
	}
	f := &finder{}
	var err, second error
	f.control, err = newAutomaton(control, written)
	f.other, second = newAutomaton(other, written)
	return f, cmp.Or(err, second)
}

func newAutomaton(tokens []addedToken, written func(content string) (string, error)) (*automaton,
	error) {
	var patterns []string
	for _, t := range tokens {
		pattern, err := written(t.Content)
		if err == nil && pattern == "" {
			err = fmt.Errorf("added token %d, %q, is found as no text, want some", t.ID, t.Content)
		}
		if err != nil {
			return nil, err
		}
		patterns = append(patterns, pattern)
	}
	builder := ahocorasick.NewAhoCorasickBuilder(ahocorasick.Opts{
		MatchKind: ahocorasick.LeftMostLongestMatch})
	return &automaton{builder.Build(patterns), tokens}, nil
}

// search is the position of an automaton in a text, with the token that it found last.
type search struct {
	*automaton
	text       []byte
	token      *addedToken // nil for none
	start, end int
	done       bool // no more tokens
}

// from finds the first token from a place on.
func (s *search) from(at int) {
	if s.done = s.done || len(s.tokens) == 0; s.done || s.token != nil && s.start >= at {
		return
	}
	m := s.IterByte(s.text[at:]).Next()
	if s.token, s.done = nil, m == nil; m != nil {
		s.token, s.start, s.end = &s.tokens[m.Pattern()], at+m.Start(), at+m.End()
	}
}

// firstToken returns the first token of two searches from a place on, nil for none.
func firstToken(a, b *search, from int) (token *addedToken, start, end int) {
	a.from(from)
	b.from(from)
	if !a.before(b) {
		a = b
	}
	return a.token, a.start, a.end
}

// before reports whether the token comes before another one, or is longer at the same place.
func (s *search) before(other *search) bool {
	return other.token == nil || s.token != nil &&
		(s.start < other.start || s.start == other.start && s.end > other.end)
}

// section is a part of a passage, in which added tokens are looked for.
type section struct {
	piece
	trusted string
}

// split cuts added tokens out of a section.
func (f *finder) split(p section) (parts []section) {
	if f == nil {
		return []section{p}
	}
	control := &search{automaton: f.control, text: []byte(p.trusted)}
	other := &search{automaton: f.other, text: []byte(p.text)}
	at, from := 0, 0 // the next part begins at at; the search continues from from
	for {
		token, start, end := firstToken(control, other, from)
		if token == nil {
			break
		}
		from = end
		if start < at || // within spaces that belong to the token before
			token.SingleWord && (endsInWord(p.text[:start]) || startsInWord(p.text[end:])) {
			continue
		}
		if token.Left {
			start = at + len(strings.TrimRightFunc(p.text[at:start], unicode.IsSpace))
		}
		if token.Right {
			end = len(p.text) - len(strings.TrimLeftFunc(p.text[end:], unicode.IsSpace))
		}
		if start > at {
			parts = append(parts, p.part(at, start))
		}
		found := section{piece: piece{traced: p.slice(start, end), token: token}}
		parts, at = append(parts, found), end
	}
	if at < len(p.text) {
		parts = append(parts, p.part(at, len(p.text)))
	}
	return parts
}

// part returns some bytes of the section.
func (p *section) part(from, to int) section {
	return section{piece{traced: p.slice(from, to), users: p.users, first: p.first && from == 0},
		p.trusted[from:to]}
}

func endsInWord(text string) bool {
	r, _ := utf8.DecodeLastRuneInString(text)
	return text != "" && inWord(r)
}

func startsInWord(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return text != "" && inWord(r)
}

// inWord is \w of Unicode's regular expressions.
func inWord(r rune) bool {
	return unicode.In(r, unicode.Letter, unicode.Mark, unicode.Nd, unicode.Nl, unicode.Pc,
		unicode.Other_Alphabetic, unicode.Join_Control)
}
