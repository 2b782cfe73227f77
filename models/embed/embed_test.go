package embed

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nlpodyssey/safetensors"
	"github.com/seed-1415985d/attn"
)

// ragged are texts of 2 to 20 tokens of the tiny model.
var ragged = []string{"cat, cat!", "", "Zürich cat unbelievable", strings.Repeat("cat zurich ", 50),
	"dog", "中cat中!"}

// mustOpen opens a model that the test closes.
func mustOpen(t *testing.T, path string, o Options) *Model {
	t.Helper()
	m, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// openError is the error of opening a folder.
func openError(path string) error {
	m, err := Open(path, Options{Workers: 1})
	if err == nil {
		_ = m.Close()
	}
	return err
}

// mustRandom is a random model of two layers and three heads.
func mustRandom(t *testing.T, s Sizes, o Options) *Model {
	t.Helper()
	s.Layers, s.Heads = 2, 3
	m, err := Random(s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// mustEncode makes vectors.
func mustEncode(t *testing.T, m *Model, texts ...string) [][]float32 {
	t.Helper()
	vectors, err := m.Encode(texts)
	if err != nil {
		t.Fatal(err)
	}
	return vectors
}

// idsOf are the tokens of a text.
func idsOf(t *testing.T, m *Model, text string) []int {
	t.Helper()
	tokens, err := m.Tokens(text)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int, len(tokens))
	for i, id := range tokens {
		ids[i] = int(id)
	}
	return ids
}

// sameBits says whether vectors are equal bit by bit.
func sameBits(a, b [][]float32) bool {
	return slices.EqualFunc(a, b, func(a, b []float32) bool {
		return slices.EqualFunc(a, b, func(x, y float32) bool {
			return math.Float32bits(x) == math.Float32bits(y)
		})
	})
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
	m := mustOpen(t, folder, Options{Workers: 2})
	got := mustEncode(t, m, ragged...)
	worst := 0.0
	for i := range got {
		exact := want(idsOf(t, m, ragged[i]))
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
	m := mustOpen(t, path, Options{})
	row := make([]float32, 30)
	m.tables.words.Row(row, 0)
	if got, want := row[7], float32(values["embeddings.word_embeddings.weight"][7]); got != want {
		t.Errorf("the eighth number of the embeddings is %v, want %v", got, want)
	}
}

// TestSameBits embeds each text alone, in batches in two orders, and with one to three workers,
// across the ends of batches.
func TestSameBits(t *testing.T) {
	var texts []string
	for n := range 20 {
		texts = append(texts, strings.Repeat("a fox, ", n*n%90))
	}
	var want [][]float32
	for workers := 1; workers <= 3; workers++ {
		m := mustRandom(t, Sizes{Hidden: 33, FFN: 70, Vocab: 500},
			Options{Workers: workers, BatchTokens: 100 * workers})
		want = inEveryCompany(t, m, want, texts)
	}
	if sameBits(want[:1], want[1:2]) {
		t.Error("two texts have the same vector")
	}
}

// inEveryCompany compares vectors of texts alone, together and in the other order with those
// wanted, nil for those alone, which it returns.
func inEveryCompany(t *testing.T, m *Model, want [][]float32, texts []string) [][]float32 {
	t.Helper()
	var alone [][]float32
	for _, text := range texts {
		alone = append(alone, mustEncode(t, m, text)...)
	}
	if want == nil {
		want = alone
	}
	backwards := slices.Clone(texts)
	slices.Reverse(backwards)
	reversed := mustEncode(t, m, backwards...)
	slices.Reverse(reversed)
	for what, got := range map[string][][]float32{"alone": alone,
		"together": mustEncode(t, m, texts...), "reversed": reversed} {
		if !sameBits(want, got) {
			t.Errorf("%v, %s: other bits", m, what)
		}
	}
	return want
}

// goldenBits is the CRC of an embedding.
const goldenBits uint32 = 0x8c479107

// goldenBFloat16 is that of the same in bfloat16.
const goldenBFloat16 uint32 = 0xa4851adb

// TestBitsOfEveryCPU fails where an embedding has other bits than on the CPU that the number is
// from.
func TestBitsOfEveryCPU(t *testing.T) {
	m := mustRandom(t, Sizes{Hidden: 48, FFN: 100, Vocab: 100}, Options{Workers: 1})
	if got := bitsOf(mustEncode(t, m, "Rain falls on the roof.")); got != goldenBits {
		t.Errorf("bits %#x, want %#x", got, goldenBits)
	}
	m = mustRandom(t, Sizes{Hidden: 48, FFN: 100, Vocab: 100}, Options{Workers: 1, BFloat16: true})
	if got := bitsOf(mustEncode(t, m, "Rain falls on the roof.")); got != goldenBFloat16 {
		t.Errorf("in bfloat16: bits %#x, want %#x", got, goldenBFloat16)
	}
}

// TestBitsOfEveryCPUByKind is the same for each kind of model.
func TestBitsOfEveryCPUByKind(t *testing.T) {
	golden := map[string]uint32{
		"bert":        0x9658f5d,
		"roberta":     0x21aa88d,
		"xlm-roberta": 0x21aa88d,
		"camembert":   0x21aa88d,
		"distilbert":  0x1a4bc49f,
		"mpnet":       0x28a4a16e,
		"modernbert":  0xed35311c,
		"nomic_bert":  0xb46399e,
		"new":         0x76dc1df6,
		"qwen3":       0xa49ad8e1,
		"t5":          0x4f9c140d,
		"deberta-v2":  0x6f047dab,
		"gemma3_text": 0xbef3a2f6,
		jinaGGUF:      0x33a5e5fb,

		"nomic_bert with experts": 0xc6e6b8bc,
	}
	for _, k := range kindTests() {
		path, _ := writeKind(t, &k, safetensors.F32)
		m := mustOpen(t, path, Options{Workers: 1})
		if got := bitsOf(mustEncode(t, m, "cat un, zurich!", "cat")); got != golden[k.kind] {
			t.Errorf("%q: bits %#x, want %#x", k.kind, got, golden[k.kind])
		}
	}
}

// bitsOf is a CRC of vectors.
func bitsOf(vectors [][]float32) uint32 {
	hash := crc32.NewIEEE()
	for _, row := range vectors {
		for _, x := range row {
			fmt.Fprintf(hash, "%08x", math.Float32bits(x))
		}
	}
	return hash.Sum32()
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
		{"no vocabulary", remove("vocab.txt"), "has no tokenizer.json and no vocab.txt"},
		{"config is no JSON", put("config.json", "{"),
			"config.json: want JSON as published models have it: unexpected end of JSON"},
		{"config of other types", put("config.json", `{"hidden_size": "30"}`),
			"config.json: want JSON as published models have it: json: cannot unmarshal"},
		{"pooling is no JSON", put("1_Pooling/config.json", "?"),
			"1_Pooling/config.json: want JSON as published models have it: invalid character"},
		{"tokenizer is no JSON", put("tokenizer.json", "[]"),
			"tokenizer.json: want JSON as published models have it: json: cannot unmarshal"},
		{"empty config", put("config.json", "{}"), "config.json: hidden_size is not there, want 1 to"},
		{"no layers", change("num_hidden_layers", 0), "num_hidden_layers is 0, want 1 to"},
		{"one token", change("max_position_embeddings", 1),
			"vocab_size is 12, and by max_position_embeddings texts have at most 1 tokens, want at least 2"},
		{"other model", change("model_type", "ernie"), `model_type is "ernie", want one of bert`},
		{"other activation", change("hidden_act", "mish"), `hidden_act is "mish", want gelu`},
		{"negative size", change("num_hidden_layers", -1), "num_hidden_layers is -1, want 1 to"},
		{"huge size", change("hidden_size", 3<<28), "hidden_size is 805306368, want 1 to"},
		{"heads", change("num_attention_heads", 4),
			"hidden_size is 30, want a multiple of num_attention_heads, 4"},
		{"no heads", change("num_attention_heads", 0), "num_attention_heads is 0, want 1 to"},
		{"too few tokens", change("vocab_size", 11),
			`vocab.txt: token "中" has number 11, want 0 to 10 by vocab_size of config.json, 11`},
		{"more tokens", change("vocab_size", 13), "embeddings.word_embeddings.weight has shape [12 " +
			"30], want [13 30]"},
		{"more layers", change("num_hidden_layers", 3),
			"no safetensors file has tensor encoder.layer.2."},
		{"wider", change("intermediate_size", 38), "intermediate.dense.weight has shape [37 30], want " +
			"[38 30]"},
		{"no pooling", put("1_Pooling/config.json", `{"pooling_mode_mean_tokens": false}`),
			"pooling_mode_mean_tokens is false, and there is no pooling, want one or more"},
		{"other tokenizer", put("tokenizer.json", `{"model": {"type": "WordLevel"}}`),
			`the model is of type "WordLevel", want WordPiece`},
		{"no special tokens", put("vocab.txt", "a\nb\n"), "the vocabulary has no [CLS]"},
		{"a pointer to words", put("vocab.txt", "version https://git-lfs.github.com/spec/v1\noid x\n"),
			"vocab.txt: it is a Git LFS pointer"},
		{"a pointer", put("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid x\n"),
			"model.safetensors: want a safetensors file: it is a Git LFS pointer"},
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
			`config.json: architectures is ["BertForQuestionAnswering"], and the files have a head`},
		{"nameless cross-encoder", tensor(func(v map[string]safetensors.TensorView) {
			v["classifier.weight"] = v["embeddings.LayerNorm.bias"]
		}), "config.json: architectures is [], and the files have a head or are for one, want a class"},
		{"no number", tensor(func(v map[string]safetensors.TensorView) {
			data := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.NaN())))
			view, err := safetensors.NewTensorView(safetensors.F32, []uint64{30},
				append(data, make([]byte, 29*4)...))
			if err != nil {
				t.Fatal(err)
			}
			v["embeddings.LayerNorm.bias"] = view
		}), "text 0: number 0 of what it becomes is NaN, want finite weights and sums"},
	} {
		folder, _ := writeModel(t, safetensors.F32)
		c.damage(folder)
		m, err := Open(folder, Options{})
		if err == nil {
			_, err = m.Encode([]string{"cat"})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
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
		if err := openError(folder); err != nil {
			t.Errorf("%s: %v", c.architecture, err)
		}
	}
}

// TestIntegers compares embeddings in integers with float32's, and vectors in a batch with a text's
// alone.
func TestIntegers(t *testing.T) {
	sizes := Sizes{Hidden: 96, FFN: 100, Vocab: 500}
	exact := mustEncode(t, mustRandom(t, sizes, Options{Workers: 2}), ragged...)
	m := mustRandom(t, sizes, Options{Workers: 2, Integers: true})
	ints := inEveryCompany(t, m, nil, ragged)
	if sameBits(exact, ints) {
		t.Error("embeddings in integers have the bits of float32's, want others")
	}
	for i := range exact {
		if cosine := attn.Dot(exact[i], ints[i]); cosine < 0.999 {
			t.Errorf("text %d: the cosine with float32's is %v, want at least 0.999", i, cosine)
		}
	}
}
