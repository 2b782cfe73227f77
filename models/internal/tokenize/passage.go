package tokenize

import (
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// passage is a text of which a part may be from users: whatever they write does not become control
// tokens, which would forge what somebody else says. In trusted each byte of theirs is notTrusted.
type passage struct{ text, trusted string }

// notTrusted is in no UTF-8, and so in no token.
const notTrusted = "\xff"

// trust is a passage of which all is trusted.
func trust(text string) passage { return passage{text, text} }

// fromUsers is a passage of theirs.
func fromUsers(text string) passage {
	return passage{text, strings.Repeat(notTrusted, len(text))}
}

// Piece is a part of a text.
type Piece struct {
	Text  string
	Input bool // users wrote it
}

// joined is a text of pieces.
func joined(pieces []Piece) passage {
	var text, trusted strings.Builder
	for _, p := range pieces {
		more := trust(valid(p.Text))
		if p.Input {
			more = fromUsers(more.text)
		}
		text.WriteString(more.text)
		trusted.WriteString(more.trusted)
	}
	return passage{text.String(), trusted.String()}
}

// valid is a text in which each byte that is no UTF-8 is U+FFFD.
func valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return string([]rune(text))
}

// markControl finds out which tokens are control tokens: those that the file or others call
// special, those that end an answer, and those that the template of conversations writes, but for
// words and spaces.
func markControl(added []addedToken, template string) {
	for i := range added {
		a := &added[i]
		written := hasMarks(a.Content) && strings.Contains(template, a.Content)
		a.control = a.control || a.Special || endTexts[a.Content] != 0 || written
	}
}

// hasMarks says whether a text is more than words and spaces.
func hasMarks(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsPunct(r) || unicode.IsSymbol(r)
	})
}

// separate cuts added tokens out of a piece before normalizers.
func (p *pipeline) separate(s passage) []piece {
	users := s.text != s.trusted
	return p.raw.split(piece{text: s.text, trusted: s.trusted, users: users, first: true})
}

// separateNormal normalizes a piece and cuts those out that are found after that. Which letters of
// a normalized text are of users is not known, and does not matter if there are no control tokens
// in it, or as many without what users wrote.
func (p *pipeline) separateNormal(part piece, b *budget) (parts []piece, err error) {
	text, err := b.normalize(part.text, p.normalizers)
	if err != nil || text == "" {
		return nil, err
	}
	whole := part
	whole.text, whole.trusted, whole.first = text, text, part.first && !b.dropped
	parts = p.normal.split(whole)
	if part.text == part.trusted || p.normal == nil {
		b.bytes -= len(text)
		return parts, nil
	}
	without, err := b.normalize(strings.ReplaceAll(part.trusted, notTrusted, "\ufffd"), p.normalizers)
	if err != nil {
		return nil, err
	}
	b.bytes -= len(text)
	allowed := controls(p.normal.split(piece{text: without, trusted: without}))
	switch {
	case slices.Equal(controls(parts), allowed):
	case len(allowed) == 0:
		whole.trusted = fromUsers(text).trusted
		parts = p.normal.split(whole)
	default:
		err = errors.New("a message has the text of a control token, and the template beside it has " +
			"control tokens that are found after normalizers, want another message")
	}
	return parts, err
}

// controls are the numbers of control tokens.
func controls(pieces []piece) (ids []int) {
	for _, p := range pieces {
		if p.token != nil && p.token.control {
			ids = append(ids, p.token.ID)
		}
	}
	return ids
}
