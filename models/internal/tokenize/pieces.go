package tokenize

import (
	"unicode"

	"github.com/seed-1415985d/attn/models/internal/pattern"
)

// piece is a part of a text: an added token, or text for the next stage.
type piece struct {
	traced
	token *addedToken // nil for text
	first bool        // the original text begins with it
	users bool        // some of it is not trusted
}

// cut divides a piece of text at some places. It omits empty parts.
func (p piece) cut(ends ...int) (parts []piece) {
	at := 0
	for _, end := range append(ends, len(p.text)) {
		if end > at {
			parts = append(parts, piece{traced: p.slice(at, end), first: p.first && at == 0,
				users: p.users})
			at = end
		}
	}
	return parts
}

// fields returns the parts of a piece between spaces.
func (p piece) fields() (parts []piece) {
	start := -1 // of a word, or none
	for at, r := range p.text {
		if space := unicode.IsSpace(r); space && start >= 0 {
			parts = append(parts, piece{traced: p.slice(start, at), first: p.first && start == 0,
				users: p.users})
			start = -1
		} else if !space && start < 0 {
			start = at
		}
	}
	if start >= 0 {
		parts = append(parts, piece{traced: p.slice(start, len(p.text)), first: p.first && start == 0,
			users: p.users})
	}
	return parts
}

// cutBy returns the parts of a piece before, within and after the matches of a pattern.
func (p piece) cutBy(by *pattern.Pattern, steps *pattern.Steps) ([]piece, error) {
	var ends []int
	at := 0
	err := by.Each(p.text, steps, func(part string, _ bool) error {
		at += len(part)
		ends = append(ends, at)
		return nil
	})
	return p.cut(ends...), err
}

// keepBy returns the parts of a piece that match a pattern, or those that do not.
func (p piece) keepBy(by *pattern.Pattern, matches bool, steps *pattern.Steps) (parts []piece,
	err error) {
	at := 0
	err = by.Each(p.text, steps, func(part string, matched bool) error {
		if matched == matches && part != "" {
			parts = append(parts, piece{traced: p.slice(at, at+len(part)), first: p.first && at == 0,
				users: p.users})
		}
		at += len(part)
		return nil
	})
	return parts, err
}
