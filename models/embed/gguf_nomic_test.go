package embed

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/nlpodyssey/safetensors"
	"github.com/seed-1415985d/attn/internal/dev/gguftest"
	"github.com/seed-1415985d/attn/models/internal/weights/foldertest"
)

// nomicExpertsFile has the tensors of a folder's Nomic with experts as llama.cpp writes them:
// without the bias of the sum, and with a row of the experts' second matrices for each output.
func nomicExpertsFile(w numbers, shapes map[string][]int) *gguftest.File {
	const count = 5
	f, _ := ggufOf(nomicMoEGGUF, "F32")
	f.Tensors = nil
	for key, value := range map[string]any{"embedding_length": uint32(wide),
		"feed_forward_length": uint32(inner), "attention.head_count": uint32(heads3),
		"attention.layer_norm_epsilon": float32(1e-5), "pooling_type": uint32(1),
		"rope.freq_base": float32(10000), "moe_every_n_layers": uint32(2),
		"expert_count": uint32(count), "expert_used_count": uint32(2)} {
		f.Set(nomicMoEGGUF+"."+key, value)
	}
	f.Set("tokenizer.ggml.token_type_count", uint32(1))
	names := strings.NewReplacer("embeddings.word_embeddings", "token_embd",
		"embeddings.token_type_embeddings", "token_types", "emb_ln", "token_embd_norm",
		"encoder.layers.", "blk.", "attn.Wqkv", "attn_qkv", "attn.out_proj", "attn_output", "norm1",
		"attn_output_norm", "norm2", "layer_output_norm", "mlp.fc1", "ffn_up", "mlp.fc2", "ffn_down",
		"mlp.router.layer", "ffn_gate_inp", "mlp.experts.mlp.w1", "ffn_up_exps.weight",
		"mlp.experts.mlp.w2", "ffn_down_exps.weight")
	for name, shape := range shapes {
		values := w[name]
		switch {
		case strings.HasSuffix(name, "experts.bias"):
			continue
		case strings.HasSuffix(name, "mlp.w1"):
			shape = []int{count, inner, wide}
		case strings.HasSuffix(name, "mlp.w2"):
			shape = []int{count, wide, inner}
			turned := make([]float64, len(values))
			for i, x := range values {
				expert, input, output := i/(inner*wide), i/wide%inner, i%wide
				turned[(expert*wide+output)*inner+input] = x
			}
			values = turned
		}
		addTensor(f, names.Replace(name), values, shape...)
	}
	return f
}

// TestNomicExpertsGGUF compares a file of a Nomic with experts with the folder of which it was made
// and with float64.
func TestNomicExpertsGGUF(t *testing.T) {
	k := nomicExpertsTest()
	const bias = "encoder.layers.1.mlp.experts.bias"
	path, values := writeKind(t, &k, safetensors.F32)
	views, _ := foldertest.Tensors(t, safetensors.F32, k.shapes)
	zeros, err := safetensors.NewTensorView(safetensors.F32, []uint64{wide}, make([]byte, 4*wide))
	if err != nil {
		t.Fatal(err)
	}
	views[bias] = zeros
	writeTensors(t, path, views)
	write(t, path, "1_Pooling/config.json", []byte(`{"pooling_mode": "mean"}`))
	clear(values[bias])
	folder := mustOpen(t, path, Options{})
	m := mustOpen(t, writeGGUF(t, nomicExpertsFile(values, k.shapes)), Options{Workers: 2})
	got := inEveryCompany(t, m, nil, ragged)
	for i, text := range ragged {
		ids := idsOf(t, m, text)
		want := meanOf(k.rows(values, ids, make([]int, len(ids))))
		want = scaled(want, 1/math.Sqrt(dot(want, want)))
		like := mustEncode(t, folder, text)[0]
		for j, x := range got[i] {
			if d := math.Abs(float64(x) - want[j]); !(d < 3e-6) {
				t.Errorf("%q: number %d is %v, want %v", text, j, x, want[j])
			}
			if d := math.Abs(float64(x) - float64(like[j])); !(d < 3e-6) {
				t.Errorf("%q: number %d is %v, want %v as of the folder", text, j, x, like[j])
			}
		}
	}
	for want, change := range map[string]func(f *gguftest.File){
		"moe_every_n_layers is 1, want 0 or at least 2": func(f *gguftest.File) {
			f.Set(nomicMoEGGUF+".moe_every_n_layers", uint32(1))
		},
		"expert_count is 5 and nomic-bert-moe.expert_used_count 6": func(f *gguftest.File) {
			f.Set(nomicMoEGGUF+".expert_used_count", uint32(6))
		},
		"blk.1.ffn_up_exps.weight": func(f *gguftest.File) { takeTensor(f, "blk.1.ffn_up_exps.weight") },
		"[5 30], want [4 30]": func(f *gguftest.File) {
			f.Set(nomicMoEGGUF+".expert_count", uint32(4))
		},
		"feed_forward_length is not there": func(f *gguftest.File) {
			f.Set(nomicMoEGGUF+".feed_forward_length", nil)
		},
	} {
		f := nomicExpertsFile(values, k.shapes)
		change(f)
		if err := openError(writeGGUF(t, f)); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	f, _ := ggufOf(nomicGGUF, "F32")
	f.Set(nomicGGUF+".expert_count", uint32(4))
	if err := openError(writeGGUF(t, f)); err == nil || !strings.Contains(fmt.Sprint(err),
		"expert_count") {
		t.Errorf("experts of nomic-bert: %v, want an error", err)
	}
}
