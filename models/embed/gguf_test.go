package embed

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nlpodyssey/safetensors"
	"github.com/seed-1415985d/attn/internal/dev/gguftest"
)

// The sizes of models in GGUF files, whose rows are whole blocks.
const ggufWide, ggufInner = 32, 64

// ggufTokens are the tokens of vocab.txt in other tests.
var ggufTokens = []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁cat", "▁un", "believ", "able", "▁,",
	"▁!", "▁zurich", "▁中"}

// ggufOf is a file with matrices of a type, and its exact numbers.
func ggufOf(kind, matrices string) (*gguftest.File, numbers) {
	f, values, source := &gguftest.File{}, numbers{}, rand.New(rand.NewPCG(5, 7))
	f.Set("general.architecture", kind)
	for key, value := range map[string]any{"block_count": uint32(2), "context_length": uint32(20),
		"embedding_length": uint32(ggufWide), "feed_forward_length": uint32(ggufInner),
		"attention.head_count": uint32(2), "attention.layer_norm_epsilon": float32(1e-12),
		"attention.causal": false, "pooling_type": uint32(2)} {
		f.Set(kind+"."+key, value)
	}
	f.Set("tokenizer.ggml.model", "bert")
	f.Set("tokenizer.ggml.tokens", ggufTokens)
	f.Set("tokenizer.ggml.token_type", slices.Repeat([]int32{1}, len(ggufTokens)))
	f.Set("tokenizer.ggml.token_type_count", uint32(2))
	f.Set("tokenizer.ggml.cls_token_id", uint32(2))
	f.Set("tokenizer.ggml.seperator_token_id", uint32(3))
	add := func(name, of string, shape ...int) {
		n := shape[0]
		if len(shape) > 1 {
			n *= shape[1]
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(0.4 * source.NormFloat64())
		}
		data, exact := gguftest.Encode(of, x)
		values[name] = exact
		f.Tensors = append(f.Tensors, gguftest.Tensor{Name: name, Shape: shape,
			Type: gguftest.Types[of], Data: data})
	}
	norm := func(name string) {
		add(name+".weight", "F32", ggufWide)
		add(name+".bias", "F32", ggufWide)
	}
	bias := kind != "nomic-bert"
	linear := func(name string, in, out int) {
		if add(name+".weight", matrices, out, in); bias {
			add(name+".bias", "F32", out)
		}
	}
	add("token_embd.weight", matrices, len(ggufTokens), ggufWide)
	add("token_types.weight", "F32", 2, ggufWide)
	norm("token_embd_norm")
	switch kind {
	case "bert":
		add("position_embd.weight", "F32", 20, ggufWide)
	case "nomic-bert":
		f.Set("nomic-bert.rope.freq_base", float32(1000))
	}
	for _, at := range []string{"blk.0.", "blk.1."} {
		if bias {
			linear(at+"attn_q", ggufWide, ggufWide)
			linear(at+"attn_k", ggufWide, ggufWide)
			linear(at+"attn_v", ggufWide, ggufWide)
		} else {
			linear(at+"attn_qkv", ggufWide, 3*ggufWide)
			linear(at+"ffn_gate", ggufWide, ggufInner)
		}
		linear(at+"attn_output", ggufWide, ggufWide)
		if kind == jinaGGUF {
			add(at+"ffn_gate.weight", matrices, ggufInner, ggufWide)
			add(at+"ffn_up.weight", matrices, ggufInner, ggufWide)
		} else {
			linear(at+"ffn_up", ggufWide, ggufInner)
		}
		linear(at+"ffn_down", ggufInner, ggufWide)
		norm(at + "attn_output_norm")
		norm(at + "layer_output_norm")
	}
	return f, values
}

// writeGGUF writes a file.
func writeGGUF(t *testing.T, f *gguftest.File) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, f.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// ggufRows computes such a model in float64.
func ggufRows(w numbers, kind string, ids []int) (x [][]float64) {
	e := bertLike(w, 1e-12)
	e.heads, e.keyHeads, e.width, e.at, e.out = 2, 2, 16, "blk.%d.", "attn_output"
	e.norm1, e.norm2 = "attn_output_norm", "layer_output_norm"
	e.q, e.k, e.v, e.up, e.down = "attn_q", "attn_k", "attn_v", "ffn_up", "ffn_down"
	switch kind {
	case jinaGGUF:
		e.network = func(at string, x []float64) []float64 {
			return w.linear(at+"ffn_down", gated(w.linear(at+"ffn_gate", x), w.linear(at+"ffn_up", x),
				geluOf))
		}
		return jinaRows(e, ids, func(_, id int) []float64 {
			return e.norm("token_embd_norm", w.sumOf(0, ggufWide, map[string]int{"token_embd": id,
				"token_types": 0}))
		})
	case "nomic-bert":
		e.qkv = "attn_qkv"
		e.turn = func(_, position int, x []float64) []float64 {
			return rotated(x, position, power(1000, 16))
		}
		e.network = func(at string, x []float64) []float64 {
			return w.linear(at+"ffn_down", gated(w.linear(at+"ffn_gate", x), w.linear(at+"ffn_up", x),
				siluOf))
		}
	}
	for i, id := range ids {
		row := w.sumOf(i, ggufWide, map[string]int{"token_embd": id, "token_types": 0})
		if kind == "bert" {
			row = plus(row, w["position_embd.weight"][i*ggufWide:][:ggufWide])
		}
		x = append(x, e.norm("token_embd_norm", row))
	}
	return e.run(x)
}

// TestGGUF compares models in files of several types with float64, and tokens with vocab.txt's.
func TestGGUF(t *testing.T) {
	folder, _ := writeModel(t, safetensors.F32)
	like := mustOpen(t, folder, Options{})
	for _, kind := range []string{"bert", "nomic-bert", jinaGGUF} {
		for _, matrices := range []string{"F32", "F16", "Q8_0"} {
			f, values := ggufOf(kind, matrices)
			m := mustOpen(t, writeGGUF(t, f), Options{Workers: 2})
			got, worst := inEveryCompany(t, m, nil, ragged), 0.0
			for i, text := range ragged {
				ids := idsOf(t, m, text)
				if !slices.Equal(ids, idsOf(t, like, text)) {
					t.Errorf("%q has tokens %v, want the tokens of a folder, %v", text, ids, idsOf(t, like, text))
				}
				want := ggufRows(values, kind, ids)[0]
				want = scaled(want, 1/math.Sqrt(dot(want, want)))
				for j, x := range want {
					worst = max(worst, math.Abs(float64(got[i][j])-x))
				}
			}
			if !(worst < 3e-6) {
				t.Errorf("%s of %s: largest difference %.1e, want less than 3e-6", kind, matrices, worst)
			}
		}
		f, _ := ggufOf(kind, "Q8_0")
		inEveryCompany(t, mustOpen(t, writeGGUF(t, f), Options{Integers: true}), nil, ragged[:3])
	}
}

// TestGGUFOfOthers reads files with other tensors than most: of several matrices, of no segments,
// and with a scale.
func TestGGUFOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		kind   string
		change func(f *gguftest.File, w numbers)
	}{
		"one tensor": {"bert", func(f *gguftest.File, w numbers) { fuseInputs(f, ".weight", ".bias") }},
		"three tensors": {"nomic-bert", func(f *gguftest.File, w numbers) {
			for _, at := range []string{"blk.0.", "blk.1."} {
				x := takeTensor(f, at+"attn_qkv.weight")
				for i, name := range []string{"attn_q", "attn_k", "attn_v"} {
					n := len(x.Data) / 3
					f.Tensors = append(f.Tensors, gguftest.Tensor{Name: at + name + ".weight",
						Type: x.Type, Shape: []int{ggufWide, ggufWide}, Data: x.Data[i*n:][:n]})
				}
			}
		}},
		"no segments": {"bert", func(f *gguftest.File, w numbers) {
			f.Set("tokenizer.ggml.token_type_count", uint32(1))
			takeTensor(f, "token_types.weight")
			clear(w["token_types.weight"])
		}},
		"scales": {"bert", func(f *gguftest.File, w numbers) {
			for name, scale := range map[string]float64{"blk.0.attn_k": 1.5, "blk.1.attn_output": -2,
				"blk.1.ffn_up": 0.25, "token_embd": 3} {
				addTensor(f, name+".scale", []float64{scale}, 1)
				addTensor(f, name+".input_scale", []float64{7}, 1)
				for i := range w[name+".weight"] {
					w[name+".weight"][i] *= scale
				}
			}
		}},
	} {
		f, values := ggufOf(c.kind, "Q8_0")
		c.change(f, values)
		m := mustOpen(t, writeGGUF(t, f), Options{Workers: 2})
		for _, text := range ragged {
			want := ggufRows(values, c.kind, idsOf(t, m, text))[0]
			want = scaled(want, 1/math.Sqrt(dot(want, want)))
			for j, x := range mustEncode(t, m, text)[0] {
				if d := math.Abs(float64(x) - want[j]); !(d < 3e-6) {
					t.Fatalf("%s: number %d of %q is %v, want %v", name, j, text, x, want[j])
				}
			}
		}
	}
}

// fuseInputs makes one tensor of queries, keys and values.
func fuseInputs(f *gguftest.File, suffixes ...string) {
	for _, at := range []string{"blk.0.", "blk.1."} {
		for _, suffix := range suffixes {
			fused := gguftest.Tensor{Name: at + "attn_qkv" + suffix}
			outputs := 0
			for _, name := range []string{"attn_q", "attn_k", "attn_v"} {
				x := takeTensor(f, at+name+suffix)
				outputs += x.Shape[0]
				fused.Type, fused.Data = x.Type, append(fused.Data, x.Data...)
				fused.Shape = append([]int{outputs}, x.Shape[1:]...)
			}
			f.Tensors = append(f.Tensors, fused)
		}
	}
}

// takeTensor removes a tensor from a file.
func takeTensor(f *gguftest.File, name string) gguftest.Tensor {
	i := slices.IndexFunc(f.Tensors, func(t gguftest.Tensor) bool { return t.Name == name })
	x := f.Tensors[i]
	f.Tensors = slices.Delete(f.Tensors, i, i+1)
	return x
}

// xlmTokens are the tokens of an XLM-RoBERTa and their types. The last one is in no text.
var (
	xlmTokens = []string{"<s>", "<pad>", "</s>", "<unk>", "▁cat", "▁un", "believ", "able", "▁", "!",
		"<mask>", "[PAD11]"}
	xlmKinds = []int32{3, 3, 3, 2, 1, 1, 1, 1, 1, 1, 4, 5}
)

// asXLM gives a file of a BERT the tokenizer of an XLM-RoBERTa.
func asXLM(f *gguftest.File) {
	scores := make([]float32, len(xlmTokens))
	for i := 4; i < 10; i++ {
		scores[i] = -float32(i)
	}
	scores[11] = -10000
	for key, value := range map[string]any{"model": "t5", "tokens": xlmTokens, "token_type": xlmKinds,
		"scores": scores, "cls_token_id": nil, "seperator_token_id": nil, "add_space_prefix": true,
		"remove_extra_whitespaces": true, "precompiled_charsmap": []uint8{4, 0, 0, 0, 0, 0, 0, 128}} {
		f.Set("tokenizer.ggml."+key, value)
	}
}

// xlmFolder has the same tokenizer as a tokenizer.json.
func xlmFolder(t *testing.T) *Model {
	t.Helper()
	vocab, added := []any{}, []any{}
	for i, text := range xlmTokens[:11] {
		score := 0.0
		if i > 3 && i < 10 {
			score = -float64(i)
		}
		vocab = append(vocab, []any{text, score})
		if xlmKinds[i] > 1 {
			added = append(added, map[string]any{"id": i, "content": text, "special": true,
				"single_word": false, "normalized": false, "lstrip": text == "<mask>", "rstrip": false})
		}
	}
	for _, k := range kindTests() {
		if k.kind != "xlm-roberta" {
			continue
		}
		path, _ := writeKind(t, &k, safetensors.F32)
		data, err := json.Marshal(map[string]any{"added_tokens": added,
			"model": map[string]any{"type": "Unigram", "unk_id": 3, "vocab": vocab},
			"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": []any{
				map[string]any{"type": "WhitespaceSplit"},
				map[string]any{"type": "Metaspace", "replacement": "▁", "split": true}}},
			"post_processor": map[string]any{"type": "RobertaProcessing", "sep": []any{"</s>", 2},
				"cls": []any{"<s>", 0}, "trim_offsets": true, "add_prefix_space": true}})
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, "tokenizer.json", data)
		return mustOpen(t, path, Options{})
	}
	t.Fatal("there is no xlm-roberta")
	return nil
}

// TestXLMGGUF compares tokens of a file with a folder's, and vectors with float64.
func TestXLMGGUF(t *testing.T) {
	like := xlmFolder(t)
	f, values := ggufOf("bert", "F16")
	asXLM(f)
	m := mustOpen(t, writeGGUF(t, f), Options{Workers: 2})
	for _, text := range []string{"", "cat", "unbelievable  cat!", "zürich cat", "a<mask>cat </s> cat",
		" cat <mask> [PAD11]!", "catcat un un"} {
		ids := idsOf(t, m, text)
		if !slices.Equal(ids, idsOf(t, like, text)) {
			t.Errorf("%q has tokens %v, want the tokens of a folder, %v", text, ids, idsOf(t, like, text))
		}
		want := ggufRows(values, "bert", ids)[0]
		want = scaled(want, 1/math.Sqrt(dot(want, want)))
		for j, x := range mustEncode(t, m, text)[0] {
			if d := math.Abs(float64(x) - want[j]); !(d < 3e-6) {
				t.Errorf("%q: number %d is %v, want %v", text, j, x, want[j])
			}
		}
		one, err := m.texts.Pair(text, "cat")
		other, err2 := like.texts.Pair(text, "cat")
		if err != nil || err2 != nil || !slices.Equal(one.Tokens, other.Tokens) {
			t.Errorf("a pair has tokens %v, want %v (%v, %v)", one.Tokens, other.Tokens, err, err2)
		}
	}
	for want, change := range map[string]func(f *gguftest.File){
		"11 scores and 12 types, want 12": func(f *gguftest.File) {
			f.Set("tokenizer.ggml.scores", make([]float32, 11))
		},
		"has token 12 for what begins": func(f *gguftest.File) {
			f.Set("tokenizer.ggml.bos_token_id", uint32(12))
		},
		"precompiled_charsmap has 2 bytes": func(f *gguftest.File) {
			f.Set("tokenizer.ggml.precompiled_charsmap", []uint8{1, 2})
		},
		"remove_extra_whitespaces": func(f *gguftest.File) {
			f.Set("tokenizer.ggml.remove_extra_whitespaces", false)
		},
	} {
		f, _ := ggufOf("bert", "F32")
		asXLM(f)
		change(f)
		if err := openError(writeGGUF(t, f)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestGGUFHeads scores pairs by files with one label and with two, and without the tensors that
// converters leave out.
func TestGGUFHeads(t *testing.T) {
	for _, without := range []string{"", "cls.bias", "cls.output.bias", "cls.",
		"cls.bias cls.output.bias"} {
		testGGUFHeads(t, without, func(name string) bool {
			return without == "cls." && (name == "cls.weight" || name == "cls.bias") ||
				slices.Contains(strings.Fields(without), name)
		})
	}
	for _, name := range []string{"cls", "token_embd"} {
		f, _ := ggufOf("bert", "F32")
		asXLM(f)
		f.Set("bert.pooling_type", uint32(4))
		want := "there is no tensor cls.output.weight, and no cls.weight either"
		if name == "cls" {
			f.Tensors = append(f.Tensors, gguftest.Tensor{Name: "cls.weight",
				Shape: []int{ggufWide, ggufWide}, Data: make([]byte, 4*ggufWide*ggufWide)})
			want = "no tensor cls.output.weight, and cls.weight alone, which makes no scores"
		}
		if err := openError(writeGGUF(t, f)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func testGGUFHeads(t *testing.T, without string, lacks func(name string) bool) {
	for labels, names := range [][]string{1: nil, 2: {"no", "yes"}} {
		if labels == 0 {
			continue
		}
		f, values := ggufOf("bert", "Q8_0")
		asXLM(f)
		f.Set("bert.pooling_type", uint32(4))
		if names != nil {
			f.Set("bert.classifier.output_labels", names)
		}
		source := rand.New(rand.NewPCG(1, 2))
		for _, tensor := range []struct {
			name string
			rows int
		}{{"cls", ggufWide}, {"cls.output", labels}} {
			for suffix, shape := range map[string][]int{".weight": {tensor.rows, ggufWide},
				".bias": {tensor.rows}} {
				x := make([]float32, tensor.rows*append(shape, 1)[1])
				for i := range x {
					x[i] = float32(source.NormFloat64() / 3)
				}
				data, exact := gguftest.Encode("F32", x)
				if lacks(tensor.name + suffix) {
					values[tensor.name+suffix] = make([]float64, len(x))
					continue
				}
				values[tensor.name+suffix] = exact
				f.Tensors = append(f.Tensors, gguftest.Tensor{Name: tensor.name + suffix, Shape: shape,
					Type: gguftest.Types["F32"], Data: data})
			}
		}
		m := mustOpen(t, writeGGUF(t, f), Options{})
		if _, err := m.Encode([]string{"cat"}); err == nil || !strings.Contains(err.Error(), "Rerank") {
			t.Errorf("vectors of a model that scores: %v", err)
		}
		texts := []string{"un cat", "", "believable!"}
		got, err := m.Scores("cat", texts)
		if err != nil || len(m.Labels()) != labels {
			t.Fatalf("labels %q, %v", m.Labels(), err)
		}
		for i, text := range texts {
			read, err := m.texts.Pair("cat", text)
			if err != nil {
				t.Fatal(err)
			}
			x := ggufRows(values, "bert", widen(read.Tokens))[0]
			if without != "cls." {
				x = values.linear("cls", x)
				for j := range x {
					x[j] = math.Tanh(x[j])
				}
			}
			for j, want := range values.linear("cls.output", x) {
				if labels == 1 {
					want = 1 / (1 + math.Exp(-want))
				}
				if d := math.Abs(float64(got[i][j]) - want); !(d < 2e-5) {
					t.Errorf("without %q, %q: score %d is %v, want %v", without, text, j, got[i][j], want)
				}
			}
		}
	}
}

// TestDamagedGGUF changes one thing each.
func TestDamagedGGUF(t *testing.T) {
	for want, change := range map[string]func(f *gguftest.File){
		`general.architecture is "llama", want bert, gemma-embedding, jina-bert-v2, nomic-` +
			"bert, nomic-bert-moe or qwen3, or a folder whose model_type is one of " +
			"bert, camembert": func(f *gguftest.File) {
			f.Set("general.architecture", "llama")
		},
		"bert.rope.freq_base is 10000, want none": func(f *gguftest.File) {
			f.Set("bert.rope.freq_base", float32(10000))
		},
		"bert.pooling_type is 5, want 1 to 4": func(f *gguftest.File) {
			f.Set("bert.pooling_type", uint32(5))
		},
		"bert.vocab_size is 9, want 12": func(f *gguftest.File) {
			f.Set("bert.vocab_size", uint32(9))
		},
		"bert.block_count is not there, want 1": func(f *gguftest.File) {
			f.Set("bert.block_count", nil)
		},
		"bert.strange": func(f *gguftest.File) {
			f.Set("bert.strange", uint32(1))
		},
		"other.key": func(f *gguftest.File) { f.Set("other.key", uint32(1)) },
		"tokenizer.ggml.model is": func(f *gguftest.File) {
			f.Set("tokenizer.ggml.model", "gpt2")
		},
		"has 99 for [CLS], want 0 to 11": func(f *gguftest.File) {
			f.Set("tokenizer.ggml.cls_token_id", uint32(99))
		},
		"has no [SEP]": func(f *gguftest.File) {
			f.Set("tokenizer.ggml.seperator_token_id", nil)
			f.Set("tokenizer.ggml.tokens", append(slices.Clone(ggufTokens[:3]),
				append([]string{"▁x"}, ggufTokens[4:]...)...))
		},
		`tokens 4 and 5 are both "cat"`: func(f *gguftest.File) {
			tokens := slices.Clone(ggufTokens)
			tokens[5] = "▁cat"
			f.Set("tokenizer.ggml.tokens", tokens)
		},
		"tensor extra": func(f *gguftest.File) {
			f.Tensors = append(f.Tensors, gguftest.Tensor{Name: "extra", Shape: []int{1},
				Data: make([]byte, 4)})
		},
	} {
		f, _ := ggufOf("bert", "F32")
		change(f)
		if err := openError(writeGGUF(t, f)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := openError("no/such/model.gguf"); err == nil {
		t.Error("no file is no error")
	}
}
