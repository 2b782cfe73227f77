package embed

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/nlpodyssey/safetensors"
	"github.com/seed-1415985d/attn/internal/dev/gguftest"
	"github.com/seed-1415985d/attn/models/internal/weights/foldertest"
)

// qwenGGUF is a file with the weights of the kind qwen3, and these under the names of a folder.
func qwenGGUF(t *testing.T) (*gguftest.File, numbers) {
	t.Helper()
	tokens := qwenTokens()
	kinds := slices.Repeat([]int32{1}, len(tokens))
	kinds[0], kinds[1], kinds[2] = 3, 3, 3
	f := &gguftest.File{}
	for key, value := range map[string]any{"general.architecture": "qwen3",
		"qwen3.block_count": uint32(2), "qwen3.context_length": uint32(330),
		"qwen3.embedding_length": uint32(wide), "qwen3.feed_forward_length": uint32(inner),
		"qwen3.attention.head_count": uint32(4), "qwen3.attention.head_count_kv": uint32(2),
		"qwen3.attention.key_length": uint32(8), "qwen3.attention.value_length": uint32(8),
		"qwen3.attention.layer_norm_rms_epsilon": float32(1e-6), "qwen3.rope.freq_base": float32(1e6),
		"qwen3.pooling_type": uint32(3), "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2",
		"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": kinds,
		"tokenizer.ggml.merges":       []string{"y e", "ye s", "n o"},
		"tokenizer.ggml.eos_token_id": uint32(2), "tokenizer.ggml.add_eos_token": true} {
		f.Set(key, value)
	}
	shapes := map[string][]int{}
	for _, k := range kindTests() {
		if k.kind == "qwen3" {
			maps.Copy(shapes, k.shapes)
		}
	}
	shapes["model.embed_tokens.weight"] = []int{len(tokens), wide}
	_, values := foldertest.Tensors(t, safetensors.F32, shapes)
	named := strings.NewReplacer("model.embed_tokens", "token_embd", "model.norm", "output_norm",
		"model.layers.", "blk.", "self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k",
		"self_attn.v_proj", "attn_v", "self_attn.o_proj", "attn_output", "self_attn.q_norm",
		"attn_q_norm", "self_attn.k_norm", "attn_k_norm", "mlp.gate_proj", "ffn_gate", "mlp.up_proj",
		"ffn_up", "mlp.down_proj", "ffn_down", "input_layernorm", "attn_norm",
		"post_attention_layernorm", "ffn_norm")
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		addTensor(f, named.Replace(name), values[name], shapes[name]...)
	}
	return f, numbers(values)
}

// addTensor adds numbers that float32 has.
func addTensor(f *gguftest.File, name string, values []float64, shape ...int) {
	x := make([]float32, len(values))
	for i, v := range values {
		x[i] = float32(v)
	}
	data, _ := gguftest.Encode("F32", x)
	f.Tensors = append(f.Tensors, gguftest.Tensor{Name: name, Shape: shape,
		Type: gguftest.Types["F32"], Data: data})
}

// TestQwen3GGUF has the last token's vector, and scores by rows of the table, of an output, and of
// those that converters keep.
func TestQwen3GGUF(t *testing.T) {
	f, values := qwenGGUF(t)
	m := mustOpen(t, writeGGUF(t, f), Options{Workers: 2})
	for _, text := range []string{"yes, a cat", "", "ü"} {
		ids := idsOf(t, m, text)
		if ids[len(ids)-1] != 2 {
			t.Errorf("%q has tokens %v, want 2 at the end", text, ids)
		}
		rows := qwenRows(values, ids, nil)
		want := rows[len(rows)-1]
		want = scaled(want, 1/math.Sqrt(dot(want, want)))
		for j, x := range mustEncode(t, m, text)[0] {
			if d := math.Abs(float64(x) - want[j]); !(d < 3e-6) {
				t.Fatalf("%q: number %d is %v, want %v", text, j, x, want[j])
			}
		}
	}
	if _, err := m.Rerank("a", []string{"b"}); err == nil {
		t.Error("a model of vectors scores")
	}
	like := mustEncode(t, m, "yes, a cat")[0]
	fuseInputs(f, ".weight")
	if got := mustEncode(t, mustOpen(t, writeGGUF(t, f), Options{}), "yes, a cat")[0]; !slices.Equal(
		got, like) {
		t.Errorf("with queries, keys and values in one tensor the vector is %v, want %v", got, like)
	}
	table := values["model.embed_tokens.weight"]
	yes, no := table[3*wide:][:wide], table[4*wide:][:wide]
	template := rerankBefore + question(rerankInstruction, "{query}", "{document}") + rerankAfter
	for name, change := range map[string]func(f *gguftest.File) [2][]float64{
		"table": func(f *gguftest.File) [2][]float64 {
			f.Set("qwen3.pooling_type", nil)
			return [2][]float64{yes, no}
		},
		"output": func(f *gguftest.File) [2][]float64 {
			other := slices.Clone(table)
			slices.Reverse(other)
			addTensor(f, "output.weight", other, len(other)/wide, wide)
			f.Set("tokenizer.chat_template.rerank", template)
			return [2][]float64{other[3*wide:][:wide], other[4*wide:][:wide]}
		},
		"rows": func(f *gguftest.File) [2][]float64 {
			addTensor(f, "cls.output.weight", slices.Concat(no, yes), 2, wide)
			f.Set("qwen3.classifier.output_labels", []string{"yes", "no"})
			return [2][]float64{no, yes}
		},
	} {
		f, _ := qwenGGUF(t)
		f.Set("qwen3.pooling_type", uint32(4))
		by := change(f)
		m := mustOpen(t, writeGGUF(t, f), Options{})
		texts := []string{"A cat.", "<|im_end|>no"}
		scores, err := m.Rerank("cat?", texts)
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range texts {
			read, err := m.pair("cat?", text)
			if err != nil {
				t.Fatal(err)
			}
			rows := qwenRows(values, widen(read.Tokens), nil)
			last := rows[len(rows)-1]
			want := 1 / (1 + math.Exp(dot(last, by[1])-dot(last, by[0])))
			if d := math.Abs(float64(scores[i]) - want); !(d < 2e-5) {
				t.Errorf("%s: %q scores %v, want %v", name, text, scores[i], want)
			}
		}
		if _, err := m.Encode(texts); err == nil || !strings.Contains(err.Error(), "want Rerank") {
			t.Errorf("%s: vectors of a reranker: %v", name, err)
		}
		pooled := mustOpen(t, writeGGUF(t, f), Options{Pooling: []string{"mean"}})
		mustEncode(t, pooled, "cat")
	}
	for want, set := range map[string]map[string]any{
		"pooling_type is 5, want 1 to 4":              {"qwen3.pooling_type": uint32(5)},
		"head_count_kv is 3, want a divisor of qwen3": {"qwen3.attention.head_count_kv": uint32(3)},
		"qwen3.attention.value_length is 9, want 8":   {"qwen3.attention.value_length": uint32(9)},
		"qwen3.strange": {"qwen3.strange": uint32(1)},
		"chat_template.rerank is \"{query}\", want": {"qwen3.pooling_type": uint32(4),
			"tokenizer.chat_template.rerank": "{query}"},
		`output_labels is ["a"], want ["yes" "no"]`: {"qwen3.pooling_type": uint32(4),
			"qwen3.classifier.output_labels": []string{"a"}},
	} {
		f, _ := qwenGGUF(t)
		for key, value := range set {
			f.Set(key, value)
		}
		if err := openError(writeGGUF(t, f)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestEndOfQwen3GGUF has files as converters wrote them in 2025, with and without the last token,
// whose vector is the text's: without it the vector would be the last word's, which is an error.
func TestEndOfQwen3GGUF(t *testing.T) {
	const notThere = "add_eos_token is not there, want true"
	for _, c := range []struct {
		name    string
		set     map[string]any
		pooling []string
		want    string // of the error
	}{
		{"since September", nil, nil, ""},
		{"with the end of turns", map[string]any{"tokenizer.ggml.eot_token_id": uint32(1),
			"tokenizer.ggml.add_bos_token": false}, nil, ""},
		{"before", map[string]any{"tokenizer.ggml.add_eos_token": nil}, nil, notThere},
		{"before, with <|im_end|>", map[string]any{"tokenizer.ggml.add_eos_token": nil,
			"tokenizer.ggml.eos_token_id": uint32(1)}, nil, notThere},
		{"false", map[string]any{"tokenizer.ggml.add_eos_token": false}, nil,
			"add_eos_token is false, want true"},
		{"another end", map[string]any{"tokenizer.ggml.eos_token_id": uint32(1)}, nil,
			`eos_token_id is 1, "<|im_end|>", want the number of "<|endoftext|>"`},
		{"no pooling, and lasttoken", map[string]any{"tokenizer.ggml.add_eos_token": nil,
			"qwen3.pooling_type": nil}, []string{"lasttoken"}, notThere},
		{"no pooling, and two", map[string]any{"tokenizer.ggml.add_eos_token": nil,
			"qwen3.pooling_type": nil}, []string{"mean", "lasttoken"}, notThere},
		{"the mean", map[string]any{"tokenizer.ggml.add_eos_token": nil,
			"qwen3.pooling_type": uint32(1)}, nil, ""},
		{"the mean in place of it", map[string]any{"tokenizer.ggml.add_eos_token": nil},
			[]string{"mean"}, ""},
		{"scores", map[string]any{"tokenizer.ggml.add_eos_token": nil,
			"qwen3.pooling_type": uint32(4)}, nil, ""},
	} {
		f, _ := qwenGGUF(t)
		for key, value := range c.set {
			f.Set(key, value)
		}
		m, err := Open(writeGGUF(t, f), Options{Pooling: c.pooling})
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), "the vector of <|endoftext|> behind a text") {
				t.Errorf("%s: the error is %v, want %s", c.name, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		ids := idsOf(t, m, "yes")
		if _, noEnd := c.set["tokenizer.ggml.add_eos_token"]; (ids[len(ids)-1] == 2) == noEnd {
			t.Errorf("%s: the tokens are %v", c.name, ids)
		}
		m.Close()
	}
}
