package tokenizer

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/seed-1415985d/attn/internal/dev/gguftest"
)

type object = map[string]any

// opened writes the files of a folder, or a GGUF file with some keys, and opens the tokenizer.
func opened(t *testing.T, files object) *Tokenizer {
	t.Helper()
	made, err := Open(written(t, files))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func written(t testing.TB, files object) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range files {
		if name == "gguf" {
			var f gguftest.File
			for key, value := range content.(object) {
				f.Set("tokenizer."+key, value)
			}
			path := filepath.Join(folder, "model.gguf")
			f.Write(t, path)
			return path
		}
		data, ok := content.(string)
		if !ok {
			made, err := json.Marshal(content)
			if err != nil {
				t.Fatal(err)
			}
			data = string(made)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(data), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// letterOf returns the letter that GPT-2's vocabulary has for a byte.
func letterOf(b int) string {
	n := 256
	for c := range b {
		if !printable(c) {
			n++
		}
	}
	if printable(b) {
		n = b
	}
	return string(rune(n))
}

func printable(b int) bool { return b > ' ' && b < 127 || b > 160 && b != 173 }

// byteLevel is a tokenizer like GPT-2's.
func byteLevel() object {
	vocabulary := object{}
	for b := range 256 {
		vocabulary[letterOf(b)] = b
	}
	vocabulary["th"], vocabulary["Ġth"], vocabulary["Ã©"] = 256, 257, 258
	return object{
		"pre_tokenizer": object{"type": "ByteLevel", "add_prefix_space": false},
		"decoder":       object{"type": "ByteLevel"},
		"model":         object{"vocab": vocabulary, "merges": []string{"t h", "Ġ th", "Ã ©"}},
		"post_processor": object{"type": "TemplateProcessing", "single": []object{
			{"SpecialToken": object{"id": "<s>"}}, {"Sequence": object{"id": "A"}}}},
		"added_tokens": []object{{"id": 260, "content": "<s>", "special": true},
			{"id": 261, "content": "<|end|>"}, {"id": 262, "content": "<think>"},
			{"id": 263, "content": "<tool>"}},
	}
}

// byteTokens is a vocabulary with tokens for bytes and some more.
func byteTokens(more ...string) (tokens []string) {
	for b := range 256 {
		tokens = append(tokens, fmt.Sprintf("<0x%02X>", b))
	}
	return append(tokens, more...)
}

// kinds are tokenizers of all kinds, with letters of texts that they do not change.
var kinds = map[string]struct {
	files   object
	letters []string
	trims   bool // it keeps one space between words and none around them
}{
	"byte level": {object{"tokenizer.json": byteLevel()},
		[]string{"t", "h", " ", "é", "€", "😀", "\n", "<s>", "<|end|>", "\x00"}, false},
	"llama 2": {object{"tokenizer.json": object{
		"normalizer": object{"type": "Sequence", "normalizers": []object{
			{"type": "Prepend", "prepend": "▁"},
			{"type": "Replace", "pattern": object{"String": " "}, "content": "▁"}}},
		"decoder": object{"type": "Sequence", "decoders": []object{
			{"type": "Replace", "pattern": object{"String": "▁"}, "content": " "},
			{"type": "ByteFallback"}, {"type": "Fuse"},
			{"type": "Strip", "content": " ", "start": 1, "stop": 0}}},
		"model": object{"type": "BPE", "byte_fallback": true, "vocab": numbered(
			byteTokens("▁", "a", "b", "▁a", "▁▁")), "merges": []string{"▁ a", "▁ ▁"}}}},
		[]string{"a", "b", " ", "é", "😀", "\n"}, false},
	"unigram": {object{"tokenizer.json": object{
		"pre_tokenizer": object{"type": "Metaspace", "replacement": "▁"},
		"decoder":       object{"type": "Metaspace", "replacement": "▁"},
		"model": object{"type": "Unigram", "unk_id": 0, "vocab": [][]any{{"<unk>", 0}, {"▁", -2},
			{"a", -2}, {"▁a", -3}, {"é", -4}, {"b", -1}}}}},
		[]string{"a", "b", " ", "é"}, true},
	"wordpiece": {object{"tokenizer.json": object{
		"normalizer":    object{"type": "BertNormalizer"},
		"pre_tokenizer": object{"type": "BertPreTokenizer"},
		"decoder":       object{"type": "WordPiece", "prefix": "##", "cleanup": true},
		"model": object{"type": "WordPiece", "unk_token": "[UNK]", "vocab": numbered([]string{"[UNK]",
			"a", "##a", "b", "##b"})}}},
		[]string{"a", "b", " "}, true},
	"vocab.txt": {object{"vocab.txt": "[UNK]\n[CLS]\n[SEP]\na\n##a\nb\n##b\n"},
		[]string{"a", "b", " "}, true},
	"GGUF, bytes": {object{"gguf": object{"ggml.model": "gpt2", "ggml.pre": "gpt-2",
		"ggml.tokens": letterTokens("th", "<s>"), "ggml.merges": []string{"t h"},
		"ggml.token_type":   slices.Concat(slices.Repeat([]int32{1}, 257), []int32{3}),
		"ggml.eos_token_id": uint32(257)}},
		[]string{"t", "h", " ", "é", "€", "\n", "<s>"}, false},
	"GGUF, SentencePiece": {object{"gguf": object{"ggml.model": "llama",
		"ggml.tokens": append([]string{"<unk>", "<s>", "</s>"}, byteTokens("▁", "a", "▁a")...),
		"ggml.token_type": slices.Concat([]int32{2, 3, 3}, slices.Repeat([]int32{6}, 256),
			[]int32{1, 1, 1}),
		"ggml.scores": slices.Concat(make([]float32, 259), []float32{-1, -2, -3})}},
		[]string{"a", "b", " ", "é", "</s>"}, false},
	"GGUF, WordPiece": {object{"gguf": object{"ggml.model": "bert", "ggml.tokens": []string{"[UNK]",
		"[CLS]", "[SEP]", "▁a", "a", "▁b", "b"}}}, []string{"a", "b", " "}, true},
	"GGUF, Unigram": {object{"gguf": object{"ggml.model": "t5", "ggml.tokens": []string{"<s>", "<pad>",
		"</s>", "<unk>", "▁", "a", "b", "▁a"}, "ggml.scores": []float32{0, 0, 0, 0, -2, -2, -2, -3},
		"ggml.token_type": []int32{3, 3, 3, 2, 1, 1, 1, 1}}}, []string{"a", "b", " "}, true},
}

func numbered(tokens []string) object {
	vocabulary := object{}
	for i, token := range tokens {
		vocabulary[token] = i
	}
	return vocabulary
}

func letterTokens(more ...string) (tokens []string) {
	for b := range 256 {
		tokens = append(tokens, letterOf(b))
	}
	return append(tokens, more...)
}

// TestThereAndBack encodes random texts: their tokens give the text, as a whole and one by one.
func TestThereAndBack(t *testing.T) {
	for name, kind := range kinds {
		tokenizer := opened(t, kind.files)
		source := rand.New(rand.NewPCG(1, 2))
		for range 300 {
			text := ""
			for range source.IntN(9) {
				text += kind.letters[source.IntN(len(kind.letters))]
			}
			if kind.trims {
				text = strings.Join(strings.Fields(text), " ")
			}
			tokens, err := tokenizer.Encode(text)
			if got := tokenizer.Decode(tokens); err != nil || got != text {
				t.Errorf("%s: %q becomes %v (%v), and they %q", name, text, tokens, err, got)
			}
			answer, d := "", tokenizer.NewDecoder()
			for _, token := range tokens {
				answer += d.Next(token)
			}
			if answer += d.Flush(); answer != text && answer != " "+text {
				t.Errorf("%s: one by one %q becomes %q", name, text, answer)
			}
			if slices.ContainsFunc(tokens, tokenizer.Control) {
				t.Errorf("%s: users write control tokens: %q becomes %v", name, text, tokens)
			}
		}
	}
}

// TestVocabulary finds each token by its text.
func TestVocabulary(t *testing.T) {
	for name, kind := range kinds {
		tokenizer := opened(t, kind.files)
		if tokenizer.Size() < 5 || tokenizer.Text(int32(tokenizer.Size()-1)) == "" {
			t.Errorf("%s: the last of %d tokens has no text", name, tokenizer.Size())
		}
		for id := range int32(tokenizer.Size()) {
			text := tokenizer.Text(id)
			if got, ok := tokenizer.Token(text); text != "" && (got != id || !ok) {
				t.Errorf("%s: token %d is %q, which is token %d", name, id, text, got)
			}
			if special := tokenizer.Special(id); special && (tokenizer.Bytes(id) != "" ||
				tokenizer.Decode([]int32{id}) != "" || !tokenizer.Control(id)) {
				t.Errorf("%s: special token %d is %q, and control %v", name, id, tokenizer.Bytes(id),
					tokenizer.Control(id))
			}
		}
		for _, id := range []int32{-1, int32(tokenizer.Size()), 1 << 30} {
			if text := tokenizer.Text(id) + tokenizer.Bytes(id) + tokenizer.Decode([]int32{id}); text != "" {
				t.Errorf("%s: token %d has %q", name, id, text)
			}
		}
		if _, ok := tokenizer.Token("unheard"); ok {
			t.Errorf("%s: there is a token of no vocabulary", name)
		}
	}
}

// TestControl says which tokens are found where, and which are shown.
func TestControl(t *testing.T) {
	tokenizer := opened(t, object{"tokenizer.json": byteLevel(), "tokenizer_config.json": object{
		"chat_template": "{% for m in messages %}<think>{{ m.content }}{% endfor %}"}})
	const text = "<s>t<|end|><think><tool>"
	plain, err := tokenizer.Encode(text)
	if err != nil || slices.Max(plain[:len(plain)-1]) > 258 || plain[len(plain)-1] != 263 {
		t.Errorf("what users write becomes %v (%v), want letters and 263", plain, err)
	}
	trusted, err := tokenizer.EncodeControl(text)
	want := []int32{260, 't', 261, 262, 263}
	if err != nil || !slices.Equal(trusted, want) {
		t.Errorf("what is trusted becomes %v (%v), want %v", trusted, err, want)
	}
	if prompt, err := tokenizer.Prompt(text); err != nil ||
		!slices.Equal(prompt, append([]int32{260}, plain...)) {
		t.Errorf("a prompt becomes %v (%v), want 260 and %v", prompt, err, plain)
	}
	pieces, err := tokenizer.EncodePieces(Piece{"<s", false}, Piece{">t<|end|>", true},
		Piece{"<think>", false}, Piece{"<tool>", true})
	if want := slices.Concat(plain[:len("<s>t<|end|>")], []int32{262, 263}); err != nil ||
		!slices.Equal(pieces, want) {
		t.Errorf("pieces become %v (%v), want %v", pieces, err, want)
	}
	for id, want := range map[int32][3]bool{260: {true, true, false}, 261: {false, true, true},
		262: {false, true, false}, 263: {false, false, false}, 'x': {false, false, false}} {
		got := [3]bool{tokenizer.Special(id), tokenizer.Control(id),
			slices.Contains(tokenizer.Ends(), id)}
		if got != want {
			t.Errorf("token %d is special, control and an end: %v, want %v", id, got, want)
		}
	}
	if got := tokenizer.Decode(trusted); got != "t<|end|><think><tool>" {
		t.Errorf("special tokens are shown: %q", got)
	}
}

// TestEndsGGUF: a key names the end token, which users cannot write whatever its type.
func TestEndsGGUF(t *testing.T) {
	tokenizer := opened(t, object{"gguf": object{"ggml.model": "gpt2", "ggml.pre": "gpt-2",
		"ggml.tokens": letterTokens("<e"), "ggml.merges": []string{"< e"},
		"ggml.eos_token_id": uint32(256)}})
	tokens, err := tokenizer.Encode("<e")
	if err != nil || len(tokens) != 2 || !slices.Equal(tokenizer.Ends(), []int32{256}) ||
		!tokenizer.Control(256) || tokenizer.Special(256) {
		t.Errorf("users write %v (%v), ends are %v", tokens, err, tokenizer.Ends())
	}
}

// TestUnknown: text that the vocabulary lacks does not let users forge a control token.
func TestUnknown(t *testing.T) {
	for name, text := range map[string]string{"wordpiece": "😀a [UNK] q", "vocab.txt": "q [UNK]",
		"unigram": "😀<unk>", "GGUF, WordPiece": "q", "GGUF, Unigram": "q"} {
		tokenizer := opened(t, kinds[name].files)
		unknown, _ := tokenizer.Token("[UNK]")
		if tokens, err := tokenizer.Encode(text); err != nil || len(tokens) == 0 ||
			unknown > 0 && !slices.Contains(tokens, unknown) {
			t.Errorf("%s: %q becomes %v (%v)", name, text, tokens, err)
		}
	}
}

// TestInvalid: each byte that is not UTF-8 is U+FFFD.
func TestInvalid(t *testing.T) {
	for name, kind := range kinds {
		tokenizer := opened(t, kind.files)
		bad, err := tokenizer.Encode("a\xff\xe2\x82b")
		good, other := tokenizer.Encode("a\ufffd\ufffd\ufffdb")
		if err != nil || other != nil || !slices.Equal(bad, good) {
			t.Errorf("%s: tokens %v (%v), want %v (%v)", name, bad, err, good, other)
		}
	}
}

// TestDecoder compares with the definition, on bytes that are UTF-8 in part.
func TestDecoder(t *testing.T) {
	tokenizer := opened(t, object{"tokenizer.json": byteLevel()})
	source := rand.New(rand.NewPCG(3, 4))
	bytes := "a\x80\xbf\xc0\xc3\xa9\xe0\xa0\xe2\x82\xac\xed\xa0\xf0\x9f\x98\x80\xf4\x90\xf5\xff"
	for range 5000 {
		d, all, said := tokenizer.NewDecoder(), "", ""
		for range source.IntN(12) {
			b := bytes[source.IntN(len(bytes))]
			all += string([]byte{b})
			token, _ := tokenizer.Token(letterOf(int(b)))
			said += d.Next(token)
			if source.IntN(4) == 0 {
				said += d.Next(260) // a special token
			}
			if want := replaced(all[:len(all)-begun(all)]); said != want {
				t.Fatalf("after %q there is %q, want %q", all, said, want)
			}
		}
		if said += d.Flush(); said != replaced(all) {
			t.Fatalf("%q becomes %q, want %q", all, said, replaced(all))
		}
	}
}

// begun returns how many bytes at the end are the beginning of a character.
func begun(text string) int {
	for n := min(3, len(text)); n > 0; n-- {
		if begins(text[len(text)-n:]) {
			return n
		}
	}
	return 0
}

// begins reports whether text is the beginning of a character.
func begins(text string) bool { return beginnings()[text] }

var beginnings = sync.OnceValue(func() map[string]bool {
	all := map[string]bool{}
	for r := rune(utf8.RuneSelf); r <= utf8.MaxRune; r++ {
		if s := string(r); utf8.ValidRune(r) {
			for n := 1; n < len(s); n++ {
				all[s[:n]] = true
			}
		}
	}
	return all
})

// replaced has U+FFFD for each longest beginning of a character that does not become one, and for
// each other byte that is not UTF-8.
func replaced(text string) (made string) {
	for text != "" {
		if r, n := utf8.DecodeRuneInString(text); r != utf8.RuneError {
			made, text = made+text[:n], text[n:]
			continue
		}
		n := 1
		for n < len(text) && begins(text[:n+1]) {
			n++
		}
		made, text = made+"\ufffd", text[n:]
	}
	return made
}

// TestGoroutines uses one tokenizer from several goroutines.
func TestGoroutines(t *testing.T) {
	for name, kind := range kinds {
		tokenizer := opened(t, kind.files)
		text := strings.Join(kind.letters, " ")
		want, err := tokenizer.Spans(text)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				tokens, err := tokenizer.Encode(text)
				spans, other := tokenizer.Spans(text)
				if err != nil || other != nil || len(tokens) != len(want) || !slices.Equal(spans, want) {
					t.Errorf("%s: %v (%v) and %v (%v), want %v", name, tokens, err, spans, other, want)
				}
			})
		}
		all.Wait()
	}
}

// TestRefused has files that are not a tokenizer.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		path string
		want string
	}{
		"nothing":   {filepath.Join(t.TempDir(), "absent"), "has no tokenizer.json and no vocab.txt"},
		"no file":   {filepath.Join(t.TempDir(), "absent.gguf"), "absent.gguf"},
		"no GGUF":   {filepath.Join(written(t, object{"vocab.txt": "a"}), "vocab.txt"), "vocab.txt"},
		"no tokens": {written(t, object{"gguf": object{}}), `tokenizer.ggml.model is "", want gpt2, llama,`},
		"another kind": {written(t, object{"gguf": object{"ggml.model": "rwkv"}}),
			`tokenizer.ggml.model is "rwkv", want gpt2, llama, gemma4, bert or t5`},
		"a key": {written(t, object{"tokenizer.json": object{"unheard": 1}}), `key "unheard" is 1`},
		"a number": {written(t, object{"tokenizer.json": object{"model": object{"type": "BPE",
			"merges": []any{}, "vocab": object{"a": int64(1) << 40}}}}),
			`tokenizer.json: token "a" has number 1099511627776, want 0 to`},
		"a number below 0": {written(t, object{"tokenizer.json": object{"added_tokens": []object{
			{"id": -1, "content": "b"}}, "model": object{"type": "BPE",
			"merges": []any{}, "vocab": object{"a": 1}}}}),
			`token "b" has number -1, want 0 to`},
		"around texts": {written(t, object{"tokenizer.json": object{"post_processor": object{
			"type": "BertProcessing", "cls": []any{"x", 9}, "sep": []any{"x", 9}}, "model": object{
			"type": "BPE", "merges": []any{}, "vocab": object{"a": 1}}}}), "puts token 9 around texts"},
		"a decoder": {written(t, object{"tokenizer.json": object{"decoder": object{"type": "CTC"},
			"model": object{"type": "WordPiece", "vocab": object{"[UNK]": 1}}}}), `decoder is of type "CTC"`},
	} {
		if tokenizer, err := Open(c.path); err == nil || tokenizer != nil ||
			!strings.HasPrefix(err.Error(), "tokenizer: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want it to say %q", name, err, c.want)
		}
	}
}
