package embed

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nlpodyssey/safetensors"
	"github.com/seed-1415985d/attn"
)

// TestOddTexts embeds texts that nobody means.
func TestOddTexts(t *testing.T) {
	path, _ := writeModel(t, safetensors.F32)
	cut := 0
	m := mustOpen(t, path, Options{Cut: func(text, tokens, left int) {
		if cut++; text != 3 || tokens != 20 || left != 1_000_000-18 {
			t.Errorf("text %d has %d tokens of which %d are left out", text, tokens, left)
		}
	}})
	vectors := mustEncode(t, m, "", "c", "cat", strings.Repeat("!", 1_000_000), "\xff\xfecat",
		"\ufffdcat", "\x00")
	if cut != 1 {
		t.Errorf("%d texts were cut, want 1", cut)
	}
	if !sameBits(vectors[4:5], vectors[5:6]) {
		t.Error("a text that is no UTF-8 differs from one with U+FFFD")
	}
	if !sameBits(vectors[:1], vectors[6:7]) { // BERT drops control characters
		t.Error("a text of a zero byte differs from an empty one")
	}
	for i, v := range vectors {
		if d := math.Abs(float64(attn.Dot(v, v)) - 1); !(d < 1e-5) {
			t.Errorf("vector %d has length 1 + %v", i, d)
		}
	}
	if got, err := m.Encode(nil); err != nil || len(got) != 0 {
		t.Errorf("no texts: %v, %v", got, err)
	}
}

// TestPrompts has names in the files, a default, one by option, and others by call.
func TestPrompts(t *testing.T) {
	path, values := writeModel(t, safetensors.F32)
	write(t, path, "config_sentence_transformers.json", []byte(`{"default_prompt_name": "doc",
		"prompts": {"doc": "cat, ", "query": "un "}}`))
	m := mustOpen(t, path, Options{})
	if got := m.Prompts(); !slices.Equal(got, []string{"doc", "query"}) {
		t.Errorf("prompts %q", got)
	}
	as := func(prompt string) [][]float32 {
		vectors, err := m.EncodeAs(prompt, []string{"zurich"})
		if err != nil {
			t.Fatal(err)
		}
		return vectors
	}
	plain := mustOpen(t, path, Options{})
	plain.prompt = ""
	for prompt, text := range map[string]string{"": "zurich", "doc": "cat, zurich",
		"query": "un zurich"} {
		if !sameBits(as(prompt), mustEncode(t, plain, text)) {
			t.Errorf("the prompt %q: other bits than with its text", prompt)
		}
	}
	if !sameBits(mustEncode(t, m, "zurich"), as("doc")) {
		t.Error("the default prompt is not before texts")
	}
	if !sameBits(mustEncode(t, mustOpen(t, path, Options{Prompt: "query"}), "zurich"), as("query")) {
		t.Error("the prompt of an option is not before texts")
	}
	if _, err := m.EncodeAs("x", nil); err == nil ||
		!strings.Contains(err.Error(), `the prompt is "x", want one of ["doc" "query"]`) {
		t.Errorf("an unknown prompt: %v", err)
	}
	if _, err := Open(path, Options{Prompt: "x"}); err == nil ||
		!strings.Contains(err.Error(), `Options.Prompt is "x", want one of ["doc" "query"]`) {
		t.Errorf("an unknown prompt by option: %v", err)
	}
	// The pooling excludes tokens of the prompt, and [CLS].
	write(t, path, "1_Pooling/config.json", []byte(`{"pooling_mode": "weightedmean",
		"include_prompt": false}`))
	got := mustEncode(t, mustOpen(t, path, Options{}), "zurich un")[0]
	rows := values.rows(idsOf(t, m, "zurich un"))
	want, total := make([]float64, 30), 0.0
	for i := 3; i < len(rows); i++ {
		want, total = plus(want, scaled(rows[i], float64(i+1))), total+float64(i+1)
	}
	want = scaled(want, 1/math.Sqrt(dot(want, want)))
	for j := range want {
		if d := math.Abs(float64(got[j]) - want[j]); !(d < 2e-6) {
			t.Fatalf("without the prompt number %d is %v, want %v", j, got[j], want[j])
		}
	}
}

// TestOptions has those that cut vectors and texts.
func TestOptions(t *testing.T) {
	path, values := writeModel(t, safetensors.F32)
	m := mustOpen(t, path, Options{Dimensions: 7, Normalize: true, MaxTokens: 5,
		Pooling: []string{"max"}})
	if m.Dimensions() != 7 || m.MaxTokens() != 5 || m.Comparison() != "cosine" || m.Labels() != nil ||
		m.String() != "bert: 2 layers of 30, 3 heads" {
		t.Errorf("%v has %d dimensions and texts of %d tokens, want 7 and 5", m, m.Dimensions(),
			m.MaxTokens())
	}
	if matrices, lookups := m.Memory(); matrices < 4*2*(4*30*30) || lookups != 4*30*(12+20+2) {
		t.Errorf("matrices have %d bytes, lookups %d", matrices, lookups)
	}
	got := mustEncode(t, m, "cat un cat un cat un")[0]
	ids := idsOf(t, m, "cat un cat un cat un")
	if len(ids) != 5 {
		t.Fatalf("tokens %v, want 5", ids)
	}
	want := pooled(values.rows(ids), "max")[:7]
	want = scaled(want, 1/math.Sqrt(dot(want, want)))
	for j := range want {
		if d := math.Abs(float64(got[j]) - want[j]); !(d < 2e-6) {
			t.Fatalf("number %d is %v, want %v", j, got[j], want[j])
		}
	}
	for want, o := range map[string]Options{"Options.Workers is -1": {Workers: -1},
		"Options.Workers is 4097, want 0 to 4096":   {Workers: attn.MaxWorkers + 1},
		"Options.Dimensions is 31, want at most 30": {Dimensions: 31},
		"Options.MaxTokens is 1, want":              {MaxTokens: 1},
		"Options.MaxTokens is 21, want at most 20":  {MaxTokens: 21},
		"Options.BatchTokens is -2":                 {BatchTokens: -2},
		`Options.Pooling is "x", want one`:          {Pooling: []string{"x"}}} {
		if _, err := Open(path, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
	wanted := `Options.Instruction is "Find.", want "" for a model that is no Qwen3-Reranker`
	if _, err := Open(path, Options{Instruction: "Find."}); err == nil ||
		!strings.Contains(err.Error(), wanted) {
		t.Errorf("an instruction: %v, want %s", err, wanted)
	}
	ofHead := func(labels, width int) Sizes {
		return Sizes{Layers: 1, Hidden: 8, Heads: 2, FFN: 8, Vocab: 8, Labels: labels,
			TokenDimensions: width}
	}
	for want, s := range map[string]Sizes{
		"Sizes.Heads is 0": {Layers: 1, Hidden: 8, FFN: 8, Vocab: 8},
		"Sizes.Hidden is 9, want a multiple of Sizes.Heads, 2": {Layers: 1, Hidden: 9, Heads: 2, FFN: 8,
			Vocab: 8},
		"Sizes.Labels is -1, want 0 to 65536":                              ofHead(-1, 0),
		"Sizes.TokenDimensions is 65537, want 0 to 65536":                  ofHead(0, 65537),
		"1 Labels, 0 TokenLabels and TokenDimensions 2, want 0 of all but": ofHead(1, 2)} {
		if _, err := Random(s, Options{}); err == nil || !strings.HasPrefix(err.Error(), "embed: ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", s, err, want)
		}
	}
	if _, err := Random(Sizes{}, Options{Workers: -1}); err == nil {
		t.Error("a random model of -1 workers is no error")
	}
}

// TestMisuse names arguments.
func TestMisuse(t *testing.T) {
	m := mustRandom(t, Sizes{Hidden: 30, FFN: 20, Vocab: 50}, Options{Workers: 1})
	for want, err := range map[string]error{
		"dst has 29 numbers, want 30":           m.EncodeInto(make([]float32, 29), []string{"a"}),
		"tokens[1] has 0 tokens, want 1 to 512": m.EncodeTokens(make([]float32, 60), [][]int32{{1}, {}}),
		"tokens[0][1] is 50, want 0 to 49":      m.EncodeTokens(make([]float32, 30), [][]int32{{1, 50}}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) ||
			!errors.Is(err, attn.ErrLength) && !errors.Is(err, attn.ErrOption) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	for _, texts := range [][]string{{"a"}, make([]string, 20)} {
		if _, err := m.Encode(texts); !errors.Is(err, attn.ErrClosed) ||
			!strings.Contains(err.Error(), "embed: the model of random was closed: ") {
			t.Errorf("a closed model: %v", err)
		}
	}
	if _, err := m.EncodeAs("x", nil); err == nil ||
		err.Error() != `embed: the prompt is "x", want none: the files have no prompts` {
		t.Errorf("a prompt where there are none: %v", err)
	}
	for _, path := range []string{"no/such/folder", "no/such/model.gguf"} {
		if err := openError(path); !errors.Is(err, fs.ErrNotExist) ||
			!strings.Contains(err.Error(), fmt.Sprintf("there is no folder or file %q", path)) {
			t.Errorf("a path where nothing is: %v", err)
		}
	}
	if err := openError(""); err == nil || !strings.Contains(err.Error(), `the path is ""`) {
		t.Errorf("an empty path: %v", err)
	}
}

// Closing what there is not does nothing, so a deferred Close needs no question before it.
func TestCloseOfNil(t *testing.T) {
	if err := (*Model)(nil).Close(); err != nil {
		t.Error(err)
	}
}

// TestSimilarities compares two vectors in all ways.
func TestSimilarities(t *testing.T) {
	a, b := []float32{1, 2, 2}, []float32{-2, 2, 0}
	for name, want := range map[string]float64{"cosine": 2 / (3 * math.Sqrt(8)), "dot": 2,
		"euclidean": -math.Sqrt(13), "manhattan": -5} {
		path, _ := writeModel(t, safetensors.F32)
		write(t, path, "config_sentence_transformers.json",
			fmt.Appendf(nil, `{"similarity_fn_name": %q}`, name))
		m := mustOpen(t, path, Options{})
		if got := m.Similarity(a, b); m.Comparison() != name || math.Abs(float64(got)-want) > 1e-6 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if got := Cosine(a, make([]float32, 3)); got != 0 {
		t.Errorf("the cosine with zeros is %v, want 0", got)
	}
	path, _ := writeModel(t, safetensors.F32)
	write(t, path, "config_sentence_transformers.json", []byte(`{"similarity_fn_name": "x"}`))
	if err := openError(path); err == nil ||
		!strings.Contains(err.Error(), `similarity_fn_name is "x", want one of`) {
		t.Errorf("an unknown similarity: %v", err)
	}
}

// TestTogether lets many goroutines use a model at once, and counts progress.
func TestTogether(t *testing.T) {
	var mutex sync.Mutex
	calls := map[int]int{}
	m := mustRandom(t, Sizes{Hidden: 33, FFN: 20, Vocab: 50}, Options{Workers: 2, BatchTokens: 8,
		Progress: func(done, of int) {
			mutex.Lock()
			defer mutex.Unlock()
			if calls[done]++; of != 4 {
				t.Errorf("progress of %d texts, want 4", of)
			}
		}})
	texts := []string{"a b c", "d", "e f g h i j k l m n", ""}
	want := mustEncode(t, m, texts...)
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			for range 5 {
				got, err := m.Encode(texts)
				if err != nil || !sameBits(want, got) {
					t.Errorf("other bits in a batch, %v", err)
				}
			}
		})
	}
	group.Wait()
	if calls[4] != 31 || calls[2] != 31 {
		t.Errorf("progress was called %v times, want 31 with 2 and with 4", calls)
	}
}

// TestAllocations counts allocations of the steady state, of each kind of model.
func TestAllocations(t *testing.T) {
	tokens := [][]int32{{1, 2, 3, 4}, {5, 6}, {7, 8, 9, 10, 11, 0}}
	for _, k := range append(kindTests(), debertaTest(map[string]any{"conv_kernel_size": 3})) {
		path, _ := writeKind(t, &k, safetensors.F32)
		m := mustOpen(t, path, Options{Workers: 2})
		dst := make([]float32, len(tokens)*m.Dimensions())
		if n := testing.AllocsPerRun(20, func() {
			if err := m.EncodeTokens(dst, tokens); err != nil {
				t.Error(err)
			}
		}); n >= 1 {
			t.Errorf("%s: %v allocations, want none", k.kind, n)
		}
	}
}

// qwenTokens are those that Qwen3-Reranker needs, with bytes as letters.
func qwenTokens() []string {
	tokens := []string{"<|im_start|>", "<|im_end|>", "<|endoftext|>", "yes", "no", "ye"}
	next := 0
	for b := range 256 { // as GPT-2 writes bytes
		letter := rune(b)
		if b < 33 || b > 126 && b < 161 || b == 173 {
			letter = rune(256 + next)
			next++
		}
		tokens = append(tokens, string(letter))
	}
	return tokens
}

// qwenTokenizer has these tokens, which are no more than some.
func qwenTokenizer(vocab int) string {
	tokens := qwenTokens()
	if len(tokens) > vocab {
		panic("the vocabulary is too small")
	}
	for id, text := range tokens {
		tokens[id] = fmt.Sprintf("%q: %d", text, id)
	}
	return `{"added_tokens": [{"id": 0, "content": "<|im_start|>", "special": true},
		{"id": 1, "content": "<|im_end|>", "special": true}, {"id": 2, "content": "<|endoftext|>",
		"special": true}], "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
		"post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A",
		"type_id": 0}},
		{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}], "special_tokens": {"<|endoftext|>":
		{"id": "<|endoftext|>", "ids": [2], "tokens": ["<|endoftext|>"]}}},
		"model": {"type": "BPE", "merges": ["y e", "ye s", "n o"], "vocab": {` +
		strings.Join(tokens, ", ") + `}}}`
}

// TestQwen3 has the last token's vector with a modules.json, and scores without it.
func TestQwen3(t *testing.T) {
	const vocab = 270
	for _, k := range kindTests() {
		if k.kind != "qwen3" {
			continue
		}
		k.shapes["model.embed_tokens.weight"] = []int{vocab, wide}
		k.config["vocab_size"], k.config["max_position_embeddings"] = vocab, 330
		path, values := writeKind(t, &k, safetensors.BF16)
		write(t, path, "tokenizer.json", []byte(qwenTokenizer(vocab)))
		write(t, path, "tokenizer_config.json", []byte(`{"eos_token": "<|im_end|>",
			"pad_token": "<|endoftext|>", "add_bos_token": false, "bos_token": null}`))
		if err := os.Remove(filepath.Join(path, "vocab.txt")); err != nil {
			t.Fatal(err)
		}
		m := mustOpen(t, path, Options{})
		got := mustEncode(t, m, "yes, cat")[0]
		rows := k.rows(values, idsOf(t, m, "yes, cat"), nil)
		want := rows[len(rows)-1]
		all := rows[0]
		all = append(append(slices.Clone(all), meanOf(rows)...), want...)
		want = scaled(want, 1/math.Sqrt(dot(all, all)))
		for j := range want {
			if d := math.Abs(float64(got[2*wide+j]) - want[j]); !(d < 3e-6) {
				t.Fatalf("number %d is %v, want %v", j, got[2*wide+j], want[j])
			}
		}
		for _, name := range []string{"modules.json", "1_Pooling/config.json"} {
			if err := os.Remove(filepath.Join(path, name)); err != nil {
				t.Fatal(err)
			}
		}
		testReranker(t, path, &k, values)
	}
}

func testReranker(t *testing.T, path string, k *kindTest, values numbers) {
	m := mustOpen(t, path, Options{Workers: 2, Instruction: "Find."})
	if _, err := m.Encode([]string{"a"}); err == nil ||
		!strings.Contains(err.Error(), "no modules.json") {
		t.Errorf("vectors of a reranker: %v", err)
	}
	texts := []string{"A cat.", "", "<|im_end|>no", strings.Repeat("long ", 200)}
	scores, err := m.Rerank("cat?", texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		read, err := m.pair("cat?", text)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(fmt.Sprint(read.Tokens), " 1 "); n != 2 {
			t.Errorf("%q: %d tokens end messages, want 2: users write none", text, n)
		}
		if i == 3 && (len(read.Tokens) != 330 || read.Left == 0) {
			t.Errorf("a long text has %d tokens, want 330", len(read.Tokens))
		}
		rows := k.rows(values, widen(read.Tokens), nil)
		last, table := rows[len(rows)-1], values["model.embed_tokens.weight"]
		difference := dot(last, table[3*wide:][:wide]) - dot(last, table[4*wide:][:wide])
		if want := 1 / (1 + math.Exp(-difference)); math.Abs(float64(scores[i])-want) > 2e-5 {
			t.Errorf("%q: the score is %v, want %v", text, scores[i], want)
		}
	}
	if _, err := Open(path, Options{Normalize: true}); err == nil || !strings.Contains(err.Error(),
		"Options.Normalize is true, want false: it has no modules.json") {
		t.Errorf("a reranker with vectors of length 1: %v", err)
	}
	pooled := mustOpen(t, path, Options{Pooling: []string{"lasttoken"}})
	if v := mustEncode(t, pooled, "a"); len(v[0]) != wide {
		t.Errorf("a vector of %d numbers, want %d", len(v[0]), wide)
	}
	write(t, path, "tokenizer.json", []byte(strings.Replace(qwenTokenizer(270), `, "n o"`, "", 1)))
	if err := openError(path); err == nil || !strings.Contains(err.Error(), `"no" is tokens`) {
		t.Errorf("an answer of two tokens: %v", err)
	}
}

// TestMultiplyAdds counts multiply-adds of a layer, without the pairs that causal models and
// windows skip.
func TestMultiplyAdds(t *testing.T) {
	m, err := Random(Sizes{Layers: 2, Hidden: 8, Heads: 2, FFN: 20, Vocab: 50}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if got, want := m.MultiplyAdds(5), 2*(5*(4*8*8+2*8*20)+2*8*5*5); got != want {
		t.Errorf("%d multiply-adds, want %d", got, want)
	}
	if got := m.pairs(5, attn.Window{Left: 2, Right: 2}); got != 15 {
		t.Errorf("%d pairs in a window, want 15", got)
	}
	m.causal = true
	if got := m.pairs(5, attn.Window{}); got != 15 {
		t.Errorf("%d causal pairs, want 15", got)
	}
}

// TestManyTexts tokenizes on all workers: tokens, callbacks and errors equal each text's alone.
func TestManyTexts(t *testing.T) {
	path, _ := writeModel(t, safetensors.F32)
	var cut []int
	m := mustOpen(t, path, Options{Workers: 3, Cut: func(text, _, _ int) { cut = append(cut, text) }})
	texts := make([]string, 5*readTogether+3)
	for i := range texts {
		texts[i] = strings.Repeat("cat, ", i%13)
	}
	all, err := m.tokensOf(t.Context(), "", texts)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(cut) || len(cut) == 0 {
		t.Errorf("texts %v are cut, want some in order", cut)
	}
	for i, text := range texts {
		if one, err := m.Tokens(text); err != nil || !slices.Equal(one, all[i]) {
			t.Errorf("text %d has tokens %v, alone %v (%v)", i, all[i], one, err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Encode(texts); !errors.Is(err, attn.ErrClosed) {
		t.Errorf("of a closed model: %v, want ErrClosed", err)
	}
}
