package tokenize

import (
	"slices"
	"strings"
	"testing"
)

// TestKeysOfClasses has the keys that save_pretrained of transformers writes for its classes of
// tokenizers, next to a tokenizer.json that agrees.
func TestKeysOfClasses(t *testing.T) {
	const added = `'added_tokens': [{'id': 0, 'content': '<s>', 'special': true}, {'id': 2,
		'content': '</s>', 'special': true}, {'id': 3, 'content': '<image>', 'special': true}], `
	bpe := `{` + added + `'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': false},
		'post_processor': {'type': 'RobertaProcessing', 'sep': ['</s>', 2], 'cls': ['<s>', 0],
		'trim_offsets': true, 'add_prefix_space': false}, 'model': {'type': 'BPE', 'merges': [],
		'vocab': {'a': 1, '<s>': 0, '</s>': 2}}}`
	unigram := `{` + added + `'post_processor': {'type': 'BertProcessing', 'sep': ['</s>', 2],
		'cls': ['<s>', 0]}, 'model': {'type': 'Unigram', 'unk_id': 0, 'vocab': [['<s>', 0], ['a', -1],
		['</s>', 0]]}}`
	wordPiece := `{` + added + `'normalizer': {'type': 'BertNormalizer', 'lowercase': true},
		'pre_tokenizer': {'type': 'BertPreTokenizer'}, 'post_processor': {'type': 'BertProcessing',
		'sep': ['</s>', 2], 'cls': ['<s>', 0]}, 'model': {'type': 'WordPiece', 'unk_token': '<s>',
		'continuing_subword_prefix': '##', 'max_input_chars_per_word': 100,
		'vocab': {'<s>': 0, 'a': 1, '</s>': 2}}}`
	for _, c := range []struct{ class, file, keys string }{
		{"RobertaTokenizer", bpe, `'add_prefix_space': false, 'errors': 'replace', 'trim_offsets': true`},
		{"GPTNeoXTokenizer", bpe, `'add_bos_token': true, 'add_eos_token': true, 'trim_offsets': false,
			'add_prefix_space': false`},
		{"DebertaTokenizer", bpe, `'vocab_type': 'gpt2', 'do_lower_case': false, 'errors': 'replace',
			'add_prefix_space': false, 'add_bos_token': true`},
		{"DebertaV2Tokenizer", unigram, `'vocab_type': 'spm', 'do_lower_case': false,
			'split_by_punct': false, 'sp_model_kwargs': {}`},
		{"T5Tokenizer", unigram, `'extra_ids': 100, 'legacy': true, 'sp_model_kwargs': {},
			'additional_special_tokens': ['<extra_id_0>']`},
		{"AlbertTokenizer", unigram, `'do_lower_case': true, 'remove_space': true,
			'keep_accents': false, 'sp_model_kwargs': {}`},
		{"XLMRobertaTokenizer", unigram, `'sp_model_kwargs': {}, 'init_inputs': []`},
		{"CodeLlamaTokenizer", bpe, `'prefix_token': '▁<PRE>', 'middle_token': '▁<MID>',
			'suffix_token': '▁<SUF>', 'eot_token': '▁<EOT>', 'fill_token': '<FILL_ME>',
			'suffix_first': false, 'use_default_system_prompt': false`},
		{"CodeGenTokenizer", bpe, `'return_token_type_ids': false, 'add_bos_token': true,
			'errors': 'replace'`},
		{"InternLM2Tokenizer", bpe, `'decode_with_prefix_space': false, 'sp_model_kwargs': null`},
		{"GemmaTokenizer", bpe, `'boi_token': '<image>', 'image_token': {'content': '<image>',
			'special': true}, 'eoi_token': null, 'extra_special_tokens': {'boi_token': '<image>'}`},
		{"BertTokenizer", wordPiece, `'do_lower_case': true, 'do_basic_tokenize': true,
			'never_split': null, 'strip_accents': null, 'tokenize_chinese_chars': true,
			'wordpieces_prefix': '##'`},
		{"MPNetTokenizer", wordPiece, `'do_lower_case': true, 'strip_accents': null,
			'tokenize_chinese_chars': true`},
	} {
		config := `{'tokenizer_class': '` + c.class + `', ` + c.keys + `}`
		l := loaderOf(t, map[string]string{tokenizerJSON: c.file, tokenizerConfigJSON: config})
		texts := ReadTexts(l, 10, 0, 20)
		if l.Err != nil {
			t.Errorf("%s: %v", c.class, l.Err)
			continue
		}
		got, err := texts.Encode("a<image>a")
		if want := []int32{0, 1, 3, 1, 2}; err != nil || !slices.Equal(got.Tokens, want) {
			t.Errorf("%s: the tokens are %v (%v), want %v", c.class, got.Tokens, err, want)
		}
	}
	for _, c := range []struct{ file, config, names, want string }{
		{unigram, `{'split_by_punct': true}`, `{}`, "split_by_punct is true, want false"},
		{bpe, `{'image_token': 3}`, `{}`, `key "image_token" is 3`},
		{bpe, `{'image_token': {'content': '<image>', 'lstrip': true}}`, `{}`,
			`image_token is "<image>" with single_word false, lstrip true`},
		{bpe, `{}`, `{'image_token': {'content': '<image>', 'lstrip': true}}`,
			`image_token is "<image>" with single_word false, lstrip true`},
		{bpe, `{}`, `{'image': '<image>'}`, `key "image" is "<image>"`},
	} {
		l := loaderOf(t, map[string]string{tokenizerJSON: c.file, tokenizerConfigJSON: c.config,
			specialTokensJSON: c.names})
		if ReadTexts(l, 10, 0, 20); l.Err == nil || !strings.Contains(l.Err.Error(), c.want) {
			t.Errorf("%s, %s: the error is %v, want %s", c.config, c.names, l.Err, c.want)
		}
	}
	// Users must not write a token under such a key.
	l := loaderOf(t, map[string]string{tokenizerJSON: `{'added_tokens': [{'id': 3, 'content': '<i>'}],
		'model': {'merges': [], 'vocab': {'<': 4, 'i': 5, '>': 6}}}`,
		specialTokensJSON: `{'boi_token': '<i>'}`})
	b := ReadBPE(l, 10)
	if l.Err != nil {
		t.Fatal(l.Err)
	}
	if got, err := b.Encode("<i>"); err != nil || !slices.Equal(got, []int32{4, 5, 6}) {
		t.Errorf("what users wrote is %v (%v), want letters", got, err)
	}
}
