package tokenize

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-1415985d/attn/models/internal/pattern"
)

// preTokenizer divides pieces into smaller ones, in which the model finds tokens. Its steps with
// patterns are counted.
type preTokenizer interface {
	split(p piece, steps *pattern.Steps) ([]piece, error)
}

var preTokenizerKinds = stageKinds[preTokenizer]{"pre_tokenizer", "pretokenizers",
	map[string]func() preTokenizer{
		"ByteLevel":        func() preTokenizer { return &byteLevel{UseRegex: true} },
		"Split":            func() preTokenizer { return &splitBy{} },
		"Digits":           func() preTokenizer { return &digits{} },
		"Metaspace":        func() preTokenizer { return &metaspace{Split: true} },
		"BertPreTokenizer": func() preTokenizer { return &bertWords{} },
		"WhitespaceSplit":  func() preTokenizer { return &words{} },
	}}

// byteLevel writes bytes as letters.
type byteLevel struct {
	AddSpace    bool `json:"add_prefix_space"`
	UseRegex    bool `json:"use_regex"`
	TrimOffsets bool `json:"trim_offsets"` // has no effect on tokens
	words       *pattern.Pattern
}

// gpt2 is the pattern of GPT-2's words.
const gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

func (b *byteLevel) prepare() (err error) {
	if b.UseRegex {
		b.words, err = pattern.Compile(gpt2)
	}
	return err
}

func (b *byteLevel) split(p piece, steps *pattern.Steps) (parts []piece, err error) {
	if b.AddSpace && !strings.HasPrefix(p.text, " ") {
		p.traced = p.prepend(" ")
	}
	parts = []piece{p}
	if b.UseRegex {
		parts, err = p.cutBy(b.words, steps)
	}
	for i := range parts {
		parts[i].traced = parts[i].bytesToLetters()
	}
	return parts, err
}

// splitBy divides before and after the matches of a pattern, and may remove them or all else; or it
// divides after each space.
type splitBy struct {
	Pattern  textOrRegex `json:"pattern"`
	Behavior string      `json:"behavior"`
	Invert   bool        `json:"invert"` // Removed keeps matches; has no effect on Isolated
	by       *pattern.Pattern
}

const removed = "Removed"

func (s *splitBy) prepare() (err error) {
	if s.Pattern.text == " " && s.Behavior == "MergedWithPrevious" && !s.Invert {
		return nil // as in Gemma
	}
	if s.Pattern.regex == "" || s.Behavior != "Isolated" && s.Behavior != removed {
		return fmt.Errorf("the pattern is the String %q and the behavior %q, want a Regex and Isolated "+
			"or Removed, or a space and MergedWithPrevious", s.Pattern.text, s.Behavior)
	}
	s.by, err = pattern.Compile(s.Pattern.regex)
	return err
}

func (s *splitBy) split(p piece, steps *pattern.Steps) ([]piece, error) {
	if s.by != nil && s.Behavior == removed {
		return p.keepBy(s.by, s.Invert, steps)
	}
	if s.by != nil {
		return p.cutBy(s.by, steps)
	}
	var ends []int
	for at := range len(p.text) {
		if p.text[at] == ' ' {
			ends = append(ends, at+1)
		}
	}
	return p.cut(ends...), nil
}

// digits divides before and after numbers.
type digits struct {
	Individual bool `json:"individual_digits"`
	by         *pattern.Pattern
}

func (d *digits) prepare() (err error) {
	numbers := `\p{N}+`
	if d.Individual {
		numbers = `\p{N}`
	}
	d.by, err = pattern.Compile(numbers)
	return err
}

func (d *digits) split(p piece, steps *pattern.Steps) ([]piece, error) {
	return p.cutBy(d.by, steps)
}

// metaspace writes spaces as ▁, and may put one at the beginning.
type metaspace struct {
	Replacement string  `json:"replacement"`
	Scheme      *string `json:"prepend_scheme"`   // always, first or never
	AddSpace    *bool   `json:"add_prefix_space"` // in older files: always or never
	Split       bool    `json:"split"`
	Shown       string  `json:"str_rep"` // the same as Replacement
}

func (m *metaspace) prepare() error {
	scheme := "always"
	if m.AddSpace != nil && !*m.AddSpace {
		scheme = "never"
	}
	if m.Scheme == nil {
		m.Scheme = &scheme
	}
	switch {
	case utf8.RuneCountInString(m.Replacement) != 1:
		return fmt.Errorf("it has replacement %q, want one letter", m.Replacement)
	case m.Shown != "" && m.Shown != m.Replacement:
		return fmt.Errorf("it has str_rep %q, want the replacement, %q", m.Shown, m.Replacement)
	case *m.Scheme != "always" && *m.Scheme != "first" && *m.Scheme != "never":
		return fmt.Errorf("it has prepend_scheme %q, want always, first or never", *m.Scheme)
	case scheme == "never" && *m.Scheme != "never":
		return fmt.Errorf("it has prepend_scheme %q and add_prefix_space false, which is never",
			*m.Scheme)
	}
	return nil
}

func (m *metaspace) split(p piece, _ *pattern.Steps) ([]piece, error) {
	p.traced = p.replaceAll(" ", m.Replacement)
	if (*m.Scheme == "always" || *m.Scheme == "first" && p.first) &&
		!strings.HasPrefix(p.text, m.Replacement) {
		p.traced = p.prepend(m.Replacement)
	}
	var ends []int
	for at := range p.text {
		if m.Split && strings.HasPrefix(p.text[at:], m.Replacement) {
			ends = append(ends, at)
		}
	}
	return p.cut(ends...), nil
}

// bertWords divides at spaces and at punctuation marks.
type bertWords struct{}

func (*bertWords) split(p piece, _ *pattern.Steps) (parts []piece, err error) {
	for _, word := range p.fields() {
		var ends []int
		for at, r := range word.text {
			if inBERT(r, unicode.P) || r < 128 && unicode.IsSymbol(r) {
				ends = append(ends, at, at+utf8.RuneLen(r))
			}
		}
		parts = append(parts, word.cut(ends...)...)
	}
	return parts, nil
}

// words divides at spaces.
type words struct{}

func (*words) split(p piece, _ *pattern.Steps) ([]piece, error) { return p.fields(), nil }
