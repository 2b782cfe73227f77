package tokenize

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/pattern"
)

// normalizer changes a text before words are found in it. One that may make it much longer returns
// an error rather than more bytes than there may be, and each notes if it drops the beginning.
type normalizer interface {
	normalize(text string, b *budget) (string, error)
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

type lowercase struct{}

func (*lowercase) normalize(text string, _ *budget) (string, error) { return lower(text), nil }

// lower is the lower case of each character for itself, as Unicode has it. One becomes two.
func lower(text string) string {
	return strings.Map(unicode.ToLower, strings.ReplaceAll(text, "İ", "i\u0307"))
}

// stripAccents takes marks away that are characters of their own.
type stripAccents struct{}

func (*stripAccents) normalize(text string, b *budget) (string, error) {
	return b.without(text, unicode.IsMark), nil
}

// strip takes spaces away from the ends.
type strip struct {
	Left  bool `json:"strip_left"`
	Right bool `json:"strip_right"`
}

func (s *strip) normalize(text string, b *budget) (string, error) {
	if s.Left {
		left := strings.TrimLeftFunc(text, unicode.IsSpace)
		b.dropped = b.dropped || len(left) < len(text)
		text = left
	}
	if s.Right {
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	}
	return text, nil
}

type prepend struct {
	Prepend string `json:"prepend"`
}

func (p *prepend) normalize(text string, b *budget) (string, error) {
	if text == "" {
		return "", nil
	}
	return p.Prepend + text, grown(len(p.Prepend)+len(text), b.bytes)
}

// replace puts a text in the place of each match.
type replace struct {
	Pattern textOrRegex `json:"pattern"`
	Content string      `json:"content"`
	by      *pattern.Pattern
}

// textOrRegex is a text or a regular expression, and the other is empty.
type textOrRegex struct{ text, regex string }

func (p *textOrRegex) UnmarshalJSON(data []byte) error {
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
		r.by, err = pattern.Compile(r.Pattern.regex)
	}
	return err
}

func (r *replace) normalize(text string, b *budget) (string, error) {
	if r.by != nil {
		return r.matches(text, b)
	}
	old := r.Pattern.text
	times, more := int64(strings.Count(text, old)), int64(len(r.Content)-len(old))
	if err := grown(int64(len(text))+times*more, b.bytes); err != nil {
		return "", err
	}
	if strings.HasPrefix(text, old) {
		r.beginning(old, b)
	}
	return strings.ReplaceAll(text, old, r.Content), nil
}

// beginning notes what happens to a match with which the text begins. To Hugging Face's tokenizers
// the new text stands for the last letter of the old one.
func (r *replace) beginning(old string, b *budget) {
	b.dropped = b.dropped || utf8.RuneCountInString(old) > 1 || old != "" && r.Content == ""
}

// matches replaces what matches a regular expression.
func (r *replace) matches(text string, b *budget) (string, error) {
	var made strings.Builder
	at := 0
	err := r.by.Each(text, &b.steps, func(part string, matched bool) error {
		if matched && at == 0 {
			r.beginning(part, b)
		}
		if at += len(part); matched {
			part = r.Content
		}
		made.WriteString(part)
		return grown(made.Len(), b.bytes)
	})
	return made.String(), err
}
