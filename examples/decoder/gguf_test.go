package main

import (
	"cmp"
	"testing"
)

var ggufPrompt = []int{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 17, 19}

// openGGUF opens a file as the command does.
func openGGUF(t *testing.T, path string) *model {
	t.Helper()
	m, _, err := (&options{model: path, weights: -1}).open()
	must(t, err)
	return m
}

// TestBlockTypes compares logits with those of float64 over what the blocks of a file mean.
func TestBlockTypes(t *testing.T) {
	for _, kind := range allBlockTypes {
		for _, architecture := range []string{"llama", "qwen3"} {
			f, r := newGGUF(architecture, one(kind)), ggufReference()
			r.f = f.fake
			path := at(t, "fake.gguf")
			f.Write(t, path)
			t.Run(kind+" "+architecture, func(t *testing.T) {
				compareLogits(t, openGGUF(t, path), false, ggufPrompt, r.logits(ggufPrompt))
			})
		}
	}
}

// TestGGUF reads what else files may have.
func TestGGUF(t *testing.T) {
	for _, c := range []struct {
		name, architecture string
		change             func(*fakeGGUF, *reference)
	}{
		{"biases of qwen2", "qwen2", func(*fakeGGUF, *reference) {}},
		{"tied", "llama", func(f *fakeGGUF, r *reference) {
			f.without("output.weight")
			r.tied = true
		}},
		{"another alignment", "llama", func(f *fakeGGUF, _ *reference) { f.Align = 128 }},
		{"what is usual", "llama", func(f *fakeGGUF, r *reference) {
			for _, key := range []string{"rope.freq_base", "rope.dimension_count", "vocab_size"} {
				f.Set("llama."+key, nil)
			}
			r.theta = 10000
		}},
		{"sizes of heads", "llama", func(f *fakeGGUF, _ *reference) {
			f.Set("llama.attention.key_length", uint32(ggufHead))
			f.Set("llama.attention.value_length", uint32(ggufHead))
		}},
		{"a window", "llama", func(f *fakeGGUF, r *reference) {
			f.Set("llama.attention.sliding_window", uint32(5))
			r.windows = map[int]int{0: 5, 1: 5}
		}},
		{"no window", "llama", func(f *fakeGGUF, r *reference) {
			f.Set("llama.attention.sliding_window", uint32(0))
		}},
		{"a window of each other layer", "qwen3", func(f *fakeGGUF, r *reference) {
			f.Set("qwen3.attention.sliding_window", uint32(5))
			f.Set("qwen3.attention.sliding_window_pattern", uint32(2))
			r.windows = map[int]int{0: 5}
		}},
		{"a window of some layers", "qwen2", func(f *fakeGGUF, r *reference) {
			f.Set("qwen2.attention.sliding_window", uint32(5))
			f.Set("qwen2.attention.sliding_window_pattern", []bool{false, true})
			r.windows = map[int]int{1: 5}
		}},
		{"YaRN", "qwen3", func(f *fakeGGUF, r *reference) {
			f.Set("qwen3.rope.scaling.type", "yarn")
			f.Set("qwen3.rope.scaling.factor", float32(4))
			f.Set("qwen3.rope.scaling.original_context_length", uint32(64))
			r.yarn, r.factor, r.original = true, 4, 64
		}},
		{"YaRN of pairs", "llama", func(f *fakeGGUF, r *reference) {
			f.Set("llama.rope.scaling.type", "yarn")
			f.Set("llama.rope.scaling.factor", float32(2))
			f.Set("llama.rope.scaling.yarn_beta_fast", float32(32))
			f.Set("llama.rope.scaling.yarn_beta_slow", float32(1))
			f.Set("llama.rope.scaling.attn_factor", float32(1))
			r.yarn, r.factor, r.original = true, 2, 512
		}},
		{"linear rotations", "llama", func(f *fakeGGUF, r *reference) {
			f.Set("llama.rope.scaling.type", "linear")
			f.Set("llama.rope.scaling.factor", float32(2.5))
			r.factor, r.linear = 2.5, true
		}},
		{"linear rotations of older files", "llama", func(f *fakeGGUF, r *reference) {
			f.Set("llama.rope.scale_linear", float32(2.5))
			r.factor, r.linear = 2.5, true
		}},
		{"rotations that are not stretched", "llama", func(f *fakeGGUF, r *reference) {
			f.Set("llama.rope.scaling.type", "none")
			f.Set("llama.rope.scaling.factor", float32(8))
		}},
		{"a factor of nothing", "llama", func(f *fakeGGUF, r *reference) {
			f.Set("llama.rope.scaling.factor", float32(0))
		}},
		{"factors of Llama 3.1", "llama", func(f *fakeGGUF, r *reference) {
			f.tensor("rope_freqs.weight", one("F32"), ggufHead/2)
			f.tensors["factors"] = f.tensors["rope_freqs.weight"]
		}},
		{"several types, as in Q4_K_M", "llama", func(f *fakeGGUF, _ *reference) {
			*f = *newGGUF("llama", func(name string) string {
				return cmp.Or(map[string]string{"model.embed_tokens.weight": "Q6_K", "lm_head.weight": "Q6_K",
					"model.layers.0.self_attn.v_proj.weight": "Q6_K",
					"model.layers.1.mlp.down_proj.weight":    "Q5_K",
					"model.layers.1.self_attn.k_proj.weight": "F16",
					"model.layers.1.mlp.up_proj.weight":      "F32"}[name], "Q4_K")
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, r := newGGUF(c.architecture, one("Q8_0")), ggufReference()
			c.change(f, &r)
			r.f = f.fake
			path, want := at(t, "fake.gguf"), r.logits(ggufPrompt)
			f.Write(t, path)
			compareLogits(t, openGGUF(t, path), false, ggufPrompt, want)
			compareLogits(t, openGGUF(t, f.writeSplit(t, 3)), false, ggufPrompt, want)
		})
	}
}
