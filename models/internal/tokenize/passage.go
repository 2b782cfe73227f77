package tokenize

import (
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// passage is a text of which a part may be from users. Nothing that they write becomes a control
// token, which could forge another speaker. trusted is the text with notTrusted for each of their
// bytes.
type passage struct {
	traced
	trusted string
}

// notTrusted is a byte that never occurs in UTF-8, and so in no token.
const notTrusted = "\xff"

// trust is a passage that is trusted as a whole.
func trust(text string) passage { return passage{traced{text: text}, text} }

// fromUsers is a passage that users wrote.
func fromUsers(text string) passage {
	return passage{traced{text: text}, strings.Repeat(notTrusted, len(text))}
}

// Piece is a part of a text.
type Piece struct {
	Text  string
	Input bool // users wrote it
}

// joined joins pieces to a passage.
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
	return passage{traced{text: text.String()}, trusted.String()}
}

// valid returns a text with U+FFFD for each byte that is not UTF-8.
func valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return string([]rune(text))
}

// markControl marks control tokens: those that a file calls special, those that end an answer, and
// those in the source of the chat template, except words and spaces.
func markControl(added []addedToken, source string) {
	for i := range added {
		a := &added[i]
		written := hasMarks(a.Content) && strings.Contains(source, a.Content)
		a.control = a.control || a.Special || endTexts[a.Content] != 0 || written
	}
}

// hasMarks reports whether a text has other characters than words and spaces.
func hasMarks(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsPunct(r) || unicode.IsSymbol(r)
	})
}

// separate finds added tokens of a passage before normalizers.
func (p *pipeline) separate(s passage) []section {
	users := s.text != s.trusted
	return p.raw.split(section{piece{traced: s.traced, users: users, first: true}, s.trusted})
}

// separateNormal normalizes a section and finds the added tokens in the result. Which letters of a
// normalized text are from users is not known; it does not matter if the result has no control
// tokens, or as many as without the users' text.
func (p *pipeline) separateNormal(part section, b *budget) (parts []piece, err error) {
	normal, err := b.normalize(part.traced, p.normalizers)
	if err != nil || normal.text == "" {
		return nil, err
	}
	whole := part
	whole.traced, whole.trusted, whole.first = normal, normal.text, part.first && !b.dropped
	parts = withoutTrust(p.normal.split(whole))
	if part.text == part.trusted || p.normal == nil {
		b.bytes -= len(normal.text)
		return parts, nil
	}
	without, err := b.normalize(traced{text: strings.ReplaceAll(part.trusted, notTrusted, "\ufffd")},
		p.normalizers)
	if err != nil {
		return nil, err
	}
	b.bytes -= len(normal.text)
	allowed := controls(withoutTrust(p.normal.split(section{piece{traced: without}, without.text})))
	switch {
	case slices.Equal(controls(parts), allowed):
	case len(allowed) == 0:
		whole.trusted = fromUsers(normal.text).trusted
		parts = withoutTrust(p.normal.split(whole))
	default:
		err = errors.New("a message has the text of a control token, and the template beside it has " +
			"control tokens that are found after normalizers, want another message")
	}
	return parts, err
}

// withoutTrust returns the pieces of sections in which all added tokens were found.
func withoutTrust(sections []section) []piece {
	pieces := make([]piece, len(sections))
	for i := range sections {
		pieces[i] = sections[i].piece
	}
	return pieces
}

// controls returns the numbers of control tokens.
func controls(pieces []piece) (ids []int) {
	for _, p := range pieces {
		if p.token != nil && p.token.control {
			ids = append(ids, p.token.ID)
		}
	}
	return ids
}
