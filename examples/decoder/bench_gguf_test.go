package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/gguftest"
	"github.com/seed-1415985d/attn/limits"
)

// publishedGGUF are the shapes of models that people have, Qwen2.5 of 0.5, 1.5 and 3 B.
var publishedGGUF = map[string]ggufShape{
	"0.5b": {24, 896, 4864, 14, 2, 64, 151936},
	"1.5b": {28, 1536, 8960, 12, 2, 128, 151936},
	"3b":   {36, 2048, 11008, 16, 2, 128, 151936},
}

// typeIn is the type of a matrix of a layer, or of the embeddings, in files of a kind: as llama.cpp
// has it by default, with types of blocks of 32 where rows are no multiples of 256.
func (s *ggufShape) typeIn(kind, name string, layer, in int) string {
	embedding := strings.Contains(name, "embed")
	if kind == "Q4_0" && embedding {
		kind = "Q6_K"
	} else if kind == "Q4_K_M" {
		eighth := s.layers / 8
		more := layer < eighth || layer >= 7*eighth || (layer-eighth)%3 == 2
		if kind = "Q4_K"; embedding ||
			more && (strings.Contains(name, "v_proj") || strings.Contains(name, "down")) {
			kind = "Q6_K"
		}
	}
	if in%256 != 0 {
		return cmp.Or(map[string]string{"Q4_K": "Q5_0", "Q6_K": "Q8_0"}[kind], kind)
	}
	return kind
}

// published writes a file of random bytes that are weights of a sensible size.
func (s *ggufShape) published(b *testing.B, kind string) string {
	f := &fakeGGUF{fake: &fake{tensors: map[string]fakeTensor{}}, ggufShape: *s}
	source := rand.NewChaCha8([32]byte{1})
	matrix := func(name string, layer, out, in int) {
		of := s.typeIn(kind, name, layer, in)
		f.Tensors = append(f.Tensors, gguftest.Tensor{Name: ggufNamesOf.Replace(name),
			Shape: []int{out, in}, Type: gguftest.Types[of], Data: randomBlocks(source, of, out*in)})
	}
	matrix("model.embed_tokens.weight", 0, s.vocab, s.dim)
	f.tensor("model.norm.weight", one("F32"), s.dim)
	for i := range s.layers {
		at := fmt.Sprintf("model.layers.%d.", i)
		f.tensor(at+"input_layernorm.weight", one("F32"), s.dim)
		f.tensor(at+"post_attention_layernorm.weight", one("F32"), s.dim)
		for name, heads := range map[string]int{"q": s.heads, "k": s.kv, "v": s.kv} {
			matrix(at+"self_attn."+name+"_proj.weight", i, heads*s.head, s.dim)
			f.tensor(at+"self_attn."+name+"_proj.bias", one("F32"), heads*s.head)
		}
		matrix(at+"self_attn.o_proj.weight", i, s.dim, s.heads*s.head)
		matrix(at+"mlp.gate_proj.weight", i, s.ffn, s.dim)
		matrix(at+"mlp.up_proj.weight", i, s.ffn, s.dim)
		matrix(at+"mlp.down_proj.weight", i, s.dim, s.ffn)
	}
	f.metadata("qwen2")
	tokens, kinds := make([]string, s.vocab), slices.Repeat([]int32{1}, s.vocab)
	for i := range tokens {
		tokens[i] = fmt.Sprintf("t%d", i)
	}
	f.Set("tokenizer.ggml.tokens", tokens)
	f.Set("tokenizer.ggml.token_type", kinds)
	f.Set("tokenizer.ggml.merges", []string{})
	path := filepath.Join(b.TempDir(), "published.gguf")
	f.Write(b, path)
	return path
}

// randomBlocks are n numbers in blocks of a type, about as large as weights are.
func randomBlocks(source *rand.ChaCha8, of string, n int) []byte {
	block := map[string]struct{ elements, bytes, half, bits int }{
		"Q8_0": {32, 34, 0, 0x0e00}, "Q4_0": {32, 18, 0, 0x1e00}, "Q5_0": {32, 22, 0, 0x1a00},
		"Q4_K": {256, 144, 0, 0x0a00}, "Q6_K": {256, 210, 208, 0x0180},
	}[of]
	data := make([]byte, n/block.elements*block.bytes)
	_, _ = source.Read(data) // which cannot fail
	for at := 0; at < len(data); at += block.bytes {
		data[at+block.half], data[at+block.half+1] = byte(block.bits), byte(block.bits>>8)
		if of == "Q4_K" { // the minima: 7.5 times as large
			data[at+2], data[at+3] = 0x80, 0x15
		}
	}
	return data
}

// BenchmarkGGUF decodes a token at a time with files as people have them, and reports tokens a
// second, and how many the memory allows, which gives all matrices once a token.
func BenchmarkGGUF(b *testing.B) {
	for _, size := range []string{"0.5b", "1.5b", "3b"} {
		for _, kind := range []string{"Q4_K_M", "Q4_0", "Q8_0"} {
			b.Run(size+"/"+kind, func(b *testing.B) {
				shape := publishedGGUF[size]
				path := shape.published(b, kind)
				for _, integers := range []bool{true, false} {
					o := &options{model: path, weights: asStored}
					o.integers = integers
					m, _, err := o.open()
					must(b, err)
					for _, workers := range []int{1, 2} {
						for _, kind := range []attn.Format{attn.F16, attn.I8} {
							name := fmt.Sprintf("integers=%v/threads=%d/cache=%v", integers, workers, kind)
							b.Run(name, func(b *testing.B) { decodes(b, m, workers, integers, kind) })
						}
					}
				}
			})
		}
	}
}

// decodes measures steps of one sequence after 64 tokens, and the memory's speed.
func decodes(b *testing.B, m *model, workers int, integers bool, kind attn.Format) {
	s := settings{workers: workers, places: 1, chunk: 64, context: 4096, integers: integers,
		kind: kind}
	e, err := newEngine(m, s)
	must(b, err)
	defer e.close()
	seq, err := e.cache.newSequence()
	must(b, err)
	p := []piece{{seq, make([]int, 64)}}
	_, err = e.forward(p)
	must(b, err)
	p[0].tokens = []int{1}
	var seconds []float64
	for b.Loop() {
		start := time.Now()
		_, err := e.forward(p)
		seconds = append(seconds, time.Since(start).Seconds())
		must(b, err)
	}
	memory, speed := limits.NewMemory(limits.For(attn.Implementation()), workers, limits.DRAM()), 0.0
	for range 5 {
		speed = max(speed, memory.Read(), memory.ReadStreams())
	}
	slices.Sort(seconds)
	b.ReportMetric(1/seconds[len(seconds)/2], "tokens/s")
	b.ReportMetric(speed/float64(m.packed), "memory-tokens/s")
	b.ReportMetric(float64(m.packed)/1e6, "MB")
	b.ReportMetric(speed/1e9, "GB/s")
	b.ReportMetric(0, "ns/op")
}
