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

const gemmaHeads, gemmaWidth, gemmaWindow = 4, 8, 6

// gemmaShapes are the tensors of a small EmbeddingGemma with some tokens.
func gemmaShapes(tokens int) map[string][]int {
	outer := map[string][]int{"embed_tokens.weight": {tokens, wide}, "norm.weight": {wide}}
	at := "layers.%d."
	return shapesOf(3, outer, map[string][]int{
		at + "self_attn.q_proj.weight": {gemmaHeads * gemmaWidth, wide},
		at + "self_attn.k_proj.weight": {gemmaWidth, wide},
		at + "self_attn.v_proj.weight": {gemmaWidth, wide},
		at + "self_attn.o_proj.weight": {wide, gemmaHeads * gemmaWidth},
		at + "self_attn.q_norm.weight": {gemmaWidth}, at + "self_attn.k_norm.weight": {gemmaWidth},
		at + "mlp.gate_proj.weight": {inner, wide}, at + "mlp.up_proj.weight": {inner, wide},
		at + "mlp.down_proj.weight":   {wide, inner},
		at + "input_layernorm.weight": {wide}, at + "post_attention_layernorm.weight": {wide},
		at + "pre_feedforward_layernorm.weight":  {wide},
		at + "post_feedforward_layernorm.weight": {wide}})
}

// gemmaTest is a small EmbeddingGemma, whose third layer sees all keys.
func gemmaTest() kindTest {
	return kindTest{"gemma3_text", map[string]any{"hidden_size": wide, "num_hidden_layers": 3,
		"num_attention_heads": gemmaHeads, "num_key_value_heads": 1, "head_dim": gemmaWidth,
		"intermediate_size": inner, "vocab_size": words, "max_position_embeddings": 20,
		"query_pre_attn_scalar": 10, "sliding_window": gemmaWindow, "sliding_window_pattern": 3,
		"rope_theta": 2000000, "rope_local_base_freq": 5000, "use_bidirectional_attention": true,
		"attn_logit_softcapping": nil, "rope_scaling": nil, "attention_bias": false},
		gemmaShapes(words), func(w numbers, ids, _ []int) [][]float64 {
			return gemmaRows(w, ids, 10, 3, [2]float64{2000000, 5000})
		}, 20}
}

// gemmaRows is EmbeddingGemma in float64. bases are of rotations in layers that see all keys, which
// are every pattern-th, and in others.
func gemmaRows(w numbers, ids []int, scalar float64, pattern int,
	bases [2]float64) (x [][]float64) {
	shifted := maps.Clone(w)
	for name, x := range w {
		if strings.HasSuffix(name, "norm.weight") {
			shifted[name] = slices.Clone(x)
			for i := range x {
				shifted[name][i]++
			}
		}
	}
	w = shifted
	global := func(layer int) bool { return (layer+1)%pattern == 0 }
	e := bertLike(w, 1e-6)
	e.layers, e.heads, e.keyHeads, e.width, e.preNorm = 3, gemmaHeads, 1, gemmaWidth, true
	e.at, e.q, e.k, e.v = "layers.%d.", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"
	e.out, e.norm1, e.norm2 = "self_attn.o_proj", "input_layernorm", "pre_feedforward_layernorm"
	e.after1, e.after2 = "post_attention_layernorm", "post_feedforward_layernorm"
	e.norm = func(name string, x []float64) []float64 { return rms(x, w[name+".weight"]) }
	e.network = func(at string, x []float64) []float64 {
		return w.linear(at+"mlp.down_proj", gated(w.linear(at+"mlp.gate_proj", x),
			w.linear(at+"mlp.up_proj", x), geluTanh))
	}
	e.turn = func(layer, position int, x []float64) []float64 {
		base := bases[1]
		if global(layer) {
			base = bases[0]
		}
		return rotated(x, position, power(base, gemmaWidth))
	}
	e.score = func(layer, _, query, key int, s float64) float64 {
		if d := max(query-key, key-query); !global(layer) && d > gemmaWindow/2 {
			return math.Inf(-1)
		}
		return s * math.Sqrt(gemmaWidth/scalar)
	}
	for _, id := range ids {
		x = append(x, scaled(w["embed_tokens.weight"][id*wide:][:wide], math.Sqrt(wide)))
	}
	x = e.run(x)
	for i := range x {
		x[i] = e.norm("norm", x[i])
	}
	return x
}

// gemmaFile is a GGUF file of such a model, and its weights under the names of a folder.
func gemmaFile(t *testing.T) (*gguftest.File, numbers) {
	t.Helper()
	tokens := []string{"<pad>", "<eos>", "<bos>", "<unk>", "▁", "c", "a", "t", "at", "cat", "▁cat"}
	for b := range 256 {
		tokens = append(tokens, "<0x"+strings.ToUpper(string("0123456789abcdef"[b>>4]))+
			strings.ToUpper(string("0123456789abcdef"[b&15]))+">")
	}
	kinds, scores := slices.Repeat([]int32{6}, len(tokens)), make([]float32, len(tokens))
	for i := range 11 {
		kinds[i], scores[i] = 1, float32(i)
	}
	kinds[0], kinds[1], kinds[2], kinds[3] = 3, 3, 3, 2
	f, at := &gguftest.File{}, gemmaGGUF+"."
	for key, value := range map[string]any{"general.architecture": gemmaGGUF,
		at + "block_count": uint32(3), at + "context_length": uint32(20),
		at + "embedding_length": uint32(wide), at + "feed_forward_length": uint32(inner),
		at + "attention.head_count": uint32(gemmaHeads), at + "attention.head_count_kv": uint32(1),
		at + "attention.key_length":             uint32(gemmaWidth),
		at + "attention.value_length":           uint32(gemmaWidth),
		at + "attention.layer_norm_rms_epsilon": float32(1e-6), at + "rope.freq_base": float32(2e6),
		at + "attention.sliding_window": uint32(gemmaWindow), at + "pooling_type": uint32(1),
		at + "dense_2_feat_in": uint32(wide), at + "dense_2_feat_out": uint32(inner),
		at + "dense_3_feat_in": uint32(inner), at + "dense_3_feat_out": uint32(wide),
		"tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default",
		"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.scores": scores,
		"tokenizer.ggml.token_type": kinds, "tokenizer.ggml.bos_token_id": uint32(2),
		"tokenizer.ggml.eos_token_id": uint32(1), "tokenizer.ggml.unknown_token_id": uint32(3),
		"tokenizer.ggml.padding_token_id": uint32(0), "tokenizer.ggml.add_bos_token": true,
		"tokenizer.ggml.add_eos_token": true, "tokenizer.ggml.add_space_prefix": false} {
		f.Set(key, value)
	}
	shapes := gemmaShapes(len(tokens))
	shapes["dense_2.weight"], shapes["dense_3.weight"] = []int{inner, wide}, []int{wide, inner}
	_, values := foldertest.Tensors(t, safetensors.F32, shapes)
	named := strings.NewReplacer("embed_tokens", "token_embd", "layers.", "blk.", "self_attn.q_proj",
		"attn_q", "self_attn.k_proj", "attn_k", "self_attn.v_proj", "attn_v", "self_attn.o_proj",
		"attn_output", "self_attn.q_norm", "attn_q_norm", "self_attn.k_norm", "attn_k_norm",
		"mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up", "mlp.down_proj", "ffn_down",
		"input_layernorm", "attn_norm", "post_attention_layernorm", "post_attention_norm",
		"pre_feedforward_layernorm", "ffn_norm", "post_feedforward_layernorm", "post_ffw_norm")
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		x, to := slices.Clone(values[name]), named.Replace(name)
		if to == "norm.weight" {
			to = "output_norm.weight"
		}
		if strings.HasSuffix(name, "norm.weight") { // files have them plus 1, in float32
			for i := range x {
				x[i] = float64(float32(x[i] + 1))
			}
		}
		addTensor(f, to, x, shapes[name]...)
	}
	return f, numbers(values)
}

// TestGemmaGGUF compares a file with float64, and refuses files that lack what the vectors need.
func TestGemmaGGUF(t *testing.T) {
	f, values := gemmaFile(t)
	m := mustOpen(t, writeGGUF(t, f), Options{Workers: 2})
	texts := []string{"cat", "", "a cat sat at the tact", "ü"}
	got, worst := inEveryCompany(t, m, nil, texts), 0.0
	for i, text := range texts {
		ids := idsOf(t, m, text)
		if ids[0] != 2 || ids[len(ids)-1] != 1 {
			t.Errorf("%q has tokens %v, want 2 and 1 at its ends", text, ids)
		}
		rows := gemmaRows(values, ids, gemmaWidth, 6, [2]float64{2000000, 10000})
		want := values.linear("dense_3", values.linear("dense_2", meanOf(rows)))
		want = scaled(want, 1/math.Sqrt(dot(want, want)))
		for j, x := range want {
			worst = max(worst, math.Abs(float64(got[i][j])-x))
		}
	}
	if !(worst < 3e-6) {
		t.Errorf("largest difference %.1e, want less than 3e-6", worst)
	}
	for want, change := range map[string]func(f *gguftest.File){
		"--sentence-transformers-dense-modules": func(f *gguftest.File) {
			takeTensor(f, "dense_2.weight")
		},
		"add_eos_token is false, want true": func(f *gguftest.File) {
			f.Set("tokenizer.ggml.add_eos_token", false)
		},
		"pooling_type is not 1": func(f *gguftest.File) { f.Set(gemmaGGUF+".pooling_type", uint32(3)) },
		"are 30 and 31, want": func(f *gguftest.File) {
			f.Set(gemmaGGUF+".dense_3_feat_in", uint32(31))
		},
		"sliding_window is 0": func(f *gguftest.File) {
			f.Set(gemmaGGUF+".attention.sliding_window", uint32(0))
		},
		"value_length is 9, want": func(f *gguftest.File) {
			f.Set(gemmaGGUF+".attention.value_length", uint32(9))
		},
	} {
		f, _ := gemmaFile(t)
		change(f)
		if err := openError(writeGGUF(t, f)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
