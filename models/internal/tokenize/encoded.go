package tokenize

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// encoded is the tokens of a text, and their places if these are wanted.
type encoded struct {
	ids   []int
	spans []origin
	trace *trace // nil if places are not wanted
}

// trace is the data for spans of tokens.
type trace struct {
	text  string // the original
	trims []trim
}

// add appends a token that is some bytes of a word.
func (e *encoded) add(id int, word traced, start, end int) {
	e.ids = append(e.ids, id)
	if e.trace != nil {
		span := word.span(start, end)
		for _, t := range e.trace.trims {
			span = t.apply(span, e.trace.text, word.text[start:end], len(e.spans) == 0)
		}
		e.spans = append(e.spans, span)
	}
}

// truncate drops all but the first tokens.
func (e *encoded) truncate(tokens int) {
	e.ids = e.ids[:tokens]
	if e.trace != nil {
		e.spans = e.spans[:tokens]
	}
}

// trim is a post-processor that removes spaces from the ends of spans.
type trim struct{ addSpace bool } // the pre-tokenizer puts a space before texts

// apply trims the span of a token, as process_offsets of Hugging Face's tokenizers does. Theirs
// removes a letter where the token's space was put before the text; here the letter stays, so that
// spans ascend.
func (t trim) apply(span origin, text, token string, first bool) origin {
	before := shownSpaces(token, strings.TrimLeftFunc)
	after := shownSpaces(token, strings.TrimRightFunc)
	only := before == utf8.RuneCountInString(token)
	if before == 1 && t.addSpace && (first || span.start == 0) {
		before = 0 // the space is not part of the text
	}
	for ; before > 0; before-- {
		r, size := utf8.DecodeRuneInString(text[span.start:span.end])
		if !unicode.IsSpace(r) {
			break
		}
		span.start += size
	}
	if only {
		span.end = span.start
	}
	for ; after > 0; after-- {
		r, size := utf8.DecodeLastRuneInString(text[span.start:span.end])
		if !unicode.IsSpace(r) {
			break
		}
		span.end -= size
	}
	return span
}

// shownSpaces returns how many spaces a token has at an end.
func shownSpaces(token string, cut func(string, func(rune) bool) string) int {
	return utf8.RuneCountInString(token) - utf8.RuneCountInString(cut(token, isShownSpace))
}

// isShownSpace reports whether a letter is a space, or stands for one among the letters of bytes.
func isShownSpace(r rune) bool { return unicode.IsSpace(r) || r == letters[' '] }
