package tokenize

import (
	"errors"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-1415985d/attn/models/internal/jinja"
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

// rendered is a conversation, in which what messages say is from users, unless they may write
// control tokens.
func rendered(pieces []jinja.Piece, control bool) passage {
	var text, trusted strings.Builder
	for _, p := range pieces {
		more := trust(p.Text)
		if p.Input && !control {
			more = fromUsers(p.Text)
		}
		text.WriteString(more.text)
		trusted.WriteString(more.trusted)
	}
	return passage{text.String(), trusted.String()}
}

// markControl finds out which tokens are control tokens: those that the file or others call
// special, those that end an answer, and those that the template of conversations writes, but for
// words and spaces.
func markControl(added []addedToken, template string) {
	for i := range added {
		a := &added[i]
		written := strings.ContainsFunc(a.Content, func(r rune) bool {
			return unicode.IsPunct(r) || unicode.IsSymbol(r)
		}) && strings.Contains(template, a.Content)
		a.control = a.control || a.Special || endTexts[a.Content] != 0 || written
	}
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
