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
	"github.com/seed-1415985d/attn/models/internal/weights/foldertest"
	"github.com/seed-1415985d/attn/nn"
)

// lateModules is what PyLate writes.
const lateModules = `[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
	{"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"}]`

// lateKeys are keys of config_sentence_transformers.json; vocab.txt has their tokens.
func lateKeys() map[string]any {
	return map[string]any{"model_type": "ColBERT", "similarity_fn_name": "MaxSim",
		"query_prefix": "cat", "document_prefix": "un", "query_length": 8, "document_length": 10,
		"skiplist_words": []string{",", "!"}, "attend_to_expansion_tokens": false,
		"do_query_expansion": true, "truncate_dim": nil, "__version__": map[string]string{"pylate": "1"}}
}

// writeLate writes a folder of PyLate with changed keys.
func writeLate(t *testing.T, changes map[string]any) (string, numbers) {
	t.Helper()
	path, values := writeModel(t, safetensors.F32)
	views, dense := foldertest.Tensors(t, safetensors.F32, map[string][]int{"linear.weight": {7, 30}})
	maps.Copy(values, dense)
	writeTensors(t, filepath.Join(path, "1_Dense"), views)
	keys := lateKeys()
	maps.Copy(keys, changes)
	for key, value := range keys {
		if value == "none" {
			delete(keys, key)
		}
	}
	write(t, path, promptsJSON, encode(t, keys))
	write(t, path, "modules.json", []byte(lateModules))
	write(t, path, "tokenizer_config.json", []byte(`{"mask_token": "中"}`))
	write(t, path, "1_Dense/config.json", []byte(`{"in_features": 30, "out_features": 7, "bias": false,
		"activation_function": "torch.nn.modules.linear.Identity", "use_residual": false,
		"module_input_name": "token_embeddings", "module_output_name": "token_embeddings"}`))
	return path, values
}

// lateRows computes the vectors of tokens of which the first are seen, in float64.
func lateRows(w numbers, ids []int, seen int) (out [][]float64) {
	for _, row := range w.rowsThatSee(ids, seen) {
		y := w.linear("linear", row)
		out = append(out, scaled(y, 1/math.Sqrt(dot(y, y))))
	}
	return out
}

// TestLate compares vectors of tokens with float64: of queries that are filled up and of
// documents, alone and in batches.
func TestLate(t *testing.T) {
	for _, c := range []struct {
		changes map[string]any
		queries [][]int // of "zurich", of "" and of more than there is room for
		seen    []int
	}{
		{nil, [][]int{{2, 4, 10, 3, 11, 11, 11, 11}, {2, 4, 3, 11, 11, 11, 11, 11},
			{2, 4, 10, 8, 10, 8, 10, 3}}, []int{4, 3, 8}},
		{map[string]any{"attend_to_expansion_tokens": true},
			[][]int{{2, 4, 10, 3, 11, 11, 11, 11}, {2, 4, 3, 11, 11, 11, 11, 11},
				{2, 4, 10, 8, 10, 8, 10, 3}}, []int{8, 8, 8}},
		{map[string]any{"do_query_expansion": false, "query_length": 6, "query_prefix": ""},
			[][]int{{2, 10, 3}, {2, 3}, {2, 10, 8, 10, 8, 3}}, []int{3, 2, 6}},
	} {
		path, values := writeLate(t, c.changes)
		queries := []string{"zurich", "", strings.Repeat("zurich, ", 9)}
		documents := []string{"cat, zurich!", "", strings.Repeat("cat! ", 30)}
		ids := [][]int{{2, 5, 4, 8, 10, 9, 3}, {2, 5, 3}, {2, 5, 4, 9, 4, 9, 4, 9, 4, 3}}
		for _, o := range []Options{{Workers: 1, BatchTokens: 1}, {Workers: 2}} {
			m := mustOpen(t, path, o)
			if m.Dimensions() != 7 || m.MaxTokens() != 10 || m.Comparison() != "MaxSim" {
				t.Errorf("%d dimensions, %d tokens, %s", m.Dimensions(), m.MaxTokens(), m.Comparison())
			}
			rows, lens, err := m.EncodeQueries(queries)
			if err != nil {
				t.Fatal(err)
			}
			q := rows
			for i, want := range c.queries {
				checkLate(t, fmt.Sprint(c.changes, " query ", i), rows.Slice(0, lens[i]),
					lateRows(values, want, c.seen[i]))
				rows = rows.Slice(lens[i], rows.L)
			}
			if rows, lens, err = m.EncodeDocuments(documents); err != nil {
				t.Fatal(err)
			}
			scores, err := m.Rerank(queries[0], documents)
			sims := make([]float32, 3)
			n := len(c.queries[0])
			if err2 := nn.MaxSim(nil, sims, q.Slice(0, n), rows, lens); err != nil || err2 != nil ||
				!slices.Equal(scores, sims) {
				t.Errorf("Rerank gives %v, want %v (%v, %v)", scores, sims, err, err2)
			}
			for i, text := range ids {
				var want [][]float64
				for j, row := range lateRows(values, text, len(text)) {
					if text[j] != 8 && text[j] != 9 {
						want = append(want, row)
					}
				}
				checkLate(t, fmt.Sprint(c.changes, " document ", i), rows.Slice(0, lens[i]), want)
				rows = rows.Slice(lens[i], rows.L)
			}
		}
	}
}

// TestLateOfKinds: what fills queries up changes no bit of other tokens, of any kind of model.
func TestLateOfKinds(t *testing.T) {
	for _, k := range kindTests() {
		path, _ := writeKind(t, &k, safetensors.F32)
		hidden := wide
		if k.kind == "new" {
			hidden = 48
		}
		views, _ := foldertest.Tensors(t, safetensors.F32, map[string][]int{"linear.weight": {7, hidden}})
		writeTensors(t, filepath.Join(path, "1_Dense"), views)
		write(t, path, "1_Dense/config.json", fmt.Appendf(nil, `{"in_features": %d, "out_features": 7,
			"bias": false}`, hidden))
		write(t, path, "modules.json", []byte(lateModules))
		write(t, path, "tokenizer_config.json", []byte(`{"mask_token": "中"}`))
		var alone attn.Tensor
		for _, expand := range []bool{false, true} {
			keys := lateKeys()
			keys["do_query_expansion"], keys["query_length"] = expand, 4
			write(t, path, promptsJSON, encode(t, keys))
			if k.kind == "deberta-v2" && expand {
				if err := openError(path); err == nil ||
					!strings.Contains(err.Error(), "attend_to_expansion_tokens is false and do_query") {
					t.Errorf("masked tokens of a DeBERTa: %v", err)
				}
				continue
			}
			m := mustOpen(t, path, Options{Workers: 2})
			rows, lens, err := m.EncodeQueries([]string{"", ""})
			if err != nil {
				t.Fatalf("%s: %v", k.kind, err)
			}
			if !expand {
				alone = rows
				continue
			}
			if lens[0] != 4 || rows.L != 8 || alone.L != 6 {
				t.Fatalf("%s: %d vectors of %v, and %d", k.kind, rows.L, lens, alone.L)
			}
			for i := range 6 {
				if !slices.Equal(rows.Row(0, 0, i/3*4+i%3), alone.Row(0, 0, i)) {
					t.Errorf("%s: vector %d has other bits in a query that is filled up", k.kind, i)
				}
			}
		}
		if k.kind != "modernbert" {
			continue
		}
		keys := lateKeys()
		keys["query_length"] = 12
		write(t, path, promptsJSON, encode(t, keys))
		if err := openError(path); err == nil || !strings.Contains(err.Error(),
			"query_length is 12, want at most ") {
			t.Errorf("a query that windows do not reach: %v", err)
		}
	}
}

func checkLate(t *testing.T, what string, got attn.Tensor, want [][]float64) {
	t.Helper()
	if got.L != len(want) || got.D != 7 {
		t.Fatalf("%s: %d vectors of %d, want %d of 7", what, got.L, got.D, len(want))
	}
	for i, row := range want {
		for j, x := range row {
			if d := math.Abs(float64(got.Row(0, 0, i)[j]) - x); !(d < 3e-6) {
				t.Fatalf("%s: vector %d has number %d of %v, want %v", what, i, j, got.Row(0, 0, i)[j], x)
			}
		}
	}
}

// TestLateFiles refuses what a folder of PyLate does not mean, and what others do.
func TestLateFiles(t *testing.T) {
	for _, c := range []struct {
		key   string
		value any
		want  string
	}{
		{"query_prefix", "[Q] ", `query_prefix is "[Q] ", want a token of exactly this text, with its ` +
			"spaces"},
		{"document_prefix", "none", `document_prefix is not there, which means "[D] ", want a token of`},
		{"query_length", 0, "query_length is 0, want 1 to"},
		{"query_length", 21, "query_length is 21, want 4 to 20, as the model has positions"},
		{"document_length", "none", "document_length is not there, which means 180, want 4 to 20"},
		{"truncate_dim", 3, "truncate_dim is 3, want null"},
		{"similarity_fn_name", "cosine", `similarity_fn_name is "cosine", want "MaxSim"`},
		{"model_type", "SentenceTransformer", `model_type is "SentenceTransformer", want "ColBERT"`},
		{"query_expansion", map[string]any{"length": 3}, `key "query_expansion"`},
		{"skiplist_words", "!", "want JSON"},
	} {
		path, _ := writeLate(t, map[string]any{c.key: c.value})
		if err := openError(path); err == nil || !strings.Contains(err.Error(), promptsJSON) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s is %v: error %v, want %s", c.key, c.value, err, c.want)
		}
	}
	for file, c := range map[string][2]string{
		"modules.json": {strings.Replace(lateModules, "}]", `}, {"idx": 2, "name": "2",
			"path": "2_Normalize", "type": "x.Normalize"}]`, 1), `"x.Normalize", want idx 2 and Dense`},
		"1_Dense/config.json": {`{"in_features": 30, "out_features": 7, "use_residual": true}`,
			"use_residual is true, want false"},
		"tokenizer_config.json": {`{"mask_token": "[NONE]"}`, "mask_token and eos_token are no tokens"},
	} {
		path, _ := writeLate(t, nil)
		write(t, path, file, []byte(c[0]))
		if err := openError(path); err == nil || !strings.Contains(err.Error(), file) ||
			!strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: error %v, want %s", file, err, c[1])
		}
	}
	path, _ := writeLate(t, nil)
	write(t, path, "tokenizer_config.json", []byte(`{"mask_token": "中", "padding_side": "left"}`))
	if err := openError(path); err == nil || !strings.Contains(err.Error(), `padding_side is "left"`) {
		t.Errorf("filled up before texts: %v", err)
	}
	write(t, path, "tokenizer_config.json", []byte(`{"mask_token": "中"}`))
	for want, o := range map[string]Options{
		"Options.Dimensions is 3, want 0: modules.json": {Dimensions: 3},
		"Options.MaxTokens is 9, want 0":                {MaxTokens: 9},
		"Options.Normalize":                             {Normalize: true},
		`Options.Pooling is ["cls"]`:                    {Pooling: []string{"cls"}}} {
		if _, err := Open(path, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %s", o, err, want)
		}
	}
	m := mustOpen(t, path, Options{})
	if _, err := m.Encode([]string{"cat"}); err == nil ||
		!strings.Contains(err.Error(), "EncodeQueries") {
		t.Errorf("a vector of a text: %v", err)
	}
	if m.Similarity([]float32{2}, []float32{3}) != 6 {
		t.Error("vectors of tokens are not compared by their products")
	}
	if rows, lens, err := m.EncodeDocuments(nil); err != nil || rows.L != 0 || len(lens) != 0 {
		t.Errorf("no documents: %v, %v, %v", rows, lens, err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Rerank("cat", []string{"un"}); !errors.Is(err, attn.ErrClosed) {
		t.Errorf("of a closed model: %v", err)
	}

	// PyLate's keys together with a Pooling are refused, and vectors of tokens of a model without
	// them.
	other, _ := writeModel(t, safetensors.F32)
	m = mustOpen(t, other, Options{})
	if _, _, err := m.EncodeQueries([]string{"cat"}); err == nil ||
		!strings.Contains(err.Error(), "want a model of PyLate") {
		t.Errorf("vectors of tokens: %v", err)
	}
	for key, value := range lateKeys() {
		switch key {
		case "model_type", "similarity_fn_name", "truncate_dim", "__version__":
			continue
		}
		write(t, other, promptsJSON, encode(t, map[string]any{key: value}))
		if err := openError(other); err == nil || !strings.Contains(err.Error(), key+" is there, and") {
			t.Errorf("%s with a Pooling: %v", key, err)
		}
	}
	if err := os.Remove(filepath.Join(other, promptsJSON)); err != nil {
		t.Fatal(err)
	}
}
