package tokenize

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed-1415985d/attn/models/internal/pattern"
)

// budget bounds what the stages of a tokenizer make of a text. Work is counted and not timed, so
// that a text has the same tokens, or the same error, on every machine.
type budget struct {
	bytes   int           // of all pieces so far
	steps   pattern.Steps // left for patterns
	dropped bool          // normalizers dropped the beginning of the piece
}

// A text of n bytes may become at most mostGrowth·n + freeGrowth bytes. The longest decomposition
// in Unicode has 11 bytes for one.
const mostGrowth, freeGrowth = 16, 1024

// budgetFor returns the budget for a text of some bytes.
func budgetFor(bytes int) *budget {
	return &budget{bytes: mostGrowth*bytes + freeGrowth, steps: pattern.StepsFor(bytes)}
}

// grown refuses texts that have become longer than most.
func grown[N int | int64](size N, most int) error {
	if int64(size) > int64(most) {
		return fmt.Errorf("the tokenizer makes a text much longer, want at most %d bytes of each byte "+
			"and %d more", mostGrowth, freeGrowth)
	}
	return nil
}

// normalize applies all normalizers to the text of a piece.
func (b *budget) normalize(t traced, all []normalizer) (_ traced, err error) {
	b.dropped = false
	for _, n := range all {
		if t, err = n.normalize(t, b); err == nil {
			err = grown(len(t.text), b.bytes)
		}
		if err != nil {
			return traced{}, err
		}
	}
	return t, nil
}

// without drops letters.
func (b *budget) without(t traced, drop func(rune) bool) traced {
	begin, _ := utf8.DecodeRuneInString(t.text)
	b.dropped = b.dropped || t.text != "" && drop(begin)
	return t.perLetter(func(text string) string {
		return strings.Map(func(r rune) rune {
			if drop(r) {
				return -1
			}
			return r
		}, text)
	})
}

// split applies a pre-tokenizer to the pieces that are text.
func (b *budget) split(pieces []piece, stage preTokenizer) (parts []piece, err error) {
	size := 0
	for _, p := range pieces {
		more := []piece{p}
		if p.token == nil {
			if more, err = stage.split(p, &b.steps); err != nil {
				return nil, err
			}
		}
		for _, part := range more {
			size += len(part.text)
		}
		if err := grown(size, b.bytes); err != nil {
			return nil, err
		}
		parts = append(parts, more...)
	}
	return parts, nil
}
