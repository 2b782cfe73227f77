package gguftest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Shape is the shape of a model of architecture qwen2.
type Shape struct{ Layers, Dim, FFN, Heads, KV, Head, Vocab int }

// Published are the shapes of published models: Qwen2.5 of 0.5, 1.5 and 3 B.
var Published = map[string]Shape{
	"0.5b": {24, 896, 4864, 14, 2, 64, 151936},
	"1.5b": {28, 1536, 8960, 12, 2, 128, 151936},
	"3b":   {36, 2048, 11008, 16, 2, 128, 151936},
}

// published describes the blocks of types that files of Published have: where the half of their
// scale is, and a scale that makes weights of a realistic size.
var published = map[string]struct{ elements, bytes, half, bits int }{
	"Q8_0": {32, 34, 0, 0x0e00}, "Q4_0": {32, 18, 0, 0x1e00}, "Q5_0": {32, 22, 0, 0x1a00},
	"Q4_K": {256, 144, 0, 0x0a00}, "Q6_K": {256, 210, 208, 0x0180},
}

// matrix is a matrix of a shape.
type matrix struct {
	name    string
	out, in int
	kind    string
}

func (m *matrix) bytes() int {
	block := published[m.kind]
	return m.out * m.in / block.elements * block.bytes
}

// Matrices returns the elements and bytes of all matrices in a file of a kind, Q4_K_M, Q4_0 or
// Q8_0.
func (s Shape) Matrices(kind string) (elements, bytes int) {
	for _, m := range s.matrices(kind) {
		elements, bytes = elements+m.out*m.in, bytes+m.bytes()
	}
	return elements, bytes
}

func (s *Shape) matrices(kind string) (all []matrix) {
	add := func(name string, layer, out, in int) {
		all = append(all, matrix{name, out, in, s.typeIn(kind, name, layer, in)})
	}
	add("token_embd", 0, s.Vocab, s.Dim)
	for i := range s.Layers {
		at := fmt.Sprintf("blk.%d.", i)
		add(at+"attn_q", i, s.Heads*s.Head, s.Dim)
		add(at+"attn_k", i, s.KV*s.Head, s.Dim)
		add(at+"attn_v", i, s.KV*s.Head, s.Dim)
		add(at+"attn_output", i, s.Dim, s.Heads*s.Head)
		add(at+"ffn_gate", i, s.FFN, s.Dim)
		add(at+"ffn_up", i, s.FFN, s.Dim)
		add(at+"ffn_down", i, s.Dim, s.FFN)
	}
	return all
}

// typeIn returns the type of a matrix of a layer, or of the embeddings, in files of a kind:
// llama.cpp's defaults, with types of blocks of 32 where rows are not multiples of 256.
func (s *Shape) typeIn(kind, name string, layer, in int) string {
	embedding := name == "token_embd"
	if kind == "Q4_0" && embedding {
		kind = "Q6_K"
	} else if kind == "Q4_K_M" {
		eighth := s.Layers / 8
		more := layer < eighth || layer >= 7*eighth || (layer-eighth)%3 == 2
		if kind = "Q4_K"; embedding ||
			more && (strings.HasSuffix(name, "attn_v") || strings.HasSuffix(name, "down")) {
			kind = "Q6_K"
		}
	}
	if fewer := map[string]string{"Q4_K": "Q5_0", "Q6_K": "Q8_0"}[kind]; in%256 != 0 && fewer != "" {
		return fewer
	}
	return kind
}

// File returns a file with random bytes for weights, and numbers for tokens.
func (s Shape) File(kind string) *File {
	source := rand.NewChaCha8([32]byte{1})
	f := &File{Keys: s.keys()}
	for _, m := range s.matrices(kind) {
		f.Random(source, m.name+".weight", m.kind, m.out, m.in)
	}
	for i := range s.Layers {
		at := fmt.Sprintf("blk.%d.", i)
		f.Vector(at+"attn_norm.weight", s.Dim, 1)
		f.Vector(at+"ffn_norm.weight", s.Dim, 1)
		f.Vector(at+"attn_q.bias", s.Heads*s.Head, 0.01)
		f.Vector(at+"attn_k.bias", s.KV*s.Head, 0.01)
		f.Vector(at+"attn_v.bias", s.KV*s.Head, 0.01)
	}
	f.Vector("output_norm.weight", s.Dim, 1)
	return f
}

// Random adds a matrix of random blocks of a type that files of Published have.
func (f *File) Random(source *rand.ChaCha8, name, kind string, out, in int) {
	m := matrix{name, out, in, kind}
	block, data := published[kind], make([]byte, m.bytes())
	_, _ = source.Read(data) // cannot fail
	for at := 0; at < len(data); at += block.bytes {
		data[at+block.half], data[at+block.half+1] = byte(block.bits), byte(block.bits>>8)
		if kind == "Q4_K" { // minima, 7.5 times as large
			data[at+2], data[at+3] = 0x80, 0x15
		}
	}
	f.Tensors = append(f.Tensors, Tensor{name, []int{out, in}, Types[kind], data})
}

// Vector adds a tensor of n equal numbers, of the given shape if there is one.
func (f *File) Vector(name string, n int, x float32, shape ...int) {
	data, _ := Encode("F32", slices.Repeat([]float32{x}, n))
	if shape == nil {
		shape = []int{n}
	}
	f.Tensors = append(f.Tensors, Tensor{name, shape, Types["F32"], data})
}

// keys returns the metadata.
func (s *Shape) keys() []Key {
	tokens := make([]string, s.Vocab)
	for i := range tokens {
		tokens[i] = fmt.Sprintf("t%d", i)
	}
	return []Key{{"general.architecture", "qwen2"}, {"general.name", "Random"},
		{"general.file_type", uint32(15)}, {"general.quantization_version", uint32(2)},
		{"qwen2.block_count", uint32(s.Layers)}, {"qwen2.context_length", uint32(32768)},
		{"qwen2.embedding_length", uint32(s.Dim)}, {"qwen2.feed_forward_length", uint32(s.FFN)},
		{"qwen2.attention.head_count", uint32(s.Heads)},
		{"qwen2.attention.head_count_kv", uint32(s.KV)},
		{"qwen2.attention.layer_norm_rms_epsilon", float32(1e-6)},
		{"qwen2.rope.freq_base", float32(1e6)}, {"tokenizer.ggml.model", "gpt2"},
		{"tokenizer.ggml.pre", "qwen2"}, {"tokenizer.ggml.tokens", tokens},
		{"tokenizer.ggml.token_type", slices.Repeat([]int32{1}, s.Vocab)},
		{"tokenizer.ggml.merges", []string{}}, {"tokenizer.ggml.eos_token_id", uint32(19)}}
}
