package tokenize

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-1415985d/attn/models/internal/weights"
)

// spansFile is testdata/spans.json.
type spansFile struct {
	Kinds map[string]json.RawMessage
	Cases []spansCase
}

type spansCase struct {
	kind, text string
	spans      []Span
}

func (c *spansCase) UnmarshalJSON(data []byte) error {
	var spans [][3]int
	err := json.Unmarshal(data, &[]any{&c.kind, &c.text, &spans})
	for _, s := range spans {
		c.spans = append(c.spans, Span{int32(s[0]), s[1], s[2]})
	}
	return err
}

// spansOf returns the tokenizers of testdata/spans.json, and the spans of their tokens.
func spansOf(t testing.TB) (map[string]*Tokenizer, []spansCase) {
	t.Helper()
	data, err := os.ReadFile("testdata/spans.json")
	if err != nil {
		t.Fatal(err)
	}
	var file spansFile
	if err := json.Unmarshal(data, &file); err != nil || len(file.Kinds) < 20 {
		t.Fatalf("%d tokenizers (%v), want 20 at least", len(file.Kinds), err)
	}
	kinds := map[string]*Tokenizer{}
	for name, content := range file.Kinds {
		l := &weights.Loader{Path: t.TempDir()}
		if err := os.WriteFile(filepath.Join(l.Path, tokenizerJSON), content, 0o666); err != nil {
			t.Fatal(err)
		}
		if kinds[name] = FromFolder(l); l.Err != nil {
			t.Fatalf("%s: %v", name, l.Err)
		}
	}
	return kinds, file.Cases
}

// TestSpansOfTokenizers compares with tokenizers 0.23.2 on random texts, which testdata/spans.js
// made.
func TestSpansOfTokenizers(t *testing.T) {
	kinds, cases := spansOf(t)
	for _, c := range cases {
		got, err := kinds[c.kind].Spans(c.text)
		if err != nil || !slices.Equal(got, c.spans) {
			t.Errorf("%s: %q becomes\n%v (%v), want\n%v", c.kind, c.text, got, err, c.spans)
		}
	}
}

// oddLetters change in normalizers, are in several tokens, or are not UTF-8.
var oddLetters = []string{"a", "b", "ab", " ", "  ", "\t", "\n", "é", "e\u0301", "É", "ﬁ", "①", "…",
	"中", "😀", "👩\u200d👧", "!", "1", "\u0301", "a\u0323\u0301", "각", "\u00ad", "İ", "㌀", "\u200b",
	"'s", "\u2003", "▁", "\x01", "\x00", "<m>", " <m> ", "éé", "bb", "\ufffd", "\xff", "\xe2\x82",
	"\xf0\x9f", strings.Repeat("\u0301\u0323", 20)}

func oddText(source *rand.Rand) (text string) {
	for range source.IntN(10) {
		text += oddLetters[source.IntN(len(oddLetters))]
	}
	return text
}

// TestSpans checks the spans of random texts with each kind of tokenizer.
func TestSpans(t *testing.T) {
	kinds, _ := spansOf(t)
	source := rand.New(rand.NewPCG(6, 7))
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		for range 500 {
			checkSpans(t, name, kinds[name], oddText(source))
		}
	}
}

// FuzzSpans checks the spans of any text with each kind of tokenizer.
func FuzzSpans(f *testing.F) {
	kinds, cases := spansOf(f)
	names := slices.Sorted(maps.Keys(kinds))
	for i, c := range cases {
		f.Add(i, c.text)
	}
	source := rand.New(rand.NewPCG(8, 9))
	for i := range 200 {
		f.Add(i, oddText(source))
	}
	f.Fuzz(func(t *testing.T, kind int, text string) {
		name := names[uint(kind)%uint(len(names))]
		checkSpans(t, name, kinds[name], text)
	})
}

// checkSpans makes sure that spans have Encode's tokens, ascend and consist of whole letters. If
// tokens are bytes of the text it compares them with their definition.
func checkSpans(t *testing.T, name string, tokenizer *Tokenizer, text string) {
	t.Helper()
	spans, err := tokenizer.Spans(text)
	want, other := tokenizer.Encode(text)
	var got []int32
	for _, s := range spans {
		got = append(got, s.Token)
	}
	if (err == nil) != (other == nil) || !slices.Equal(got, want) {
		t.Fatalf("%s: %q has spans %v (%v), and tokens %v (%v)", name, text, spans, err, want, other)
	}
	last := Span{}
	for _, s := range spans {
		if s.Start < last.Start || s.End < last.End || s.Start > s.End || s.End > len(text) ||
			!isBoundary(text, s.Start) || !isBoundary(text, s.End) {
			t.Fatalf("%s: %q has spans %v, want them to ascend and to be of whole letters", name, text,
				spans)
		}
		last = s
	}
	if err == nil && (name == "gpt2" || name == "roberta, no trims") {
		checkByteSpans(t, tokenizer, text, spans)
	}
}

// isBoundary reports whether a letter, or a byte that is not UTF-8, begins or ends at a place.
func isBoundary(text string, place int) bool {
	for at := 0; at < place; {
		_, size := utf8.DecodeRuneInString(text[at:])
		if at += size; at > place {
			return false
		}
	}
	return true
}

// checkByteSpans compares with the definition for tokenizers that have a letter for each byte and
// change nothing: a token of some bytes stands for the letters that these belong to.
func checkByteSpans(t *testing.T, tokenizer *Tokenizer, text string, spans []Span) {
	t.Helper()
	var from, to []int // for each byte of the valid text its letter in the text
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		for range utf8.RuneLen(r) {
			from, to = append(from, at), append(to, at+size)
		}
		at += size
	}
	whole, at := "", 0
	for _, s := range spans {
		bytes := tokenizer.Bytes(s.Token)
		if whole += bytes; at == 0 && strings.HasPrefix(bytes, " ") && !strings.HasPrefix(text, " ") {
			bytes = bytes[1:] // not part of the text
		}
		first, last := at, at+len(bytes)
		if at = last; first == last {
			continue
		}
		if s.Start != from[first] || s.End != to[last-1] {
			t.Fatalf("%q has spans %v: token %d, %q, want %d to %d", text, spans, s.Token, bytes,
				from[first], to[last-1])
		}
	}
	if whole != valid(text) && whole != " "+valid(text) {
		t.Fatalf("%q has tokens of %q", text, whole)
	}
}

// TestSpansOfBytes: each byte that is not UTF-8 stands for itself, as do the three bytes of its
// U+FFFD.
func TestSpansOfBytes(t *testing.T) {
	kinds, _ := spansOf(t)
	source := rand.New(rand.NewPCG(10, 11))
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		for range 200 {
			text := oddText(source)
			places := map[int]int{} // places of the valid text in the text
			n := 0
			for at := 0; at <= len(text); {
				places[n] = at
				r, size := utf8.DecodeRuneInString(text[at:])
				n, at = n+utf8.RuneLen(r), at+max(1, size)
			}
			got, err := kinds[name].Spans(text)
			want, other := kinds[name].Spans(valid(text))
			for i := range want {
				want[i].Start, want[i].End = places[want[i].Start], places[want[i].End]
			}
			if err != nil || other != nil || !slices.Equal(got, want) {
				t.Fatalf("%s: %q has spans %v (%v), want %v (%v)", name, text, got, err, want, other)
			}
		}
	}
}

// TestSpansOfControl: a control token that users spell is letters, and a trusted one is one token.
func TestSpansOfControl(t *testing.T) {
	tokenizer := tokenizerOf(t, `{'added_tokens': [{'id': 9, 'content': '<s>', 'special': true}],
		'model': {'merges': ['< s', '<s >'], 'vocab': {'<': 1, 's': 2, '>': 3, 'é': 4, '<s': 5,
			'<s>': 9}}}`)
	for _, c := range []struct {
		spans func(string) ([]Span, error)
		want  []Span
	}{
		{tokenizer.Spans, []Span{{4, 0, 2}, {1, 2, 3}, {2, 3, 4}, {3, 4, 5}, {4, 5, 7}}},
		{tokenizer.SpansControl, []Span{{4, 0, 2}, {9, 2, 5}, {4, 5, 7}}},
	} {
		if got, err := c.spans("é<s>é"); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("spans are %v (%v), want %v", got, err, c.want)
		}
	}
	if got, err := tokenizer.Spans("x"); err == nil {
		t.Errorf("a letter that no token has is %v", got)
	}
	if got, err := tokenizer.Spans(""); err != nil || len(got) != 0 {
		t.Errorf("nothing is %v (%v)", got, err)
	}
}
