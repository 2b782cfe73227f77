package tokenize

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// piecesOf returns the pieces that stages of a tokenizer.json make of a text.
func piecesOf(t *testing.T, stages, text string) (texts []string) {
	t.Helper()
	b := tokenizerOf(t, `{`+stages+`, 'added_tokens': [{'id': 2, 'content': '<s>'}],
		'model': {'merges': [], 'vocab': {'a': 1}}}`)
	pieces, err := b.pieces(trust(text))
	if err != nil {
		t.Fatalf("%s: %q: %v", stages, text, err)
	}
	for _, p := range pieces {
		texts = append(texts, p.text)
	}
	return texts
}

// The stages of the tests.
func sequence(inner string, stages ...string) string {
	return `{'type': 'Sequence', '` + inner + `': [` + strings.Join(stages, ", ") + `]}`
}

func stripped(left, right bool) string {
	return fmt.Sprintf(`{'type': 'Strip', 'strip_left': %v, 'strip_right': %v}`, left, right)
}

func replacing(kind, old, content string) string {
	return fmt.Sprintf(`{'type': 'Replace', 'pattern': {'%s': '%s'}, 'content': '%s'}`, kind, old,
		content)
}

const (
	alwaysFirst = `{'type': 'Metaspace', 'replacement': '▁', 'prepend_scheme': 'always'}`
	onlyFirst   = `{'type': 'Metaspace', 'replacement': '▁', 'prepend_scheme': 'first'}`
	withSpace   = `{'type': 'ByteLevel', 'add_prefix_space': true}`
)

// TestNothingBeforeNothing has texts of which normalizers leave nothing: nothing is put before
// their words.
func TestNothingBeforeNothing(t *testing.T) {
	for _, c := range []struct {
		normalizer, preTokenizer, text string
		want                           []string
	}{
		{stripped(false, true), alwaysFirst, " ", nil},
		{stripped(false, true), alwaysFirst, "a ", []string{"▁a"}},
		{stripped(false, true), alwaysFirst, "\n<s> <s>a", []string{"<s>", "<s>", "▁a"}},
		{stripped(true, true), withSpace, " \t", nil},
		{stripped(true, true), withSpace, "a<s> ", []string{"Ġa", "<s>"}},
		{stripped(true, true), `{'type': 'ByteLevel', 'add_prefix_space': true, 'use_regex': false}`,
			"\u3000", nil},
		{replacing("String", "\u200b", ""), alwaysFirst, "\u200b", nil},
		{replacing("Regex", `\\s+`, ""), onlyFirst, " \n", nil},
		{`{'type': 'StripAccents'}`, alwaysFirst, "\u0301", nil},
		{`{'type': 'BertNormalizer'}`, alwaysFirst, "\u200b\x00", nil},
		{`null`, alwaysFirst, "", nil},
		{`null`, withSpace, "", nil},
		{`null`, sequence("pretokenizers", `{'type': 'WhitespaceSplit'}`, alwaysFirst), " \n", nil},
		{`null`, alwaysFirst, " ", []string{"▁"}},
		{`null`, withSpace, " ", []string{"Ġ"}},
	} {
		got := piecesOf(t, `'normalizer': `+c.normalizer+`, 'pre_tokenizer': `+c.preTokenizer, c.text)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s, %s: %q has pieces %q, want %q", c.normalizer, c.preTokenizer, c.text, got, c.want)
		}
	}
	texts := textsOf(t, 20, map[string]string{tokenizerJSON: fmt.Sprintf(xlmr, stripped(false, true),
		false)})
	for _, text := range []string{"", " ", "\n", "\u3000"} {
		if got, err := texts.Encode(text); err != nil || !slices.Equal(got.Tokens, []int32{0, 2}) {
			t.Errorf("%q has tokens %v (%v), want [0 2]", text, got.Tokens, err)
		}
	}
}

// TestFirstIsWhereTheTextBegins has texts whose first word is not where they begin. A letter that a
// normalizer makes stands for the last of the letters that it replaces.
func TestFirstIsWhereTheTextBegins(t *testing.T) {
	between := sequence("pretokenizers", `{'type': 'WhitespaceSplit'}`, onlyFirst)
	bert := sequence("pretokenizers", `{'type': 'BertPreTokenizer'}`, onlyFirst)
	for _, c := range []struct{ normalizer, preTokenizer, text, want string }{
		{`null`, onlyFirst, "two a", "▁two|▁a"},
		{`null`, onlyFirst, "<s>two", "<s>|two"},
		{`null`, between, "two a", "▁two|a"},
		{`null`, between, "  two a", "two|a"},
		{`null`, between, "\ntwo", "two"},
		{`null`, bert, "!two", "▁!|two"},
		{`null`, bert, " !two", "!|two"},
		{stripped(true, false), onlyFirst, "two", "▁two"},
		{stripped(true, false), onlyFirst, "  two", "two"},
		{stripped(true, false), between, "\ntwo", "two"},
		{stripped(false, true), onlyFirst, "two ", "▁two"},
		{`{'type': 'StripAccents'}`, onlyFirst, "\u0301a", "a"},
		{`{'type': 'Nmt'}`, onlyFirst, "\x01a", "a"},
		{`{'type': 'Nmt'}`, onlyFirst, "\u200ba", "▁a"},
		{`{'type': 'BertNormalizer'}`, onlyFirst, "\x01a", "a"},
		{`{'type': 'BertNormalizer'}`, onlyFirst, "\u0301a", "a"},
		{`{'type': 'BertNormalizer'}`, onlyFirst, "Éa", "▁ea"},
		{replacing("String", "b", "c"), onlyFirst, "ba", "▁ca"},
		{replacing("String", "b", ""), onlyFirst, "ba", "a"},
		{replacing("String", "bb", "c"), onlyFirst, "bba", "ca"},
		{replacing("Regex", "b+", "c"), onlyFirst, "bba", "ca"},
		{replacing("Regex", "b+", "c"), onlyFirst, "abb", "▁ac"},
		{replacing("Regex", "b+", "c"), onlyFirst, "ba", "▁ca"},
		{replacing("Regex", " {2,}", " "), onlyFirst, "  a", "▁a"},
		{`{'type': 'NFKC'}`, onlyFirst, "ﬁ", "▁fi"},
		{`{'type': 'Prepend', 'prepend': 'x'}`, onlyFirst, "a", "▁xa"},
	} {
		got := piecesOf(t, `'normalizer': `+c.normalizer+`, 'pre_tokenizer': `+c.preTokenizer, c.text)
		if strings.Join(got, "|") != c.want {
			t.Errorf("%s, %s: %q has pieces %q, want %s", c.normalizer, c.preTokenizer, c.text, got, c.want)
		}
	}
}

// TestNoClock makes sure that tokenizers do not use time: a machine that pauses has the same
// tokens.
func TestNoClock(t *testing.T) {
	for _, folder := range []string{".", "../pattern"} {
		files, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), folder+"/"+f.Name(), nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, imported := range file.Imports {
				if imported.Path.Value == `"time"` {
					t.Errorf("%s imports time, want steps that are counted", f.Name())
				}
			}
		}
	}
}

// TestSplitRemoves keeps the matches of a pattern, as CLIP's tokenizer does, or all else.
func TestSplitRemoves(t *testing.T) {
	for _, c := range []struct {
		invert bool
		text   string
		want   []string
	}{
		{true, "  ab c,\t", []string{"ab", "c", ","}}, {true, "", nil}, {true, " ", nil},
		{false, "ab c,", []string{" "}}, {false, " ", []string{" "}},
	} {
		got := piecesOf(t, fmt.Sprintf(`'pre_tokenizer': {'type': 'Split', 'pattern': {'Regex':
			'\\p{L}+|[^\\s\\p{L}]+'}, 'behavior': 'Removed', 'invert': %v}`, c.invert), c.text)
		if !slices.Equal(got, c.want) {
			t.Errorf("invert %v, %q: %q, want %q", c.invert, c.text, got, c.want)
		}
	}
	b := tokenizerOf(t, `{'pre_tokenizer': {'type': 'Split', 'pattern': {'Regex': '[ab]'}, 'behavior':
		'Removed', 'invert': true}, 'added_tokens': [], 'model': {'merges': [], 'vocab': {'a': 1,
		'b': 2}}}`)
	spans, err := b.SpansControl("  a b")
	if want := []Span{{1, 2, 3}, {2, 4, 5}}; err != nil || !slices.Equal(spans, want) {
		t.Errorf("spans %v, %v, want %v", spans, err, want)
	}
}
