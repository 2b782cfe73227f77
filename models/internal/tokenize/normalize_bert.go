package tokenize

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/unicode/rangetable"
)

// cleaning is BERT's normalizer.
type cleaning struct {
	Clean   bool  `json:"clean_text"`
	Chinese bool  `json:"handle_chinese_chars"`
	Strip   *bool `json:"strip_accents"` // nil: the same as Lower
	Lower   bool  `json:"lowercase"`
}

func newCleaning() *cleaning { return &cleaning{Clean: true, Chinese: true, Lower: true} }

func (c *cleaning) normalize(t traced, b *budget) (traced, error) {
	if c.Clean {
		t = b.without(t, unprintable).perLetter(clean)
	}
	if c.Chinese {
		t = t.perLetter(spaced)
	}
	if c.strips() {
		t = b.without(inForm(norm.NFD, t), func(r rune) bool { return inBERT(r, unicode.Mn) })
	}
	if c.Lower {
		t = t.perLetter(lower)
	}
	return t, nil
}

// strips reports whether accents are removed.
func (c *cleaning) strips() bool { return c.Strip != nil && *c.Strip || c.Strip == nil && c.Lower }

// inBERT reports whether a character is of some categories, as in Hugging Face's tokenizers. Their
// tables have Unicode 8: later characters are of none, in every version of Go.
func inBERT(r rune, categories ...*unicode.RangeTable) bool {
	return unicode.In(r, categories...) && unicode.Is(unicode8, r)
}

var unicode8 = rangetable.Assigned("8.0.0")

// unprintable reports whether a control character is dropped; spaces are not.
func unprintable(r rune) bool {
	return r != '\t' && r != '\n' && r != '\r' && (r == 0 || r == unicode.ReplacementChar ||
		inBERT(r, unicode.Cc, unicode.Cf, unicode.Co))
}

// clean turns all kinds of spaces into one.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, text)
}

// spaced puts spaces around Chinese characters, which are words.
func spaced(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.Is(chinese, r) {
			b.WriteString(" " + string(r) + " ")
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// chinese are the Chinese blocks of Hugging Face's tokenizers, with 0x2B920 where BERT's original
// code has 0x2B820.
var chinese = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x3400, Hi: 0x4dbf, Stride: 1}, {Lo: 0x4e00, Hi: 0x9fff, Stride: 1},
		{Lo: 0xf900, Hi: 0xfaff, Stride: 1}},
	R32: []unicode.Range32{{Lo: 0x20000, Hi: 0x2a6df, Stride: 1},
		{Lo: 0x2a700, Hi: 0x2b73f, Stride: 1},
		{Lo: 0x2b740, Hi: 0x2b81f, Stride: 1}, {Lo: 0x2b920, Hi: 0x2ceaf, Stride: 1},
		{Lo: 0x2f800, Hi: 0x2fa1f, Stride: 1}},
}
