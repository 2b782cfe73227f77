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

// normalizer changes a text before it is divided into words. If the text may become much longer, it
// returns an error instead of more bytes than the budget allows. It notes in the budget if it drops
// the beginning.
type normalizer interface {
	normalize(t traced, b *budget) (traced, error)
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

func (*lowercase) normalize(t traced, _ *budget) (traced, error) { return t.perLetter(lower), nil }

// lower returns the lower case of each character for itself, by Unicode. One character becomes two.
func lower(text string) string {
	return strings.Map(unicode.ToLower, strings.ReplaceAll(text, "İ", "i\u0307"))
}

// stripAccents removes combining marks.
type stripAccents struct{}

func (*stripAccents) normalize(t traced, b *budget) (traced, error) {
	return b.without(t, unicode.IsMark), nil
}

// strip removes spaces from the ends.
type strip struct {
	Left  bool `json:"strip_left"`
	Right bool `json:"strip_right"`
}

func (s *strip) normalize(t traced, b *budget) (traced, error) {
	if s.Left {
		left := strings.TrimLeftFunc(t.text, unicode.IsSpace)
		b.dropped = b.dropped || len(left) < len(t.text)
		t = t.slice(len(t.text)-len(left), len(t.text))
	}
	if s.Right {
		t = t.slice(0, len(strings.TrimRightFunc(t.text, unicode.IsSpace)))
	}
	return t, nil
}

type prepend struct {
	Prepend string `json:"prepend"`
}

func (p *prepend) normalize(t traced, b *budget) (traced, error) {
	if t.text == "" {
		return t, nil
	}
	if err := grown(len(p.Prepend)+len(t.text), b.bytes); err != nil {
		return traced{}, err
	}
	return t.prepend(p.Prepend), nil
}

// replace replaces each match by a text.
type replace struct {
	Pattern textOrRegex `json:"pattern"`
	Content string      `json:"content"`
	by      *pattern.Pattern
}

// textOrRegex is a text or a regular expression. The other one is empty.
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

func (r *replace) normalize(t traced, b *budget) (traced, error) {
	if r.by != nil {
		return r.matches(t, b)
	}
	old := r.Pattern.text
	times, more := int64(strings.Count(t.text, old)), int64(len(r.Content)-len(old))
	if err := grown(int64(len(t.text))+times*more, b.bytes); err != nil {
		return traced{}, err
	}
	if strings.HasPrefix(t.text, old) {
		r.beginning(old, b)
	}
	return t.replaceAll(old, r.Content), nil
}

// beginning notes in the budget what happens to a match at the beginning of the text. For Hugging
// Face's tokenizers the new text stands for the last letter of the old one.
func (r *replace) beginning(old string, b *budget) {
	b.dropped = b.dropped || utf8.RuneCountInString(old) > 1 || old != "" && r.Content == ""
}

// matches replaces the matches of a regular expression.
func (r *replace) matches(t traced, b *budget) (traced, error) {
	w := tracer{of: t}
	at := 0
	err := r.by.Each(t.text, &b.steps, func(part string, matched bool) error {
		if matched && at == 0 {
			r.beginning(part, b)
		}
		if at += len(part); matched {
			w.insert(r.Content, at)
		} else {
			w.copyRange(at-len(part), at)
		}
		return grown(w.text.Len(), b.bytes)
	})
	return w.made(), err
}
