package lm

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/dev/gguftest"
)

// TestDamagedGGUF makes sure that an error names the file, what was found and what was expected.
func TestDamagedGGUF(t *testing.T) {
	set := func(key string, value any) func(*fakeGGUF) {
		return func(f *fakeGGUF) { f.Set(key, value) }
	}
	both := func(all ...func(*fakeGGUF)) func(*fakeGGUF) {
		return func(f *fakeGGUF) {
			for _, change := range all {
				change(f)
			}
		}
	}
	const q = "blk.0.attn_q.weight"
	for _, c := range []struct {
		name   string
		change func(*fakeGGUF)
		want   string
	}{
		{"architecture", set("general.architecture", "mamba"),
			`general.architecture is "mamba", want llama, arcee, exaone, ` +
				`internlm2, mistral3, qwen2, qwen3, gemma2, gemma3, gemma4, phi3, ` +
				"qwen2moe, qwen3moe, gpt-oss, qwen3next, qwen35, qwen35moe, olmo2, exaone4, smollm3, " +
				"starcoder2, seed_oss, ernie4_5, ernie4_5-moe, cohere2, glm4, granite, granitemoe, " +
				"granitehybrid, lfm2, lfm2moe or glm4moe"},
		{"no architecture", set("general.architecture", nil), `general.architecture is "", want`},
		{"architecture of a number", set("general.architecture", uint32(3)), "architecture"},
		{"adapter", set("general.type", "adapter"), `general.type is "adapter", want "model"`},
		{"general key", set("general.unheard", uint8(7)),
			`key "general.unheard" is 7, want only keys that are known`},
		{"key of the architecture", set("llama.swin_norm", float32(0.5)),
			`key "llama.swin_norm" is 0.5, want only keys`},
		{"key of the tokenizer", set("tokenizer.ggml.unheard", "x"),
			`key "tokenizer.ggml.unheard" is "x"`},
		{"key of another group", set("adapter.lora.alpha", float32(16)),
			`key "adapter.lora.alpha" is 16`},
		{"key of another architecture", set("qwen2.block_count", uint32(2)), `key "qwen2.block_count"`},
		{"key without a group", set("unheard", []string{"a", "b"}), `key "unheard" is ["a","b"]`},
		{"experts", set("llama.expert_count", uint32(8)),
			"llama.expert_used_count is not there, want 1 to"},
		{"yarn of others", set("llama.rope.scaling.yarn_log_multiplier", float32(0.1)),
			"llama.rope.scaling.yarn_log_multiplier is 0.1, want 0"},
		{"no layers", set("llama.block_count", nil), "llama.block_count is not there, want 1 to"},
		{"layers in words", set("llama.block_count", "two"), "block_count"},
		{"fractions of layers", set("llama.block_count", float32(1.5)), "block_count"},
		{"heads by layer", set("llama.attention.head_count_kv", []uint32{2, 1}),
			"llama.attention.head_count_kv is [2 1], want one number, or the same for each of 2 layers"},
		{"heads of more layers", set("llama.attention.head_count", []uint32{4, 4, 4}),
			"llama.attention.head_count has 3 numbers, want one, or block_count, 2"},
		{"no UTF-8", set("general.architecture", "\xffllama"),
			`key "general.architecture" is "\xffllama", want UTF-8`},
		{"a token that is no UTF-8", func(f *fakeGGUF) { f.rename(3, "\xff") },
			`key "tokenizer.ggml.tokens" has "\xff", want UTF-8`},
		{"a key of others that is no UTF-8", set("other.unheard", "\xff"),
			`key "other.unheard" is "\xff", want UTF-8`},
		{"epsilon as text", set("llama.attention.layer_norm_rms_epsilon", "1e-6"),
			"layer_norm_rms_epsilon"},

		{"heads", set("llama.attention.head_count_kv", uint32(3)),
			"llama.attention.head_count is 4, want a multiple of llama.attention.head_count_kv, 3"},
		{"odd heads", both(set("llama.attention.key_length", uint32(63)),
			set("llama.rope.dimension_count", nil)), "llama.attention.key_length is 63, want an even"},
		{"values of other sizes", set("llama.attention.value_length", uint32(32)),
			"llama.attention.value_length is 32, want 64"},
		{"part of a head", set("llama.rope.dimension_count", uint32(32)),
			"llama.rope.dimension_count is 32, want 64"},
		{"vocabulary", set("llama.vocab_size", uint32(21)), "llama.vocab_size is 21, want 20"},
		{"no epsilon", set("llama.attention.layer_norm_rms_epsilon", nil),
			"llama.attention.layer_norm_rms_epsilon is not there"},
		{"epsilon", set("llama.attention.layer_norm_rms_epsilon", float32(-1)),
			"llama.attention.layer_norm_rms_epsilon is -1, want 0 or more"},
		{"theta", set("llama.rope.freq_base", float32(0)), "llama.rope.freq_base is 0, want 1"},
		{"window", set("llama.attention.sliding_window", int32(-1)),
			"llama.attention.sliding_window is -1, want 0 or more"},
		{"pattern", both(set("llama.attention.sliding_window", uint32(4)),
			set("llama.attention.sliding_window_pattern", []bool{true})),
			"llama.attention.sliding_window_pattern has 1 layers, want block_count, 2"},
		{"no pattern", set("llama.attention.sliding_window_pattern", uint32(0)),
			"attention.sliding_window_pattern is 0, want 1 or more, or bools"},
		{"scaling", set("llama.rope.scaling.type", "longrope"),
			`llama.rope.scaling.type is "longrope", want none, linear or yarn`},
		{"two factors", both(set("llama.rope.scaling.factor", float32(2)),
			set("llama.rope.scale_linear", float32(2))), "llama.rope.scaling.factor is 2, and"},
		{"factor", set("llama.rope.scaling.factor", float32(0.5)),
			"llama.rope.scaling of type linear has factor 0.5, want 1 or more"},
		{"magnitude", set("llama.rope.scaling.attn_factor", float32(2)),
			`llama.rope.scaling.attn_factor is 2 and rope.scaling.type "linear"`},

		{"tokenizer", set("tokenizer.ggml.model", "bert"),
			`tokenizer.ggml.model is "bert", want gpt2, llama or gemma4`},
		{"pre-tokenizer", set("tokenizer.ggml.pre", "unheard"),
			`tokenizer.ggml.pre is "unheard", want one of chatglm-bpe, command-r, dbrx,`},
		{"no pre-tokenizer", set("tokenizer.ggml.pre", nil), `tokenizer.ggml.pre is "", want`},
		{"no scores", set("tokenizer.ggml.model", "llama"),
			"tokenizer.ggml.scores has 0 elements, want 20"},
		{"few types", set("tokenizer.ggml.token_type", []int32{1}),
			"tokenizer.ggml.token_type has 1 elements, want 20"},
		{"a type", set("tokenizer.ggml.token_type", make([]int32, 20)),
			"tokenizer.ggml.token_type[0] is 0, want 1 to 6"},
		{"stop", set("tokenizer.ggml.eos_token_id", uint32(20)),
			"tokenizer.ggml.eos_token_id is 20, want 0 to 19"},
		{"no beginning", set("tokenizer.ggml.bos_token_id", nil),
			"there is no tokenizer.ggml.bos_token_id"},
		{"no end", both(set("tokenizer.ggml.eos_token_id", nil),
			set("tokenizer.ggml.add_eos_token", true)), "there is no tokenizer.ggml.eos_token_id"},
		{"merges", set("tokenizer.ggml.merges", []string{"ab"}),
			`tokenizer.ggml: merges[0] is "ab", want two tokens`},
		{"merge of nothing", set("tokenizer.ggml.merges", []string{""}), `merges[0] is ""`},
		{"merge of others", set("tokenizer.ggml.merges", []string{"a c"}), `makes "ac" of "a" and "c"`},

		{"a type that is not read", func(f *fakeGGUF) {
			x := f.tensorNamed(q)
			x.Type, x.Data = 15, make([]byte, 256*292)
		}, "tensor " + q + " has type Q8_K, want F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, "},
		{"a scale of five bits that is no number", func(f *fakeGGUF) {
			x := f.tensorNamed(q)
			x.Type, x.Data = 6, make([]byte, 256*256/32*22)
			copy(x.Data[22:], "\x00\x7e")
		}, "tensor " + q + ": data of Q5_0: block 1 of output 0: the scale d is"},
		{"a minimum that is no number", func(f *fakeGGUF) {
			x := f.tensorNamed(q)
			x.Type, x.Data = 3, make([]byte, 256*256/32*20)
			copy(x.Data[22:], "\x00\x7e")
		}, "tensor " + q + ": data of Q4_1: block 1 of output 0: the scale m is"},
		{"a type that nobody knows", func(f *fakeGGUF) { f.tensorNamed(q).Type = 77 },
			"tensor " + q + " has type type 77, want F32"},
		{"a scale that is no number", func(f *fakeGGUF) { copy(f.tensorNamed(q).Data[34:], "\x00\x7e") },
			"tensor " + q + ": "},
		{"missing", func(f *fakeGGUF) { f.without(q) },
			"no GGUF file has tensor " + q + ", want one of shape [256 256]"},
		{"shape", func(f *fakeGGUF) { f.tensorNamed(q).Shape = []int{128, 512} },
			"tensor " + q + " has shape [128 512], want [256 256] by its metadata"},
		{"of no use", func(f *fakeGGUF) { f.tensor("rope_factors_long.weight", one("F32"), 32) },
			"tensor rope_factors_long.weight, F32 [32], has no place"},
		{"part of another", set("split.count", uint16(2)),
			"split.no is 0 and split.count 2, want the first file, with no 0 and a name that ends in " +
				"-00001-of-00002.gguf"},
		{"not the first", both(set("split.count", uint16(2)), set("split.no", uint16(1))),
			"split.no is 1 and split.count 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newGGUF("llama", one("Q8_0"))
			c.change(f)
			path := at(t, "fake.gguf")
			f.Write(t, path)
			_, _, err := (&options{model: path, weights: asStored}).open()
			if got := fmt.Sprint(err); !strings.Contains(got, c.want) || !strings.Contains(got, path) {
				t.Errorf("the error is %v, want it to name the file and say %q", err, c.want)
			}
		})
	}
}

// TestDamagedParts damages one of several files.
func TestDamagedParts(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, second string, files []*gguftest.File)
		want   string
	}{
		{"missing", func(t *testing.T, second string, _ []*gguftest.File) {
			must(t, os.Remove(second))
		}, "fake-00002-of-00003.gguf: no such file"},
		{"another part", func(t *testing.T, second string, files []*gguftest.File) {
			files[2].Write(t, second)
		}, "fake-00002-of-00003.gguf: split.no is "},
		{"another model", func(t *testing.T, second string, files []*gguftest.File) {
			files[1].Set("split.count", uint16(4))
			files[1].Write(t, second)
		}, "fake-00002-of-00003.gguf: split.count is 4, want 3 as the first file says"},
		{"more keys", func(t *testing.T, second string, files []*gguftest.File) {
			files[1].Set("llama.rope.freq_base", float32(3))
			files[1].Write(t, second)
		}, "fake-00002-of-00003.gguf: llama.rope.freq_base is 3, want 500 as the first file says"},
		{"the same tensor", func(t *testing.T, second string, files []*gguftest.File) {
			files[1].Tensors = append(files[1].Tensors, files[0].Tensors[0])
			files[1].Write(t, second)
		}, `fake-00002-of-00003.gguf: tensor "blk.0.attn_k.weight" is in `},
		{"fewer tensors", func(t *testing.T, second string, files []*gguftest.File) {
			files[1].Tensors = files[1].Tensors[1:]
			files[1].Write(t, second)
		}, "split.tensors.count is 21, want 20 as the files have"},
		{"no GGUF", func(t *testing.T, second string, _ []*gguftest.File) {
			must(t, os.WriteFile(second, []byte("tomorrow"), 0o666))
		}, `fake-00002-of-00003.gguf: want a GGUF file: it begins with "tomo"`},
	} {
		f := newGGUF("llama", one("Q8_0"))
		first := f.writeSplit(t, 3)
		c.change(t, strings.Replace(first, "00001", "00002", 1), f.Split(3))
		_, _, err := (&options{model: first, weights: asStored}).open()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want it to say %q", c.name, err, c.want)
		}
	}
}

// TestUnknownKeysGGUF adds a key to each group of keys.
func TestUnknownKeysGGUF(t *testing.T) {
	for _, group := range []string{"general", "llama", "llama.rope", "tokenizer", "tokenizer.ggml",
		"split", "quantize", "other"} {
		f := newGGUF("llama", one("Q8_0"))
		f.Set(group+".unheard_of", "ünheard")
		path := at(t, "fake.gguf")
		f.Write(t, path)
		_, _, err := (&options{model: path, weights: asStored}).open()
		if want := path + `: key "` + group + `.unheard_of" is "ünheard", want only keys`; err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("the error is %v, want it to begin with %q", err, want)
		}
	}
}

// FuzzGGUF changes bytes of a file, mostly in its header: the result is an error or a complete
// model.
func FuzzGGUF(f *testing.F) {
	good := newShapedGGUF(smallGGUF, "llama", one("Q4_0")).Bytes()
	header := bytes.Index(good, []byte("token_embd.weight")) + 40
	source := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		f.Add(uint32(source.IntN(header)), uint32(source.IntN(header)), byte(source.IntN(256)),
			byte(source.IntN(256)))
	}
	path := f.TempDir() + "/fake.gguf"
	f.Fuzz(func(t *testing.T, i, j uint32, a, b byte) {
		data := slices.Clone(good)
		data[int(i)%len(data)], data[int(j)%header] = a, b
		must(t, os.WriteFile(path, data, 0o666))
		m, text, err := (&options{model: path, weights: asStored}).open()
		if err != nil {
			return
		}
		if m.head.Matrix == nil || len(m.layers) != m.Layers {
			t.Errorf("a model of %d layers has %d, and a head: %v", m.Layers, len(m.layers),
				m.head.Matrix != nil)
		}
		_, _ = text.Encode("abc abc") // may be an error
	})
}
