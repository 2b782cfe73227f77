package lm

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/dev/gguftest"
)

// fakeGGUF is a model in a GGUF file. For the reference, the fake's tensors have the decoded values
// of the blocks, under their names in folders.
type fakeGGUF struct {
	*fake
	gguftest.File
	ggufShape
	names *strings.Replacer
}

type ggufShape struct{ layers, dim, ffn, heads, kv, head, vocab int }

// Rows of the first are whole blocks of 256, rows of the second whole blocks of 32.
var (
	wideGGUF  = ggufShape{2, 256, 256, 4, 2, 64, 20}
	smallGGUF = ggufShape{1, 32, 32, 2, 1, 16, 20}
)

// ggufReference computes the model, before a test changes it.
func ggufReference() reference {
	return reference{layers: 2, heads: 4, kv: 2, head: 64, epsilon: 1e-5, theta: 500}
}

// ggufNameList maps names in folders to names in GGUF files.
var ggufNameList = []string{"model.embed_tokens", "token_embd",
	"model.norm", "output_norm", "lm_head",
	"output", "model.layers.", "blk.", "input_layernorm", "attn_norm",
	"post_attention_layernorm", "ffn_norm", "self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k",
	"self_attn.v_proj", "attn_v", "self_attn.o_proj", "attn_output", "self_attn.q_norm", "attn_q_norm",
	"self_attn.k_norm", "attn_k_norm", "mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up",
	"mlp.down_proj", "ffn_down"}

var ggufNamesOf = strings.NewReplacer(ggufNameList...)

// In files of gemma the norm after attention has the name that the next norm has elsewhere.
var ggufGemmaNamesOf = strings.NewReplacer(slices.Concat([]string{"post_attention_layernorm",
	"post_attention_norm", "pre_feedforward_layernorm", "ffn_norm", "post_feedforward_layernorm",
	"post_ffw_norm"}, ggufNameList)...)

// fuse replaces several tensors by one, in each layer, and their biases by one. In a tensor of
// experts each expert has its outputs of the first tensor, then of the next.
func (f *fakeGGUF) fuse(all string, names ...string) {
	for i := range f.layers {
		for _, suffix := range []string{".weight", ".bias"} {
			f.fuseTensors(fmt.Sprintf("blk.%d.", i), all, suffix, names...)
		}
	}
}

func (f *fakeGGUF) fuseTensors(at, all, suffix string, names ...string) {
	if !f.has(at + names[0] + suffix) {
		return // a layer with states, or without biases
	}
	fused := *f.tensorNamed(at + names[0] + suffix)
	fused.Name, fused.Shape, fused.Data = at+all+suffix, slices.Clone(fused.Shape), nil
	experts, outputs := 1, 0 // a count, and the index of a dimension
	if strings.HasSuffix(all, "_exps") {
		experts, outputs = fused.Shape[0], 1
	}
	fused.Shape[outputs] = 0
	for e := range experts {
		for _, name := range names {
			x := f.tensorNamed(at + name + suffix)
			size := len(x.Data) / experts
			fused.Data = append(fused.Data, x.Data[e*size:][:size]...)
		}
	}
	for _, name := range names {
		x := f.tensorNamed(at + name + suffix)
		fused.Shape[outputs] += x.Shape[outputs]
		f.without(x.Name)
	}
	f.Tensors = append(f.Tensors, fused)
}

func (f *fakeGGUF) has(name string) bool {
	return slices.ContainsFunc(f.Tensors, func(t gguftest.Tensor) bool { return t.Name == name })
}

// stack replaces the tensors of several experts by one, in each layer.
func (f *fakeGGUF) stack(all, each string, experts int) {
	for i := range f.layers {
		at := fmt.Sprintf("blk.%d.", i)
		if !f.has(at + fmt.Sprintf(each, 0)) {
			continue // a layer without experts
		}
		stacked := gguftest.Tensor{Name: at + all}
		for e := range experts {
			x := *f.tensorNamed(at + fmt.Sprintf(each, e))
			stacked.Type, stacked.Shape = x.Type, append([]int{experts}, x.Shape...)
			stacked.Data = append(stacked.Data, x.Data...)
			f.without(x.Name)
		}
		f.Tensors = append(f.Tensors, stacked)
	}
}

// newGGUF makes a model of an architecture. kind returns the type of a matrix by its name in
// folders.
func newGGUF(architecture string, kind func(name string) string) *fakeGGUF {
	return newShapedGGUF(wideGGUF, architecture, kind)
}

func newShapedGGUF(shape ggufShape, architecture string, kind func(name string) string) *fakeGGUF {
	f := &fakeGGUF{fake: &fake{tensors: map[string]fakeTensor{}}, ggufShape: shape,
		names: ggufNamesOf}
	after := strings.HasPrefix(architecture, "gemma") || architecture == "olmo2" ||
		architecture == "exaone4"
	if after {
		f.names = ggufGemmaNamesOf
	}
	f.tensor("model.embed_tokens.weight", kind, f.vocab, f.dim)
	for i := range f.layers {
		at := fmt.Sprintf("model.layers.%d.", i)
		f.tensor(at+"input_layernorm.weight", kind, f.dim)
		for name, out := range map[string]int{"q": f.heads, "k": f.kv, "v": f.kv} {
			f.tensor(at+"self_attn."+name+"_proj.weight", kind, out*f.head, f.dim)
		}
		f.tensor(at+"self_attn.o_proj.weight", kind, f.dim, f.heads*f.head)
		f.tensor(at+"post_attention_layernorm.weight", kind, f.dim)
		f.tensor(at+"mlp.gate_proj.weight", kind, f.ffn, f.dim)
		f.tensor(at+"mlp.up_proj.weight", kind, f.ffn, f.dim)
		f.tensor(at+"mlp.down_proj.weight", kind, f.dim, f.ffn)
		if after {
			f.tensor(at+"pre_feedforward_layernorm.weight", kind, f.dim)
			f.tensor(at+"post_feedforward_layernorm.weight", kind, f.dim)
		}
		if slices.Contains([]string{"qwen3", "qwen3moe", "gemma3"}, architecture) {
			f.tensor(at+"self_attn.q_norm.weight", kind, f.head)
			f.tensor(at+"self_attn.k_norm.weight", kind, f.head)
		}
		if strings.HasPrefix(architecture, "qwen2") {
			for name, out := range map[string]int{"q": f.heads, "k": f.kv, "v": f.kv} {
				f.tensor(at+"self_attn."+name+"_proj.bias", kind, out*f.head)
			}
		}
	}
	f.tensor("model.norm.weight", kind, f.dim)
	f.tensor("lm_head.weight", kind, f.vocab, f.dim)
	if architecture == "llama" {
		f.pair()
	}
	slices.SortFunc(f.Tensors, func(a, b gguftest.Tensor) int {
		return strings.Compare(a.Name, b.Name)
	})
	f.metadata(architecture)
	return f
}

func one(kind string) func(string) string { return func(string) string { return kind } }

// tensor adds a tensor of random numbers.
func (f *fakeGGUF) tensor(name string, kind func(string) string, shape ...int) {
	of := kind(name)
	if len(shape) == 1 {
		of = "F32"
	}
	e := encode(name, of, shape)
	f.tensors[name] = fakeTensor{shape, e.exact}
	f.Tensors = append(f.Tensors, gguftest.Tensor{Name: f.names.Replace(name), Shape: shape,
		Type: gguftest.Types[of], Data: slices.Clone(e.data)})
}

// encoded is a tensor of a file and its decoded values.
type encoded struct {
	data  []byte
	exact []float32
}

var encodedBefore = map[string]encoded{} // saves time

func encode(name, kind string, shape []int) encoded {
	key := fmt.Sprint(name, kind, shape)
	e, ok := encodedBefore[key]
	if ok {
		return e
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // cannot fail
	source := rand.New(rand.NewPCG(1, hash.Sum64()))
	middle, n := float32(0), 1
	if strings.HasSuffix(name, "norm.weight") {
		middle = 1
	}
	for _, s := range shape {
		n *= s
	}
	x := make([]float32, n)
	for i := range x {
		x[i] = middle + 0.1*(2*source.Float32()-1)
	}
	data, exact := gguftest.Encode(kind, x)
	for i, e := range exact {
		x[i] = float32(e)
	}
	encodedBefore[key] = encoded{data, x}
	return encodedBefore[key]
}

// pair puts the rows of queries and keys into the order of GGUF files of llama: element i of a
// head's first half before element i of its second half.
func (f *fakeGGUF) pair() {
	for i := range f.Tensors {
		t := &f.Tensors[i]
		if !strings.Contains(t.Name, "attn_q.") && !strings.Contains(t.Name, "attn_k.") {
			continue
		}
		size, was := len(t.Data)/t.Shape[0], slices.Clone(t.Data)
		for r := range t.Shape[0] {
			head, half, i := r/f.head, r%f.head/(f.head/2), r%(f.head/2)
			copy(t.Data[(head*f.head+2*i+half)*size:][:size], was[r*size:])
		}
	}
}

// metadata returns the metadata that converters write.
func (f *fakeGGUF) metadata(architecture string) {
	f.Keys = []gguftest.Key{{Name: "general.architecture", Value: architecture},
		{Name: "general.type", Value: "model"}, {Name: "general.name", Value: "Fake"},
		{Name: "general.tags", Value: []string{"text-generation"}},
		{Name: "general.base_model.0.name", Value: "Faker"},
		{Name: "general.file_type", Value: uint32(15)},
		{Name: "general.quantization_version", Value: uint32(2)},
		{Name: "quantize.imatrix.file", Value: "imatrix.dat"}}
	for name, value := range map[string]any{"block_count": uint32(f.layers),
		"context_length": uint32(512), "embedding_length": uint32(f.dim),
		"feed_forward_length": uint32(f.ffn), "attention.head_count": uint32(f.heads),
		"attention.head_count_kv":          uint32(f.kv),
		"attention.layer_norm_rms_epsilon": float32(1e-5), "rope.freq_base": float32(500),
		"rope.dimension_count": uint32(f.head), "vocab_size": uint32(f.vocab)} {
		f.Set(architecture+"."+name, value)
	}
	tokens, kinds := make([]string, f.vocab), make([]int32, f.vocab)
	for i := range tokens {
		tokens[i], kinds[i] = string(rune('a'+i)), 1
	}
	for i, text := range []string{"Ġ", "ab", "abc", "Ġa", "Ġabc", "<s>", "Ċ", "<|end|>"} {
		tokens[12+i] = text
	}
	kinds[17], kinds[19] = 3, 3
	for name, value := range map[string]any{"ggml.model": "gpt2", "ggml.pre": "gpt-2",
		"ggml.tokens": tokens, "ggml.token_type": kinds,
		"ggml.merges":       []string{"a b", "ab c", "Ġ a", "Ġ abc"},
		"ggml.bos_token_id": uint32(17), "ggml.eos_token_id": uint32(19), "ggml.add_bos_token": true} {
		f.Set("tokenizer."+name, value)
	}
	slices.SortFunc(f.Keys, func(a, b gguftest.Key) int { return strings.Compare(a.Name, b.Name) })
}

// rename gives a token another text.
func (f *fakeGGUF) rename(token int, text string) {
	for _, k := range f.Keys {
		if k.Name == "tokenizer.ggml.tokens" {
			k.Value.([]string)[token] = text
		}
	}
}

// at returns a new path.
func at(t testing.TB, name string) string { return filepath.Join(t.TempDir(), name) }

// without removes tensors.
func (f *fakeGGUF) without(names ...string) {
	f.Tensors = slices.DeleteFunc(f.Tensors, func(t gguftest.Tensor) bool {
		return slices.Contains(names, t.Name)
	})
}

// tensorNamed returns a tensor of the file.
func (f *fakeGGUF) tensorNamed(name string) *gguftest.Tensor {
	return &f.Tensors[slices.IndexFunc(f.Tensors, func(t gguftest.Tensor) bool {
		return t.Name == name
	})]
}

// setData sets the numbers of a tensor of F32.
func (f *fakeGGUF) setData(name string, x []float32) {
	var data []byte
	for _, e := range x {
		data = appendElement(data, "F32", e)
	}
	f.tensorNamed(name).Data = data
}

// writeSplit writes several files, and returns the path of the first.
func (f *fakeGGUF) writeSplit(t *testing.T, count int) string {
	folder, first := t.TempDir(), ""
	for i, part := range f.Split(count) {
		path := filepath.Join(folder, fmt.Sprintf("fake-%05d-of-%05d.gguf", i+1, count))
		if part.Write(t, path); i == 0 {
			first = path
		}
	}
	return first
}

var allBlockTypes = slices.Sorted(maps.Keys(gguftest.Types))
