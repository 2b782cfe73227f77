package folder

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// loadWordPiece reads a file of a model with 12 tokens, 20 of which a text may have.
func loadWordPiece(t *testing.T, name, content string) *WordPiece {
	t.Helper()
	l := &Loader{Path: t.TempDir()}
	if err := os.WriteFile(filepath.Join(l.Path, name), []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
	w := l.WordPiece(12, 20, 20)
	if l.Err != nil {
		t.Fatal(l.Err)
	}
	return w
}

func TestWordPiece(t *testing.T) {
	tokens := loadWordPiece(t, "vocab.txt",
		"[PAD]\n[UNK]\n[CLS]\n[SEP]\ncat\nun\n##believ\n##able\n,\n!\nzurich\n中\n")
	cased := loadWordPiece(t, "tokenizer.json", `{"model": {
		"type": "WordPiece", "vocab": {"[UNK]": 1, "[CLS]": 2, "[SEP]": 3,
		"Cat": 4, "cat": 5, "é": 6, "e": 7}},
		"normalizer": {"type": "BertNormalizer", "lowercase": false, "strip_accents": null},
		"pre_tokenizer": {"type": "BertPreTokenizer"},
		"post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}}`)
	for _, c := range []struct {
		tokens *WordPiece
		text   string
		want   []int
	}{
		{tokens, "", []int{2, 3}},
		{tokens, "CAT, cat!", []int{2, 4, 8, 4, 9, 3}},
		{tokens, "  Zürich\tunbelievable\n", []int{2, 10, 5, 6, 7, 3}},
		{tokens, "unable", []int{2, 5, 7, 3}},
		{tokens, "able believ unx", []int{2, 1, 1, 1, 3}},
		{tokens, "中中cat中", []int{2, 11, 11, 4, 11, 3}},
		{tokens, "c\u200bat\x00\ufffd\xff", []int{2, 4, 3}},
		// over 100 characters
		{tokens, "un" + strings.Repeat("able", 24) + "able" + strings.Repeat("able", 1), []int{2, 1, 3}},
		{tokens, strings.Repeat("cat ", 30), append(append([]int{2}, slices.Repeat([]int{4}, 18)...), 3)},
		{cased, "Cat cat é e É", []int{2, 4, 5, 6, 7, 1, 3}},
	} {
		if got, err := c.tokens.Encode(c.text); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %d (%v), want %d", c.text, got, err, c.want)
		}
	}
}
