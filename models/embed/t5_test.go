package embed

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nlpodyssey/safetensors"
	"github.com/seed-1415985d/attn/models/internal/weights/foldertest"
)

// t5Test is a T5 encoder with a network of one layer, or of two with a gate.
func t5Test(network string, up ...string) kindTest {
	const width = 8
	at := "encoder.block.%d.layer."
	bias := "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
	in := map[string][]int{at + "0.SelfAttention.o.weight": {wide, heads3 * width},
		at + "0.layer_norm.weight": {wide}, at + "1.layer_norm.weight": {wide},
		at + "1.DenseReluDense.wo.weight": {wide, inner}}
	for _, name := range []string{"q", "k", "v"} {
		in[at+"0.SelfAttention."+name+".weight"] = []int{heads3 * width, wide}
	}
	for _, name := range up {
		in[at+name+".weight"] = []int{inner, wide}
	}
	shapes := shapesOf(2, map[string][]int{"shared.weight": {words, wide}, bias: {32, heads3},
		"encoder.final_layer_norm.weight": {wide}, "lm_head.weight": {words, wide},
		"decoder.block.0.layer.0.SelfAttention.q.weight": {7}}, in)
	return kindTest{"t5", map[string]any{"d_model": wide, "num_layers": 2, "num_heads": heads3,
		"d_kv": width, "d_ff": inner, "vocab_size": words, "relative_attention_num_buckets": 32,
		"feed_forward_proj": network, "n_positions": 512, "is_encoder_decoder": true}, shapes,
		func(w numbers, ids, _ []int) (x [][]float64) {
			e := bertLike(w, 1e-6)
			e.width, e.at, e.preNorm = width, at, true
			e.q, e.k, e.v, e.out = "0.SelfAttention.q", "0.SelfAttention.k", "0.SelfAttention.v",
				"0.SelfAttention.o"
			e.norm1, e.norm2 = "0.layer_norm", "1.layer_norm"
			e.norm = func(name string, x []float64) []float64 { return rms(x, w[name+".weight"]) }
			e.network = func(at string, x []float64) []float64 {
				y := w.linear(at+up[0], x)
				if len(up) == 2 {
					y = gated(y, w.linear(at+up[1], x), geluTanhOf)
				}
				for i := range y {
					if len(up) == 1 {
						y[i] = max(0, y[i])
					}
				}
				return w.linear(at+"1.DenseReluDense.wo", y)
			}
			e.score = func(_, head, query, key int, s float64) float64 {
				return s*math.Sqrt(width) + w[bias][t5Bucket(key-query)*heads3+head]
			}
			for _, id := range ids {
				x = append(x, w["shared.weight"][id*wide:][:wide])
			}
			x = e.run(x)
			for i := range x {
				x[i] = e.norm("encoder.final_layer_norm", x[i])
			}
			return x
		}, unlimited}
}

// geluTanhOf is the approximation of GELU by tanh.
func geluTanhOf(v float64) float64 {
	return v / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
}

// t5Gated is a T5 of version 1.1.
func t5Gated() kindTest { return t5Test("gated-gelu", t5GatedUp...) }

// TestT5AgainstFloat64 has a gate, a second tensor of words and a text of more than 128 tokens.
func TestT5AgainstFloat64(t *testing.T) {
	k := t5Gated()
	k.config["dense_act_fn"], k.config["is_gated_act"] = "gelu_new", true
	checkKind(t, &k, append(slices.Clone(ragged), strings.Repeat("cat un, ", 60)))
}

// TestT5Words accepts a second tensor of words if it equals the first.
func TestT5Words(t *testing.T) {
	const again = "encoder.embed_tokens.weight"
	k := t5Gated()
	views, _ := foldertest.Tensors(t, safetensors.F16, k.shapes)
	path, _ := writeKind(t, &k, safetensors.F16)
	views[again] = views["shared.weight"]
	writeTensors(t, path, views)
	want := mustEncode(t, mustOpen(t, path, Options{}), "cat")
	k.shapes[again] = []int{words, wide}
	other, _ := writeKind(t, &k, safetensors.F16)
	if err := openError(other); err == nil ||
		!strings.Contains(err.Error(), "tensor "+again+": it differs from tensor shared.weight") {
		t.Errorf("other words: %v", err)
	}
	delete(views, again)
	writeTensors(t, path, views)
	if got := mustEncode(t, mustOpen(t, path, Options{}), "cat"); !slices.Equal(got[0], want[0]) {
		t.Error("another vector with the second tensor")
	}
	delete(views, "shared.weight")
	writeTensors(t, path, views)
	if err := openError(path); err == nil || !strings.Contains(err.Error(), "tensor shared.weight") {
		t.Errorf("no words: %v", err)
	}
}

// t5Tokenizer is a tokenizer.json as T5 has it.
const t5Tokenizer = `{"added_tokens": [{"id": 0, "content": "<pad>", "special": true},
	{"id": 1, "content": "</s>", "special": true}, {"id": 2, "content": "<unk>", "special": true},
	{"id": 11, "content": "<extra_id_0>", "special": true}],
	"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
	{"type": "Metaspace", "replacement": "▁", "add_prefix_space": true}]},
	"post_processor": {"type": "TemplateProcessing", "single": [
		{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
		"pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}},
		{"Sequence": {"id": "B", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
		"special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}},
	"decoder": {"type": "Metaspace", "replacement": "▁", "add_prefix_space": true},
	"model": {"type": "Unigram", "unk_id": 2, "vocab": [["<pad>", 0], ["</s>", 0], ["<unk>", 0],
		["▁", -2], ["▁cat", -3], ["▁un", -4], ["believ", -4], ["able", -4], ["s", -3], [",", -3]]}}`

// TestSentenceT5 has the files of sentence-t5: mean, a layer without bias, and length 1.
func TestSentenceT5(t *testing.T) {
	k := t5Test("relu", "1.DenseReluDense.wi")
	k.config["architectures"] = []string{"T5EncoderModel"}
	k.config["task_specific_params"] = map[string]any{"summarization": map[string]any{"num_beams": 4}}
	path, values := writeKind(t, &k, safetensors.F32)
	views, layer := foldertest.Tensors(t, safetensors.F32,
		map[string][]int{"linear.weight": {7, wide}})
	if err := os.Remove(filepath.Join(path, "vocab.txt")); err != nil {
		t.Fatal(err)
	}
	write(t, path, "tokenizer.json", []byte(t5Tokenizer))
	write(t, path, "tokenizer_config.json", []byte(`{"tokenizer_class": "T5Tokenizer", "extra_ids": 1,
		"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "model_max_length": 512,
		"additional_special_tokens": ["<extra_id_0>"], "sp_model_kwargs": {}}`))
	write(t, path, "sentence_bert_config.json", []byte(`{"max_seq_length": 9, "do_lower_case": false}`))
	write(t, path, "modules.json", fmt.Appendf(nil, threeModules, `, {"idx": 2, "name": "2",
		"path": "2_Dense", "type": "sentence_transformers.models.Dense"}, {"idx": 3, "name": "3",
		"path": "3_Normalize", "type": "sentence_transformers.models.Normalize"}`))
	write(t, path, "1_Pooling/config.json", []byte(`{"pooling_mode_mean_tokens": true}`))
	write(t, path, "2_Dense/config.json", fmt.Appendf(nil, `{"in_features": %d, "out_features": 7,
		"bias": false, "activation_function": "torch.nn.modules.linear.Identity"}`, wide))
	writeTensors(t, filepath.Join(path, "2_Dense"), views)
	m := mustOpen(t, path, Options{})
	for text, want := range map[string][]int{"": {1}, "unbelievable cats": {5, 6, 7, 4, 8, 1},
		"cat, <extra_id_0>x":       {4, 9, 11, 3, 2, 1},
		strings.Repeat("cat ", 20): {4, 4, 4, 4, 4, 4, 4, 4, 1}} {
		ids := idsOf(t, m, text)
		if !slices.Equal(ids, want) {
			t.Fatalf("%q: tokens %v, want %v", text, ids, want)
		}
		y := numbers(layer).linear("linear", meanOf(k.rows(values, ids, nil)))
		near(t, text, mustEncode(t, m, text)[0], scaled(y, 1/math.Sqrt(dot(y, y))), 3e-6)
	}
}

// TestT5Kinds refuses relatives of T5 that are computed otherwise.
func TestT5Kinds(t *testing.T) {
	k := t5Gated()
	for _, kind := range []string{"umt5", "mt5", "longt5"} {
		k.kind, k.config = kind, maps.Clone(k.config)
		path, _ := writeKind(t, &k, safetensors.F32)
		if err := openError(path); err == nil ||
			!strings.Contains(err.Error(), fmt.Sprintf("model_type is %q", kind)) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
