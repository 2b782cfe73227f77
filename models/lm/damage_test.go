package lm

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestHarmless reads folders with unusual contents that change nothing.
func TestHarmless(t *testing.T) {
	want := firstLogitsOf(t, newFake("F32").write(t))
	f := newFake("F32")
	f.add("none", 0, 24)
	f.add("neither", 3, 0)
	for name, x := range f.tensors {
		if len(x.shape) == 1 {
			x.shape = []int{1, x.shape[0]}
			f.tensors[name] = x
		}
	}
	folder := f.write(t)
	for _, file := range []string{"config.json", "tokenizer.json"} {
		data, err := os.ReadFile(filepath.Join(folder, file))
		must(t, err)
		write(file, "\ufeff"+string(data))(t, folder)
	}
	if got := firstLogitsOf(t, folder); !slices.Equal(got, want) {
		t.Errorf("the logits are %v, want %v", got, want)
	}
}

func firstLogitsOf(t *testing.T, folder string) []float32 {
	t.Helper()
	m, _, err := (&options{model: folder, weights: asStored}).open()
	must(t, err)
	return firstLogits(t, m, settings{workers: 2, places: 1, chunk: 16, context: 64}, false,
		[]int{3, 1, 4})
}

// TestDamagedFolders makes sure that an error names the file and what was expected of it.
func TestDamagedFolders(t *testing.T) {
	const single, down = "model.safetensors", "model.layers.1.mlp.down_proj.weight"
	set := func(key string, x any) func(*testing.T, *fake) {
		return func(_ *testing.T, f *fake) { f.config[key] = x }
	}
	model := func(key string, x any) func(*testing.T, *fake) {
		return func(_ *testing.T, f *fake) { f.tokenizer["model"].(map[string]any)[key] = x }
	}
	token := func(key string, x any) func(*testing.T, *fake) {
		return func(_ *testing.T, f *fake) { f.tokenizer[key] = x }
	}
	for _, c := range []struct {
		name   string
		before func(*testing.T, *fake)
		after  func(t *testing.T, folder string)
		want   []string
	}{
		{"no config", nil, remove("config.json"), []string{"config.json"}},
		{"config is not JSON", nil, write("config.json", "{"), []string{"config.json", "want JSON"}},
		{"a number is text", set("hidden_size", "24"), nil,
			[]string{"config.json", "want JSON", "hidden_size"}},
		{"no layers", set("num_hidden_layers", 0), nil,
			[]string{"config.json", "num_hidden_layers is 0, want 1 to"}},
		{"huge", set("vocab_size", 1<<30), nil, []string{"config.json", "vocab_size", "want 1 to"}},
		{"another architecture", set("model_type", "gemma"), nil,
			[]string{"config.json", `model_type is "gemma", want llama, arcee, mistral, ` +
				"mistral3, ministral3, mixtral, qwen2, qwen3, gemma2, gemma3_text, gemma3, " +
				"gemma4_text, gemma4, phi3, qwen2_moe, " +
				"qwen3_moe, gpt_oss, qwen3_next, qwen3_5_text, qwen3_5, qwen3_5_moe_text, " +
				"qwen3_5_moe, olmo2, olmo3, exaone4, smollm3, starcoder2, " +
				"seed_oss, ernie4_5, ernie4_5_moe, cohere2, glm4, granite, granitemoe, " +
				"granitemoeshared, " +
				"granitemoehybrid, lfm2, lfm2_moe or glm4_moe"}},
		{"no architecture", set("model_type", nil), nil, []string{`model_type is "", want llama, `}},
		{"heads", set("num_key_value_heads", 3), nil,
			[]string{"num_attention_heads is 4, want a multiple of num_key_value_heads, 3"}},
		{"odd head", set("head_dim", 7), nil, []string{"head_dim is 7, want an even"}},
		{"activation", set("hidden_act", "gelu"), nil, []string{`"gelu", want silu`}},
		{"window", set("sliding_window", 100), nil, []string{"sliding_window is 100, want null"}},
		{"epsilon", set("rms_norm_eps", -1), nil, []string{"rms_norm_eps is -1"}},
		{"epsilon as text", set("rms_norm_eps", "1e-6"), nil,
			[]string{"config.json", "want JSON", "rms_norm_eps"}},
		{"stops", set("eos_token_id", "x"), nil, []string{"config.json", "want JSON"}},
		{"rotations", set("rope_scaling", map[string]any{"type": "dynamic"}), nil,
			[]string{"config.json", `"dynamic", want llama3, linear or yarn`}},
		{"waves of yarn", set("rope_scaling", map[string]any{"type": "yarn", "factor": 2,
			"beta_fast": 1, "beta_slow": 2}), nil,
			[]string{"config.json", "rope_scaling of type yarn has beta_fast 1, beta_slow 2, "}},
		{"yarn's magnitude", set("rope_scaling", map[string]any{"type": "linear", "factor": 2,
			"mscale": 1}), nil, []string{`rope_scaling of type "linear" has mscale or mscale_all_dim`}},
		{"no magnitude", set("rope_scaling", map[string]any{"type": "yarn", "factor": 2,
			"mscale": -99, "mscale_all_dim": 1}), nil, []string{"attention_factor -5"}},
		{"no factor", set("rope_scaling", map[string]any{"type": "linear"}), nil,
			[]string{"type linear has factor 0, "}},
		{"no waves", set("rope_scaling", map[string]any{"rope_type": "llama3", "factor": 8}), nil,
			[]string{"low_freq_factor 0"}},

		{"no window", both(set("model_type", "mistral"), set("sliding_window", 0)), nil,
			[]string{"config.json", "sliding_window is 0, want null, or for others than llama 1 or more"}},
		{"a window that mistral has", both(set("model_type", "mistral"), both(
			set("sliding_window", 100), set("layer_types", []string{"sliding_attention",
				"full_attention"}))), nil,
			[]string{"config.json", `layer_types has "full_attention", want sliding_attention only`}},
		{"a window that qwen2 has not", both(set("model_type", "qwen2"), both(
			set("sliding_window", 100), set("layer_types", []string{"full_attention",
				"sliding_attention"}))), nil,
			[]string{"config.json", `layer_types has "sliding_attention", want full_attention only`}},
		{"other layers", both(both(set("model_type", "qwen2"), set("use_sliding_window", true)),
			set("layer_types", []string{"full_attention", "chunked_attention"})), nil,
			[]string{"config.json", `"chunked_attention", want full_attention or sliding_attention`}},
		{"layers", set("layer_types", []string{"full_attention", "sliding_attention"}), nil,
			[]string{"config.json", `"sliding_attention", want full_attention`}},
		{"fewer layers", set("layer_types", []string{"full_attention"}), nil,
			[]string{"config.json", "layer_types has 1 layers, want num_hidden_layers, 2"}},
		{"no key/value heads", set("num_key_value_heads", 0), nil,
			[]string{"config.json", "num_key_value_heads is 0, want 1 to"}},
		{"no theta", set("rope_theta", 0), nil, []string{"config.json", "rope_theta is 0, want"}},
		{"two thetas", set("rope_parameters", map[string]any{"rope_theta": 600}), nil,
			[]string{"config.json", "rope_theta is 500, and 600"}},
		{"two scalings", both(set("rope_parameters", map[string]any{"rope_type": "default"}),
			set("rope_scaling", map[string]any{"type": "linear", "factor": 2})), nil,
			[]string{"config.json", "rope_scaling and rope_parameters are both there"}},
		{"two types", set("rope_scaling", map[string]any{"type": "linear", "rope_type": "llama3"}), nil,
			[]string{"config.json", `rope_scaling has rope_type "llama3" and type "linear"`}},
		{"factor of nothing", set("rope_parameters", map[string]any{"factor": 4}), nil,
			[]string{"config.json", "rope_parameters has factor 4 without a rope_type"}},
		{"part of a head", set("partial_rotary_factor", 0.5), nil,
			[]string{"config.json", "partial_rotary_factor is 0.5, want 1 or null"}},
		{"another rotation", set("rope_scaling", map[string]any{"mrope_section": []int{2, 1, 1}}), nil,
			[]string{"config.json", "rope_scaling has mrope_section [2 1 1], want it only"}},
		{"AWQ", set("quantization_config", map[string]any{"quant_method": "awq"}), nil,
			[]string{"config.json", `quantization_config is {quant_method: "awq"}, want no such key`}},
		{"stop that never comes", set("eos_token_id", []int{19, 20}), nil,
			[]string{"config.json", "eos_token_id is 20, want 0 to 19"}},
		{"another stop that never comes", nil, write("generation_config.json", `{"eos_token_id": -1}`),
			[]string{"generation_config.json", "eos_token_id is -1, want 0 to 19"}},
		{"words that must not come", nil, write("generation_config.json", `{"bad_words_ids": [[3]]}`),
			[]string{"generation_config.json", "bad_words_ids is [[3]], want [] or null"}},
		{"biases that are missing", set("attention_bias", true), nil,
			[]string{"q_proj.bias, want one of shape [32]"}},
		{"biases of no use", func(_ *testing.T, f *fake) {
			f.add("model.layers.0.self_attn.q_proj.bias", 32)
		}, nil, []string{single, "q_proj.bias, F32 [32], has no place"}},

		{"an adapter", nil, write("adapter_config.json", "{}"),
			[]string{"adapter_config.json", "has an adapter, want a model without one"}},
		{"an adapter alone", nil, both(write("adapter_config.json", "{}"), remove("config.json")),
			[]string{"adapter_config.json"}},
		{"no tensors", nil, remove(single), []string{"want model.safetensors or",
			"model.safetensors.index.json"}},
		{"index is not JSON", nil, both(remove(single), write("model.safetensors.index.json", "x")),
			[]string{"index.json", "want JSON"}},
		{"index leads away", nil, both(remove(single),
			write("model.safetensors.index.json", `{"weight_map": {"a": "../b"}}`)),
			[]string{"index.json", `"../b"`, "same folder"}},
		{"a file of the index is missing", func(_ *testing.T, f *fake) {
			f.shards = 2
		}, remove("model-2.safetensors"), []string{"model-2.safetensors"}},
		{"twice", func(_ *testing.T, f *fake) { f.shards = 2 }, func(t *testing.T, folder string) {
			data, err := os.ReadFile(filepath.Join(folder, "model-1.safetensors"))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(folder, "model-2.safetensors"), data, 0o666))
		}, []string{"model-2.safetensors", "is in", "model-1.safetensors"}},
		{"empty", nil, write(single, ""), []string{single, "want a safetensors file: it is empty"}},
		{"header beyond the end", nil, write(single, "\xff\xff\xff\xff\xff\xff\xff\xffx"),
			[]string{single, "header", "no more than the file, which has 9"}},
		{"header cut off", nil, truncate(single, 100),
			[]string{single, "header", "no more than the file, which has 100"}},
		{"header is not JSON", nil, write(single, "\x02\x00\x00\x00\x00\x00\x00\x00[]"),
			[]string{single, "want a header of safetensors"}},
		{"header of something else", nil, header(func(h map[string]any) {
			h[down] = 1
		}), []string{single, "want a header of safetensors", "cannot unmarshal number"}},
		{"cut off", nil, truncate(single, -100), []string{single, "want them within the file"}},
		{"missing tensor", func(_ *testing.T, f *fake) {
			delete(f.tensors, down)
		}, nil, []string{down, "want one of shape [24 40]"}},
		{"missing part", func(_ *testing.T, f *fake) {
			delete(f.tensors, "model.layers.0.self_attn.k_proj.weight")
		}, nil, []string{"0.self_attn.k_proj", "want one of shape [16 24]"}},
		{"wrong shape", func(_ *testing.T, f *fake) {
			f.add(down, 40, 24)
		}, nil, []string{single, down, "shape [40 24], want [24 40] by config.json"}},
		{"shape by config", set("intermediate_size", 41), nil,
			[]string{single, "mlp.gate_proj", "shape [40 24], want [41 24] by config.json"}},
		{"dtype", func(_ *testing.T, f *fake) { f.kinds = map[string]string{down: "F8_E4M3"} }, nil,
			[]string{single, down, "has dtype F8_E4M3, want F32, F16 or BF16"}},
		{"integers", func(_ *testing.T, f *fake) { f.kinds = map[string]string{down: "I64"} }, nil,
			[]string{single, down, "has dtype I64, want F32, F16 or BF16"}},
		{"offsets beyond the end", nil, header(func(h map[string]any) {
			h[down].(map[string]any)["data_offsets"] = []int64{1 << 40, 1<<40 + 3840}
		}), []string{single, down, "within the file"}},
		{"negative offsets", nil, header(func(h map[string]any) {
			h[down].(map[string]any)["data_offsets"] = []int{-3840, 0}
		}), []string{single, down, "number -3840", "data_offsets"}},
		{"offsets backwards", nil, header(func(h map[string]any) {
			h[down].(map[string]any)["data_offsets"] = []int{3840, 0}
		}), []string{single, down, "within the file"}},
		{"too many bytes", nil, header(func(h map[string]any) {
			h[down].(map[string]any)["dtype"] = "BF16"
		}), []string{single, down, "3840 bytes, want 1920"}},
		{"overlap", nil, header(func(h map[string]any) {
			offsets := h["model.norm.weight"].(map[string]any)["data_offsets"].([]any)
			offsets[0] = offsets[0].(float64) - 4
		}), []string{single, `"model.norm.weight" begins at byte`, "neither overlap"}},
		{"all the same bytes", nil, header(func(h map[string]any) {
			h["another"] = h[down]
		}), []string{single, "begins at byte", "neither overlap"}},
		{"bytes of nobody", nil, header(func(h map[string]any) {
			delete(h, "model.norm.weight")
		}), []string{single, "bytes, want"}},
		{"bytes of nobody within", nil, header(func(h map[string]any) {
			delete(h, down)
		}), []string{single, "nor leave room"}},
		{"one offset", nil, header(func(h map[string]any) {
			h[down].(map[string]any)["data_offsets"] = []int{0}
		}), []string{single, down, "data_offsets, two numbers"}},
		{"no shape", nil, header(func(h map[string]any) {
			delete(h[down].(map[string]any), "shape")
		}), []string{single, down, "want dtype, shape"}},
		{"a key of a tensor", nil, header(func(h map[string]any) {
			h[down].(map[string]any)["scale"] = 2
		}), []string{single, down, `key "scale" is 2`}},
		{"metadata", nil, header(func(h map[string]any) {
			h["__metadata__"] = 1
		}), []string{single, "header of safetensors"}},
		{"the same name twice", nil, func(t *testing.T, folder string) {
			replaceInHeader(t, folder, "model.layers.1.mlp.gate_proj", "model.layers.0.mlp.gate_proj")
		}, []string{single, `"model.layers.0.mlp.gate_proj.weight" is there twice`}},
		{"index of others", func(_ *testing.T, f *fake) { f.shards = 2 }, func(t *testing.T,
			folder string) {
			write("model.safetensors.index.json", `{"weight_map": {"model.norm.weight":
				"model-1.safetensors", "lm_head.weight": "model-2.safetensors"}}`)(t, folder)
		}, []string{"index.json", `"lm_head.weight" in model-2.safetensors, which has no such`}},
		{"unknown weights", func(_ *testing.T, f *fake) {
			f.add("model.layers.0.self_attn.q_norm.weight", 8)
		}, nil, []string{single, "q_norm.weight, F32 [8], has no place"}},

		{"no tokenizer", nil, remove("tokenizer.json"), []string{"tokenizer.json"}},
		{"tokenizer is not JSON", nil, write("tokenizer.json", `{"model": `),
			[]string{"tokenizer.json", "want JSON"}},
		{"another kind of tokenizer", model("type", "Unigram"), nil,
			[]string{"tokenizer.json", `"Unigram", want BPE`}},
		{"added token of two numbers", token("added_tokens", []any{map[string]any{"id": 20,
			"content": "<s>"}, map[string]any{"id": 19, "content": "<|end|>"}}), nil,
			[]string{"tokenizer.json", `"<s>" is 20, and 17 elsewhere`}},
		{"merge without token", model("merges", []string{"a k"}), nil,
			[]string{"tokenizer.json", `makes "ak"`}},
		{"merge of one", model("merges", []string{"a"}), nil,
			[]string{"tokenizer.json", `merge "a", want two`}},
		{"normalizer", token("normalizer", map[string]any{"type": "Unheard"}), nil,
			[]string{"tokenizer.json", `"Unheard", want a Sequence or one of`}},
		{"pre-tokenizer", token("pre_tokenizer", map[string]any{"type": "Whitespace"}), nil,
			[]string{"tokenizer.json", `"Whitespace", want a Sequence or one of`}},
		{"pattern", token("pre_tokenizer", map[string]any{"type": "Split", "behavior": "Isolated",
			"pattern": map[string]any{"Regex": "("}}), nil, []string{"tokenizer.json", "missing closing )"}},
		{"template", token("post_processor", map[string]any{"type": "TemplateProcessing",
			"single": []any{map[string]any{"SpecialToken": map[string]any{"id": "<x>"}}}}), nil,
			[]string{"tokenizer.json", `"<x>", want one of special_tokens`}},
		{"another beginning", nil, write("special_tokens_map.json", `{"bos_token": "<|end|>"}`),
			[]string{"special_tokens_map.json", `bos_token is "<|end|>", token 19, want one that`}},
		{"added elsewhere", nil, write("added_tokens.json", `{"<s>": 18}`),
			[]string{"added_tokens.json", `"<s>" is 18, want 17 as elsewhere`}},
		{"added without text", token("added_tokens", []any{map[string]any{"id": 3}}), nil,
			[]string{"tokenizer.json", "added token 3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake("F32")
			if c.before != nil {
				c.before(t, f)
			}
			folder := f.write(t)
			if c.after != nil {
				c.after(t, folder)
			}
			_, _, err := (&options{model: folder, weights: -1}).open()
			if err == nil {
				t.Fatal("the folder was read")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error is %q, want it to say %q", err, want)
				}
			}
		})
	}
}

func remove(file string) func(*testing.T, string) {
	return func(t *testing.T, folder string) { must(t, os.Remove(filepath.Join(folder, file))) }
}

func write(file, text string) func(*testing.T, string) {
	return func(t *testing.T, folder string) {
		must(t, os.WriteFile(filepath.Join(folder, file), []byte(text), 0o666))
	}
}

// both does two things to a folder or to a fake.
func both[T any](a, b func(*testing.T, T)) func(*testing.T, T) {
	return func(t *testing.T, to T) { a(t, to); b(t, to) }
}

// replaceInHeader replaces a text by one of the same length.
func replaceInHeader(t *testing.T, folder, old, new string) {
	path := filepath.Join(folder, "model.safetensors")
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, bytes.Replace(data, []byte(old), []byte(new), 1), 0o666))
}

// truncate leaves n bytes, or drops −n from the end.
func truncate(file string, n int) func(*testing.T, string) {
	return func(t *testing.T, folder string) {
		data, err := os.ReadFile(filepath.Join(folder, file))
		must(t, err)
		if n < 0 {
			n += len(data)
		}
		must(t, os.WriteFile(filepath.Join(folder, file), data[:n], 0o666))
	}
}

// header changes a safetensors file's description of its tensors.
func header(change func(map[string]any)) func(*testing.T, string) {
	return func(t *testing.T, folder string) {
		path := filepath.Join(folder, "model.safetensors")
		data, err := os.ReadFile(path)
		must(t, err)
		n := binary.LittleEndian.Uint64(data)
		h := map[string]any{}
		must(t, json.Unmarshal(data[8:8+n], &h))
		change(h)
		text, err := json.Marshal(h)
		must(t, err)
		must(t, os.WriteFile(path, append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))),
			text...), data[8+n:]...), 0o666))
	}
}
