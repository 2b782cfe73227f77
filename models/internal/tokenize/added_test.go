package tokenize

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestAddedTokens has each option alone. <a> is token 7, and each letter is a token.
func TestAddedTokens(t *testing.T) {
	const lower = `'normalizer': {'type': 'Lowercase'},`
	const prepend = `'normalizer': {'type': 'Prepend', 'prepend': 'b'},`
	for _, c := range []struct {
		options, more, text string
		want                []int
	}{
		{"", "", "b <a> b", []int{2, 3, 7, 3, 2}},
		{"'lstrip': true,", "", "b \t\u2003<a> b", []int{2, 7, 3, 2}},
		{"'lstrip': true,", "", "  <a>  <a>", []int{7, 7}},
		{"'rstrip': true,", "", "b <a> \n b", []int{2, 3, 7, 2}},
		{"'lstrip': true, 'rstrip': true,", "", " <a> <a> b", []int{7, 7, 2}},
		{"'single_word': true,", "", "b<a> <a>b b<a>b <a> <a>", []int{2, 9, 1, 9, 3, 9, 1, 9, 2, 3, 2, 9,
			1, 9, 2, 3, 7, 3, 7}},
		{"'single_word': true,", "", "_<a>", []int{4, 9, 1, 9}},
		{"'single_word': true,", "", ".<a>.", []int{5, 7, 5}},
		{"'normalized': false,", lower, "<a><A>B", []int{7, 9, 1, 9, 2}},
		{"'normalized': true,", lower, "<a><A>B", []int{7, 7, 2}},
		{"'normalized': true,", prepend, "b<a>", []int{2, 7}}, // found in b<a>
		{"'normalized': false,", prepend, "a<a>a", []int{2, 1, 7, 2, 1}},
		{"'special': true,", "", "<a><aa><a", []int{7, 8, 9, 1}},
	} {
		got, err := encodeAll(tokenizerOf(t, `{'added_tokens': [{`+c.options+`'id': 7, 'content': '<a>'},
			{'id': 8, 'content': '<aa>'}], `+c.more+`
			'model': {'merges': [], 'vocab': {'a': 1, 'b': 2, ' ': 3, '_': 4, '.': 5, '<': 9, '>': 9}}}`), c.text)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s, %s: %q becomes %v (%v), want %v", c.options, c.more, c.text, got, err, c.want)
		}
	}
}

// TestFinder compares with trying all tokens at each place, and control tokens only where all
// letters are trusted.
func TestFinder(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 2))
	word := func(most int) string {
		var s []rune
		for range 1 + source.IntN(most) {
			s = append(s, []rune("aab é")[source.IntN(5)])
		}
		return string(s)
	}
	for range 5000 {
		var tokens []addedToken
		for i := range source.IntN(6) {
			tokens = append(tokens, addedToken{ID: i, Content: word(4), control: source.IntN(2) > 0})
		}
		s := trust(word(9))
		for range source.IntN(4) {
			more := trust(word(9))
			if source.IntN(2) > 0 {
				more = fromUsers(more.text)
			}
			s = passage{traced{text: s.text + more.text}, s.trusted + more.trusted}
		}
		text := s.text
		f, err := newFinder(tokens, func(s string) (string, error) { return s, nil })
		if err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for _, p := range f.split(section{piece{traced: s.traced}, s.trusted}) {
			if got = append(got, p.text); p.token != nil && p.token.Content != p.text {
				t.Fatalf("%q is taken for %q", p.text, p.token.Content)
			}
		}
		begin := 0
		for at := 0; at <= len(text); {
			longest := 0
			for _, a := range tokens {
				if strings.HasPrefix(s.text[at:], a.Content) &&
					(!a.control || strings.HasPrefix(s.trusted[at:], a.Content)) {
					longest = max(longest, len(a.Content))
				}
			}
			if (longest > 0 || at == len(text)) && at > begin {
				want = append(want, text[begin:at])
			}
			if longest > 0 {
				want = append(want, text[at:at+longest])
				begin = at + longest
			}
			at += max(longest, 1)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q becomes %q by %v, want %q", text, got, tokens, want)
		}
	}
}

// TestTokensBeyondTheVocabulary reads a file that has more tokens than the model, as published ones
// do, and refuses only texts with these tokens.
func TestTokensBeyondTheVocabulary(t *testing.T) {
	tokenizer := tokenizerOf(t, `{'added_tokens': [{'id': 1000, 'content': '[PAD]'}],
		'model': {'merges': [], 'vocab': {'a': 1}}}`)
	if got, err := encodeAll(tokenizer, "aa"); err != nil || !slices.Equal(got, []int{1, 1}) {
		t.Errorf("without the token there are %v (%v), want 1 and 1", got, err)
	}
	if _, err := encodeAll(tokenizer, "a[PAD]"); err == nil ||
		!strings.Contains(err.Error(), "token 1000, want 0 to 999 by vocab_size in config.json") {
		t.Errorf("with the token the error is %v", err)
	}
}
