package tokenize

import "unicode/utf8"

// Words says which tokens continue the word of the token before, by the rules of transformers'
// pipeline for labels of tokens.
type Words struct {
	letters map[int32]int // code points of each token's text; nil if no prefix marks continuations
	unknown int32         // −1 for none
}

// Words returns the rules of this tokenizer.
func (t *Tokenizer) Words() *Words {
	w := &Words{unknown: -1}
	if id, ok := t.unknown(); ok {
		w.unknown = int32(id)
	}
	if t.prefixOfPieces() == "" {
		return w
	}
	w.letters = map[int32]int{}
	for text, id := range t.all() {
		w.letters[int32(id)] = utf8.RuneCountInString(text)
	}
	for text, id := range t.addedIDs {
		w.letters[int32(id)] = utf8.RuneCountInString(text)
	}
	return w
}

// prefixOfPieces returns the prefix of pieces that continue a word, "" for none.
func (t *Tokenizer) prefixOfPieces() string {
	switch m := t.model.(type) {
	case *wordPiece:
		return m.Prefix
	case *pairs:
		return m.Prefix
	}
	return ""
}

// Continues reports whether a token continues the word before it. With a prefix of continuations,
// such as ##, it does if it has another number of code points than its bytes of the text; without a
// prefix, if neither the code point before it nor its first is a space.
func (w *Words) Continues(text string, s Span) bool {
	switch {
	case s.Token == w.unknown:
		return false
	case w.letters != nil:
		return w.letters[s.Token] != utf8.RuneCountInString(text[s.Start:s.End])
	}
	return s.Start > 0 && text[s.Start-1] != ' ' && (s.Start == len(text) || text[s.Start] != ' ')
}
