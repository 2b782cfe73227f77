package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nlpodyssey/safetensors"
	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/embed/folder"
)

// ragged are texts of 2 to 20 tokens of the tiny model.
var ragged = []string{"cat, cat!", "", "Zürich cat unbelievable", strings.Repeat("cat zurich ", 50),
	"dog", "中cat中!"}

func mustLoad(t *testing.T, path string) (*model, *folder.WordPiece) {
	t.Helper()
	m, tokens, err := load(path, config{}, false)
	if err != nil {
		t.Fatal(err)
	}
	return m, tokens
}

// tokensOfAll encodes texts.
func tokensOfAll(t *testing.T, m *model, tokens *folder.WordPiece, texts ...string) [][]int {
	t.Helper()
	ids, err := m.tokens(tokens, texts, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// randomModel has two layers and three heads.
func randomModel(t *testing.T, sizes config) (*model, *folder.WordPiece) {
	t.Helper()
	c := standard
	c.Layers, c.Hidden, c.Heads, c.FFN, c.Vocab = 2, sizes.Hidden, 3, sizes.FFN, sizes.Vocab
	l := &folder.Loader{Random: random(rand.New(rand.NewPCG(5, 6)))}
	m := newModel(l, c, usual())
	if l.Err != nil {
		t.Fatal(l.Err)
	}
	return m, folder.HashedWords(c.Vocab, c.Positions)
}

func TestAgainstFloat64(t *testing.T) {
	for kind := range encodings {
		folder, values := writeModel(t, kind)
		checkEmbeddings(t, folder, kind.String(), func(ids []int) []float64 {
			return values.reference(ids, "mean")
		})
	}
}

// checkEmbeddings compares the embeddings of some texts with numbers of float64.
func checkEmbeddings(t *testing.T, folder, what string, want func(ids []int) []float64) {
	t.Helper()
	m, tokens := mustLoad(t, folder)
	e := newEncoder(m, 2)
	defer e.pool.Close()
	ids := tokensOfAll(t, m, tokens, ragged...)
	got, err := e.embed(ids)
	if err != nil {
		t.Fatal(err)
	}
	worst := 0.0
	for i := range ids {
		exact := want(ids[i])
		if len(got[i]) != len(exact) {
			t.Fatalf("%s: an embedding has %d numbers, want %d", what, len(got[i]), len(exact))
		}
		for j, x := range exact {
			worst = max(worst, math.Abs(float64(got[i][j])-x))
		}
	}
	t.Logf("%s: largest difference %.1e", what, worst)
	if !(worst < 2e-6) {
		t.Errorf("%s: largest difference %.1e, want less than 2e-6", what, worst)
	}
}

// TestPartOfAModel reads an encoder that has a name of its own in its file, as in models with
// something on top of it.
func TestPartOfAModel(t *testing.T) {
	path, _ := writeModel(t, safetensors.F32)
	views, values := tensorsOf(t, safetensors.F32)
	for name, view := range maps.Clone(views) {
		delete(views, name)
		views["bert."+name] = view
	}
	writeTensors(t, path, views)
	m, _ := mustLoad(t, path)
	if got, want := m.words[7], float32(values["embeddings.word_embeddings.weight"][7]); got != want {
		t.Errorf("the eighth number of the embeddings is %v, want %v", got, want)
	}
}

// TestSameBits embeds each text alone, in batches in two orders, and with one to three workers,
// across the ends of batches.
func TestSameBits(t *testing.T) {
	m, tokens := randomModel(t, config{Hidden: 33, FFN: 70, Vocab: 500})
	var texts [][]int
	for n := range 20 {
		texts = append(texts, tokensOfAll(t, m, tokens, strings.Repeat("a fox, ", n*n%90))...)
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
		for what, got := range map[string][][]float32{"alone": alone, "together": together,
			"reversed": reversed} {
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
const goldenBits uint32 = 0xa0dc4d52

// TestBitsOfEveryCPU fails where an embedding has other bits than on the CPU that the number is
// from.
func TestBitsOfEveryCPU(t *testing.T) {
	m, tokens := randomModel(t, config{Hidden: 48, FFN: 100, Vocab: 100})
	e := newEncoder(m, 1)
	defer e.pool.Close()
	embeddings, err := e.embed(tokensOfAll(t, m, tokens, builtIn))
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
		{"no weights", remove("model.safetensors"), "want model.safetensors or"},
		{"no vocabulary", remove("vocab.txt"), "vocab.txt: "},
		{"config is no JSON", put("config.json", "{"),
			"config.json: want JSON as published models have it: unexpected end of JSON"},
		{"config of other types", put("config.json", `{"hidden_size": "30"}`),
			"config.json: want JSON as published models have it: json: cannot unmarshal"},
		{"pooling is no JSON", put("1_Pooling/config.json", "?"),
			"1_Pooling/config.json: want JSON as published models have it: invalid character"},
		{"tokenizer is no JSON", put("tokenizer.json", "[]"),
			"tokenizer.json: want JSON as published models have it: json: cannot unmarshal"},
		{"empty config", put("config.json", "{}"), "config.json: hidden_size is 0, want 1 to"},
		{"one token", change("max_position_embeddings", 1),
			"texts have at most 1 tokens of 12, want at least 2"},
		{"other model", change("model_type", "roberta"), "want a bert"},
		{"other activation", change("hidden_act", "relu"), "want a bert with gelu"},
		{"negative size", change("num_hidden_layers", -1), "num_hidden_layers is -1, want 1 to"},
		{"huge size", change("hidden_size", 3<<28), "hidden_size is 805306368, want 1 to"},
		{"heads", change("num_attention_heads", 4),
			"hidden_size is 30, want a multiple of num_attention_heads, 4"},
		{"no heads", change("num_attention_heads", 0), "num_attention_heads is 0, want 1 to"},
		{"too few tokens", change("vocab_size", 11),
			"embeddings.word_embeddings.weight has shape [12 30], want [11 30] by config.json"},
		{"more tokens", change("vocab_size", 13), "embeddings.word_embeddings.weight has shape [12 " +
			"30], want [13 30]"},
		{"more layers", change("num_hidden_layers", 3),
			"no safetensors file has tensor encoder.layer.2."},
		{"wider", change("intermediate_size", 38), "intermediate.dense.weight has shape [37 30], want " +
			"[38 30]"},
		{"no pooling", put("1_Pooling/config.json", `{"pooling_mode_mean_tokens": false}`),
			"1_Pooling/config.json: there is no pooling, want one or more"},
		{"other tokenizer", put("tokenizer.json", `{"model": {"type": "BPE"}}`),
			`the model is of type "BPE", want WordPiece`},
		{"no special tokens", put("vocab.txt", "a\nb\n"), "the vocabulary has no [CLS]"},
		{"cut off", truncate(-1), "53336, want them within the file, which has 53335"},
		{"cut off in the header", truncate(100), "model.safetensors: its header is to have"},
		{"almost empty", truncate(5), "model.safetensors: 5 bytes, want a safetensors file"},
		{"header is no JSON", put("model.safetensors", "\x02\x00\x00\x00\x00\x00\x00\x00{["),
			"model.safetensors: want a header of safetensors"},
		{"missing tensor", tensor(func(v map[string]safetensors.TensorView) {
			delete(v, "encoder.layer.1.output.dense.bias")
		}), "no safetensors file has tensor encoder.layer.1.output.dense.bias"},
		{"integers", tensor(func(v map[string]safetensors.TensorView) {
			view, err := safetensors.NewTensorView(safetensors.I16, []uint64{30}, make([]byte, 60))
			if err != nil {
				t.Fatal(err)
			}
			v["embeddings.LayerNorm.bias"] = view
		}), "embeddings.LayerNorm.bias has dtype I16, want F32, F16 or BF16"},
		{"cross-encoder", change("architectures", []string{"BertForSequenceClassification"}),
			`config.json: architectures is ["BertForSequenceClassification"], which scores texts or pairs`},
		{"other head", change("architectures", []string{"BertForQuestionAnswering"}),
			`config.json: architectures is ["BertForQuestionAnswering"], which scores`},
		{"nameless cross-encoder", tensor(func(v map[string]safetensors.TensorView) {
			v["classifier.weight"] = v["embeddings.LayerNorm.bias"]
		}), "tensor classifier.weight is of a model that scores texts or pairs"},
		{"no number", tensor(func(v map[string]safetensors.TensorView) {
			data := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.NaN())))
			view, err := safetensors.NewTensorView(safetensors.F32, []uint64{30},
				append(data, make([]byte, 29*4)...))
			if err != nil {
				t.Fatal(err)
			}
			v["embeddings.LayerNorm.bias"] = view
		}), "text 1: number 1 of its embedding is NaN, want finite weights and sums"},
	} {
		folder, _ := writeModel(t, safetensors.F32)
		c.damage(folder)
		err := run([]string{"-model", folder, "-time", "0"}, nil, &strings.Builder{}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

func TestCommand(t *testing.T) {
	folder, _ := writeModel(t, safetensors.F16)
	small := []string{"-layers", "1", "-dim", "32", "-heads", "2", "-ffn", "40", "-vocab", "100",
		"-time", "0", "-workers", "2"}
	for _, c := range []struct {
		args        []string
		input, want string
	}{
		{small, "", "Rain.\n"},
		{append(small, "-pool", "cls", "one text", "another"), "", "another\n"},
		{append(small, "-"), "line one\nline two\n", "line two\n"},
		{[]string{"-model", folder, "-time", "1ms", "cat"}, "", " 1.00   cat\n"},
		{append(small, "-integers"), "", "\ncosine with the embeddings in float32: mean 1.000"},
	} {
		var out, errs strings.Builder
		if err := run(c.args, strings.NewReader(c.input), &out, &errs); err != nil {
			t.Errorf("%q: %v", c.args, err)
			continue
		}
		text := out.String()
		if strings.Count(text, "  OK  ") != 4 || strings.Contains(text, "different") ||
			!strings.Contains(text, c.want) || !strings.Contains(text, "texts/s") || errs.Len() > 0 {
			t.Errorf("%q printed\n%s%s", c.args, text, &errs)
		}
	}
	for _, args := range [][]string{{"-workers", "0"}, {"-pool", "most"},
		{"-vectors", "no/such/folder/x.npy"}, {"-workers", "x"}, {"-heads", "7"},
		{"-vocab", "1"}, {"-nonsense"}} {
		if err := run(args, strings.NewReader(""), &strings.Builder{}, io.Discard); err == nil {
			t.Errorf("%q is no error", args)
		}
	}
}

// TestNotices says on the standard error which texts are longer than the model takes.
func TestNotices(t *testing.T) {
	folder, _ := writeModel(t, safetensors.F32)
	long := strings.Repeat("cat ", 30)
	var out, errs strings.Builder
	code := command([]string{"-model", folder, "-time", "0", "cat", long, strings.Repeat("cat ", 18)},
		nil, &out, &errs)
	if want := "embed: text 2 has 32 tokens, and the model takes 20: the last 12 of its own are " +
		"left out\n"; code != 0 || errs.String() != want {
		t.Errorf("exit code %d, %q, want %q", code, errs.String(), want)
	}
	errs.Reset()
	args := append([]string{"-model", folder, "-time", "0"}, slices.Repeat([]string{long}, 9)...)
	if code := command(args, nil, &out, &errs); code != 0 || strings.Count(errs.String(), "\n") != 6 ||
		!strings.HasSuffix(errs.String(), "embed: 4 more texts are cut, too\n") {
		t.Errorf("exit code %d, %q, want 5 texts and then their number", code, errs.String())
	}
}

// TestNamedEncoder has models that are published with another head, or in a folder that says what
// its embeddings are.
func TestNamedEncoder(t *testing.T) {
	for _, c := range []struct{ architecture, modules string }{{"BertModel", ""},
		{"BertForMaskedLM", ""}, {"BertForPreTraining", ""},
		{"BertForSequenceClassification", `[{"idx": 0, "name": "0", "path": "",
			"type": "sentence_transformers.models.Transformer"}, {"idx": 1, "name": "1",
			"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]`}} {
		folder, _ := writeModel(t, safetensors.F32)
		names := maps.Clone(tiny)
		names["architectures"] = []string{c.architecture}
		write(t, folder, "config.json", encode(t, names))
		if c.modules != "" {
			write(t, folder, "modules.json", []byte(c.modules))
			write(t, folder, "1_Pooling/config.json", []byte(`{"pooling_mode_mean_tokens": true}`))
		}
		if _, _, err := load(folder, config{}, false); err != nil {
			t.Errorf("%s: %v", c.architecture, err)
		}
	}
}

// TestIntegers compares embeddings in integers with float32's, and those of a batch with a text's
// own.
func TestIntegers(t *testing.T) {
	c := standard
	c.Layers, c.Hidden, c.Heads, c.FFN, c.Vocab = 2, 96, 3, 100, 500
	embed := func(integers bool) (together, alone [][]float32) {
		m, tokens, err := load("", c, integers)
		if err != nil {
			t.Fatal(err)
		}
		e := newEncoder(m, 2)
		defer e.pool.Close()
		ids := tokensOfAll(t, m, tokens, ragged...)
		together, _ = e.embed(ids)
		for i := range ids {
			one, _ := e.embed(ids[i : i+1])
			alone = append(alone, one...)
		}
		if e.err != nil {
			t.Fatal(e.err)
		}
		return together, alone
	}
	exact, _ := embed(false)
	ints, alone := embed(true)
	if got := verdict(ints, alone); got != "OK" {
		t.Errorf("in a batch and alone embeddings are %s, want the same bits", got)
	}
	if got := verdict(exact, ints); got == "OK" {
		t.Error("embeddings in integers have the bits of float32's, want others")
	}
	for i := range exact {
		if cosine := attn.Dot(exact[i], ints[i]); cosine < 0.999 {
			t.Errorf("text %d: the cosine with float32's is %v, want at least 0.999", i, cosine)
		}
	}
}

// TestTerminal keeps what a terminal would obey from it, in texts and in what files say.
func TestTerminal(t *testing.T) {
	small := []string{"-layers", "1", "-dim", "32", "-heads", "2", "-ffn", "40", "-vocab", "100",
		"-time", "0"}
	var out, errs strings.Builder
	if code := command(append(small, "a\x1b[2J"), nil, &out, &errs); code != 0 ||
		strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), "a␛[2J") ||
		!strings.Contains(out.String(), "The model is random") {
		t.Errorf("exit code %d, want 0\n%q\n%q", code, out.String(), errs.String())
	}
	folder, _ := writeModel(t, safetensors.F32)
	write(t, folder, "config.json", []byte(`{"model_type": "\u001b[2J"}`))
	out.Reset()
	if code := command([]string{"-modal", folder}, nil, &out, &errs); code != 1 || out.Len() > 0 ||
		strings.Count(errs.String(), "\n") != 1 {
		t.Errorf("a wrong flag: exit code %d, printed %q and %q", code, &out, &errs)
	}
	errs.Reset()
	if code := command([]string{"-model", folder}, nil, &out, &errs); code != 1 ||
		!strings.HasPrefix(errs.String(), "embed: ") || strings.Contains(errs.String(), "\x1b") {
		t.Errorf("exit code %d, want 1\n%q", code, errs.String())
	}
}
