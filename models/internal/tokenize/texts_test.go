package tokenize

import (
	"slices"
	"strings"
	"testing"
)

// kindsOfTexts are files of each kind of tokenizer, with tokens up to 9.
var kindsOfTexts = map[string]map[string]string{
	"vocab.txt": {"vocab.txt": "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n##a\n!\n\ufffd\nab\nlast\n"},
	"WordPiece": {tokenizerJSON: `{'model': {'type': 'WordPiece', 'vocab': {'[UNK]': 1, '[CLS]': 2,
		'[SEP]': 3, 'a': 4, '##a': 5, '!': 6, '\ufffd': 7, 'ab': 8, 'last': 9}},
		'pre_tokenizer': {'type': 'BertPreTokenizer'}, 'post_processor': {'type': 'BertProcessing',
		'sep': ['[SEP]', 3], 'cls': ['[CLS]', 2]}}`},
	"BPE": {tokenizerJSON: `{'model': {'type': 'BPE', 'merges': [['a', 'b']], 'unk_token': '<unk>',
		'vocab': {'<unk>': 1, '<s>': 2, '</s>': 3, 'a': 4, 'b': 5, '!': 6, 'ï¿½': 7, 'ab': 8, 'last': 9}},
		'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': false}, 'post_processor': {
		'type': 'RobertaProcessing', 'sep': ['</s>', 3], 'cls': ['<s>', 2]}}`},
	"Unigram": {tokenizerJSON: `{'model': {'type': 'Unigram', 'unk_id': 1, 'vocab': [['<pad>', 0],
		['<unk>', 0], ['<s>', 0], ['</s>', 0], ['a', -3], ['b', -3], ['!', -3], ['\ufffd', -3],
		['ab', -4], ['last', -5]]}, 'post_processor': {'type': 'RobertaProcessing',
		'sep': ['</s>', 3], 'cls': ['<s>', 2]}}`},
}

// TestOddTexts encodes unusual texts with each kind of tokenizer.
func TestOddTexts(t *testing.T) {
	for kind, files := range kindsOfTexts {
		l := loaderOf(t, files)
		texts := ReadTexts(l, 10, 0, 20)
		if l.Err != nil {
			t.Fatalf("%s: %v", kind, l.Err)
		}
		read := func(text string) Read {
			t.Helper()
			r, err := texts.Encode(text)
			if err != nil {
				t.Fatalf("%s: %.20q: %v", kind, text, err)
			}
			for _, id := range r.Tokens {
				if id < 0 || id > 9 {
					t.Errorf("%s: %.20q has token %d", kind, text, id)
				}
			}
			return r
		}
		if r := read(""); !slices.Equal(r.Tokens, []int32{2, 3}) || r.Left != 0 {
			t.Errorf("%s: an empty text is %+v", kind, r)
		}
		if r := read("a"); !slices.Equal(r.Tokens, []int32{2, 4, 3}) {
			t.Errorf("%s: one letter is %+v", kind, r)
		}
		million := strings.Repeat("!", 1_000_000)
		if r := read(million); len(r.Tokens) != 20 || r.Tokens[18] != 6 || r.Left != 1_000_000-18 {
			t.Errorf("%s: a million letters are %d tokens, of which %d are left out: %v", kind,
				len(r.Tokens), r.Left, r.Tokens)
		}
		read(strings.Repeat("a", 10_000))
		read(strings.Repeat("ü", 10_000))
		bad, good := read("a\xff\xfe!"), read("a\ufffd!")
		if !slices.Equal(bad.Tokens, good.Tokens) {
			t.Errorf("%s: invalid UTF-8 is %v, want %v as U+FFFD", kind, bad.Tokens, good.Tokens)
		}
		pair, err := texts.Pair("\xff"+million[:1000], "")
		if err != nil || len(pair.Tokens) != 20 {
			t.Errorf("%s: a pair is %+v (%v)", kind, pair, err)
		}
		if r := read("\x00"); len(r.Tokens) < 2 {
			t.Errorf("%s: a zero byte is %+v", kind, r)
		}
	}
}

// TestRowsOfTokens: reading a tokenizer refuses tokens for which the model has no row.
func TestRowsOfTokens(t *testing.T) {
	for kind, files := range kindsOfTexts {
		file := tokenizerJSON
		if kind == "vocab.txt" {
			file = kind
		}
		l := loaderOf(t, files)
		ReadTexts(l, 9, 0, 20)
		want := file + `: token "last" has number 9, want 0 to 8 by vocab_size of config.json, 9`
		if l.Err == nil || !strings.Contains(l.Err.Error(), want) {
			t.Errorf("%s: error %v, want %s", kind, l.Err, want)
		}
		more := map[string]string{file: files[file], tokenizerConfigJSON: `{'added_tokens_decoder':
			{'10': {'content': 'more'}}}`}
		l = loaderOf(t, more)
		ReadTexts(l, 10, 0, 20)
		want = tokenizerConfigJSON + `: token "more" has number 10, want 0 to 9`
		if l.Err == nil || !strings.Contains(l.Err.Error(), want) {
			t.Errorf("%s with an added token: error %v, want %s", kind, l.Err, want)
		}
		more[tokenizerConfigJSON] = `{'image_token': 'more', ` + more[tokenizerConfigJSON][1:]
		l = loaderOf(t, more)
		texts := ReadTexts(l, 10, 0, 20)
		if l.Err != nil {
			t.Errorf("%s with a token of images: %v", kind, l.Err)
		} else if _, err := texts.Encode("more"); err == nil {
			t.Errorf("%s: a text has a token of images without a row", kind)
		}
		if l = loaderOf(t, more); ReadTexts(l, 11, 0, 20) == nil || l.Err != nil {
			t.Errorf("%s with as many rows: %v", kind, l.Err)
		}
		if kind == "vocab.txt" {
			continue
		}
		for old, c := range map[string][2]string{
			"', 3], 'cls'": {"', 10], 'cls'", "post_processor puts token 10 around texts, want 0 to 9"},
			"', 2]}}":      {"', -2]}}", "a number is -2, want 0 to"},
			"'last': 9":    {"'last': -9", `token "last" has number -9, want 0 to 9`},
		} {
			text := strings.Replace(files[file], old, c[0], 1)
			if text == files[file] {
				continue // Unigram numbers its tokens
			}
			l := loaderOf(t, map[string]string{file: text})
			if ReadTexts(l, 10, 0, 20); l.Err == nil || !strings.Contains(l.Err.Error(), c[1]) {
				t.Errorf("%s with %s: error %v, want %s", kind, c[0], l.Err, c[1])
			}
		}
	}
}
