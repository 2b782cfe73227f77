package embed

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// miniLM and base are sizes of published models.
var (
	miniLM = Sizes{Layers: 6, Hidden: 384, Heads: 12, FFN: 1536, Vocab: 30522}
	base   = Sizes{Layers: 12, Hidden: 768, Heads: 12, FFN: 3072, Vocab: 30522}
)

// BenchmarkOpen opens a folder of 90 MB.
func BenchmarkOpen(b *testing.B) {
	path := b.TempDir()
	s := miniLM
	shapes := map[string][]int{"embeddings.word_embeddings.weight": {s.Vocab, s.Hidden},
		"embeddings.position_embeddings.weight":   {512, s.Hidden},
		"embeddings.token_type_embeddings.weight": {2, s.Hidden},
		"embeddings.LayerNorm.weight":             {s.Hidden}, "embeddings.LayerNorm.bias": {s.Hidden}}
	for i := range s.Layers {
		in := map[string][]int{}
		linears(in, s.Hidden, s.Hidden, "attention.self.query", "attention.self.key",
			"attention.self.value", "attention.output.dense")
		linears(in, s.Hidden, s.FFN, "intermediate.dense")
		linears(in, s.FFN, s.Hidden, "output.dense")
		for _, name := range []string{"attention.output.LayerNorm", "output.LayerNorm"} {
			in[name+".weight"], in[name+".bias"] = []int{s.Hidden}, []int{s.Hidden}
		}
		for name, shape := range in {
			shapes[fmt.Sprintf("encoder.layer.%d.%s", i, name)] = shape
		}
	}
	writeZeros(b, filepath.Join(path, "model.safetensors"), shapes)
	config, _ := json.Marshal(map[string]any{"model_type": "bert", "hidden_size": s.Hidden,
		"num_hidden_layers": s.Layers, "num_attention_heads": s.Heads, "intermediate_size": s.FFN,
		"vocab_size": s.Vocab}) // which cannot fail
	words := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]"}
	for i := len(words); i < s.Vocab; i++ {
		words = append(words, fmt.Sprintf("##%x", i))
	}
	for name, text := range map[string]string{"config.json": string(config),
		"vocab.txt": strings.Join(words, "\n")} {
		if err := os.WriteFile(filepath.Join(path, name), []byte(text), 0o666); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		m, err := Open(path, Options{})
		if err != nil {
			b.Fatal(err)
		}
		_ = m.Close()
	}
}

// writeZeros writes tensors of float32.
func writeZeros(b *testing.B, path string, shapes map[string][]int) {
	type entry struct {
		Type   string `json:"dtype"`
		Shape  []int  `json:"shape"`
		Places [2]int `json:"data_offsets"`
	}
	entries, at := map[string]entry{}, 0
	for name, shape := range shapes {
		n := 4
		for _, size := range shape {
			n *= size
		}
		entries[name] = entry{"F32", shape, [2]int{at, at + n}}
		at += n
	}
	header, err := json.Marshal(entries)
	if err != nil {
		b.Fatal(err)
	}
	data := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	data = append(append(data, header...), make([]byte, at)...)
	if err := os.WriteFile(path, data, 0o666); err != nil {
		b.Fatal(err)
	}
}

// mixedTokens are texts of 8 to 512 tokens, the logarithms of which are uniform.
func mixedTokens(count, vocab int) (texts [][]int32, tokens int) {
	source := rand.New(rand.NewPCG(1, 2))
	for range count {
		n := 8 << source.IntN(6)
		n += source.IntN(n)
		text := make([]int32, n)
		for i := range text {
			text[i] = int32(source.IntN(vocab))
		}
		texts, tokens = append(texts, text), tokens+n
	}
	return texts, tokens
}

// sameTokens is one text of the same token.
func sameTokens(n int) [][]int32 { return [][]int32{slices.Repeat([]int32{7}, n)} }

// BenchmarkEncode has a text of 16, 128 or 512 tokens, and 32 texts of mixed lengths.
func BenchmarkEncode(b *testing.B) {
	for name, size := range map[string]Sizes{"minilm": miniLM, "base": base} {
		for _, integers := range []bool{false, true} {
			for _, workers := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/integers=%v/workers=%d", name, integers, workers),
					func(b *testing.B) {
						benchmarkEncode(b, size, Options{Workers: workers, Integers: integers})
					})
			}
		}
	}
}

func benchmarkEncode(b *testing.B, size Sizes, o Options) {
	m, err := Random(size, o)
	if err != nil {
		b.Fatal(err)
	}
	mixed, sum := mixedTokens(32, size.Vocab)
	for _, c := range []struct {
		name   string
		texts  [][]int32
		tokens int
	}{{"16", sameTokens(16), 16}, {"128", sameTokens(128), 128}, {"512", sameTokens(512), 512},
		{"mixed", mixed, sum}} {
		b.Run(c.name, func(b *testing.B) {
			dst := make([]float32, len(c.texts)*size.Hidden)
			for b.Loop() {
				if err := m.EncodeTokens(dst, c.texts); err != nil {
					b.Fatal(err)
				}
			}
			weights := 12 * size.Hidden * size.Hidden * size.Layers
			seconds := b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(float64(len(c.texts))/seconds, "texts/s")
			b.ReportMetric(float64(c.tokens*weights)/seconds/1e9, "GMAC/s")
		})
	}
	if err := m.Close(); err != nil {
		b.Fatal(err)
	}
}
