package tokenize

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/models/internal/weights/foldertest"
)

// TestTemplates has tokens before and after a text, in the form of each kind of file.
func TestTemplates(t *testing.T) {
	const special = `'special_tokens': {'<s>': {'id': '<s>', 'ids': [5, 6], 'tokens': ['<s>', '<t>']}}`
	text, begin := `{'Sequence': {'id': 'A', 'type_id': 0}}`,
		`{'SpecialToken': {'id': '<s>', 'type_id': 0}}`
	end := `{'SpecialToken': {'id': '</s>', 'type_id': 0}}`
	template := func(parts ...string) string {
		return `{'type': 'TemplateProcessing', 'single': [` + strings.Join(parts, ", ") +
			`], 'pair': [{'any': 1}], ` + special + `}`
	}
	for _, c := range []struct {
		file string
		want []int
		err  string
	}{
		{`null`, []int{1}, ""},
		{template(begin, text, end), []int{5, 6, 1, 3}, ""},
		{template(text), []int{1}, ""},
		{template(text, end, end), []int{1, 3, 3}, ""},
		{`{'type': 'Sequence', 'processors': [{'type': 'ByteLevel', 'trim_offsets': false},
			` + template(text, end) + `]}`, []int{1, 3}, ""},
		{`{'type': 'RobertaProcessing', 'sep': ['</s>', 3], 'cls': ['<s>', 2], 'trim_offsets': true,
			'add_prefix_space': false}`, []int{2, 1, 3}, ""},
		{template(begin), nil, "the template has the text 0 times, want it once"},
		{template(text, text), nil, "the template has the text 2 times, want it once"},
		{template(`{}`), nil, "a part of the template is {}, want"},
		{template(`{'Sequence': {'id': 'B', 'type_id': 0}}`), nil, `a part of the template is {"Seq`},
		{template(`{'Sequence': {'id': 'A', 'type_id': 1}}`), nil, `"type_id":1}}, want`},
		{template(text, `{'SpecialToken': {'id': '<x>', 'type_id': 0}}`), nil, `has token "<x>", want`},
		{`{'type': 'BertProcessing', 'sep': ['x'], 'cls': ['y', 2]}`, nil, `["x"], want a token's text`},
		{`{'type': 'BertProcessing', 'sep': ['x', 'y'], 'cls': ['y', 2]}`, nil, `a number is "y", want 0 to`},
		{`{'type': 'BertProcessing', 'sep': ['x', -1], 'cls': ['y', 2]}`, nil, "a number is -1, want 0"},
		{strings.Replace(template(text), "5", "-1", 1), nil, "a number is -1, want 0 to 2147483647"},
		{strings.Replace(template(text), "5", "4294967301", 1), nil, "is 4294967301, want 0"},
		{template(strings.Replace(text, "0", "4294967296", 1)), nil, "a number is 4294967296, want 0"},
		{`{'type': 'Sequence', 'processors': [null]}`, nil, "post_processor Sequence: stage 0 is null"},
		{`{'type': 'Other'}`, nil, `post_processor is of type "Other", want a Sequence or one of B`},
	} {
		l := loaderOf(t, map[string]string{tokenizerJSON: `{'post_processor': ` + c.file + `,
			'added_tokens': [{'id': 2, 'content': '<s>'}, {'id': 3, 'content': '</s>'}],
			'model': {'merges': [], 'vocab': {'a': 1}}}`})
		tokenizer := ReadBPE(l, 10)
		if c.err != "" {
			if l.Err == nil || !strings.Contains(l.Err.Error(), c.err) {
				t.Errorf("%s: the error is %v, want it to say %q", c.file, l.Err, c.err)
			}
			continue
		}
		if l.Err != nil {
			t.Fatal(l.Err)
		}
		if got, err := encodeAll(tokenizer, "a"); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: there are %v (%v), want %v", c.file, got, err, c.want)
		}
	}
}

func TestDecoders(t *testing.T) {
	vocab := map[string]int{}
	for i, token := range []string{"▁a", "<0x41>", "Ġé", "b</w>", "<0x4G>"} {
		vocab[token] = i
	}
	llama := `{'type': 'Sequence', 'decoders': [{'type': 'Replace', 'pattern': {'String': '▁'},
		'content': ' '}, {'type': 'ByteFallback'}, {'type': 'Fuse'},
		{'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 0}]}`
	for _, c := range []struct{ file, want, err string }{
		{`null`, " aAĠéb</w><0x4G>", ""},
		{llama, " aAĠéb</w><0x4G>", ""},
		{`{'type': 'Metaspace', 'replacement': '▁', 'add_prefix_space': true, 'prepend_scheme': 'first'}`,
			" a<0x41>Ġéb</w><0x4G>", ""},
		{`{'type': 'ByteLevel', 'add_prefix_space': true, 'trim_offsets': true, 'use_regex': true}`,
			"▁a<0x41> \xe9b</w><0x4G>", ""},
		{`{'type': 'BPEDecoder', 'suffix': '</w>'}`, "▁a<0x41>Ġéb <0x4G>", ""},
		{`{'type': 'BPEDecoder', 'suffix': ''}`, "", "there is no suffix"},
		{`{'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 0}`, "", "before any Fuse"},
		{`{'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 1}`, "", "stop is 1, want 0"},
		{`{'type': 'Replace', 'pattern': {'String': 'a'}, 'content': 'bb'}`, "",
			`"a" becomes "bb", want a String that is not shorter`},
		{`{'type': 'CTC'}`, "", `decoder is of type "CTC"`},
	} {
		l := loaderOf(t, map[string]string{tokenizerJSON: `{'decoder': ` + c.file + `,
			'model': {'merges': [], 'vocab': {'▁a': 0, '<0x41>': 1, 'Ġé': 2, 'b</w>': 3, '<0x4G>': 4}}}`})
		tokenizer, got := ReadBPE(l, 10), ""
		if c.err != "" {
			if l.Err == nil || !strings.Contains(l.Err.Error(), c.err) {
				t.Errorf("%s: the error is %v, want it to say %q", c.file, l.Err, c.err)
			}
			continue
		}
		if l.Err != nil {
			t.Fatal(l.Err)
		}
		for id := range 5 {
			got += tokenizer.Bytes(int32(id))
		}
		if got != c.want {
			t.Errorf("%s: the text is %q, want %q", c.file, got, c.want)
		}
	}
}

// TestRefusedTokenizers has files that ask for something unsupported.
func TestRefusedTokenizers(t *testing.T) {
	const model = `'model': {'merges': [], 'vocab': {'a': 1}}`
	metaspace := func(options string) string {
		return `{'pre_tokenizer': {'type': 'Metaspace', ` + options + `}, ` + model + `}`
	}
	split := func(options string) string {
		return `{'pre_tokenizer': {'type': 'Split', ` + options + `}, ` + model + `}`
	}
	for file, want := range map[string]string{
		`{'normalizer': {'type': 'Sequence', 'normalizers': [{'type': 'NFC'}, null]}, ` + model +
			`}`: "normalizer Sequence: stage 1 is null, want an object",
		metaspace(`'replacement': 'ab'`): `replacement "ab", want one letter`,
		metaspace(`'replacement': '▁', 'prepend_scheme': 'last'`): `prepend_scheme "last", want always, ` +
			`first or never`,
		metaspace(`'replacement': '▁', 'prepend_scheme': 'first', 'add_prefix_space': false`): `add_` +
			`prefix_space false, which is never`,
		metaspace(`'replacement': '▁', 'str_rep': '_'`):                    `str_rep "_", want the replacement, "▁"`,
		metaspace(`'replacement': '▁', 'individual_digits': true`):         `key "individual_digits" is true`,
		split(`'pattern': {'String': ' '}, 'behavior': 'Isolated'`):        `String " " and the behavior "Isolated"`,
		split(`'pattern': {'Regex': ' '}, 'behavior': 'Contiguous'`):       `behavior "Contiguous", want a Regex and`,
		split(`'pattern': {'Regex': '', 'String': ''}`):                    `want some letters as String or Regex`,
		split(`'pattern': {'Regex': '` + strings.Repeat("a", 10001) + `'`): "want JSON",
		split(`'behavior': 'Isolated', 'pattern': {'Regex': '` + strings.Repeat("a", 10001) +
			`'}`): "the pattern has 10001 bytes, want at most 10000",
		split(`'behavior': 'Isolated', 'pattern': {'Regex': '(?<'}`): `pre_tokenizer Split: the pattern "(?<" has`,
		split(`'behavior': 'Isolated', 'pattern': {'Regex': 'a)'}`):  `the pattern "a)" has a ) too many`,
		`{'normalizer': {'type': 'Replace', 'pattern': {'Regex': 'a)'}, 'content': ''}, ` + model +
			`}`: `normalizer Replace: the pattern "a)" has a ) too many`,
		`{'normalizer': {'type': 'Sequence', 'normalizers': [], 'pretokenizers': []}, ` + model +
			`}`: `key "pretokenizers" is []`,
		`{'normalizer': [], ` + model + `}`: `normalizer is of type ""`,
		`{'model': {'merges': [], 'vocab': {}, 'dropout': 0.1}}`: `dropout is 0.1, want 0 or 0.0 or ` +
			`null`,
		`{'version': '2.0', ` + model + `}`: `version is "2.0", want "1.0"`,
		`{'added_tokens': [{'id': 2, 'content': 'a'}], ` + model + `}`: `added token "a" is 2, and 1 ` +
			`elsewhere`,
		`{'added_tokens': [{'id': 2, 'content': 'x'}, {'id': 3, 'content': 'x'}], ` + model +
			`}`: `added token "x" is 3, and 2 elsewhere`,
		`{'added_tokens': [{'id': 2, 'content': ' ', 'normalized': true}], 'normalizer': {'type':
			'Strip', 'strip_left': true, 'strip_right': true}, ` + model +
			`}`: `added token 2, " ", is found as no text`,
		`{'model': {'type': 'BPE', 'merges': ['a x'], 'vocab': {'a': 1, 'ax': 2}}}`: `makes "ax" of "a" ` +
			`and "x", want tokens`,
	} {
		l := loaderOf(t, map[string]string{tokenizerJSON: file})
		if ReadBPE(l, 10); l.Err == nil || !strings.Contains(l.Err.Error(), want) ||
			!strings.Contains(l.Err.Error(), "tokenizer.json") {
			t.Errorf("%s: the error is %v, want it to say %q", file, l.Err, want)
		}
	}
}

// full has a stage of each type, so that keys can be added to all of them.
const full = `{'version': '1.0', 'truncation': {'max_length': 2}, 'padding': null,
	'added_tokens': [{'id': 7, 'content': '<s>', 'single_word': false, 'lstrip': false,
		'rstrip': false, 'normalized': false, 'special': true}],
	'normalizer': {'type': 'Sequence', 'normalizers': [{'type': 'NFC'}, {'type': 'NFD'},
		{'type': 'NFKC'}, {'type': 'NFKD'}, {'type': 'Lowercase'}, {'type': 'StripAccents'},
		{'type': 'Strip', 'strip_left': false, 'strip_right': false},
		{'type': 'Prepend', 'prepend': ''}, {'type': 'Replace', 'pattern': {'String': ' '},
		'content': '▁'}, {'type': 'BertNormalizer', 'clean_text': true, 'handle_chinese_chars': true,
		'strip_accents': null, 'lowercase': true}]},
	'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': [{'type': 'BertPreTokenizer'},
		{'type': 'Digits', 'individual_digits': false}, {'type': 'Split', 'pattern': {'Regex': 'x'},
		'behavior': 'Isolated', 'invert': false}, {'type': 'Metaspace', 'replacement': '▁',
		'prepend_scheme': 'never', 'split': false}, {'type': 'ByteLevel', 'add_prefix_space': false,
		'trim_offsets': true, 'use_regex': false}]},
	'post_processor': {'type': 'Sequence', 'processors': [{'type': 'ByteLevel'},
		{'type': 'TemplateProcessing', 'single': [{'SpecialToken': {'id': '<s>', 'type_id': 0}},
		{'Sequence': {'id': 'A', 'type_id': 0}}], 'pair': [], 'special_tokens': {'<s>': {'id': '<s>',
		'ids': [7], 'tokens': ['<s>']}}}, {'type': 'BertProcessing', 'sep': ['<s>', 7],
		'cls': ['<s>', 7]}]},
	'decoder': {'type': 'Sequence', 'decoders': [{'type': 'ByteLevel'}, {'type': 'Metaspace',
		'replacement': '▁'}, {'type': 'Replace', 'pattern': {'String': 'a'}, 'content': 'b'},
		{'type': 'ByteFallback'}, {'type': 'Fuse'}, {'type': 'Strip', 'content': ' ', 'start': 1,
		'stop': 0}, {'type': 'BPEDecoder', 'suffix': '</w>'}]},
	'model': {'type': 'BPE', 'dropout': null, 'unk_token': null, 'continuing_subword_prefix': null,
		'end_of_word_suffix': '', 'fuse_unk': false, 'byte_fallback': false, 'ignore_merges': false,
		'vocab': {'a': 1}, 'merges': []}}`

// TestUnknownKeysOfTokenizers adds a key to each object of files that have all kinds of them.
func TestUnknownKeysOfTokenizers(t *testing.T) {
	wordPiece := full[:strings.Index(full, "'decoder'")] + `'model': {'type': 'WordPiece',
		'unk_token': '?', 'continuing_subword_prefix': '#', 'max_input_chars_per_word': 9,
		'vocab': {'?': 1}}}`
	for _, c := range []struct {
		file string
		read func(*weights.Loader)
		want int
	}{
		{full, func(l *weights.Loader) { ReadBPE(l, 10) }, 40},
		{wordPiece, func(l *weights.Loader) { ReadTexts(l, 10, 9, 9) }, 31},
	} {
		l := loaderOf(t, map[string]string{tokenizerJSON: c.file,
			tokenizerConfigJSON: `{'added_tokens_decoder': {'7': {'content': '<s>'}},
			'unk_token': {'content': '?', '__type': 'AddedToken'}, 'clean_up_tokenization_spaces': true}`})
		read := func() error {
			l.Err = nil
			c.read(l)
			return l.Err
		}
		free := func(at string) bool {
			return at == "truncation" || strings.HasSuffix(at, "vocab") ||
				strings.HasSuffix(at, "special_tokens") || at == "added_tokens_decoder"
		}
		got := foldertest.UnknownKeys(t, filepath.Join(l.Path, tokenizerJSON), free, read)
		if got != c.want {
			t.Errorf("%d objects were changed, want %d", got, c.want)
		}
		if got := foldertest.UnknownKeys(t, filepath.Join(l.Path, tokenizerConfigJSON), free,
			read); got != 3 {
			t.Errorf("%d objects of tokenizer_config.json were changed, want 3", got)
		}
	}
}

// FuzzTokenizers reads arbitrary files, and encodes a text: the result is an error, or tokens of
// the model.
func FuzzTokenizers(f *testing.F) {
	f.Add([]byte(strings.ReplaceAll(full, "'", `"`)), "a <s> 12 é")
	f.Add([]byte(`{"model": {"type": "WordPiece", "vocab": {"[UNK]": 1}}}`), "x")
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		fuzzTokenizer(t, file, text, &tokenizerFile[bpeModel]{})
		fuzzTokenizer(t, file, text, &tokenizerFile[unigramModel]{})
		fuzzTokenizer(t, file, text, &tokenizerFile[wordPieceModel]{Model: usualWordPiece})
	})
}

// fuzzTokenizer reads a file with a kind of model.
func fuzzTokenizer[M any, P fileModel[M]](t *testing.T, file []byte, text string,
	f *tokenizerFile[M]) {
	tokenizer := &Tokenizer{}
	if strictjson.Unmarshal(file, f, tokenizerIdle) != nil ||
		build[M, P](tokenizer, f, usage{10, true}) != nil {
		return
	}
	for _, encode := range []func(string) ([]int32, error){tokenizer.PromptControl,
		tokenizer.Encode} {
		ids, err := encode(text)
		if slices.ContainsFunc(ids, func(id int32) bool { return id < 0 || id > 9 }) {
			t.Errorf("%q becomes %v (%v), want 0 to 9", text, ids, err)
		}
	}
	for id := range int32(10) {
		tokenizer.Bytes(id)
	}
	tokenizer.Decode([]int32{-1, 0, 9, 10, 0})
}
