package embed

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nlpodyssey/safetensors"
)

// headTest is the head of a kind of cross-encoder: its tensors, and what it makes of rows.
type headTest struct {
	shapes func(labels int) map[string][]int
	score  func(w numbers, rows [][]float64) []float64
}

// headTests are the kinds of models that have a head.
func headTests() map[string]headTest {
	twoOf := func(wide int, dense, out string, f func(float64) float64) headTest {
		return headTest{func(labels int) map[string][]int {
			shapes := map[string][]int{}
			linears(shapes, wide, wide, dense)
			linears(shapes, wide, labels, out)
			return shapes
		}, func(w numbers, rows [][]float64) []float64 {
			x := w.linear(dense, rows[0])
			for i := range x {
				x[i] = f(x[i])
			}
			return w.linear(out, x)
		}}
	}
	two := func(dense, out string, f func(float64) float64) headTest {
		return twoOf(wide, dense, out, f)
	}
	roberta := two("classifier.dense", "classifier.out_proj", math.Tanh)
	relu := func(x float64) float64 { return max(x, 0) }
	return map[string]headTest{
		"bert": two("pooler.dense", "classifier", math.Tanh), "roberta": roberta,
		"xlm-roberta": roberta, "mpnet": roberta,
		"new":        twoOf(48, "new.pooler.dense", "classifier", math.Tanh),
		"distilbert": two("pre_classifier", "classifier", relu),
		"deberta-v2": two("pooler.dense", "classifier", geluOf),
		"modernbert": {func(labels int) map[string][]int {
			shapes := map[string][]int{"head.dense.weight": {wide, wide}, "head.norm.weight": {wide}}
			linears(shapes, wide, labels, "classifier")
			return shapes
		}, func(w numbers, rows [][]float64) []float64 {
			x := w.linear("head.dense", meanOf(rows))
			for i := range x {
				x[i] = siluOf(x[i])
			}
			return w.linear("classifier", w.layerNorm("head.norm", x, 1e-5))
		}},
	}
}

// writeCross writes the folder of a cross-encoder with some labels.
func writeCross(t *testing.T, k *kindTest, h *headTest, labels map[string]any) (string, numbers) {
	t.Helper()
	k.shapes = maps.Clone(k.shapes)
	maps.Copy(k.shapes, h.shapes(len(labels)))
	k.config = maps.Clone(k.config)
	k.config["architectures"] = []string{"XForSequenceClassification"}
	k.config["id2label"] = labels
	if k.kind == "modernbert" {
		k.config["classifier_pooling"] = "mean"
	}
	path, values := writeKind(t, k, safetensors.F32)
	if strings.HasSuffix(k.kind, "roberta") { // which has one segment
		write(t, path, "tokenizer.json", []byte(`{"model": {"type": "WordPiece", "vocab": {"[UNK]": 1,
			"[CLS]": 2, "[SEP]": 3, "cat": 4, "un": 5, ",": 8, "zurich": 10, "中": 11}},
			"pre_tokenizer": {"type": "BertPreTokenizer"}, "normalizer": {"type": "BertNormalizer"},
			"post_processor": {"type": "RobertaProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}}`))
	}
	for _, name := range []string{"modules.json", "1_Pooling/config.json"} {
		if err := os.Remove(filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
	return path, values
}

// TestCrossEncodersAgainstFloat64 scores pairs with one label and with three.
func TestCrossEncodersAgainstFloat64(t *testing.T) {
	query, texts := "cat, un", []string{"zurich", "", "中cat中!", strings.Repeat("cat un, ", 30)}
	seen := 0
	for _, k := range kindTests() {
		h, ok := headTests()[k.kind]
		if !ok {
			continue
		}
		seen++
		for _, labels := range []map[string]any{{"0": "yes"}, {"0": "a", "1": "b", "2": "c"}} {
			k := k
			path, values := writeCross(t, &k, &h, labels)
			m := mustOpen(t, path, Options{Workers: 2, BatchTokens: 40})
			got, err := m.Scores(query, texts)
			if err != nil {
				t.Fatalf("%s: %v", k.kind, err)
			}
			one, err := m.Rerank(query, texts)
			if (err == nil) != (len(labels) == 1) {
				t.Errorf("%s: Rerank with %d labels: %v", k.kind, len(labels), err)
			}
			for i, text := range texts {
				read, err := m.texts.Pair(query, text)
				if err != nil {
					t.Fatal(err)
				}
				ids, segments := widen(read.Tokens), widen(read.Segments)
				if !strings.HasPrefix(k.kind, "bert") {
					segments = make([]int, len(ids))
				}
				want := h.score(values, k.rows(values, ids, segments))
				for j := range want {
					if len(labels) == 1 {
						want[j] = 1 / (1 + math.Exp(-want[j]))
						if one[i] != got[i][0] {
							t.Errorf("%s: Rerank gives %v, Scores %v", k.kind, one[i], got[i][0])
						}
					}
					if d := math.Abs(float64(got[i][j]) - want[j]); !(d < 2e-5) {
						t.Errorf("%s, %d labels, %q: score %d is %v, want %v", k.kind, len(labels), text, j,
							got[i][j], want[j])
					}
				}
			}
		}
	}
	if seen != len(headTests()) {
		t.Errorf("%d kinds, want %d", seen, len(headTests()))
	}
}

func widen(x []int32) []int {
	wide := make([]int, len(x))
	for i, id := range x {
		wide[i] = int(id)
	}
	return wide
}

// TestCrossEncoderFiles reads what files say of labels and activations, and refuses what is not
// meant.
func TestCrossEncoderFiles(t *testing.T) {
	var bert kindTest
	for _, k := range kindTests() {
		if k.kind == "bert" {
			bert = k
		}
	}
	h := headTests()["bert"]
	open := func(labels map[string]any, more map[string]any) (*Model, error) {
		k := bert
		k.config = maps.Clone(k.config)
		maps.Copy(k.config, more)
		path, _ := writeCross(t, &k, &h, labels)
		m, err := Open(path, Options{Workers: 1})
		if err == nil {
			t.Cleanup(func() { _ = m.Close() })
		}
		return m, err
	}
	one := map[string]any{"0": "LABEL_0"}
	m, err := open(one, map[string]any{"sentence_transformers": map[string]any{
		"activation_fn": "torch.nn.modules.linear.Identity", "version": "4.1.0"}})
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(m.Labels()) != "[LABEL_0]" {
		t.Errorf("labels %q", m.Labels())
	}
	plain, err := m.Rerank("cat", []string{"un"})
	if err != nil {
		t.Fatal(err)
	}
	m, err = open(one, map[string]any{
		"sbert_ce_default_activation_function": "torch.nn.modules.activation.Sigmoid"})
	if err != nil {
		t.Fatal(err)
	}
	through, err := m.Rerank("cat", []string{"un"})
	if err != nil {
		t.Fatal(err)
	}
	if want := 1 / (1 + math.Exp(-float64(plain[0]))); math.Abs(float64(through[0])-want) > 1e-6 {
		t.Errorf("the score is %v, want %v, which the sigmoid makes of %v", through[0], want, plain[0])
	}
	if _, err := m.Encode([]string{"cat"}); err == nil ||
		!strings.Contains(err.Error(), "has no embeddings, want Classify") {
		t.Errorf("vectors of a cross-encoder: %v", err)
	}
	for want, more := range map[string]map[string]any{
		`activation_fn is "torch.Softmax", want Sigmoid or Identity`: {
			"sbert_ce_default_activation_function": "torch.Softmax"},
		`["BertForQuestionAnswering"], and`: {"architectures": []string{"BertForQuestionAnswering"}},
		`["BertForMaskedLM"], and`:          {"architectures": []string{"BertForMaskedLM"}},
		`["BertModel"], and the files`:      {"architectures": []string{"BertModel"}},
		"architectures is [], and":          {"architectures": []string{}},
		`["x"], and the files have a head`:  {"architectures": []string{"x"}},
	} {
		k := bert
		k.config = maps.Clone(k.config)
		path, _ := writeCross(t, &k, &h, one)
		maps.Copy(k.config, more)
		k.config["model_type"] = "bert"
		write(t, path, "config.json", encode(t, k.config))
		if err := openError(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", more, err, want)
		}
	}
	if _, err := open(map[string]any{"1": "x"}, nil); err == nil ||
		!strings.Contains(err.Error(), "none of number 0") {
		t.Errorf("a label without a number: %v", err)
	}
	if _, err := mustRandom(t, Sizes{Hidden: 6, FFN: 6, Vocab: 9}, Options{}).Rerank("a",
		nil); err == nil || !strings.Contains(err.Error(), "no head that scores") {
		t.Errorf("scores of a model of vectors: %v", err)
	}
}

// TestOptionsOfCrossEncoders refuses options that say something of vectors: there are none.
func TestOptionsOfCrossEncoders(t *testing.T) {
	for _, k := range kindTests() {
		if k.kind != "bert" {
			continue
		}
		h := headTests()["bert"]
		path, _ := writeCross(t, &k, &h, map[string]any{"0": "yes"})
		write(t, path, "config_sentence_transformers.json", []byte(`{"prompts": {"query": "un "}}`))
		for want, o := range map[string]Options{
			`Options.Pooling is ["mean"], want nil: config.json`: {Pooling: []string{"mean"}},
			"Options.Dimensions is 7, want 0: config.json":       {Dimensions: 7},
			"Options.Normalize is true, want false: config.json": {Normalize: true},
			`Options.Prompt is "query", want "": config.json`:    {Prompt: "query"},
			`Options.Instruction is "Find.", want "" for a`:      {Instruction: "Find."},
		} {
			if _, err := Open(path, o); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %s", o, err, want)
			}
		}
	}
}
