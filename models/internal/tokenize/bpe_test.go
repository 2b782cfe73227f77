package tokenize

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-1415985d/attn/models/internal/weights"
)

// llama3 is the pattern of Llama 3's tokenizer.json.
const llama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// loaderOf returns a loader of a folder with these files, in which ' stands for ".
func loaderOf(t testing.TB, files map[string]string) *weights.Loader {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name),
			[]byte(strings.ReplaceAll(text, "'", `"`)), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return &weights.Loader{Path: folder}
}

// tokenizerOf reads a tokenizer.json.
func tokenizerOf(t *testing.T, json string) *Tokenizer {
	t.Helper()
	return loadBPE(t, loaderOf(t, map[string]string{tokenizerJSON: json}).Path, 1000)
}

func loadBPE(t *testing.T, folder string, vocab int) *Tokenizer {
	t.Helper()
	l := &weights.Loader{Path: folder}
	b := ReadBPE(l, vocab)
	if l.Err != nil {
		t.Fatal(l.Err)
	}
	return b
}

// encodeAll returns the tokens of a trusted text with the tokens around it.
func encodeAll(tokenizer *Tokenizer, text string) ([]int, error) {
	tokens, err := tokenizer.PromptControl(text)
	return wide(tokens), err
}

func wide(tokens []int32) (ids []int) {
	for _, token := range tokens {
		ids = append(ids, int(token))
	}
	return ids
}

func TestSplits(t *testing.T) {
	for _, c := range []struct {
		stage, text string
		want        []string
	}{
		{`{'type': 'ByteLevel'}`, "Hello world's  foo 12!?\n\n",
			[]string{"Hello", "Ġworld", "'s", "Ġ", "Ġfoo", "Ġ12", "!?", "ĊĊ"}},
		{`{'type': 'ByteLevel', 'use_regex': false}`, "a b", []string{"aĠb"}},
		{`{'type': 'ByteLevel', 'add_prefix_space': true}`, "a b", []string{"Ġa", "Ġb"}},
		{`{'type': 'ByteLevel', 'add_prefix_space': true}`, " a", []string{"Ġa"}},
		{fmt.Sprintf(`{'type': 'Split', 'behavior': 'Isolated', 'pattern': {'Regex': '%s'}}`,
			strings.ReplaceAll(strings.ReplaceAll(llama3, `\`, `\\`), "'", `\u0027`)),
			"12345 I'LL go(\n\n  x",
			[]string{"123", "45", " I", "'LL", " go", "(\n\n", " ", " x"}},
		{`{'type': 'Digits', 'individual_digits': true}`, "a12 b٣",
			[]string{"a", "1", "2", " b", "٣"}},
		{`{'type': 'Digits', 'individual_digits': false}`, "a12 b٣", []string{"a", "12", " b", "٣"}},
		{`{'type': 'Sequence', 'pretokenizers': [{'type': 'Digits', 'individual_digits': true},
			{'type': 'ByteLevel'}]}`, "x=10 y", []string{"x", "=", "1", "0", "Ġy"}},
		{`{'type': 'Metaspace', 'replacement': '▁'}`, "▁a▁b▁▁c", []string{"▁a", "▁b", "▁", "▁c"}},
		{`{'type': 'BertPreTokenizer'}`, " a,b$ \u2003c—d\n",
			[]string{"a", ",", "b", "$", "c", "—", "d"}},
		{`{'type': 'BertPreTokenizer'}`, "a⹒b—c", []string{"a⹒b", "—", "c"}}, // ⹒ is of Unicode 13
		{`null`, "a b", []string{"a b"}},
	} {
		p, err := newPipeline(nil, []byte(strings.ReplaceAll(c.stage, "'", `"`)), nil, nil, 9)
		if err != nil {
			t.Fatal(err)
		}
		pieces, err := p.pieces(trust(c.text))
		var got []string
		for _, p := range pieces {
			got = append(got, p.text)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q becomes %q (%v), want %q", c.stage, c.text, got, err, c.want)
		}
	}
}

func TestEncode(t *testing.T) {
	llama2 := `{'normalizer': {'type': 'Sequence', 'normalizers': [
			{'type': 'Prepend', 'prepend': '▁'},
			{'type': 'Replace', 'pattern': {'String': ' '}, 'content': '▁'}]},
		'added_tokens': [{'id': 1, 'content': '<s>'}, {'id': 2, 'content': '<s>>'}],
		'model': {'type': 'BPE', 'byte_fallback': true, 'unk_token': '?',
			'merges': ['▁ a', 'b c', 'a b', '▁a bc'],
			'vocab': {'▁': 10, 'a': 11, 'b': 12, 'c': 13, '▁a': 14, 'bc': 15, 'ab': 16,
				'▁abc': 17, '<0xC3>': 20, '<0xA9>': 21, '?': 0}}}`
	metaspace := func(options string) string {
		return `{'pre_tokenizer': {'type': 'Metaspace', 'replacement': '▁', ` + options + `},
			'added_tokens': [{'id': 1, 'content': '<s>'}],
			'model': {'vocab': {'▁': 10, 'a': 11, '▁a': 14, 'a▁': 15}, 'merges': ['a ▁', '▁ a']}}`
	}
	unknowns := func(options string) string {
		return `{'model': {` + options + `, 'unk_token': '?', 'vocab': {'?': 0, 'a': 1, 'b': 2, 'ab': 3,
			'@b': 4, '@a': 5, 'b/': 6, '@ba': 8, '@b@a': 9}, 'merges': ['a b', '@b @a']}}`
	}
	for _, c := range []struct {
		json, text string
		want       []int
	}{
		{llama2, "abc", []int{17}}, // (▁a)(bc): bc merges before ab
		{llama2, "a abc b", []int{14, 17, 10, 12}},
		{llama2, "é", []int{10, 20, 21}},           // as bytes
		{llama2, "ü", []int{10, 0}},                // the vocabulary lacks one of them
		{llama2, "a<s>>a<s>", []int{14, 2, 14, 1}}, // the longer one wins
		{metaspace(`'prepend_scheme': 'first', 'split': true`), "a a<s>a", []int{14, 14, 1, 11}},
		{metaspace(`'prepend_scheme': 'first', 'split': false`), " a a", []int{10, 15, 11}},
		{metaspace(`'prepend_scheme': 'always'`), "a<s>a", []int{14, 1, 14}},
		{metaspace(`'prepend_scheme': 'never'`), "a", []int{11}},
		{metaspace(`'add_prefix_space': true`), "a<s>a", []int{14, 1, 14}},
		{metaspace(`'add_prefix_space': false`), "a a", []int{11, 14}},
		{metaspace(`'add_prefix_space': false, 'prepend_scheme': 'never', 'str_rep': '▁'`), "a",
			[]int{11}},
		{metaspace(`'add_prefix_space': true, 'prepend_scheme': 'never'`), "a", []int{11}},
		{metaspace(`'split': true`), "a", []int{14}}, // always
		{unknowns(`'fuse_unk': false`), "axxbx", []int{1, 0, 0, 2, 0}},
		{unknowns(`'fuse_unk': true`), "axxbx", []int{1, 0, 2, 0}},
		{unknowns(`'fuse_unk': true`), "xx?x", []int{0, 0, 0}}, // the second was known before
		{unknowns(`'continuing_subword_prefix': '@'`), "aba", []int{1, 8}},
		{unknowns(`'end_of_word_suffix': '/'`), "aab", []int{1, 1, 6}},
		{unknowns(`'end_of_word_suffix': '/'`), "b", []int{6}},
		{unknowns(`'dropout': 0.0`), "ab", []int{3}},
		{unknowns(`'dropout': null`), "ab", []int{3}},
		{`{'normalizer': {'type': 'NFC'}, 'model': {'vocab': {'é': 5}, 'merges': []}}`, "e\u0301",
			[]int{5}},
		{`{'model': {'vocab': {'a': 1, 'b': 2, 'c': 3, 'ab': 4, 'bc': 5, 'abc': 6}, 
			'merges': ['b c', 'a b']}}`, "abc", []int{1, 5}},
		{`{'model': {'vocab': {'a': 1, 'b': 2, 'c': 3, 'ab': 4, 'bc': 5, 'abc': 6}, 
			'merges': ['b c', 'a b'], 'ignore_merges': true}}`, "abc", []int{6}},
		{`{'model': {'vocab': {'a': 1, 'aa': 2, 'aaaa': 3}, 'merges': ['a a', 'aa aa']}}`, "aaaaaaa",
			[]int{3, 2, 1}},
	} {
		got, err := encodeAll(tokenizerOf(t, c.json), c.text)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q becomes %v (%v), want %v by %s", c.text, got, err, c.want, c.json)
		}
	}
	llama := tokenizerOf(t, llama2)
	if got := llama.Bytes(17) + llama.Bytes(20) + llama.Bytes(21) +
		llama.Bytes(1); got != " abcé<s>" {
		t.Errorf("tokens become %q", got)
	}
	if got := llama.Bytes(10) + llama.Bytes(999); got != " " {
		t.Errorf("tokens become %q", got)
	}
	for text, want := range map[string]string{"\xff": "no token for \"\ufffd\"", "z": `no token for "z"`} {
		if _, err := encodeAll(tokenizerOf(t, metaspace("'split': false")), text); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want it to say %q", text, err, want)
		}
	}
}

// TestMergeAll compares with searching the best pair again after each merge.
func TestMergeAll(t *testing.T) {
	source := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		p := pairs{merges: map[twoTokens]merged{}}
		tokens := 2 + source.IntN(4)
		for range source.IntN(12) {
			rank := int32(len(p.merges))
			two := tokensOf(source.IntN(tokens), source.IntN(tokens))
			p.merges[two] = merged{rank, int32(tokens)}
			tokens++
		}
		ids := make([]int, source.IntN(40))
		for i := range ids {
			ids[i] = source.IntN(3)
		}
		want := slices.Clone(ids)
		for {
			best, at := merged{rank: 99}, -1
			for i := range len(want) - 1 {
				if m, ok := p.merges[tokensOf(want[i], want[i+1])]; ok && m.rank < best.rank {
					best, at = m, i
				}
			}
			if at < 0 {
				break
			}
			want = slices.Replace(want, at, at+2, int(best.id))
		}
		if got := p.mergeAll(slices.Clone(ids), nil); !slices.Equal(got, want) {
			t.Fatalf("%v becomes %v by %v, want %v", ids, got, p.merges, want)
		}
	}
}

// TestLongWord has a word that would need a minute if each merge looked at all pairs.
func TestLongWord(t *testing.T) {
	tokenizer := tokenizerOf(t, `{'model': {'vocab': {'a': 1, 'aa': 2, 'aaaa': 3, 'b': 4},
		'merges': ['a a', 'aa aa']}}`)
	const letters = 200_000
	start := time.Now()
	ids, err := encodeAll(tokenizer, strings.Repeat("a", letters))
	if took := time.Since(start); err != nil || len(ids) != letters/4 || took > 20*time.Second {
		t.Errorf("%d letters become %d tokens (%v) in %v, want %d in less than 20s", letters, len(ids),
			err, took, letters/4)
	}
}

// TestThereAndBack encodes random text with a vocabulary of bytes and decodes it.
func TestThereAndBack(t *testing.T) {
	var vocab []string
	for b, letter := range letters {
		vocab = append(vocab, fmt.Sprintf("%q: %d", string(letter), b))
	}
	json := fmt.Sprintf(`{"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
		{"type": "Split", "pattern": {"Regex": %q}, "behavior": "Isolated"},
		{"type": "ByteLevel", "use_regex": false}]},
		"model": {"vocab": {%s, "Ġt": 256, "ĠĠ": 257}, "merges": ["Ġ t", "Ġ Ġ"]}}`,
		llama3, strings.Join(vocab, ", "))
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "tokenizer.json"), []byte(json), 0o666); err != nil {
		t.Fatal(err)
	}
	tokenizer := loadBPE(t, folder, 258)
	alphabet, source := []rune("  tt\n'sé漢😀1٣.\x00\u00ad"), rand.New(rand.NewPCG(1, 1))
	for range 300 {
		var text []rune
		for range source.IntN(40) {
			text = append(text, alphabet[source.IntN(len(alphabet))])
		}
		ids, err := encodeAll(tokenizer, string(text))
		if err != nil {
			t.Fatal(err)
		}
		back := ""
		for _, id := range ids {
			back += tokenizer.Bytes(int32(id))
		}
		if back != string(text) {
			t.Fatalf("%q becomes %v, and these %q", string(text), ids, back)
		}
	}
}
