package tokenize

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// textsOf reads the tokenizer of a folder.
func textsOf(t *testing.T, longest int, files map[string]string) *Texts {
	t.Helper()
	l := loaderOf(t, files)
	texts := ReadTexts(l, 1000, 0, longest)
	if l.Err != nil {
		t.Fatal(l.Err)
	}
	return texts
}

// TestUnigramFindsTheBestPath compares words of few letters with the best of all ways to divide
// them.
func TestUnigramFindsTheBestPath(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 1))
	letters := []string{"a", "b", "é", "中"}
	for range 300 {
		unknown := 0
		vocab, scores := []scored{{"<unk>", 0}}, map[string]float64{}
		for range 1 + source.IntN(12) {
			text := ""
			for range 1 + source.IntN(3) {
				text += letters[source.IntN(len(letters))]
			}
			if _, ok := scores[text]; ok {
				continue
			}
			scores[text] = -10 * source.Float64()
			vocab = append(vocab, scored{text, scores[text]})
		}
		made, err := (&unigramModel{Vocab: vocab, Unknown: &unknown}).build()
		if err != nil {
			t.Fatal(err)
		}
		u := made.(*unigram)
		word := ""
		for range source.IntN(7) {
			word += letters[source.IntN(len(letters))]
		}
		var e encoded
		err = u.word(&e, traced{text: word})
		ids := e.ids
		if err != nil {
			t.Fatal(err)
		}
		best, tokens := u.bestOf([]rune(word))
		if !slices.Equal(ids, tokens) {
			t.Errorf("%q with %v: tokens %v, want %v with sum %v", word, vocab, ids, tokens, best)
		}
	}
}

// bestOf tries all ways to divide a word. Neighbouring unknown letters are one token.
func (t *unigram) bestOf(word []rune) (sum float64, tokens []int) {
	if len(word) == 0 {
		return 0, nil
	}
	sum = math.Inf(-1)
	for n := 1; n <= len(word); n++ {
		id, ok := t.ids[string(word[:n])]
		score := 0.0
		switch {
		case ok:
			score = t.Vocab[id].score
		case n == 1:
			id, score = 0, t.least
		default:
			continue
		}
		rest, more := t.bestOf(word[n:])
		if total := score + rest; total > sum {
			if sum, tokens = total, append([]int{id}, more...); id == 0 && len(more) > 0 && more[0] == 0 {
				tokens = more
			}
		}
	}
	return sum, tokens
}

// xlmr is a tokenizer.json in the form of XLM-RoBERTa's.
const xlmr = `{'version': '1.0', 'added_tokens': [{'id': 0, 'content': '<s>', 'special': true},
	{'id': 2, 'content': '</s>', 'special': true}],
	'normalizer': %s, 'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': [
		{'type': 'WhitespaceSplit'},
		{'type': 'Metaspace', 'replacement': '▁', 'add_prefix_space': true}]},
	'post_processor': {'type': 'TemplateProcessing',
		'single': [{'SpecialToken': {'id': '<s>', 'type_id': 0}}, {'Sequence': {'id': 'A', 'type_id': 0}},
			{'SpecialToken': {'id': '</s>', 'type_id': 0}}],
		'pair': [{'SpecialToken': {'id': '<s>', 'type_id': 0}}, {'Sequence': {'id': 'A', 'type_id': 0}},
			{'SpecialToken': {'id': '</s>', 'type_id': 0}}, {'SpecialToken': {'id': '</s>', 'type_id': 0}},
			{'Sequence': {'id': 'B', 'type_id': 0}}, {'SpecialToken': {'id': '</s>', 'type_id': 0}}],
		'special_tokens': {'<s>': {'id': '<s>', 'ids': [0], 'tokens': ['<s>']},
			'</s>': {'id': '</s>', 'ids': [2], 'tokens': ['</s>']}}},
	'model': {'type': 'Unigram', 'unk_id': 3, 'byte_fallback': %v, 'vocab': [['<s>', 0.0],
		['<pad>', 0],
		['</s>', 0], ['<unk>', 0], ['▁', -2.5], ['▁hel', -4], ['lo', -3.5], ['▁hello', -9], ['a', -5],
		['▁a', -4.5], ['<0xE4>', -20], ['<0xB8>', -20], ['<0xAD>', -20], ['fi', -4], ['X', -6]]}}`

// TestUnigramFile reads the form of published files.
func TestUnigramFile(t *testing.T) {
	spaces := `{'type': 'Replace', 'pattern': {'Regex': ' {2,}'}, 'content': ' '}`
	for _, c := range []struct {
		bytes bool
		text  string
		want  []int32
	}{
		{false, "hello  a", []int32{0, 5, 6, 9, 2}}, // −7.5 is more than −9
		{false, " hello", []int32{0, 5, 6, 2}},
		{false, "a中中a", []int32{0, 9, 3, 8, 2}}, // one unknown token
		{true, "a中", []int32{0, 9, 10, 11, 12, 2}},
		{true, "é", []int32{0, 4, 3, 2}}, // its bytes have no tokens
		{false, "", []int32{0, 2}},
		{false, "a</s>a", []int32{0, 9, 2, 9, 2}},
		{false, "\xff", []int32{0, 4, 3, 2}},
	} {
		texts := textsOf(t, 20, map[string]string{tokenizerJSON: fmt.Sprintf(xlmr, spaces, c.bytes)})
		got, err := texts.Encode(c.text)
		if err != nil || !slices.Equal(got.Tokens, c.want) {
			t.Errorf("%q: %v (%v), want %v", c.text, got.Tokens, err, c.want)
		}
	}
	texts := textsOf(t, 9, map[string]string{tokenizerJSON: fmt.Sprintf(xlmr, "null", false)})
	read, err := texts.Pair("hello a", "a a a a")
	if want := []int32{0, 5, 6, 2, 2, 9, 9, 9, 2}; err != nil || !slices.Equal(read.Tokens, want) ||
		read.Left != 2 || slices.Max(read.Segments) != 0 {
		t.Errorf("a pair: %+v (%v), want %v and 2 left", read, err, want)
	}
}

// TestDamagedUnigram has invalid files.
func TestDamagedUnigram(t *testing.T) {
	whole := fmt.Sprintf(xlmr, "null", false)
	change := func(old, with string) string { return strings.Replace(whole, old, with, 1) }
	precompiled := func(data []byte) string {
		return fmt.Sprintf(xlmr, `{'type': 'Precompiled', 'precompiled_charsmap': '`+
			base64.StdEncoding.EncodeToString(data)+`'}`, false)
	}
	for want, text := range map[string]string{
		"unk_id is 99, want 0 to 14":     change("'unk_id': 3", "'unk_id': 99"),
		`key "byte_fall" is false`:       change("byte_fallback", "byte_fall"),
		`want a token's text and score`:  change("['a', -5]", "['a', -5, 3]"),
		`token 8 is "" with score -5`:    change("['a', -5]", "['', -5]"),
		"cannot unmarshal":               change("['a', -5]", "[5, 5]"),
		"has 3 bytes, want a map":        precompiled([]byte("abc")),
		"says that 9 bytes are its keys": precompiled([]byte("\x09\x00\x00\x00123456789")),
		"says that 8 bytes are its":      precompiled([]byte("\x08\x00\x00\x001234")),
		"texts that are not UTF-8":       precompiled([]byte("\x04\x00\x00\x001234\xff")),
		"illegal base64": change("null", "{'type': 'Precompiled', "+
			"'precompiled_charsmap': '!'}"),
		`added token "<s>" is 5, and 0`: change("{'id': 0, 'content': '<s>'", "{'id': 5, 'content': '<s>'"),
	} {
		l := loaderOf(t, map[string]string{tokenizerJSON: text})
		if ReadTexts(l, 1000, 0, 9); l.Err == nil || !strings.Contains(l.Err.Error(), want) {
			t.Errorf("the error is %v, want %s", l.Err, want)
		}
	}
	texts := textsOf(t, 9, map[string]string{tokenizerJSON: change("'unk_id': 3", "'unk_id': null")})
	if _, err := texts.Encode("中"); err == nil || !strings.Contains(err.Error(), "unk_id is null") {
		t.Errorf("an unknown letter without a token for it: %v", err)
	}
	small := loaderOf(t, map[string]string{tokenizerJSON: whole})
	if _, err := ReadTexts(small, 9, 0, 9).Encode("a"); err == nil ||
		!strings.Contains(err.Error(), "has token 9, want 0 to 8") {
		t.Errorf("a token that the model does not have: %v", err)
	}
}

// charsmap makes a map in SentencePiece's form: a double array, by trying places in order.
func charsmap(texts map[string]string) []byte {
	keys := slices.Sorted(maps.Keys(texts))
	var normalized []byte
	values := map[string]uint32{}
	for _, key := range keys {
		values[key] = uint32(len(normalized))
		normalized = append(append(normalized, texts[key]...), 0)
	}
	units, used := make([]uint32, 1<<16), map[uint32]bool{0: true}
	var place func(at uint32, prefix string)
	place = func(at uint32, prefix string) {
		var next []byte // 0 for the end of a key
		for _, key := range keys {
			if rest, ok := strings.CutPrefix(key, prefix); ok {
				letter := append([]byte(rest), 0)[0]
				if !slices.Contains(next, letter) {
					next = append(next, letter)
				}
			}
		}
		for offset := uint32(1); ; offset++ {
			if slices.ContainsFunc(next, func(b byte) bool { return used[at^offset^uint32(b)] }) {
				continue
			}
			units[at] |= offset << 10
			for _, b := range next {
				used[at^offset^uint32(b)] = true
			}
			for _, b := range next {
				to := at ^ offset ^ uint32(b)
				if b == 0 {
					units[at] |= 1 << 8
					units[to] = 1<<31 | values[prefix]
					continue
				}
				units[to] = uint32(b)
				place(to, prefix+string([]byte{b}))
			}
			return
		}
	}
	place(0, "")
	data := binary.LittleEndian.AppendUint32(nil, uint32(4*len(units)))
	for _, unit := range units {
		data = binary.LittleEndian.AppendUint32(data, unit)
	}
	return append(data, normalized...)
}

// TestPrecompiled has letters, clusters and texts that a map changes.
func TestPrecompiled(t *testing.T) {
	p := &precompiled{}
	if err := p.read(charsmap(map[string]string{"ﬁ": "fi", "①": "1", "\t": " ", "\r": " ", "ｱ": "ア",
		"ｶﾞ": "ガ", "\u200b": "", "Å": "Å", "e\u0301": "é", "\ufeff": ""})); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"": "", "abc": "abc", "ﬁx ①": "fix 1", "a\tb": "a b", "a\r\nb": "a b", "\ra": " a",
		"ｱﾞ":       "アﾞ", // a cluster of 6 bytes, which is not looked up as a whole
		"a\u200bb": "ab", "e\u0301a": "éa",
		"e\u0301\u0301":       "é",                   // of 5 bytes, and its shortest key counts
		"e\u0301\u0301\u0301": "e\u0301\u0301\u0301", // too long, and no character of it is a key
		"中Å":                  "中Å", "\x00": "\x00", "ﬁ\ufeff": "fi", "👩‍👩‍👧ﬁ": "👩‍👩‍👧fi",
	} {
		if got, err := p.normalize(traced{text: text}, budgetFor(len(text))); err != nil ||
			got.text != want {
			t.Errorf("%q becomes %q (%v), want %q", text, got.text, err, want)
		}
	}
	if _, err := p.normalize(traced{text: "①①"}, &budget{bytes: 1}); err == nil {
		t.Error("a text that becomes too long is no error")
	}
}

// TestNmt drops control characters and turns all kinds of spaces into one.
func TestNmt(t *testing.T) {
	got, err := (&nmt{}).normalize(traced{text: "a\x01\x0bb\tc\u200bd\ufeffe\x7f\u2581f\ufffd"},
		budgetFor(100))
	if want := "ab c d e f "; err != nil || got.text != want {
		t.Errorf("%q (%v), want %q", got.text, err, want)
	}
}

// TestPairs has the forms of templates, and texts that are too long.
func TestPairs(t *testing.T) {
	bert := `{'model': {'type': 'WordPiece', 'vocab': {'[UNK]': 0, 'a': 4, 'b': 5}},
		'pre_tokenizer': {'type': 'BertPreTokenizer'}, 'post_processor': %s}`
	item := func(kind, id string, segment int64) string {
		return fmt.Sprintf(`{'%s': {'id': '%s', 'type_id': %d}}`, kind, id, segment)
	}
	single := `'single': [` + item("SpecialToken", "[C]", 0) + `,` + item("Sequence", "A", 0) + `],
		'special_tokens': {'[C]': {'id': '[C]', 'ids': [2], 'tokens': ['[C]']}}`
	template := func(parts ...string) string {
		return `{'type': 'TemplateProcessing', ` + single + `, 'pair': [` + strings.Join(parts, ",") + `]}`
	}
	for _, c := range []struct {
		processor     string
		longest       int
		want, segment []int32
		left          int
	}{
		{`{'type': 'BertProcessing', 'sep': ['s', 3], 'cls': ['c', 2]}`, 20,
			[]int32{2, 4, 4, 3, 5, 5, 5, 5, 5, 3}, []int32{0, 0, 0, 0, 1, 1, 1, 1, 1, 1}, 0},
		{`{'type': 'BertProcessing', 'sep': ['s', 3], 'cls': ['c', 2]}`, 8,
			[]int32{2, 4, 4, 3, 5, 5, 5, 3}, []int32{0, 0, 0, 0, 1, 1, 1, 1}, 2},
		{`{'type': 'RobertaProcessing', 'sep': ['s', 3], 'cls': ['c', 2]}`, 7,
			[]int32{2, 4, 3, 3, 5, 5, 3}, make([]int32, 7), 4},
		{template(item("SpecialToken", "[C]", 0), item("Sequence", "A", 0), item("Sequence", "B", 1)), 20,
			[]int32{2, 4, 4, 5, 5, 5, 5, 5}, []int32{0, 0, 0, 1, 1, 1, 1, 1}, 0},
	} {
		texts := textsOf(t, c.longest, map[string]string{tokenizerJSON: fmt.Sprintf(bert, c.processor)})
		got, err := texts.Pair("a a", "b b b b b")
		if err != nil || !slices.Equal(got.Tokens, c.want) || !slices.Equal(got.Segments, c.segment) ||
			got.Left != c.left {
			t.Errorf("%s: %+v (%v), want %v", c.processor, got, err, c.want)
		}
	}
	for want, processor := range map[string]string{
		"has no pair, want one":      `{'type': 'TemplateProcessing', ` + single + `}`,
		"Sequences A and B":          template(item("Sequence", "B", 0), item("Sequence", "A", 0)),
		"no second text":             template(item("Sequence", "A", 0)),
		`has token "[X]"`:            template(item("Sequence", "A", 0), item("SpecialToken", "[X]", 0)),
		`pair: key "[0].Sequence.x"`: template(`{'Sequence': {'id': 'A', 'type_id': 0, 'x': 1}}`),
		"a number is 4294967296, want 0 to": template(item("Sequence", "A", 0),
			item("Sequence", "B", 1<<32)),
		"a number is -1, want 0 to": template(item("Sequence", "A", 0), item("Sequence", "B", -1)),
		"two templates for pairs": `{'type': 'Sequence', 'processors': [{'type': 'BertProcessing',
			'sep': ['s', 3], 'cls': ['c', 2]}, {'type': 'BertProcessing', 'sep': ['s', 3],
			'cls': ['c', 2]}]}`,
	} {
		texts := textsOf(t, 20, map[string]string{tokenizerJSON: fmt.Sprintf(bert, processor)})
		if _, err := texts.Pair("a", "b"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", processor, err, want)
		}
	}
}

// TestLongestFirst cuts like Hugging Face's tokenizers.
func TestLongestFirst(t *testing.T) {
	for _, c := range [][5]int{{2, 3, 9, 2, 3}, {2, 9, 6, 2, 4}, {9, 2, 6, 4, 2}, {9, 9, 7, 3, 4},
		{9, 8, 7, 4, 3}, {9, 9, 0, 0, 0}, {0, 9, 3, 0, 3}} {
		if a, b := longestFirst(c[0], c[1], c[2]); a != c[3] || b != c[4] {
			t.Errorf("%d and %d tokens in %d: %d and %d, want %d and %d", c[0], c[1], c[2], a, b, c[3],
				c[4])
		}
	}
}

// TestTextsOfBPE has tokens of RoBERTa's form, and cuts long texts.
func TestTextsOfBPE(t *testing.T) {
	const file = `{'model': {'merges': [['a', 'b']], 'vocab': {'<s>': 0, '</s>': 2, 'a': 4, 'b': 5,
		'ab': 6, 'Ġ': 7}}, 'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': false},
		'post_processor': {'type': 'RobertaProcessing', 'sep': ['</s>', 2], 'cls': ['<s>', 0]}}`
	texts := textsOf(t, 5, map[string]string{tokenizerJSON: file,
		tokenizerConfigJSON: `{'model_max_length': 512}`})
	for text, want := range map[string]Read{"ab a": {Tokens: []int32{0, 6, 7, 4, 2}},
		"ab ab ab": {Tokens: []int32{0, 6, 7, 6, 2}, Left: 2}} {
		got, err := texts.Encode(text)
		if err != nil || !slices.Equal(got.Tokens, want.Tokens) || got.Left != want.Left {
			t.Errorf("%q: %+v (%v), want %+v", text, got, err, want)
		}
	}
	if texts.Longest() != 5 || texts.After() != 1 {
		t.Errorf("texts have at most %d tokens and %d behind, want 5 and 1", texts.Longest(),
			texts.After())
	}
	if err := texts.Shorten(1); err == nil {
		t.Error("texts of one token are no error")
	}
	if err := texts.Shorten(3); err != nil || texts.Longest() != 3 {
		t.Errorf("texts of 3 tokens: %v", err)
	}
	if got, err := texts.Plain("a</s>"); err == nil {
		t.Errorf("letters that nobody knows are %v", got)
	}
	if got, err := texts.EncodeControl("ab"); err != nil || !slices.Equal(got, []int32{6}) {
		t.Errorf("%v (%v), want 6", got, err)
	}
	l := loaderOf(t, map[string]string{tokenizerJSON: file,
		tokenizerConfigJSON: `{'truncation_side': 'left'}`})
	if ReadTexts(l, 10, 0, 9); l.Err == nil || !strings.Contains(l.Err.Error(), `truncation_side is "left"`) {
		t.Errorf("texts that lose their beginning: %v", l.Err)
	}
}

// TestUnigramKeys has a map, bytes and default numbers in the metadata of a GGUF file.
func TestUnigramKeys(t *testing.T) {
	k := unigramKeys{Tokens: []string{"<s>", "<pad>", "</s>", "<unk>", "▁1", "<0xC3>", "<0xA9>", "▁"},
		Scores: []float32{0, 0, 0, 0, -1, 0, 0, -2}, Kinds: []int{3, 3, 3, 2, 1, 6, 6, 1}}
	for _, b := range charsmap(map[string]string{"①": "1"}) {
		k.Charsmap = append(k.Charsmap, int(b))
	}
	made, err := k.tokenizer(true)
	if err != nil {
		t.Fatal(err)
	}
	texts := &Texts{made, 20}
	if got, err := texts.Encode("①  é"); err != nil ||
		!slices.Equal(got.Tokens, []int32{0, 4, 7, 5, 6, 2}) {
		t.Errorf("tokens %v (%v), want what begins and ends, 1, a space and two bytes", got.Tokens, err)
	}
}
