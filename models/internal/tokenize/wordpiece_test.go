package tokenize

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/models/internal/weights"
)

// loadWordPiece reads a file of a model with 12 tokens and texts of up to 20 tokens.
func loadWordPiece(t *testing.T, name, content string) *Texts {
	t.Helper()
	l := &weights.Loader{Path: t.TempDir()}
	if err := os.WriteFile(filepath.Join(l.Path, name), []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
	w := ReadTexts(l, 12, 20, 20)
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
		tokens *Texts
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
		if got, err := c.tokens.Encode(c.text); err != nil || !slices.Equal(wide(got.Tokens), c.want) {
			t.Errorf("%q: %d (%v), want %d", c.text, got, err, c.want)
		}
	}
}

// TestWordPieceFiles has the settings for words and pieces of tokenizer.json and
// tokenizer_config.json.
func TestWordPieceFiles(t *testing.T) {
	file := func(model, more string) map[string]string {
		return map[string]string{tokenizerJSON: `{'model': {'type': 'WordPiece', ` + model + `
			'vocab': {'[UNK]': 1, '[CLS]': 2, '[SEP]': 3, '?': 4, 'a': 5, '##b': 6, '@b': 7, '[X]': 8,
			'ab': 9, 'i': 10, 'Aa': 11}}, ` + more + `'pre_tokenizer': {'type': 'BertPreTokenizer'},
			'post_processor': {'type': 'TemplateProcessing', 'single': [
			{'SpecialToken': {'id': '[CLS]', 'type_id': 0}}, {'Sequence': {'id': 'A', 'type_id': 0}}],
			'pair': [], 'special_tokens': {'[CLS]': {'id': '[CLS]', 'ids': [2], 'tokens': ['[CLS]']}}}}`}
	}
	vocabulary := func(config string) map[string]string {
		return map[string]string{tokenizerConfigJSON: config, "vocab.txt": strings.Join([]string{"[PAD]",
			"[UNK]", "[CLS]", "[SEP]", "[MASK]", "é", "e", "E", "中", "[X]", "<u>", "É"}, "\n")}
	}
	const added = `'added_tokens': [{'id': 8, 'content': '[X]'}], `
	for _, c := range []struct {
		files map[string]string
		text  string
		want  []int
	}{
		{map[string]string{tokenizerJSON: strings.Replace(file("", "")[tokenizerJSON],
			"'type': 'WordPiece',", "", 1)}, "a", []int{2, 5}}, // as in older files
		{file("", ""), "a abbb c", []int{2, 5, 9, 6, 6, 1}},
		{file(`'unk_token': '?',`, ""), "c", []int{2, 4}},
		{file(`'continuing_subword_prefix': '@',`, ""), "abb", []int{2, 9, 7}},
		{file(`'max_input_chars_per_word': 2,`, ""), "ab abb", []int{2, 9, 1}},
		{file("", added), "a[X]a", []int{2, 5, 8, 5}},
		{file("", ""), "[X]", []int{2, 1, 1, 1}}, // not an added token
		{file("", `'normalizer': {'type': 'Sequence', 'normalizers': [{'type': 'NFD'},
			{'type': 'StripAccents'}]}, `), "Äa", []int{2, 11}},
		{file("", `'decoder': {'type': 'WordPiece', 'prefix': '#'}, `), "a", []int{2, 5}},

		{vocabulary("{}"), "É[MASK]中e", []int{2, 6, 4, 8, 6, 3}},
		{vocabulary(`{'do_lower_case': false}`), "E e é", []int{2, 7, 6, 5, 3}},
		{vocabulary(`{'do_lower_case': false, 'strip_accents': true}`), "E é", []int{2, 7, 6, 3}},
		{vocabulary(`{'strip_accents': false}`), "É", []int{2, 5, 3}},
		{vocabulary(`{'tokenize_chinese_chars': false}`), "中e", []int{2, 1, 3}},
		{vocabulary(`{'clean_text': false}`), "e\x01", []int{2, 1, 3}},
		{vocabulary(`{'unk_token': '<u>', 'cls_token': {'content': '[X]', 'lstrip': false}}`), "q",
			[]int{9, 10, 3}},
		{vocabulary(`{'mask_token': {'content': '<u>', 'lstrip': true}, 'extra_special_tokens': ['[X]'],
			'additional_special_tokens': [{'content': 'E'}, 'absent']}`), "e <u>[X]E[MASK]",
			[]int{2, 6, 10, 9,
				7, 1, 1, 1, 3}},
		{vocabulary(`{'extra_special_tokens': {'some': '[X]'}}`), "[X]", []int{2, 9, 3}},
		{vocabulary(`{'added_tokens_decoder': {'9': {'content': '[X]', 'rstrip': true}}}`), "[X] e",
			[]int{2, 9, 6, 3}},
	} {
		l := loaderOf(t, c.files)
		w := ReadTexts(l, 12, 20, 20)
		if l.Err != nil {
			t.Fatal(l.Err)
		}
		if got, err := w.Encode(c.text); err != nil || !slices.Equal(wide(got.Tokens), c.want) {
			t.Errorf("%v: %q becomes %v (%v), want %v", c.files, c.text, got, err, c.want)
		}
	}

	bert := `'normalizer': {'type': 'BertNormalizer', 'lowercase': true}, `
	with := func(files map[string]string, config string) map[string]string {
		files[tokenizerConfigJSON] = config
		return files
	}
	for want, files := range map[string]map[string]string{
		"tokenizer_config.json: do_lower_case is false, want true as": with(file("", bert),
			`{'do_lower_case': false}`),
		"strip_accents is false, want true as": with(file("", bert), `{'strip_accents': false}`),
		"tokenize_chinese_chars is false": with(file("", bert),
			`{'tokenize_chinese_chars': false}`),
		`truncation_side is "left", want right`: with(file("", ""), `{'truncation_side': 'left'}`),
		`never_split is ["a"], want []`:         with(file("", ""), `{'never_split': ['a']}`),
		"max_input_chars_per_word is 1001":      file(`'max_input_chars_per_word': 1001,`, ""),
		`unk_token is "%", want a token of`:     file(`'unk_token': '%',`, ""),
		`tokenizer_config.json: cls_token is "[BOS]", want a token of vocab.txt`: vocabulary(
			`{'cls_token': '[BOS]'}`),
		`special_tokens_map.json: unk_token is "<unk>", want a token of vocab.txt`: {"vocab.txt": "[CLS]",
			specialTokensJSON: `{'unk_token': '<unk>'}`, tokenizerConfigJSON: `{'sep_token': '[CLS]'}`},
		"the folder has no tokenizer.json and no vocab.txt, want one": {tokenizerConfigJSON: "{}"},
		"adds no token to texts": {tokenizerJSON: `{'model': {'type': 'WordPiece',
			'vocab': {'[UNK]': 1}}}`},
		"vocab.txt: the vocabulary has no [CLS], want it, or another cls_token": {
			"vocab.txt": "[UNK]\n[SEP]"},
		`tokenizer_class is "BertJapaneseTokenizer" beside a vocab.txt`: vocabulary(
			`{'tokenizer_class': 'BertJapaneseTokenizer'}`),
		"vocab.txt: added token": vocabulary(`{'added_tokens_decoder': {'7':
			{'content': '[X]'}}}`),
		"at most 1 tokens, the least of": with(file("", ""), `{'model_max_length': 1}`),
	} {
		l := loaderOf(t, files)
		if ReadTexts(l, 12, 0, 20); l.Err == nil || !strings.Contains(l.Err.Error(), want) {
			t.Errorf("%v: the error is %v, want it to say %q", files, l.Err, want)
		}
	}
	l := loaderOf(t, vocabulary("{}"))
	small := readAny(l, usage{size: 5}) // the vocabulary has more
	if _, err := small.PromptControl("[MASK]"); l.Err != nil || err != nil {
		t.Errorf("with tokens of the model: %v, %v", l.Err, err)
	}
	if _, err := small.PromptControl("中"); err == nil ||
		!strings.Contains(err.Error(), "token 8, want 0 to 4") {
		t.Errorf("with a token that the model lacks the error is %v", err)
	}
}

// TestTokenizerConfigOfBPE refuses contradictions to tokenizer.json, and accepts further added
// tokens.
func TestTokenizerConfigOfBPE(t *testing.T) {
	const plain = `'added_tokens': [{'id': 2, 'content': 'x'}], 'model': {'merges': [], 'vocab':
		{'a': 1, ' ': 3, '▁': 4, 'Ġ': 5, 'Ġa': 6}}}`
	template := `{'post_processor': {'type': 'RobertaProcessing', 'cls': ['x', 2], 'sep': ['x', 2]}, ` +
		plain
	for _, c := range []struct{ file, config, err string }{
		{template, `{'add_bos_token': true, 'add_eos_token': true}`, ""},
		{template, `{'add_bos_token': false}`, "add_bos_token is false, want true as tokenizer.json has"},
		{"{" + plain, `{'add_eos_token': true}`, "add_eos_token is true, want false"},
		{"{" + plain, `{'add_prefix_space': true}`, "add_prefix_space is true, want false"},
		{`{'normalizer': {'type': 'Prepend', 'prepend': '▁'}, ` + plain, `{'add_prefix_space': true}`, ""},
		{`{'pre_tokenizer': {'type': 'Metaspace', 'replacement': '▁'}, ` + plain,
			`{'add_prefix_space': false}`, "add_prefix_space is false, want true"},
		{`{'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': true}, ` + plain,
			`{'add_prefix_space': true}`, ""},
		{"{" + plain, `{'legacy': true, 'use_default_system_prompt': false, 'chat_template': 'x'}`, ""},
		{"{" + plain, `{'truncation_side': 'left', 'tokenizer_class': 'LlamaTokenizer'}`, ""},
		{"{" + plain, `{'split_special_tokens': true}`, "split_special_tokens is true, want false"},
		{"{" + plain, `{'bos': 'x'}`, `key "bos" is "x"`},
	} {
		l := loaderOf(t, map[string]string{tokenizerJSON: c.file, tokenizerConfigJSON: c.config})
		ReadBPE(l, 10)
		if got := fmt.Sprint(l.Err); c.err == "" && l.Err != nil || !strings.Contains(got, c.err) {
			t.Errorf("%s, %s: the error is %v, want it to say %q", c.file, c.config, l.Err, c.err)
		}
	}
	l := loaderOf(t, map[string]string{tokenizerJSON: "{" + plain,
		tokenizerConfigJSON: `{'added_tokens_decoder': {'2': {'content': 'x', 'lstrip': true},
			'7': {'content': 'aa'}}, 'bos_token': 'Ġa', 'eos_token': 'x'}`})
	got, err := encodeAll(ReadBPE(l, 10), "a x aaaĠa")
	if l.Err != nil || err != nil || !slices.Equal(got, []int{1, 2, 3, 7, 1, 6}) {
		t.Errorf("the tokens are %v (%v, %v), want 1 2 3 7 1 6", got, err, l.Err)
	}
}
