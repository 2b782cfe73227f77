package lm

import (
	"cmp"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/dev/gguftest"
)

var ggufPrompt = []int{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 17, 19}

// openGGUF opens a file as the command does.
func openGGUF(t *testing.T, path string) *model {
	t.Helper()
	m, _, err := (&options{model: path, weights: -1}).open()
	must(t, err)
	return m
}

// TestBlockTypes compares logits with float64 over the decoded blocks of a file: in float32, in
// bfloat16, and in integers, with keys and values of 8 and of 4 bits.
func TestBlockTypes(t *testing.T) {
	for _, kind := range allBlockTypes {
		t.Run(kind, func(t *testing.T) {
			f, r := newGGUF("llama", one(kind)), ggufReference()
			path := at(t, "fake.gguf")
			f.Write(t, path)
			r.f = f.fake
			want := r.logits(ggufPrompt)
			compareLogits(t, openGGUF(t, path), false, ggufPrompt, want)
			decoded, _, err := (&options{model: path, weights: attn.F32}).open()
			must(t, err)
			compareLogits(t, decoded, true, ggufPrompt, want)
			m, _, err := (&options{model: path, weights: asStored, bfloat16: true}).open()
			must(t, err)
			s := settings{workers: 2, places: 1, chunk: 16, context: 64, keys: attn.F16}
			if got := distanceTo(firstLogits(t, m, s, false, ggufPrompt), want); !(got > 0 && got < 0.01) {
				t.Errorf("in bfloat16: logits differ by %.4f of their deviation, want less than 0.01", got)
			}
			m, _, err = (&options{model: path, weights: asStored,
				settings: settings{integers: true}}).open()
			must(t, err)
			for _, c := range []struct {
				kind, values attn.Format
				most         float64
			}{{attn.I8, 0, 0.03}, {attn.I8, attn.I4, 0.2}, {attn.I4, 0, 0.25}} {
				s := settings{workers: 2, places: 1, chunk: 16, context: 64, keys: c.kind, values: c.values,
					integers: true}
				got := distanceTo(firstLogits(t, m, s, false, ggufPrompt), want)
				if !(got > 0 && got < c.most) {
					t.Errorf("in integers, keys of %v: logits differ by %.4f of their deviation, want less than "+
						"%v", c.kind, got, c.most)
				}
			}
		})
	}
}

// distanceTo returns the mean difference of logits divided by their standard deviation.
func distanceTo(got []float32, want []float64) float64 {
	exact := make([]float32, len(want))
	for i, x := range want {
		exact[i] = float32(x)
	}
	mean, _ := distance([][]float32{exact}, [][]float32{got})
	return mean
}

// TestProveGGUF compares the bits of logits in any batch, for blocks in integers and in bfloat16.
func TestProveGGUF(t *testing.T) {
	f, path := newShapedGGUF(smallGGUF, "qwen3", one("IQ4_NL")), at(t, "fake.gguf")
	f.Write(t, path)
	m, _, err := (&options{model: path, weights: asStored, settings: settings{integers: true}}).open()
	must(t, err)
	prove(t, m, settings{keys: attn.I8, values: attn.I4, integers: true})
	m, _, err = (&options{model: path, weights: asStored, bfloat16: true}).open()
	must(t, err)
	prove(t, m, settings{keys: attn.F16})
}

// ggufCases are other things that files may have.
var ggufCases = []struct {
	name, architecture string
	change             func(*fakeGGUF, *reference)
}{
	{"biases of qwen2", "qwen2", func(*fakeGGUF, *reference) {}},
	{"tied", "llama", func(f *fakeGGUF, r *reference) {
		f.without("output.weight")
		r.tied = true
	}},
	{"what changes nothing", "qwen2", func(f *fakeGGUF, _ *reference) {
		f.Set("qwen2.attention.head_count", []uint32{4, 4})
		f.Set("qwen2.attention.head_count_kv", []int32{2, 2})
		f.Set("qwen2.feed_forward_length", []uint32{uint32(f.ffn), uint32(f.ffn)})
		f.Set("general.parameter_count", uint64(1)<<40)
		f.Set("general.description", "caf\xe9")
		f.Set("general.tags", []string{"\xff"})
		f.Set("quantize.imatrix.file", "\xff")
		f.Tensors = slices.Insert(f.Tensors, 2, gguftest.Tensor{Name: "none", Shape: []int{0, 64}})
		for i, x := range f.Tensors {
			if len(x.Shape) == 1 {
				f.Tensors[i].Shape = []int{1, 1, x.Shape[0]}
			}
		}
	}},
	{"another alignment", "llama", func(f *fakeGGUF, _ *reference) { f.Align = 128 }},
	{"what is usual", "llama", func(f *fakeGGUF, r *reference) {
		for _, key := range []string{"rope.freq_base", "rope.dimension_count", "vocab_size"} {
			f.Set("llama."+key, nil)
		}
		r.theta = 10000
	}},
	{"sizes of heads", "llama", func(f *fakeGGUF, _ *reference) {
		f.Set("llama.attention.key_length", uint32(f.head))
		f.Set("llama.attention.value_length", uint32(f.head))
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
		f.tensor("rope_freqs.weight", one("F32"), f.head/2)
		x := make([]float32, f.head/2)
		for i := range x {
			x[i] = 1 + float32(i)/4
		}
		f.setData("rope_freqs.weight", x)
		f.tensors["factors"] = fakeTensor{[]int{len(x)}, x}
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
	{"other types", "llama", func(f *fakeGGUF, _ *reference) {
		*f = *newGGUF("llama", func(name string) string {
			return cmp.Or(map[string]string{"model.embed_tokens.weight": "IQ4_XS",
				"lm_head.weight":                         "NVFP4",
				"model.layers.0.self_attn.v_proj.weight": "Q2_K",
				"model.layers.1.mlp.down_proj.weight":    "TQ1_0",
				"model.layers.1.self_attn.k_proj.weight": "TQ2_0"}[name], "Q3_K")
		})
	}},
	{"rows of part of 256, as in Q4_K_M", "qwen2", func(f *fakeGGUF, _ *reference) {
		*f = *newShapedGGUF(ggufShape{2, 96, 256, 4, 2, 64, 20}, "qwen2", func(name string) string {
			return cmp.Or(map[string]string{"model.embed_tokens.weight": "Q8_0", "lm_head.weight": "Q8_0",
				"model.layers.0.self_attn.v_proj.weight": "Q8_0",
				"model.layers.0.mlp.down_proj.weight":    "Q6_K",
				"model.layers.1.mlp.down_proj.weight":    "Q3_K",
				"model.layers.1.self_attn.k_proj.weight": "Q5_1",
				"model.layers.1.self_attn.v_proj.weight": "Q4_1"}[name], "Q5_0")
		})
		f.Set("qwen2.attention.key_length", uint32(f.head))
		f.Set("qwen2.attention.value_length", uint32(f.head))
	}},
}

// TestGGUF compares logits with float64.
func TestGGUF(t *testing.T) {
	for _, c := range ggufCases {
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
