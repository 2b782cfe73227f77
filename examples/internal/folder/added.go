package folder

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	ahocorasick "github.com/petar-dambovaliev/aho-corasick"
)

// addedToken is a token that is found in a text before words are.
type addedToken struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // not within a word
	Left       bool   `json:"lstrip"`      // takes the spaces before it
	Right      bool   `json:"rstrip"`      // and those after it
	Normalized bool   `json:"normalized"`  // is found in the text that normalizers make
	Special    bool   `json:"special"`
}

// finder finds added tokens in linear time, of those that begin at a letter the longest.
type finder struct {
	automaton ahocorasick.AhoCorasick
	tokens    []addedToken
}

// newFinder makes a finder of tokens that stand in texts as written, nil for none.
func newFinder(tokens []addedToken, written func(content string) (string, error)) (*finder, error) {
	if len(tokens) == 0 {
		return nil, nil
	}
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
	return &finder{builder.Build(patterns), tokens}, nil
}

// split cuts added tokens out of a piece.
func (f *finder) split(p piece) (parts []piece) {
	if f == nil {
		return []piece{p}
	}
	at := 0
	matches := f.automaton.Iter(p.text)
	for m := matches.Next(); m != nil; m = matches.Next() {
		token, start, end := &f.tokens[m.Pattern()], m.Start(), m.End()
		if start < at || // in spaces that the token before took
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
			parts = append(parts, piece{text: p.text[at:start], first: p.first && at == 0})
		}
		parts, at = append(parts, piece{text: p.text[start:end], token: token}), end
	}
	if at < len(p.text) {
		parts = append(parts, piece{text: p.text[at:], first: p.first && at == 0})
	}
	return parts
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
