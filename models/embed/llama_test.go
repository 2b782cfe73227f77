package embed

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nlpodyssey/safetensors"
	"github.com/seed-1415985d/attn/internal/dev/gguftest"
)

// TestLlamaCpp compares vectors of texts of up to 1024 tokens, and scores, with llama.cpp's in
// float32, for random files of each architecture.
func TestLlamaCpp(t *testing.T) {
	llama := gguftest.NewLlama(t)
	for _, name := range []string{"bert", "bert of scores", "nomic-bert", nomicMoEGGUF, jinaGGUF,
		"qwen3", "qwen3 of scores", gemmaGGUF} {
		t.Run(name, func(t *testing.T) {
			path := writeGGUF(t, llamaFile(t, name))
			m := mustOpen(t, path, Options{})
			for _, n := range []int{1, 30, 340} {
				text := strings.Repeat("cat unbelievable, zurich! ", n)[:n*11]
				tokens, got := ofText(t, m, text)
				want := llama.Run(t, path, len(tokens), tokens, "EMBED=1")
				if m.head == nil {
					want = unit(want)
				}
				worst := 0.0
				for i, x := range got {
					worst = max(worst, math.Abs(float64(x)-float64(want[i])))
				}
				if t.Logf("%d tokens: %.1e", len(tokens), worst); !(worst < 1e-5) {
					t.Errorf("%d tokens: largest difference %.1e, want less than 1e-5", len(tokens), worst)
				}
			}
		})
	}
}

// ofText returns the tokens of a text and its vector, or of a pair with another one and its scores.
func ofText(t *testing.T, m *Model, text string) (tokens []int32, x []float32) {
	t.Helper()
	if m.head == nil {
		tokens, err := m.Tokens(text)
		if err != nil {
			t.Fatal(err)
		}
		return tokens, mustEncode(t, m, text)[0]
	}
	read, err := m.pair("cat!", text)
	if err == nil {
		x, err = m.scores(t.Context(), "cat!", []string{text})
	}
	if err != nil {
		t.Fatal(err)
	}
	return read.Tokens, x
}

func unit(x []float32) []float32 {
	squares := 0.0
	for _, e := range x {
		squares += float64(e) * float64(e)
	}
	for i := range x {
		x[i] /= float32(math.Sqrt(squares))
	}
	return x
}

// llamaFile is a file with a context of 1024. Gates are so large that few are between −10 and 10,
// where llama.cpp rounds GELU to float16.
func llamaFile(t *testing.T, name string) (f *gguftest.File) {
	kind := strings.Fields(name)[0]
	switch source := rand.New(rand.NewPCG(5, 7)); kind {
	case "qwen3":
		if f, _ = qwenGGUF(t); name != kind {
			f.Set("qwen3.pooling_type", uint32(rankPooling))
			f.Set("qwen3.classifier.output_labels", []string{"yes", "no"})
			addTensor(f, "cls.output.weight", numbersOf(source, 2*wide), 2, wide)
		}
	case nomicMoEGGUF:
		k := nomicExpertsTest()
		_, values := writeKind(t, &k, safetensors.F32)
		f = nomicExpertsFile(values, k.shapes)
	case gemmaGGUF: // every sixth layer sees all keys
		f, _ = gemmaFile(t)
		for _, x := range slices.Clone(f.Tensors) {
			if layer, rest := 0, ""; strings.HasPrefix(x.Name, "blk.") {
				_, _ = fmt.Sscanf(x.Name, "blk.%d.%s", &layer, &rest)
				x.Name = fmt.Sprintf("blk.%d.%s", layer+3, rest)
				f.Tensors = append(f.Tensors, x)
			}
		}
		f.Set(kind+".block_count", uint32(6))
	default:
		if f, _ = ggufOf(kind, "F32"); kind == "bert" {
			takeTensor(f, "position_embd.weight")
			addTensor(f, "position_embd.weight", numbersOf(source, 1024*ggufWide), 1024, ggufWide)
		}
		if name == "bert of scores" {
			asXLM(f)
			f.Set("tokenizer.ggml.precompiled_charsmap", nil) // llama.cpp wants a larger one
			f.Set("bert.pooling_type", uint32(rankPooling))
			f.Set("bert.classifier.output_labels", []string{"no", "yes"})
			for tensor, rows := range map[string]int{"cls": ggufWide, "cls.output": 2} {
				addTensor(f, tensor+".weight", numbersOf(source, rows*ggufWide), rows, ggufWide)
				addTensor(f, tensor+".bias", numbersOf(source, rows), rows)
			}
		}
	}
	f.Set(kind+".context_length", uint32(1024))
	activated := map[string]string{"bert": "ffn_up", nomicMoEGGUF: "ffn_up"}[kind]
	for i, x := range f.Tensors {
		if strings.Contains(x.Name, cmp.Or(activated, "ffn_gate")) {
			for j := 3; j < len(x.Data); j += 4 {
				f.Tensors[i].Data[j] += 7 // times 2¹⁴
			}
		}
	}
	return f
}

func numbersOf(source *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = 0.4 * source.NormFloat64()
	}
	return x
}
