package main

import (
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nlpodyssey/safetensors"
)

// ragged are texts of 2 to 20 tokens of the tiny model.
var ragged = []string{"cat, cat!", "", "Zürich cat unbelievable", strings.Repeat("cat zurich ", 50), "dog", "中cat中!"}

func mustLoad(t *testing.T, folder string) (*model, *tokenizer) {
	t.Helper()
	l := &loader{folder: folder}
	m, tokens := l.load(config{})
	if l.err != nil {
		t.Fatal(l.err)
	}
	return m, tokens
}

func TestAgainstFloat64(t *testing.T) {
	for kind := range encodings {
		for _, cls := range []bool{false, true} {
			folder, values := writeModel(t, kind)
			write(t, folder, "1_Pooling/config.json", fmt.Appendf(nil, `{"pooling_mode_cls_token": %v, "pooling_mode_mean_tokens": %v}`, cls, !cls))
			m, tokens := mustLoad(t, folder)
			e := newEncoder(m, 2)
			defer e.pool.Close()
			var ids [][]int
			for _, text := range ragged {
				ids = append(ids, tokens.encode(text))
			}
			got, err := e.embed(ids)
			if err != nil {
				t.Fatal(err)
			}
			worst := 0.0
			for i := range ids {
				for j, want := range values.reference(ids[i], cls) {
					worst = max(worst, math.Abs(float64(got[i][j])-want))
				}
			}
			t.Logf("%v, cls %v: largest difference %.1e", kind, cls, worst)
			if !(worst < 2e-6) {
				t.Errorf("%v, cls %v: largest difference %.1e, want less than 2e-6", kind, cls, worst)
			}
		}
	}
}

// TestSameBits embeds each text alone, in batches in two orders, and with one to three workers, across the ends of batches.
func TestSameBits(t *testing.T) {
	l := &loader{random: rand.New(rand.NewPCG(5, 6))}
	c := standard
	c.Layers, c.Hidden, c.Heads, c.FFN, c.Vocab = 2, 33, 3, 70, 500
	m, tokens := l.load(c)
	if l.err != nil {
		t.Fatal(l.err)
	}
	var texts [][]int
	for n := range 20 {
		texts = append(texts, tokens.encode(strings.Repeat("a fox, ", n*n%90)))
	}
	var want [][]float32
	for workers := 1; workers <= 3; workers++ {
		e := newEncoder(m, workers)
		defer e.pool.Close()
		alone := make([][]float32, len(texts))
		for i := range texts {
			one, err := e.embed(texts[i : i+1])
			if err != nil {
				t.Fatal(err)
			}
			alone[i] = one[0]
		}
		together, err := e.embed(texts)
		if err != nil {
			t.Fatal(err)
		}
		backwards := slices.Clone(texts)
		slices.Reverse(backwards)
		reversed, err := e.embed(backwards)
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(reversed)
		if want == nil {
			want = alone
		}
		for what, got := range map[string][][]float32{"alone": alone, "together": together, "reversed": reversed} {
			if v := verdict(want, got); v != "OK" {
				t.Errorf("%s, %d workers: %s", what, workers, v)
			}
		}
	}
	if verdict(want[:1], want[1:2]) == "OK" {
		t.Error("two texts have the same embedding")
	}
}

// goldenBits is the CRC of an embedding.
const goldenBits uint32 = 0x9013d40d

// TestBitsOfEveryCPU fails where an embedding has other bits than on the CPU that the number is from.
func TestBitsOfEveryCPU(t *testing.T) {
	l := &loader{random: rand.New(rand.NewPCG(5, 6))}
	c := standard
	c.Layers, c.Hidden, c.Heads, c.FFN, c.Vocab = 2, 48, 3, 100, 100
	m, tokens := l.load(c)
	e := newEncoder(m, 1)
	defer e.pool.Close()
	embeddings, err := e.embed([][]int{tokens.encode(builtIn)})
	if err != nil {
		t.Fatal(err)
	}
	hash := crc32.NewIEEE()
	for _, x := range embeddings[0] {
		fmt.Fprintf(hash, "%08x", math.Float32bits(x))
	}
	if got := hash.Sum32(); got != goldenBits {
		t.Errorf("bits %#x, want %#x", got, goldenBits)
	}
}

func TestTokens(t *testing.T) {
	folder, _ := writeModel(t, safetensors.F32)
	_, tokens := mustLoad(t, folder)
	write(t, folder, "tokenizer.json", []byte(`{"model": {"type": "WordPiece", "vocab": {"[UNK]": 1, "[CLS]": 2, "[SEP]": 3,
		"Cat": 4, "cat": 5, "é": 6, "e": 7}}, "normalizer": {"type": "BertNormalizer", "lowercase": false, "strip_accents": null}}`))
	_, cased := mustLoad(t, folder)
	for _, c := range []struct {
		tokens *tokenizer
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
		{tokens, "un" + strings.Repeat("able", 24) + "able" + strings.Repeat("able", 1), []int{2, 1, 3}}, // over 100 characters
		{tokens, strings.Repeat("cat ", 30), append(append([]int{2}, slices.Repeat([]int{4}, 18)...), 3)},
		{cased, "Cat cat é e É", []int{2, 4, 5, 6, 7, 1, 3}},
	} {
		if got := c.tokens.encode(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%q: %d, want %d", c.text, got, c.want)
		}
	}
}

// TestDamagedFolders damages one thing each.
func TestDamagedFolders(t *testing.T) {
	change := func(name string, value any) func(string) {
		return func(folder string) {
			c := map[string]any{}
			for k, v := range tiny {
				c[k] = v
			}
			c[name] = value
			write(t, folder, "config.json", encode(t, c))
		}
	}
	remove := func(name string) func(string) {
		return func(folder string) {
			if err := os.Remove(filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	put := func(name, text string) func(string) {
		return func(folder string) { write(t, folder, name, []byte(text)) }
	}
	truncate := func(to int64) func(string) {
		return func(folder string) {
			path := filepath.Join(folder, "model.safetensors")
			info, err := os.Stat(path)
			if err == nil {
				err = os.Truncate(path, (to+info.Size())%info.Size())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	tensor := func(edit func(views map[string]safetensors.TensorView)) func(string) {
		return func(folder string) {
			views, _ := tensorsOf(t, safetensors.F32)
			edit(views)
			writeTensors(t, folder, views)
		}
	}
	for _, c := range []struct {
		name   string
		damage func(folder string)
		want   string
	}{
		{"no config", remove("config.json"), "config.json: "},
		{"no weights", remove("model.safetensors"), "model.safetensors: "},
		{"no vocabulary", remove("vocab.txt"), "vocab.txt: "},
		{"config is no JSON", put("config.json", "{"), "config.json: unexpected end of JSON"},
		{"config of other types", put("config.json", `{"hidden_size": "30"}`), "config.json: json: cannot unmarshal"},
		{"pooling is no JSON", put("1_Pooling/config.json", "?"), "1_Pooling/config.json: invalid character"},
		{"tokenizer is no JSON", put("tokenizer.json", "[]"), "tokenizer.json: json: cannot unmarshal"},
		{"empty config", put("config.json", "{}"), "a vocab_size of 0"},
		{"other model", change("model_type", "roberta"), "want a bert"},
		{"other activation", change("hidden_act", "relu"), "want a bert with gelu"},
		{"negative size", change("num_hidden_layers", -1), "a size is missing"},
		{"huge size", change("hidden_size", 3<<28), "want [805306368] by config.json"},
		{"heads", change("num_attention_heads", 4), "heads do not divide"},
		{"no heads", change("num_attention_heads", 0), "a size is missing"},
		{"too few tokens", change("vocab_size", 11), "and config.json a vocab_size of 11"},
		{"more tokens", change("vocab_size", 13), "embeddings.word_embeddings.weight is [12 30], want [13 30]"},
		{"more layers", change("num_hidden_layers", 3), "has no tensor encoder.layer.2."},
		{"wider", change("intermediate_size", 38), "intermediate.dense.weight is [37 30], want [38 30]"},
		{"max pooling", put("1_Pooling/config.json", `{"pooling_mode_mean_tokens": false}`), "pooling by the mean or the cls"},
		{"other tokenizer", put("tokenizer.json", `{"model": {"type": "BPE"}}`), `the model is "BPE", want WordPiece`},
		{"no special tokens", put("vocab.txt", "a\nb\n"), "the vocabulary has no [CLS]"},
		{"cut off", truncate(-1), "model.safetensors: metadata incomplete buffer"},
		{"cut off in the header", truncate(100), "model.safetensors: invalid header length"},
		{"almost empty", truncate(5), "model.safetensors: header too small"},
		{"header is no JSON", put("model.safetensors", "\x02\x00\x00\x00\x00\x00\x00\x00{["), "model.safetensors: invalid header"},
		{"missing tensor", tensor(func(v map[string]safetensors.TensorView) {
			delete(v, "encoder.layer.1.output.dense.bias")
		}), "has no tensor encoder.layer.1.output.dense.bias"},
		{"integers", tensor(func(v map[string]safetensors.TensorView) {
			view, err := safetensors.NewTensorView(safetensors.I16, []uint64{30}, make([]byte, 60))
			if err != nil {
				t.Fatal(err)
			}
			v["embeddings.LayerNorm.bias"] = view
		}), "embeddings.LayerNorm.bias is of type I16, want F32, F16 or BF16"},
	} {
		folder, _ := writeModel(t, safetensors.F32)
		c.damage(folder)
		err := run([]string{"-model", folder, "-time", "0"}, nil, &strings.Builder{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

func TestCommand(t *testing.T) {
	folder, _ := writeModel(t, safetensors.F16)
	small := []string{"-layers", "1", "-dim", "32", "-heads", "2", "-ffn", "40", "-vocab", "100", "-time", "0", "-workers", "2"}
	for _, c := range []struct {
		args        []string
		input, want string
	}{
		{small, "", "Rain.\n"},
		{append(small, "-pool", "cls", "one text", "another"), "", "another\n"},
		{append(small, "-"), "line one\nline two\n", "line two\n"},
		{[]string{"-model", folder, "-time", "1ms", "cat"}, "", " 1.00   cat\n"},
	} {
		var out strings.Builder
		if err := run(c.args, strings.NewReader(c.input), &out); err != nil {
			t.Errorf("%q: %v", c.args, err)
			continue
		}
		text := out.String()
		if strings.Count(text, "  OK  ") != 4 || strings.Contains(text, "different") || !strings.Contains(text, c.want) || !strings.Contains(text, "texts/s") {
			t.Errorf("%q printed\n%s", c.args, text)
		}
	}
	for _, args := range [][]string{{"-workers", "0"}, {"-pool", "max"}, {"-heads", "7"}, {"-vocab", "1"}, {"-nonsense"}} {
		if err := run(args, strings.NewReader(""), &strings.Builder{}); err == nil {
			t.Errorf("%q is no error", args)
		}
	}
}
