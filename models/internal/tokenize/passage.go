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
type passage struct {
	traced
	trusted string
}

// notTrusted is in no UTF-8, and so in no token.
const notTrusted = "\xff"

// trust is a passage of which all is trusted.
func trust(text string) passage { return passage{traced{text: text}, text} }

// fromUsers is a passage of theirs.
func fromUsers(text string) passage {
	return passage{traced{text: text}, strings.Repeat(notTrusted, len(text))}
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
	return passage{traced{text: text.String()}, trusted.String()}
}

// valid is a text in which each byte that is no UTF-8 is U+FFFD.
func valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return string([]rune(text))
}

// markControl finds out which tokens are control tokens: those that the file or others call
// special, those that end an answer, and those that the source of the chat template has, but for
// words and spaces.
func markControl(added []addedToken, source string) {
	for i := range added {
		a := &added[i]
		written := hasMarks(a.Content) && strings.Contains(source, a.Content)
		a.control = a.control || a.Special || endTexts[a.Content] != 0 || written
	}
}

// hasMarks says whether a text is more than words and spaces.
func hasMarks(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsPunct(r) || unicode.IsSymbol(r)
	})
}

// separate cuts added tokens out of a passage before normalizers.
func (p *pipeline) separate(s passage) []section {
	users := s.text != s.trusted
	return p.raw.split(section{piece{traced: s.traced, users: users, first: true}, s.trusted})
}

// separateNormal normalizes a section and cuts those out that are found after that. Which letters
// of a normalized text are of users is not known, and does not matter if there are no control
// tokens in it, or as many without what users wrote.
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

// withoutTrust are the pieces of sections in which all added tokens were found.
func withoutTrust(sections []section) []piece {
	pieces := make([]piece, len(sections))
	for i := range sections {
		pieces[i] = sections[i].piece
	}
	return pieces
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
