package tokenize

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestNamedTokens has special_tokens_map.json and added_tokens.json next to a tokenizer.json:
// further tokens count, and contradictions are refused.
func TestNamedTokens(t *testing.T) {
	const tokenizer = `{'added_tokens': [{'id': 2, 'content': '<s>'},
		{'id': 3, 'content': '</s>', 'lstrip': true}], 'post_processor': {'type': 'RobertaProcessing',
		'cls': ['<s>', 2], 'sep': ['</s>', 3]}, 'model': {'merges': [], 'vocab': {'a': 1, ' ': 4,
		'<': 5, 'X': 6, '>': 7, '<X>': 8}}}`
	const options = "single_word false, lstrip false, rstrip false and normalized false"
	for _, c := range []struct {
		config, names, added, text string
		want                       []int
		err                        string
	}{
		{"{}", "{}", "{}", "a<X>", []int{2, 1, 5, 6, 7, 3}, ""},
		{"{}", "null", "null", "a </s>", []int{2, 1, 3, 3}, ""},
		{"{}", `{'bos_token': '<s>', 'eos_token': {'content': '</s>', 'lstrip': true}, 'pad_token': null}`,
			`{'<s>': 2, '</s>': 3}`, "a </s>", []int{2, 1, 3, 3}, ""},
		{"{}", `{'unk_token': '<X>'}`, "{}", "a<X>", []int{2, 1, 8, 3}, ""},
		{"{}", `{'additional_special_tokens': ['<X>']}`, `{'<X>': 8}`, "a<X>", []int{2, 1, 8, 3}, ""},
		{"{}", `{'extra_special_tokens': {'x': {'content': '<X>', 'rstrip': true}}}`, "{}", "<X> a",
			[]int{2, 8, 1, 3}, ""},
		{`{'unk_token': '<X>'}`, `{'unk_token': {'content': '<X>', 'rstrip': true}}`, "{}", "<X> a",
			[]int{2, 8, 1, 3}, ""},
		{`{'unk_token': {'content': '<X>', 'rstrip': true}}`, `{'unk_token': '<X>'}`, "{}", "<X> a",
			[]int{2, 8, 1, 3}, ""},

		{"{}", `{'bos': '<s>'}`, "{}", "", nil, specialTokensJSON + `: key "bos" is "<s>"`},
		{`{'eos_token': '</s>'}`, `{'eos_token': '<X>'}`, "{}", "", nil, specialTokensJSON +
			`: eos_token is "<X>" with ` + options + `, want "</s>" with ` + options +
			" as tokenizer_config.json has it"},
		{`{'unk_token': {'content': '<X>', 'rstrip': true}}`, `{'unk_token': {'content': '<X>'}}`, "{}", "",
			nil, "want \"<X>\" with single_word false, lstrip false, rstrip true and"},
		{"{}", `{'eos_token': {'content': '</s>'}}`, "{}", "", nil, specialTokensJSON + `: eos_token is ` +
			`"</s>" with ` + options + ", want single_word false, lstrip true,"},
		{`{'eos_token': {'content': '</s>'}}`, "{}", "{}", "", nil,
			tokenizerConfigJSON + `: eos_token is "</s>" with`},
		{"{}", `{'bos_token': '<X>'}`, "{}", "", nil, specialTokensJSON + `: bos_token is "<X>", token 8, ` +
			"want one that the post_processor of tokenizer.json puts before texts, of [2]"},
		{`{'eos_token': '<s>'}`, "{}", "{}", "", nil, tokenizerConfigJSON + `: eos_token is "<s>", token 2, ` +
			"want one that the post_processor of tokenizer.json puts after texts, of [3]"},
		{"{}", "{}", `{'</s>': 9}`, "", nil, addedTokensJSON + `: token "</s>" is 9, want 3 as elsewhere`},
		{"{}", "{}", `{'<X>': 8}`, "", nil, addedTokensJSON + `: it has token "<X>" as 8, want only those`},
		{"{}", "{}", `{'<Y>': 9}`, "", nil, addedTokensJSON + `: it has token "<Y>" as 9, want only those`},
		{"{}", "{}", `['<Y>']`, "", nil, addedTokensJSON + ": want JSON as"},
	} {
		l := loaderOf(t, map[string]string{tokenizerJSON: tokenizer, tokenizerConfigJSON: c.config,
			specialTokensJSON: c.names, addedTokensJSON: c.added})
		b := ReadBPE(l, 10)
		if got := fmt.Sprint(l.Err); c.err != "" {
			if !strings.Contains(got, c.err) {
				t.Errorf("%s, %s, %s: the error is %s, want it to say %q", c.config, c.names, c.added, got,
					c.err)
			}
			continue
		}
		if l.Err != nil {
			t.Errorf("%s, %s, %s: %v", c.config, c.names, c.added, l.Err)
		} else if got, err := encodeAll(b, c.text); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s, %s, %s: there are %v (%v), want %v", c.config, c.names, c.added, got, err, c.want)
		}
	}
}

// TestNamedTokensOfWordPiece reads the tokens around texts from special_tokens_map.json next to a
// vocab.txt, and refuses those that differ from a tokenizer.json.
func TestNamedTokensOfWordPiece(t *testing.T) {
	const names = `{'cls_token': '[X]', 'sep_token': '[X]', 'unk_token': '[X]'}`
	l := loaderOf(t, map[string]string{"vocab.txt": "[PAD]\n[UNK]\n[X]\na", specialTokensJSON: names})
	w := ReadTexts(l, 9, 9, 9)
	if l.Err != nil {
		t.Fatal(l.Err)
	}
	if got, err := w.Encode("a b"); err != nil || !slices.Equal(wide(got.Tokens), []int{2, 3, 2, 2}) {
		t.Errorf("there are %v (%v), want 2 3 2 2", got, err)
	}
	for key, want := range map[string]string{"cls_token": "before texts, of [1]",
		"sep_token": "after texts, of [1]"} {
		l := loaderOf(t, map[string]string{specialTokensJSON: `{'` + key + `': '[X]'}`,
			tokenizerJSON: `{'model': {'type': 'WordPiece', 'vocab': {'[UNK]': 1, '[X]': 2}},
				'post_processor': {'type': 'BertProcessing', 'sep': ['[UNK]', 1], 'cls': ['[UNK]', 1]}}`})
		if ReadTexts(l, 9, 9, 9); !strings.Contains(fmt.Sprint(l.Err), want) {
			t.Errorf("%s: the error is %v, want it to say %q", key, l.Err, want)
		}
	}
}
