// Package terminal makes texts of models safe for terminals.
package terminal

import (
	"io"
	"unicode"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
)

// Writer replaces control characters, which may come from the files of a model, by visible pictures
// instead of passing them to a terminal that obeys them. Only tabs and line ends stay. A letter
// whose bytes come one by one is written when it is complete.
func Writer(w io.Writer) io.Writer { return transform.NewWriter(w, runes.Map(visible)) }

func visible(r rune) rune {
	const pictures = '\u2400' // of the first 32 characters
	switch {
	case r == '\n' || r == '\t' || !unicode.IsControl(r):
		return r
	case r < ' ':
		return pictures + r
	case r == '\x7f':
		return '␡'
	}
	return unicode.ReplacementChar
}
