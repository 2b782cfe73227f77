package embed

import (
	"errors"
	"fmt"
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

// kindNamed is one of kindTests.
func kindNamed(t *testing.T, name string) kindTest {
	t.Helper()
	for _, k := range kindTests() {
		if k.kind == name {
			return k
		}
	}
	t.Fatalf("there is no kind %q", name)
	return kindTest{}
}

// softmaxOf is a softmax in float64.
func softmaxOf(x []float64) []float64 {
	p, total := make([]float64, len(x)), 0.0
	for i := range x {
		p[i] = math.Exp(x[i] - slices.Max(x))
		total += p[i]
	}
	return scaled(p, 1/total)
}

func sigmoidOf(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// near compares float32 numbers with float64 ones.
func near(t *testing.T, what string, got []float32, want []float64, within float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i, x := range got {
		if d := math.Abs(float64(x) - want[i]); !(d < within) {
			t.Fatalf("%s: number %d is %v, want %v", what, i, x, want[i])
		}
	}
}

// threeLabels are labels of a small model.
var threeLabels = map[string]any{"0": "contradiction", "1": "neutral", "2": "ENTAILMENT"}

// TestClassifyAgainstFloat64 classifies by each problem_type.
func TestClassifyAgainstFloat64(t *testing.T) {
	texts := []string{"zurich", "", "中cat中!", strings.Repeat("cat un, ", 30)}
	each := func(f func(float64) float64) func([]float64) []float64 {
		return func(x []float64) []float64 {
			y := make([]float64, len(x))
			for i := range x {
				y[i] = f(x[i])
			}
			return y
		}
	}
	same := func(x []float64) []float64 { return x }
	for _, c := range []struct {
		problem any
		labels  map[string]any
		want    func([]float64) []float64
	}{
		{nil, threeLabels, softmaxOf}, {"single_label_classification", threeLabels, softmaxOf},
		{"multi_label_classification", threeLabels, each(sigmoidOf)}, {"regression", threeLabels, same},
		{nil, map[string]any{"0": "a"}, each(sigmoidOf)},
		{"regression", map[string]any{"0": "a"}, same},
	} {
		for kind, h := range headTests() {
			k := kindNamed(t, kind)
			k.config = maps.Clone(k.config)
			k.config["problem_type"] = c.problem
			// A cross-encoder's activation of scores does not change classes.
			k.config["sbert_ce_default_activation_function"] = "torch.nn.modules.activation.Sigmoid"
			path, values := writeCross(t, &k, &h, c.labels)
			m := mustOpen(t, path, Options{Workers: 2, BatchTokens: 40})
			got, err := m.Classify(texts)
			if err != nil {
				t.Fatal(err)
			}
			for i, text := range texts {
				ids := idsOf(t, m, text)
				want := c.want(h.score(values, k.rows(values, ids, make([]int, len(ids)))))
				near(t, fmt.Sprint(kind, c.problem, text), got[i], want, 2e-5)
				if alone, err := m.Classify(texts[i : i+1]); err != nil || !sameBits(alone, got[i:i+1]) {
					t.Errorf("%s: other bits alone, %v", kind, err)
				}
			}
		}
	}
}

// TestZeroShotAgainstFloat64 has one label, several labels and a text that is too long.
func TestZeroShotAgainstFloat64(t *testing.T) {
	long := strings.Repeat("cat un, ", 30)
	for _, c := range []struct {
		labels                 map[string]any
		contradicts, entails   int
		text, hypothesis, with string
		several                bool
		of                     []string
	}{
		{threeLabels, 0, 2, "zurich cat", "", "This example is %s.", false, []string{"cat", "un", "中"}},
		{threeLabels, 0, 2, "zurich cat", "", "This example is %s.", true, []string{"cat", "un"}},
		{threeLabels, 0, 2, long, "{} un!", "%s un!", false, []string{"cat", "zurich un, cat"}},
		{threeLabels, 0, 2, "", "cat {}", "cat %s", false, []string{"{}"}},
		{map[string]any{"0": "entail", "1": "neutral", "2": "other"}, 2, 0, "cat", "un {}", "un %s", true,
			[]string{"zurich", "cat"}},
	} {
		k, h := kindNamed(t, "bert"), headTests()["bert"]
		path, values := writeCross(t, &k, &h, c.labels)
		m := mustOpen(t, path, Options{Workers: 2})
		got, err := m.ZeroShot(c.text, c.of, c.hypothesis, c.several)
		if err != nil {
			t.Fatal(err)
		}
		var alone, entailed []float64
		for _, label := range c.of {
			ids, segments := pairOfWords(t, m, c.text, fmt.Sprintf(c.with, label), k.tooLong)
			x := h.score(values, k.rows(values, ids, segments))
			alone = append(alone, softmaxOf([]float64{x[c.contradicts], x[c.entails]})[1])
			entailed = append(entailed, x[c.entails])
		}
		if !c.several && len(c.of) > 1 {
			alone = softmaxOf(entailed)
		}
		near(t, fmt.Sprint(c.of, c.text), got, alone, 2e-5)
	}
}

// pairOfWords returns the tokens of BERT's pair, of which only the first text is cut.
func pairOfWords(t *testing.T, m *Model, first, second string, longest int) (ids, segments []int) {
	t.Helper()
	a, b := idsWithout(t, m, first), idsWithout(t, m, second)
	a = a[:min(len(a), longest-3-len(b))]
	ids = append(append(append([]int{2}, a...), 3), b...)
	return append(ids, 3), append(make([]int, len(a)+2), slices.Repeat([]int{1}, len(b)+1)...)
}

// idsWithout returns the tokens of a text without those around it.
func idsWithout(t *testing.T, m *Model, text string) []int {
	t.Helper()
	spans, err := m.texts.SpansControl(text)
	if err != nil {
		t.Fatal(err)
	}
	var ids []int
	for _, s := range spans {
		ids = append(ids, int(s.Token))
	}
	return ids
}

// TestLabelsMisuse: errors name the argument or the model, with the reason.
func TestLabelsMisuse(t *testing.T) {
	open := func(labels map[string]any) *Model {
		k, h := kindNamed(t, "bert"), headTests()["bert"]
		path, _ := writeCross(t, &k, &h, labels)
		return mustOpen(t, path, Options{Workers: 1})
	}
	zero := func(m *Model, text, hypothesis string, labels ...string) error {
		_, err := m.ZeroShot(text, labels, hypothesis, false)
		return err
	}
	k, h := kindNamed(t, "bert"), headTests()["bert"]
	path, _ := writeCross(t, &k, &h, threeLabels)
	short := zero(mustOpen(t, path, Options{MaxTokens: 3}), "a", "{}", "b")
	three, vectors := open(threeLabels), mustRandom(t, Sizes{Hidden: 6, FFN: 6, Vocab: 9}, Options{})
	tokens := mustRandom(t, Sizes{Hidden: 6, FFN: 6, Vocab: 9, TokenLabels: 2}, Options{})
	_, entities := three.Entities([]string{"a"}, Simple)
	_, none := vectors.Entities([]string{"a"}, Simple)
	_, unknown := tokens.Entities([]string{"a"}, Max+1)
	_, classes := tokens.Classify([]string{"a"})
	_, ofVectors := vectors.Classify([]string{"a"})
	_, ranks := tokens.Rerank("a", []string{"a"})
	_, encoded := tokens.Encode([]string{"a"})
	for _, c := range []struct {
		err  error
		want string
	}{
		{zero(three, "a", "no place", "b"), `the hypothesis is "no place" with 0 times {}, want one`},
		{zero(three, "a", "{} {}", "b"), "2 times {}"},
		{zero(three, "a", ""), "there are no labels"},
		{zero(three, "cat", strings.Repeat("un ", 17)+"{}", "b"),
			`un b": it has 18 tokens, want at most 16, which leave room for a token of the text`},
		{short, `embed: with label 0 the hypothesis is "b": pairs have at most 3 tokens, want at least 5, with 3 `},
		{zero(open(map[string]any{"0": "a", "1": "b"}), "a", "", "b"), "begins with entail"},
		{zero(open(map[string]any{"0": "entailed", "1": "Entail"}), "a", "", "b"), "labels 0 and 1"},
		{zero(open(map[string]any{"0": "entailment"}), "a", "", "b"), "the only label"},
		{entities, "labels no tokens, want a model whose class ends in ForTokenClassification"},
		{none, "has no head that labels tokens"}, {unknown, "the aggregation is 5, want NoAggregation"},
		{classes, "labels tokens, want Entities"}, {ofVectors, "no head that classifies texts"},
		{ranks, "labels tokens, want Entities"}, {encoded, "want Entities"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v, want %s", c.err, c.want)
		}
	}
	for _, err := range []error{zero(three, "a", "x", "b"), zero(three, "a", ""), unknown, short,
		zero(three, "cat", strings.Repeat("un ", 17)+"{}", "b")} {
		if !errors.Is(err, attn.ErrOption) {
			t.Errorf("%v is no ErrOption", err)
		}
	}
	for want, more := range map[string]map[string]any{
		`problem_type is "ranking"`:                 {"problem_type": "ranking"},
		`model_type is "new", want bert`:            {"architectures": []string{"NewForTokenClassification"}},
		`model_type is "deberta", want one of bert`: {"model_type": "deberta"},
	} {
		k, h := kindNamed(t, "bert"), headTests()["bert"]
		if strings.Contains(want, `"new"`) {
			k, h = kindNamed(t, "new"), headTests()["new"]
		}
		path, _ := writeCross(t, &k, &h, threeLabels)
		config := maps.Clone(k.config)
		config["model_type"] = k.kind
		maps.Copy(config, more)
		write(t, path, "config.json", encode(t, config))
		if err := openError(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", more, err, want)
		}
	}
}

// writeLabels writes the folder of a kind that labels tokens.
func writeLabels(t *testing.T, k *kindTest, labels map[string]any) (string, numbers) {
	t.Helper()
	k.shapes, k.config = maps.Clone(k.shapes), maps.Clone(k.config)
	linears(k.shapes, wide, len(labels), "classifier")
	if k.kind == "modernbert" {
		k.shapes["head.dense.weight"], k.shapes["head.norm.weight"] = []int{wide, wide}, []int{wide}
	}
	k.config["architectures"], k.config["id2label"] = []string{"XForTokenClassification"}, labels
	path, values := writeKind(t, k, safetensors.F32)
	for _, name := range []string{"modules.json", "1_Pooling/config.json"} {
		if err := os.Remove(filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
	return path, values
}

// labelRow returns the probabilities of a token in float64.
func labelRow(kind string, w numbers, x []float64) []float64 {
	if kind == "modernbert" {
		x = w.linear("head.dense", x)
		for i := range x {
			x[i] = siluOf(x[i])
		}
		x = w.layerNorm("head.norm", x, 1e-5)
	}
	return softmaxOf(w.linear("classifier", x))
}

// labelKinds are the kinds that label tokens.
var labelKinds = []string{"bert", "distilbert", "roberta", "xlm-roberta", "camembert", "mpnet",
	"modernbert", "deberta-v2"}

// tokenRows returns the probabilities of a text's tokens in float64, in windows if it is long.
func tokenRows(t *testing.T, m *Model, k *kindTest, w numbers, text string) (all [][]float64) {
	t.Helper()
	ids := idsWithout(t, m, text)
	room := m.MaxTokens() - 2
	step, far := room-room/2, make([]int, len(ids))
	all = make([][]float64, len(ids))
	var starts []int
	for at := 0; at < len(ids)-room; at += step {
		starts = append(starts, at)
	}
	for _, at := range append(starts, max(0, len(ids)-room)) {
		end := min(len(ids), at+room)
		within := append(append([]int{2}, ids[at:end]...), 3)
		rows := k.rows(w, within, make([]int, len(within)))
		for i := at; i < end; i++ {
			left, right := i-at+1, end-i
			if at == 0 {
				left = 1000
			}
			if end == len(ids) {
				right = 1000
			}
			if d := min(left, right); d > far[i] {
				far[i], all[i] = d, labelRow(k.kind, w, rows[1+i-at])
			}
		}
	}
	return all
}

// TestEntitiesAgainstFloat64 labels tokens of short and long texts by each kind, in a batch and
// alone.
func TestEntitiesAgainstFloat64(t *testing.T) {
	texts := append(slices.Clone(ragged), strings.Repeat("zurich un, cat 中! ", 9), "Zürich  un\xffcat")
	labels := map[string]any{"0": "B-a", "1": "I-a", "2": "b"}
	for _, kind := range labelKinds {
		k := kindNamed(t, kind)
		path, values := writeLabels(t, &k, labels)
		m := mustOpen(t, path, Options{Workers: 2, BatchTokens: 30})
		got, err := m.Entities(texts, NoAggregation)
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range texts {
			want, spans := tokenRows(t, m, &k, values, text), idsWithout(t, m, text)
			if len(got[i]) != len(spans) {
				t.Fatalf("%s: %d entities of %d tokens", kind, len(got[i]), len(spans))
			}
			for j, e := range got[i] {
				p := slices.Max(want[j])
				near(t, fmt.Sprint(kind, text, j), []float32{e.Score}, []float64{p}, 2e-5)
				if at := slices.Index(want[j], p); e.Label != labels[fmt.Sprint(at)] {
					t.Errorf("%s, token %d of %q: %q, want label %d", kind, j, text, e.Label, at)
				}
			}
			alone, err := m.Entities(texts[i:i+1], NoAggregation)
			if err != nil || !slices.Equal(alone[0], got[i]) {
				t.Errorf("%s: other entities alone, %v", kind, err)
			}
		}
	}
}

// TestWindows checks the beginnings of windows, and the window of a token halfway between two.
func TestWindows(t *testing.T) {
	for _, c := range []struct {
		n, room int
		want    string
	}{{0, 4, "[]"}, {4, 4, "[[0 4]]"}, {5, 4, "[[0 4] [1 5]]"},
		{9, 4, "[[0 4] [2 6] [4 8] [5 9]]"}, {3, 1, "[[0 1] [1 2] [2 3]]"},
		{8, 5, "[[0 5] [3 8]]"}} {
		if got := fmt.Sprint(windowsOf(c.n, c.room)); got != c.want {
			t.Errorf("%d tokens, %d at a time: %s, want %s", c.n, c.room, got, c.want)
		}
	}
	if edge(0, 0, 4, 9) != 3 || edge(8, 5, 9, 9) != 3 || edge(3, 2, 6, 9) != 1 ||
		edge(0, 0, 4, 4) != math.MaxInt {
		t.Error("distances from edges are wrong")
	}
	// A text of many windows counts as one text of Progress.
	var calls []int
	m := mustRandom(t, Sizes{Hidden: 6, FFN: 6, Vocab: 9, TokenLabels: 2}, Options{MaxTokens: 6,
		BatchTokens: 12, Progress: func(done, _ int) { calls = append(calls, done) }})
	if _, err := m.Entities([]string{strings.Repeat("a ", 20), "b"}, Simple); err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(calls) || calls[0] != 0 || calls[len(calls)-1] != 2 {
		t.Errorf("progress is %v, want from 0 to 2", calls)
	}
	none := mustRandom(t, Sizes{Hidden: 6, FFN: 6, Vocab: 9, TokenLabels: 2}, Options{MaxTokens: 2})
	if _, err := none.Entities([]string{"", "b"}, Simple); err == nil ||
		!strings.Contains(err.Error(), "text 1: texts have at most 2 tokens, which are all around them") {
		t.Errorf("no room for a text: %v", err)
	}
}
