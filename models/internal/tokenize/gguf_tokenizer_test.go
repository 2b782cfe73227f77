package tokenize

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/seed-1415985d/attn/internal/dev/gguftest"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// vocabularyOf reads the tokenizer of a file that has nothing else.
func vocabularyOf(t *testing.T, keys map[string]any) (*weights.Loader, *Tokenizer) {
	t.Helper()
	var f gguftest.File
	for key, value := range keys {
		f.Set("tokenizer."+key, value)
	}
	path := filepath.Join(t.TempDir(), "vocabulary.gguf")
	f.Write(t, path)
	l := weights.OfGGUF(path, weights.Way{})
	t.Cleanup(l.Close)
	return l, VocabularyBPE(l, ReadVocabulary(l))
}

// letterVocabulary has all bytes as letters, some longer tokens, and some added tokens.
func letterVocabulary() (tokens []string, types []int32, merges []string) {
	for _, r := range letters {
		tokens, types = append(tokens, string(r)), append(types, 1)
	}
	for _, merge := range []string{"a b", "ab c", "Ġ a", "Ġ abc", "1 2", "12 3", "Ġ 12", "Ċ Ċ",
		"' s", "e ́", "t h", "th e", "Ġ the", "Ġ Ġ"} {
		merge = strings.ReplaceAll(merge, "́", "Ì")
		merges = append(merges, merge)
		tokens, types = append(tokens, strings.ReplaceAll(merge, " ", "")), append(types, 1)
	}
	tokens, types = append(tokens, "<s>", "<|end|>", "<tool>", ""), append(types, 3, 3, 4, 5)
	return tokens, types, merges
}

// Patterns in the tokenizer.json of gpt-4o and of DeepSeek-V3.
const (
	gpt4oOfFolders = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` +
		`(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+` +
		`[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|` +
		` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	deepseekV3OfFolders = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|" +
		`[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// TestByteLevelGGUF compares tokens with an equivalent tokenizer.json.
func TestByteLevelGGUF(t *testing.T) {
	tokens, types, merges := letterVocabulary()
	begin := slices.Index(tokens, "<s>")
	pattern := func(words string) any {
		return map[string]any{"type": "Split", "behavior": "Isolated",
			"pattern": map[string]any{"Regex": words}}
	}
	level := map[string]any{"type": "ByteLevel", "use_regex": false}
	digits := func(each bool) any {
		return map[string]any{"type": "Digits", "individual_digits": each}
	}
	for pre, c := range map[string]struct {
		stages       []any
		ignoreMerges bool
		normalizer   any
	}{
		"gpt-2":     {[]any{map[string]any{"type": "ByteLevel", "use_regex": true}}, false, nil},
		"llama-bpe": {[]any{pattern(llama3), level}, true, nil},
		"lfm2":      {[]any{pattern(llama3), level}, true, nil},
		"qwen2": {[]any{pattern(strings.Replace(llama3, `{1,3}`, "", 1)), level}, false,
			map[string]any{"type": "NFC"}},
		"smollm": {[]any{digits(true),
			map[string]any{"type": "ByteLevel", "use_regex": true}}, false, nil},
		"gpt-4o": {[]any{pattern(gpt4oOfFolders), level}, false, nil},
		"deepseek-llm": {[]any{pattern(`[\r\n]`), pattern(`\s?[` + casedLetters + `]+`),
			pattern("\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+"), pattern(`\s+$`),
			pattern("[一-龥ࠀ-一가-\ud7ff]+"), digits(true), level}, false, nil},
		"default": {[]any{pattern(`[\p{P}\$\+<=>\^~\|]+`), pattern(gpt2), digits(false),
			pattern("[0-9][0-9][0-9]"), level}, false, nil},
		"deepseek-v3": {[]any{pattern(`\p{N}{1,3}`), pattern("[一-龥぀-ゟ゠-ヿ]+"),
			pattern(deepseekV3OfFolders), level}, false, nil},
	} {
		vocab, added := map[string]int{}, []any{}
		for i, text := range tokens {
			if text != "" {
				vocab[text] = i
			}
			if types[i] == 3 || types[i] == 4 {
				added = append(added, map[string]any{"id": i, "content": text})
			}
		}
		file, err := json.Marshal(map[string]any{"added_tokens": added, "normalizer": c.normalizer,
			"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": c.stages},
			"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": merges,
				"ignore_merges": c.ignoreMerges}})
		if err != nil {
			t.Fatal(err)
		}
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, tokenizerJSON), file, 0o666); err != nil {
			t.Fatal(err)
		}
		want := loadBPE(t, folder, len(tokens))
		l, got := vocabularyOf(t, map[string]any{"ggml.model": "gpt2", "ggml.pre": pre,
			"ggml.tokens": tokens, "ggml.token_type": types, "ggml.merges": merges,
			"ggml.bos_token_id": uint32(begin), "ggml.eos_token_id": uint32(begin + 1)})
		if l.Err != nil {
			t.Fatal(l.Err)
		}
		for _, text := range []string{"abc abc the  12345 <s>x<|end|>", "the\n\nabc's \r\n 1234567",
			"e\u0301é", "<tool> THE'S \u3000x", "", "theTHE aBC'd b.a/\n/c", "日本語a カナ12b, 中文。the",
			"!abc ?the --the\t\tcab  ", "a1b22c333d4444 ½²", "x$+the <=abc^~|`c",
			"wörld ΣΑΣ  한국12 中文，the。 \n", "1234567 12 \u0663\u0664\u0665\u0666", "\u00a0abc\u200bthe €5"} {
			a, err := encodeAll(want, text)
			if err != nil {
				t.Fatal(err)
			}
			if pre == "llama-bpe" || pre == "lfm2" {
				a = append([]int{begin}, a...)
			}
			b, err := encodeAll(got, text)
			if err != nil || !slices.Equal(a, b) {
				t.Errorf("%s: %q is %v (%v), want %v", pre, text, b, err, a)
			}
			decoded := ""
			for _, id := range b {
				decoded += got.Bytes(int32(id))
			}
			if norm := strings.ReplaceAll(text, "e\u0301", "é"); decoded != text &&
				decoded != "<s>"+text && decoded != norm {
				t.Errorf("%s: %q becomes %q", pre, text, decoded)
			}
		}
	}
}

// TestCutsGGUF compares words with those of published tokenizers.
func TestCutsGGUF(t *testing.T) {
	tokens, types, merges := letterVocabulary()
	for _, c := range []struct{ pre, text, want string }{
		{"default", "It's 12345, naïve...", "It|'|s| |123|45|,| naïve|..."},
		{"default", "a  b\n\nc $5+x", "a| | b|\n|\n|c| |$|5|+|x"},
		{"deepseek-llm", "Hello wörld!  12345\n你好 abc 한국",
			"Hello| w|ö|rld|!|  |1|2|3|4|5|\n|你好| abc| |한국"},
		{"deepseek-llm", "x，y  ", "x|，|y|  "},
		{"deepseek-v3", "Hello 12345 你好ひらabc!", "Hello| |123|45| |你好ひら|abc|!"},
		{"deepseek-v3", "if(x) .foo\n\n  bar", "if|(x|)| .|foo|\n\n| | bar"},
		{"gpt-4o", "HelloWorld's 12345 a/b", "Hello|World's| |123|45| a|/b"},
		{"gpt-4o", "don't\n\n  x ", "don't|\n\n| | x| "},
		{"llama4", "ABCdef", "ABCdef"},
		{"refact", "don't 12!\n\n  x", "don|'t| |1|2|!|\n\n | x"},
		{"command-r", "e\u0323a 12 x", "ẹa| |1|2| x"},
		{"exaone", "don't 12!\n\n  x", "don|'t| |1|2|!|\n\n | x"},
		{"dbrx", "don't 1234!\n\n  x", "don|'t| |123|4|!\n\n| | x"},
		{"glm4", "don't 1234!\n\n  x", "don|'t| |123|4|!\n\n| | x"},
		{"chatglm-bpe", "don't 1234", "don|'t| |123|4"},
		{"seed-coder", "don't 12!\n\n  x", "don|'t| |1|2|!|\n\n| | x"},
		{"qwen35", "e\u0323a 123 x'S", "ẹa| |1|2|3| x|'S"},
	} {
		l, b := vocabularyOf(t, map[string]any{"ggml.model": "gpt2", "ggml.pre": c.pre,
			"ggml.tokens": tokens, "ggml.token_type": types, "ggml.merges": merges})
		if l.Err != nil {
			t.Fatal(l.Err)
		}
		budget := budgetFor(100)
		text, err := budget.normalize(traced{text: c.text}, b.normalizers)
		parts := []piece{{traced: text}}
		for _, stage := range b.preTokenizers {
			var next []piece
			for _, p := range parts {
				cut, splitErr := stage.split(p, &budget.steps)
				next, err = append(next, cut...), cmp.Or(err, splitErr)
			}
			parts = next
		}
		var got []string
		for _, p := range parts {
			got = append(got, (&byteLetters{}).decode(p.text, position{}))
		}
		if strings.Join(got, "|") != c.want || err != nil {
			t.Errorf("%s: %q is cut into %q (%v), want %q", c.pre, c.text, got, err, c.want)
		}
	}
	for r := range rune(0x20000) { // a range that is too long would include others
		if cased.MatchString(string(r)) && !unicode.In(r, unicode.Lu, unicode.Ll, unicode.Lt) {
			t.Errorf("%q is one of the letters that have cases", r)
		}
	}
}

var cased = regexp.MustCompile("^[" + casedLetters + "]$")

// TestGemmaGGUF compares tokens of SentencePiece with spaces as they are with a tokenizer.json of
// the same vocabulary, as in Gemma: tokens of better scores are merged first.
func TestGemmaGGUF(t *testing.T) {
	tokens, types := []string{"<pad>", "<eos>", "<bos>", "<unk>"}, []int32{3, 3, 3, 2}
	vocab, merges := map[string]int{}, []any{}
	add := func(text string, kind int32) {
		tokens, types = append(tokens, text), append(types, kind)
	}
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), 6)
	}
	for _, r := range "▁abcé\n" {
		add(string(r), 1)
	}
	scores := make([]float32, len(tokens))
	made := []string{"▁▁", "ab", "▁a", "▁▁▁▁", "abc", "\n\n", "▁ab", "▁abc"}
	for i, text := range made {
		add(text, 1)
		scores = append(scores, float32(-i))
	}
	for i, text := range tokens {
		vocab[text] = i
	}
	for _, text := range made { // as converters write them: all pairs that make a token
		for at := range text {
			_, left := vocab[text[:at]]
			if _, right := vocab[text[at:]]; left && right {
				merges = append(merges, []string{text[:at], text[at:]})
			}
		}
	}
	special := func(id int) any {
		return map[string]any{"id": id, "content": tokens[id], "special": true}
	}
	file, err := json.Marshal(map[string]any{
		"added_tokens": []any{special(0), special(1), special(2), special(3)},
		"normalizer": map[string]any{"type": "Replace", "pattern": map[string]any{"String": " "},
			"content": "▁"},
		"pre_tokenizer": map[string]any{"type": "Split", "pattern": map[string]any{"String": " "},
			"behavior": "MergedWithPrevious", "invert": false},
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": merges, "unk_token": "<unk>",
			"fuse_unk": true, "byte_fallback": true}})
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, tokenizerJSON), file, 0o666); err != nil {
		t.Fatal(err)
	}
	want := loadBPE(t, folder, len(tokens))
	l, got := vocabularyOf(t, map[string]any{"ggml.model": "llama", "ggml.pre": "default",
		"ggml.tokens": tokens, "ggml.token_type": types, "ggml.scores": scores,
		"ggml.bos_token_id": uint32(2), "ggml.eos_token_id": uint32(1),
		"ggml.unknown_token_id": uint32(3), "ggml.add_space_prefix": false})
	if l.Err != nil {
		t.Fatal(l.Err)
	}
	var lines []string
	for _, m := range merges {
		lines = append(lines, strings.Join(m.([]string), " "))
	}
	l, newer := vocabularyOf(t, map[string]any{"ggml.model": "gemma4", "ggml.tokens": tokens,
		"ggml.token_type": types, "ggml.scores": scores, "ggml.merges": lines,
		"ggml.bos_token_id": uint32(2), "ggml.eos_token_id": uint32(1),
		"ggml.unknown_token_id": uint32(3), "ggml.add_space_prefix": false})
	if l.Err != nil {
		t.Fatal(l.Err)
	}
	source := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		text := ""
		for range source.IntN(14) {
			text += string([]rune("   aabbcéz\n\n")[source.IntN(12)])
		}
		if a, err := encodeAll(got, text); err == nil {
			b, err := encodeAll(newer, text)
			if err != nil || !slices.Equal(a, b) || newer.Decode(narrow(b)) != got.Decode(narrow(a)) {
				t.Fatalf("%q of Gemma 4 is %v (%v), %q, want %v", text, b, err,
					newer.Decode(narrow(b)), a)
			}
		}
		a, err := encodeAll(want, text)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := encodeAll(got, text); err != nil || !slices.Equal(b, append([]int{2}, a...)) {
			t.Fatalf("%q is %v (%v), want %v after the token for the beginning", text, b, err, a)
		}
	}
}

// sentencePieceVocabulary has bytes, letters, and longer tokens with random scores.
func sentencePieceVocabulary() (tokens []string, types []int32, scores []float32) {
	add := func(text string, kind int32, score float32) {
		if !slices.Contains(tokens, text) {
			tokens, types, scores = append(tokens, text), append(types, kind), append(scores, score)
		}
	}
	add("<unk>", 2, 0)
	add("<s>", 3, 0)
	add("</s>", 3, 0)
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), 6, 0)
	}
	add("<tool>", 4, -1000)
	source := rand.New(rand.NewPCG(2, 3))
	for range 200 {
		text := []rune("▁abé")
		word := ""
		for range 2 + source.IntN(3) {
			word += string(text[source.IntN(len(text))])
		}
		add(word, 1, float32(-source.IntN(20)))
	}
	for _, letter := range "▁abé" {
		add(string(letter), 1, -100)
	}
	return tokens, types, scores
}

// TestSentencePieceGGUF compares tokens with the plain algorithm: of all neighbours that together
// are a token, the pair with the best score merges, leftmost first.
func TestSentencePieceGGUF(t *testing.T) {
	tokens, types, scores := sentencePieceVocabulary()
	keys := map[string]any{"ggml.model": "llama", "ggml.tokens": tokens, "ggml.token_type": types,
		"ggml.scores": scores}
	l, b := vocabularyOf(t, keys)
	if l.Err != nil {
		t.Fatal(l.Err)
	}
	plain := func(text string) (ids []int) {
		parts := strings.Split(text, "")
		for {
			best, at := float32(0), -1
			for i := 1; i < len(parts); i++ {
				id := slices.Index(tokens, parts[i-1]+parts[i])
				if id >= 0 && types[id] != 3 && (at < 0 || scores[id] > best) {
					best, at = scores[id], i
				}
			}
			if at < 0 {
				break
			}
			parts = slices.Replace(parts, at-1, at+1, parts[at-1]+parts[at])
		}
		for _, part := range parts {
			if id := slices.Index(tokens, part); id >= 0 {
				ids = append(ids, id)
				continue
			}
			for i := range len(part) {
				ids = append(ids, slices.Index(tokens, fmt.Sprintf("<0x%02X>", part[i])))
			}
		}
		return ids
	}
	source := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		text := ""
		for range source.IntN(12) {
			text += string([]rune("  aabbéz\n")[source.IntN(8)])
		}
		want := []int{1}
		if text != "" {
			want = append(want, plain("▁"+strings.ReplaceAll(text, " ", "▁"))...)
		}
		if got, err := encodeAll(b, text); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
	// a space is added after each added token
	want := slices.Concat([]int{1}, plain("▁a"), []int{slices.Index(tokens, "<tool>")}, plain("▁b"),
		[]int{2})
	if got, err := encodeAll(b, "a<tool>b</s>"); err != nil || !slices.Equal(got, want) {
		t.Errorf("the tokens are %v (%v), want %v", got, err, want)
	}
	keys["ggml.add_space_prefix"], keys["ggml.add_bos_token"] = false, false
	keys["ggml.add_eos_token"] = true
	_, b = vocabularyOf(t, keys)
	if got, err := encodeAll(b, "a b"); err != nil || !slices.Equal(got, append(plain("a▁b"), 2)) {
		t.Errorf("without a space: %v (%v)", got, err)
	}
	if got := b.Bytes(int32(slices.Index(tokens, "▁"))) + b.Bytes(3+'\n'); got != " \n" {
		t.Errorf("tokens are shown as %q, want a space and a newline", got)
	}
}

// TestConversationGGUF has exactly the tokens that the template writes.
func TestConversationGGUF(t *testing.T) {
	tokens, types, merges := letterVocabulary()
	begin := slices.Index(tokens, "<s>")
	keys := map[string]any{"ggml.model": "gpt2", "ggml.pre": "llama-bpe", "ggml.tokens": tokens,
		"ggml.token_type": types, "ggml.merges": merges, "ggml.bos_token_id": uint32(begin),
		"ggml.eos_token_id": uint32(begin + 1), "chat_template": "{{ bos_token }}" +
			"{% for m in messages %}{{ m.role[0] + m.content + eos_token }}{% endfor %}"}
	_, b := vocabularyOf(t, keys)
	got, err := converse(b, false, "abc")
	if want := []int{begin, int('u'), slices.Index(tokens, "abc"), begin + 1}; err != nil ||
		!slices.Equal(got, want) {
		t.Errorf("the tokens are %v (%v), want %v", got, err, want)
	}
}

// TestBeginOfConversations: add_bos_token puts a token before conversations if the template does
// not.
func TestBeginOfConversations(t *testing.T) {
	tokens, types, merges := letterVocabulary()
	begin := slices.Index(tokens, "<s>")
	for _, c := range []struct {
		template, pre string
		adds          any
		want          []int
	}{
		{"abc", "llama-bpe", nil, []int{begin, slices.Index(tokens, "abc")}},
		{"{{ bos_token }}abc", "llama-bpe", nil, []int{begin, slices.Index(tokens, "abc")}},
		{"abc", "gpt-2", nil, []int{slices.Index(tokens, "abc")}},
		{"abc", "gpt-2", true, []int{begin, slices.Index(tokens, "abc")}},
		{"abc", "llama-bpe", false, []int{slices.Index(tokens, "abc")}},
		{"", "gpt-2", true, []int{begin}},
	} {
		_, b := vocabularyOf(t, map[string]any{"ggml.model": "gpt2", "ggml.pre": c.pre,
			"ggml.tokens": tokens, "ggml.token_type": types, "ggml.merges": merges,
			"ggml.bos_token_id": uint32(begin), "ggml.add_bos_token": c.adds,
			"chat_template": "{% if true %}" + c.template + "{% endif %}"})
		got, err := converse(b, false, "x")
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v: the tokens are %v (%v)", c, got, err)
		}
	}
}

// TestStopGGUF says which tokens end an answer by keys, and which are left to texts.
func TestStopGGUF(t *testing.T) {
	v := Vocabulary{End: new(3), Ends: []int{5, 4}, Turn: new(4), Message: new(3)}
	if got := v.Stop(); !slices.Equal(got, []int{3, 4, 5}) {
		t.Errorf("answers stop at %v, want 3, 4 and 5", got)
	}
	for _, c := range []struct {
		v    Vocabulary
		want Ends
	}{
		{Vocabulary{}, Ends{}},
		{Vocabulary{End: new(3), Ends: []int{3}}, Ends{Tokens: []int{3}}},
		{Vocabulary{Ends: []int{5, 4}}, Ends{Tokens: []int{5, 4}, All: true}},
		{Vocabulary{End: new(3), Turn: new(4)}, Ends{Tokens: []int{3, 4}, Turn: true}},
		{Vocabulary{Message: new(4)}, Ends{Tokens: []int{4}, Message: true}},
	} {
		if got := c.v.Named(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v names %+v, want %+v", c.v, got, c.want)
		}
	}
}

// TestEndsByText: tokens that no key names end an answer by their texts, but not ordinary tokens,
// not where numbers say otherwise, and <|end|> not where it ends one message of several.
func TestEndsByText(t *testing.T) {
	others := []string{"<|eot_id|>", "<|im_end|>", "<end_of_turn>", "<EOT>", "<|eom_id|>",
		"<|end_of_text|>", "<|endoftext|>"}
	all := append([]string{"<|end|>"}, others...)
	for _, c := range []struct {
		named Ends
		more  []string // texts of the vocabulary, each of which ends an answer
		want  []string
	}{
		{Ends{}, nil, all},
		{Ends{Tokens: []int{3}}, nil, append([]string{letterToken(3)}, all...)},
		{Ends{All: true}, nil, nil},
		{Ends{Tokens: []int{3, 4}, All: true}, nil, []string{letterToken(3), letterToken(4)}},
		{Ends{Turn: true}, nil, others[4:]},
		{Ends{Message: true}, nil, append([]string{"<|end_of_text|>", "<|endoftext|>"}, all[:5]...)},
		{Ends{Turn: true, Message: true}, nil, others[5:]},
		{Ends{}, []string{"<|return|>", "<|call|>"}, others},
		{Ends{}, []string{"<|return|>"}, others},
		{Ends{}, []string{"<|call|>"}, others},
		{Ends{}, []string{"<|flush|>", "<|calls|>"}, others},
	} {
		for _, kind := range []int32{normalToken, controlToken, userToken} {
			tokens, types, merges := letterVocabulary()
			types[slices.Index(tokens, "<|end|>")] = kind
			for _, text := range slices.Concat(others, c.more) {
				tokens, types = append(tokens, text), append(types, kind)
			}
			_, b := vocabularyOf(t, map[string]any{"ggml.model": "gpt2", "ggml.pre": "gpt-2",
				"ggml.tokens": tokens, "ggml.token_type": types, "ggml.merges": merges})
			want := slices.Concat(c.want, c.more)
			if kind == normalToken {
				want = want[:len(c.named.Tokens)]
			}
			var got []string
			for _, id := range b.Ends(c.named) {
				got = append(got, tokens[id])
			}
			slices.Sort(got)
			if slices.Sort(want); !slices.Equal(got, want) {
				t.Errorf("%+v and %q of type %d: %q end answers, want %q", c.named, c.more, kind, got, want)
			}
		}
	}
}

// letterToken returns the text of a token of letterVocabulary.
func letterToken(id int) string {
	tokens, _, _ := letterVocabulary()
	return tokens[id]
}

// TestDamagedVocabulary: errors name the tokens.
func TestDamagedVocabulary(t *testing.T) {
	for want, keys := range map[string]map[string]any{
		`tokens 0 and 2 are both "a"`: {"ggml.model": "gpt2", "ggml.pre": "gpt-2",
			"ggml.tokens": []string{"a", "b", "a"}},
		`tokenizer.ggml.bos_token_id is 1, want 0 to 0`: {"ggml.model": "llama",
			"ggml.tokens": []string{"a"}, "ggml.scores": []float32{0}},
		"tokenizer.ggml.eos_token_ids[1] is 2, want 0 to 1": {"ggml.model": "gpt2", "ggml.pre": "gpt-2",
			"ggml.tokens": []string{"a", "b"}, "ggml.eos_token_ids": []uint32{1, 2}},
		"want metadata as published models have it": {"ggml.model": uint32(3)},
	} {
		if l, _ := vocabularyOf(t, keys); l.Err == nil || !strings.Contains(l.Err.Error(), want) {
			t.Errorf("the error is %v, want it to say %q", l.Err, want)
		}
	}
}
