package tokenize

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/seed-1415985d/attn/internal/strictjson"
)

// normalizer changes a text before words are found in it. One that may make it much longer returns
// an error rather than more than most bytes.
type normalizer interface {
	normalize(text string, most int) (string, error)
}

var normalizerKinds = stageKinds[normalizer]{"normalizer", "normalizers", normalizerTypes}

var normalizerTypes = map[string]func() normalizer{
	"NFC":            func() normalizer { return &unicodeForm{form: norm.NFC} },
	"NFD":            func() normalizer { return &unicodeForm{form: norm.NFD} },
	"NFKC":           func() normalizer { return &unicodeForm{form: norm.NFKC} },
	"NFKD":           func() normalizer { return &unicodeForm{form: norm.NFKD} },
	"Lowercase":      func() normalizer { return &lowercase{} },
	"StripAccents":   func() normalizer { return &stripAccents{} },
	"Strip":          func() normalizer { return &strip{} },
	"Prepend":        func() normalizer { return &prepend{} },
	"Replace":        func() normalizer { return &replace{} },
	"BertNormalizer": func() normalizer { return newCleaning() },
	"Precompiled":    func() normalizer { return &precompiled{} },
	"Nmt":            func() normalizer { return &nmt{} },
}

type unicodeForm struct{ form norm.Form }

func (u *unicodeForm) normalize(text string, _ int) (string, error) {
	made := u.form.String(text)
	if n := strings.Count(made, joiner); n != strings.Count(text, joiner) {
		return "", errors.New("a letter of the text has more than 30 marks, want fewer: normalizers of " +
			"other programs do not divide them")
	}
	return made, nil
}

// joiner is what the library puts between the marks of a letter that has more than 30.
const joiner = "\u034f"

type lowercase struct{}

func (*lowercase) normalize(text string, _ int) (string, error) { return lower(text), nil }

// lower is the lower case of each character for itself, as Unicode has it. One becomes two.
func lower(text string) string {
	return strings.Map(unicode.ToLower, strings.ReplaceAll(text, "İ", "i\u0307"))
}

// stripAccents takes marks away that are characters of their own.
type stripAccents struct{}

func (*stripAccents) normalize(text string, _ int) (string, error) {
	return without(text, unicode.IsMark), nil
}

func without(text string, drop func(rune) bool) string {
	return strings.Map(func(r rune) rune {
		if drop(r) {
			return -1
		}
		return r
	}, text)
}

// strip takes spaces away from the ends.
type strip struct {
	Left  bool `json:"strip_left"`
	Right bool `json:"strip_right"`
}

func (s *strip) normalize(text string, _ int) (string, error) {
	if s.Left {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	if s.Right {
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	}
	return text, nil
}

type prepend struct {
	Prepend string `json:"prepend"`
}

func (p *prepend) normalize(text string, most int) (string, error) {
	if text == "" {
		return "", nil
	}
	return p.Prepend + text, grown(len(p.Prepend)+len(text), most)
}

// replace puts a text in the place of each match.
type replace struct {
	Pattern pattern `json:"pattern"`
	Content string  `json:"content"`
	by      *splitter
}

// pattern is a text or a regular expression, and the other is empty.
type pattern struct{ text, regex string }

func (p *pattern) UnmarshalJSON(data []byte) error {
	var keys struct {
		String string `json:"String"`
		Regex  string `json:"Regex"`
	}
	err := strictjson.Unmarshal(data, &keys, nil)
	if err == nil && (keys.String == "") == (keys.Regex == "") {
		err = fmt.Errorf("the pattern is %s, want some letters as String or Regex",
			strictjson.Short(data))
	}
	p.text, p.regex = keys.String, keys.Regex
	return err
}

func (r *replace) prepare() (err error) {
	if r.Pattern.regex != "" {
		r.by, err = newSplitter(r.Pattern.regex, matchLimit)
	}
	return err
}

func (r *replace) normalize(text string, most int) (string, error) {
	if r.by != nil {
		return r.matches(text, most)
	}
	old := r.Pattern.text
	times, more := int64(strings.Count(text, old)), int64(len(r.Content)-len(old))
	if err := grown(int64(len(text))+times*more, most); err != nil {
		return "", err
	}
	return strings.ReplaceAll(text, old, r.Content), nil
}

// matches replaces what matches a regular expression.
func (r *replace) matches(text string, most int) (string, error) {
	var b strings.Builder
	err := r.by.each(text, func(part string, matched bool) error {
		if matched {
			part = r.Content
		}
		b.WriteString(part)
		return grown(b.Len(), most)
	})
	return b.String(), err
}

// A text of n bytes may become mostGrowth·n + freeGrowth bytes. The longest decomposition that
// Unicode has is 11 for one.
const mostGrowth, freeGrowth = 16, 1024

// grown refuses texts that a tokenizer made much longer than they were.
func grown[N int | int64](size N, most int) error {
	if int64(size) > int64(most) {
		return fmt.Errorf("the tokenizer makes a text much longer, want at most %d bytes of each byte "+
			"and %d more", mostGrowth, freeGrowth)
	}
	return nil
}
