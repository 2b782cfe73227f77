package lm

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// fake is a published model with few and small weights. Tests write and damage it, and compute it
// independently.
type fake struct {
	config    map[string]any
	tensors   map[string]fakeTensor
	kind      string            // F32, F16 or BF16, or one that is refused
	kinds     map[string]string // of some tensors; nil if all have kind
	tokenizer map[string]any
	shards    int             // files; 0 is one without an index
	hidden    map[string]bool // tensors that only the reference has
}

type fakeTensor struct {
	shape []int
	data  []float32
}

// newFake has weights of eight significant bits, so that all types represent them.
func newFake(kind string) *fake {
	f := &fake{kind: kind, tensors: map[string]fakeTensor{}, config: map[string]any{
		"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 24, "num_attention_heads": 4,
		"num_key_value_heads": 2, "head_dim": 8,
		"intermediate_size": 40, "vocab_size": 20, "rms_norm_eps": 1e-5, "rope_theta": 500,
		"eos_token_id":            19,
		"max_position_embeddings": 512, "torch_dtype": "as below",
	}}
	f.add("model.embed_tokens.weight", 20, 24)
	for _, at := range []string{"model.layers.0.", "model.layers.1."} {
		f.add(at+"input_layernorm.weight", 24)
		f.add(at+"self_attn.q_proj.weight", 32, 24)
		f.add(at+"self_attn.k_proj.weight", 16, 24)
		f.add(at+"self_attn.v_proj.weight", 16, 24)
		f.add(at+"self_attn.o_proj.weight", 24, 32)
		f.add(at+"post_attention_layernorm.weight", 24)
		f.add(at+"mlp.gate_proj.weight", 40, 24)
		f.add(at+"mlp.up_proj.weight", 40, 24)
		f.add(at+"mlp.down_proj.weight", 24, 40)
	}
	f.add("model.norm.weight", 24)
	f.add("lm_head.weight", 20, 24)
	vocab := map[string]int{"Ġ": 12, "ab": 13, "abc": 14, "Ġa": 15, "Ġabc": 16, "<s>": 17,
		"<|end|>": 19}
	for i, c := range "abcdefghijkl" {
		vocab[string(c)] = i
	}
	f.tokenizer = map[string]any{
		"added_tokens": []any{map[string]any{"id": 17, "content": "<s>"},
			map[string]any{"id": 19, "content": "<|end|>"}},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false,
			"use_regex": true},
		"post_processor": map[string]any{"type": "TemplateProcessing",
			"single": []any{map[string]any{"SpecialToken": map[string]any{"id": "<s>"}},
				map[string]any{"Sequence": map[string]any{"id": "A"}}}},
		"model": map[string]any{"type": "BPE", "vocab": vocab,
			"merges": []any{"a b", []any{"ab", "c"}, "Ġ a", "Ġ abc"}},
	}
	return f
}

// fuse replaces several matrices by one tensor in each layer. The reference keeps them.
func (f *fake) fuse(all string, names ...string) {
	for _, at := range []string{"model.layers.0.", "model.layers.1."} {
		fused := fakeTensor{shape: []int{0, f.tensors[at+names[0]+".weight"].shape[1]}}
		for _, name := range names {
			x := f.tensors[at+name+".weight"]
			fused.shape[0] += x.shape[0]
			fused.data = append(fused.data, x.data...)
			f.hide(at + name + ".weight")
		}
		f.tensors[at+all+".weight"] = fused
	}
}

// hide keeps a tensor out of the files.
func (f *fake) hide(name string) {
	if f.hidden == nil {
		f.hidden = map[string]bool{}
	}
	f.hidden[name] = true
}

// rename gives an added token another text.
func (f *fake) rename(was, text string) {
	vocab := f.tokenizer["model"].(map[string]any)["vocab"].(map[string]int)
	vocab[text] = vocab[was]
	delete(vocab, was)
	for _, a := range f.tokenizer["added_tokens"].([]any) {
		if a := a.(map[string]any); a["content"] == was {
			a["content"] = text
		}
	}
}

func (f *fake) add(name string, shape ...int) {
	source := rand.New(rand.NewPCG(uint64(len(f.tensors)), 7))
	n := 1
	for _, s := range shape {
		n *= s
	}
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(source.IntN(255)-127) / 256
		if len(shape) == 1 {
			x[i] += 1 // a multiple of 1/256 below 2 has nine bits
			x[i] = float32(math.Round(float64(x[i])*64) / 64)
		}
	}
	f.tensors[name] = fakeTensor{shape, x}
}

// write writes the folder.
func (f *fake) write(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	writeJSON(t, filepath.Join(folder, "config.json"), f.config)
	writeJSON(t, filepath.Join(folder, "tokenizer.json"), f.tokenizer)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(f.tensors)), func(name string) bool {
		return f.hidden[name]
	})
	if f.shards == 0 {
		f.writeTensors(t, filepath.Join(folder, "model.safetensors"), names)
		return folder
	}
	files := map[string]string{}
	for i := range f.shards {
		file := "model-" + string(rune('1'+i)) + ".safetensors"
		part := names[len(names)*i/f.shards : len(names)*(i+1)/f.shards]
		f.writeTensors(t, filepath.Join(folder, file), part)
		for _, name := range part {
			files[name] = file
		}
	}
	writeJSON(t, filepath.Join(folder, "model.safetensors.index.json"),
		map[string]any{"weight_map": files})
	return folder
}

func writeJSON(t *testing.T, path string, x any) {
	t.Helper()
	data, err := json.Marshal(x)
	must(t, err)
	must(t, os.WriteFile(path, data, 0o666))
}

func (f *fake) writeTensors(t *testing.T, path string, names []string) {
	t.Helper()
	header := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	var data []byte
	for _, name := range names {
		from := len(data)
		kind := cmp.Or(f.kinds[name], f.kind)
		for _, x := range f.tensors[name].data {
			data = appendElement(data, kind, x)
		}
		header[name] = map[string]any{"dtype": kind, "shape": f.tensors[name].shape,
			"data_offsets": []int{from, len(data)}}
	}
	text, err := json.Marshal(header)
	must(t, err)
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	must(t, os.WriteFile(path, slices.Concat(file, text, data), 0o666))
}

// appendElement appends a number, which the type represents exactly.
func appendElement(data []byte, kind string, x float32) []byte {
	bits := math.Float32bits(x)
	switch kind {
	case "F16":
		h := uint16(0)
		if x != 0 {
			h = uint16(bits>>16&0x8000) | uint16(bits>>23&0xff-127+15)<<10 | uint16(bits>>13&0x3ff)
		}
		return binary.LittleEndian.AppendUint16(data, h)
	case "BF16":
		return binary.LittleEndian.AppendUint16(data, uint16(bits>>16))
	case "I64": // its values have no meaning, nor have the next ones
		return binary.LittleEndian.AppendUint64(data, uint64(bits))
	case "F8_E4M3", "F8_E8M0":
		return append(data, byte(bits))
	case "U8":
		return append(data, byte(x))
	}
	return binary.LittleEndian.AppendUint32(data, bits)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
