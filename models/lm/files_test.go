package lm

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/dev/gguftest"
)

// fileCases are models whose files have unusual tensors: several matrices in one, layers that guess
// further tokens, or scales.
var fileCases = []archCase{
	{name: "qwen3.5 with experts", folder: func(f *fake, r *reference) {
		qwen35MoEFolder(f, r)
		fuseExperts(f)
		f.config["mlp_only_layers"] = []int{}
	}},
	{name: "qwen3.5 with experts beside images", folder: func(f *fake, r *reference) {
		qwen35MoEFolder(f, r)
		wrap(f, "qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", "model.language_model.")
		f.add("mtp.fc.weight", 3)
	}},
	{name: "qwen3.5 with experts of GGUF", gguf: func(r *reference) *fakeGGUF {
		return qwen35MoEGGUF(r)
	}},
	{name: "qwen3.5 with experts and a layer for further tokens", gguf: func(r *reference) *fakeGGUF {
		f := qwen35MoEGGUF(r)
		further(f, "qwen35moe")
		return f
	}},
	{name: "qwen3.5 with a layer for further tokens", gguf: func(r *reference) *fakeGGUF {
		f := newShapedGGUF(ggufShape{2, 64, 64, 4, 2, 16, 20}, "qwen35", one("Q8_0"))
		statesGGUF(f, r, "qwen35")
		further(f, "qwen35")
		f.Set("qwen35.rope.dimension_sections", []int32{2, 1, 1, 0})
		f.Set("qwen35.attention.recurrent_layers", []bool{true, false, false})
		f.Set("qwen35.attention.head_count_kv", []uint32{2, 2, 4})
		r.tiled = true
		return f
	}},
	{name: "qwen3next with a layer for further tokens", gguf: func(r *reference) *fakeGGUF {
		f := qwenNextGGUF(r)
		further(f, "qwen3next")
		return f
	}},
	{name: "qwen3next until 2026-02", gguf: func(r *reference) *fakeGGUF {
		f := qwenNextGGUF(r)
		qkv, z := f.tensorNamed("blk.0.attn_qkv.weight"), f.tensorNamed("blk.0.attn_gate.weight")
		in, row, key := *z, len(z.Data)/z.Shape[0], (qkv.Shape[0]-128)/4
		in.Name, in.Shape, in.Data = "blk.0.ssm_in.weight", []int{4*key + 128 + 128, 64}, nil
		rows := func(x *gguftest.Tensor, from, n int) []byte { return x.Data[from*row:][:n*row] }
		for g := range 2 { // two heads of keys, with two of values of 32 each
			in.Data = slices.Concat(in.Data, rows(qkv, key*g, key), rows(qkv, (2+g)*key, key),
				rows(qkv, 4*key+64*g, 64), rows(z, 64*g, 64))
		}
		f.without(qkv.Name, "blk.0.attn_gate.weight")
		f.Tensors = append(f.Tensors, in)
		return f
	}},
	{name: "queries, keys and values in one tensor, qwen3.5", gguf: func(r *reference) *fakeGGUF {
		f := qwen35MoEGGUF(r)
		f.fuse("attn_qkv", "attn_q", "attn_k", "attn_v")
		f.fuse("ffn_gate_up_exps", "ffn_gate_exps", "ffn_up_exps")
		return f
	}},
	{name: "queries, keys and values in one tensor, gpt-oss", gguf: func(r *reference) *fakeGGUF {
		f := gptGGUF(r)
		f.fuse("attn_qkv", "attn_q", "attn_k", "attn_v")
		f.fuse("ffn_gate_up_exps", "ffn_gate_exps", "ffn_up_exps")
		return f
	}},
	{name: "experts in one tensor, qwen2moe", folder: func(f *fake, r *reference) {
		moeFolder(f, r, "qwen2_moe", 0, 1)
		fuseExperts(f)
	}},
}

// qwen35MoEFolder has the layers of qwen3.5, with the experts of qwen2moe in each of them.
func qwen35MoEFolder(f *fake, r *reference) {
	moeFolder(f, r, "qwen2_moe", 0, 1)
	addStates(f, r, "qwen3_5_moe_text")
	for _, at := range []string{"model.layers.0.", "model.layers.1."} {
		for _, name := range []string{"q", "k", "v"} {
			delete(f.tensors, at+"self_attn."+name+"_proj.bias")
		}
	}
	delete(f.config, "intermediate_size")
	r.normalized = true
}

func qwen35MoEGGUF(r *reference) *fakeGGUF {
	f := moeGGUF(r, "qwen35moe", "Q8_0", func(f *fakeGGUF) { statesGGUF(f, r, "qwen35moe") })
	f.Set("qwen35moe.feed_forward_length", nil)
	f.Set("qwen35moe.rope.dimension_sections", []int32{2, 1, 1, 0})
	r.normalized, r.tiled = true, true
	return f
}

// fuseExperts makes one tensor of the matrices of all experts, as newer folders have it: without
// .weight, and with the rows of gate before the rows of up for each expert.
func fuseExperts(f *fake) {
	for i := range 2 {
		at := fmt.Sprintf("model.layers.%d.mlp.experts.", i)
		if _, ok := f.tensors[at+"0.gate_proj.weight"]; !ok {
			continue // a layer without experts
		}
		var pair, down fakeTensor
		for e := range 5 {
			for _, name := range []string{"gate_proj", "up_proj", "down_proj"} {
				one := fmt.Sprintf("%s%d.%s.weight", at, e, name)
				x, to := f.tensors[one], &pair
				if name == "down_proj" {
					to = &down
				}
				to.shape, to.data = []int{5, x.shape[0], x.shape[1]}, append(to.data, x.data...)
				f.hide(one)
			}
		}
		pair.shape[1] *= 2
		f.tensors[at+"gate_up_proj"], f.tensors[at+"down_proj"] = pair, down
	}
}

// further adds a layer that guesses further tokens. No logit may depend on its numbers.
func further(f *fakeGGUF, kind string) {
	f.Set(kind+".block_count", uint32(f.layers+1))
	f.Set(kind+".nextn_predict_layers", uint32(1))
	at := fmt.Sprintf("blk.%d.", f.layers)
	for name, shape := range map[string][]int{"attn_norm": {64}, "attn_q": {128, 64},
		"nextn.eh_proj": {64, 128}, "nextn.enorm": {64}, "nextn.shared_head_norm": {64}} {
		f.tensor(at+name+".weight", one("Q8_0"), shape...)
	}
}

// TestFurtherLayers counts the layers that guess further tokens.
func TestFurtherLayers(t *testing.T) {
	for _, c := range []struct {
		key   string
		value any
		want  string
	}{
		{"nextn_predict_layers", uint32(3),
			"qwen35.nextn_predict_layers is 3, want 0 or more, and less than block_count, 3"},
		{"nextn_predict_layers", int32(-1), "qwen35.nextn_predict_layers is -1, want 0 or more"},
		{"nextn_predict_layers", nil, "qwen35.block_count"},
		{"attention.head_count", []uint32{4, 4},
			"qwen35.attention.head_count has 2 numbers, want one, or block_count, 3"},
		{"attention.head_count", []uint32{4, 2, 2},
			"qwen35.attention.head_count is [4 2], want one number, or the same for each of 2 layers"},
		{"attention.recurrent_layers", []bool{true, false},
			"attention.recurrent_layers has 2, want 1 or more, and block_count, 3"},
	} {
		f, path := newShapedGGUF(ggufShape{2, 64, 64, 4, 2, 16, 20}, "qwen35", one("Q8_0")),
			at(t, "fake.gguf")
		statesGGUF(f, &reference{}, "qwen35")
		further(f, "qwen35")
		f.Set("qwen35."+c.key, c.value)
		f.Write(t, path)
		_, _, err := (&options{model: path, weights: asStored}).open()
		if c.value == nil { // then it is an ordinary layer
			c.want = "no GGUF file has tensor blk.2."
		}
		if got := fmt.Sprint(err); !strings.Contains(got, c.want) {
			t.Errorf("%s is %v: the error is %v, want it to say %q", c.key, c.value, err, c.want)
		}
	}
}

// TestExpertsThatAreMissing: the error names the missing tensor.
func TestExpertsThatAreMissing(t *testing.T) {
	f, path := moeGGUF(&reference{}, "qwen3moe", "Q8_0", func(*fakeGGUF) {}), at(t, "fake.gguf")
	f.without("blk.1.ffn_up_exps.weight")
	f.Write(t, path)
	_, _, err := (&options{model: path, weights: asStored}).open()
	if want := "no GGUF file has tensor blk.1.ffn_up_exps.weight, want one of shape [5 32 64]"; err ==
		nil || !strings.Contains(err.Error(), want) {
		t.Errorf("of GGUF: the error is %v, want it to say %q", err, want)
	}
	g := newFake("F32")
	moeFolder(g, &reference{}, "qwen3_moe", 0)
	delete(g.tensors, "model.layers.0.mlp.experts.3.up_proj.weight")
	_, _, err = (&options{model: g.write(t), weights: asStored}).open()
	if want := "no safetensors file has tensor model.layers.0.mlp.experts.3.up_proj.weight"; err ==
		nil || !strings.Contains(err.Error(), want) {
		t.Errorf("of a folder: the error is %v, want it to say %q", err, want)
	}
}

// scaled gives a tensor of the file a scale, or one for each expert, and gives the reference the
// scaled weights of the same tensors of a folder.
func (f *fakeGGUF) scaled(name string, scales []float32, of ...string) {
	f.Tensors = append(f.Tensors, gguftest.Tensor{Name: name + ".scale", Shape: []int{len(scales)}},
		gguftest.Tensor{Name: name + ".input_scale", Shape: []int{len(scales)}})
	f.setData(name+".scale", scales)
	f.setData(name+".input_scale", slices.Repeat([]float32{7}, len(scales)))
	for i, of := range of {
		x := f.tensors[of+".weight"]
		x.data = slices.Clone(x.data)
		for j := range x.data {
			x.data[j] *= scales[i%len(scales)]
		}
		f.tensors[of+".weight"] = x
	}
}

// TestScales reads tensors of NVFP4 with scales: matrices with biases, several matrices in one
// tensor, experts, and embeddings that are also the last matrix.
func TestScales(t *testing.T) {
	expert := func(name string) (all []string) {
		for e := range 5 {
			all = append(all, fmt.Sprintf("model.layers.1.mlp.experts.%d.%s_proj", e, name))
		}
		return all
	}
	each := []float32{0.5, 1.25, -3, 0.75, 2}
	for _, c := range []archCase{
		{name: "matrices", gguf: func(r *reference) *fakeGGUF {
			f := newShapedGGUF(ggufShape{2, 64, 64, 4, 2, 16, 20}, "qwen2", one("NVFP4"))
			f.Set("qwen2.attention.key_length", uint32(16))
			f.Set("qwen2.attention.value_length", uint32(16))
			f.scaled("blk.0.attn_q", []float32{1.5}, "model.layers.0.self_attn.q_proj")
			f.scaled("blk.1.attn_v", []float32{0.375}, "model.layers.1.self_attn.v_proj")
			f.scaled("blk.1.attn_output", []float32{3}, "model.layers.1.self_attn.o_proj")
			f.scaled("blk.0.ffn_gate", []float32{2.25}, "model.layers.0.mlp.gate_proj")
			f.scaled("blk.0.ffn_down", []float32{-0.5}, "model.layers.0.mlp.down_proj")
			f.scaled("output", []float32{1.75}, "lm_head")
			r.head = 16
			return f
		}},
		{name: "one tensor and embeddings", gguf: func(r *reference) *fakeGGUF {
			f := newShapedGGUF(ggufShape{2, 64, 64, 4, 2, 16, 20}, "llama", one("NVFP4"))
			f.Set("llama.attention.key_length", uint32(16))
			f.Set("llama.attention.value_length", uint32(16))
			f.fuse("attn_qkv", "attn_q", "attn_k", "attn_v")
			f.scaled("blk.0.attn_qkv", []float32{1.5}, "model.layers.0.self_attn.q_proj",
				"model.layers.0.self_attn.k_proj", "model.layers.0.self_attn.v_proj")
			f.without("output.weight")
			f.scaled("token_embd", []float32{1.75}, "model.embed_tokens")
			r.head, r.tied = 16, true
			return f
		}},
		{name: "experts", gguf: func(r *reference) *fakeGGUF {
			f := moeGGUF(r, "qwen2moe", "Q8_0", func(*fakeGGUF) {})
			f.Set("qwen2moe.expert_shared_feed_forward_length", uint32(96))
			f.scaled("blk.1.ffn_gate_exps", each, expert("gate")...)
			f.scaled("blk.1.ffn_down_exps", each, expert("down")...)
			f.scaled("blk.0.ffn_up_shexp", []float32{1.5}, "model.layers.0.mlp.shared_expert.up_proj")
			return f
		}},
		{name: "experts with biases", gguf: func(r *reference) *fakeGGUF {
			f := gptGGUF(r)
			f.fuse("ffn_gate_up_exps", "ffn_gate_exps", "ffn_up_exps")
			f.scaled("blk.1.ffn_gate_up_exps", each, append(expert("gate"), expert("up")...)...)
			f.scaled("blk.1.ffn_down_exps", each, expert("down")...)
			return f
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ggufReference()
			f, path := c.gguf(&r), at(t, "fake.gguf")
			r.f = f.fake
			f.Write(t, path)
			m := openGGUF(t, path)
			compareLogits(t, m, false, archPrompt, r.logits(archPrompt))
			compareTokens(t, m, &r)
		})
	}
	for want, change := range map[string]func(*fakeGGUF){
		"blk.0.attn_q.scale has shape [2], want [1] by its metadata": func(f *fakeGGUF) {
			f.scaled("blk.0.attn_q", []float32{1, 2})
		},
		"blk.0.attn_q.scale has NaN, want finite numbers": func(f *fakeGGUF) {
			f.scaled("blk.0.attn_q", []float32{float32(math.NaN())})
		},
		"blk.0.attn_norm.scale, F32 [1], has no place": func(f *fakeGGUF) {
			f.scaled("blk.0.attn_norm", []float32{1})
		},
		"blk.0.attn_z.input_scale, F32 [1], has no place": func(f *fakeGGUF) {
			f.Tensors = append(f.Tensors, gguftest.Tensor{Name: "blk.0.attn_z.input_scale",
				Shape: []int{1}, Data: make([]byte, 4)})
		},
	} {
		f, path := newShapedGGUF(smallGGUF, "llama", one("Q8_0")), at(t, "fake.gguf")
		change(f)
		f.Write(t, path)
		_, _, err := (&options{model: path, weights: asStored}).open()
		if got := fmt.Sprint(err); !strings.Contains(got, want) {
			t.Errorf("the error is %v, want it to say %q", err, want)
		}
	}
}
