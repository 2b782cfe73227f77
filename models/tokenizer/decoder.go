package tokenizer

import (
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
)

// Decoder turns the tokens of an answer into text, token by token. It returns whole characters: if
// a character's bytes are in several tokens, up to 3 bytes are held back.
type Decoder struct {
	t     *Tokenizer
	waits []byte
}

// NewDecoder returns a decoder at the beginning of an answer.
func (t *Tokenizer) NewDecoder() *Decoder { return &Decoder{t: t} }

// Next returns the characters that a token completes. Special tokens add nothing. Bytes that are
// not UTF-8 become U+FFFD, one for each maximal subpart of a character.
func (d *Decoder) Next(token int32) string {
	d.waits = append(d.waits, d.t.Bytes(token)...)
	return d.takeBytes(len(d.waits) - unfinished(d.waits))
}

// Flush returns the text held back at the end of an answer. The next token begins another answer.
func (d *Decoder) Flush() string { return d.takeBytes(len(d.waits)) }

// takeBytes returns the text of the first n bytes held back.
func (d *Decoder) takeBytes(n int) string {
	text := validText(d.waits[:n])
	d.waits = d.waits[:copy(d.waits, d.waits[n:])]
	return text
}

// unfinished returns how many bytes at the end of a text begin an incomplete character.
func unfinished(text []byte) int {
	for n := min(utf8.UTFMax-1, len(text)); n > 0; n-- {
		if !utf8.FullRune(text[len(text)-n:]) {
			return n
		}
	}
	return 0
}

// validText returns a text with U+FFFD for each maximal subpart of anything that is not UTF-8.
func validText(text []byte) string {
	if utf8.Valid(text) {
		return string(text)
	}
	made, _ := unicode.UTF8.NewDecoder().Bytes(text) // makes UTF-8 of any bytes
	return string(made)
}
