package lm

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/gguf"
	"github.com/seed-1415985d/attn/internal/dev/gguftest"
)

// llamaFiles change files of some cases to what llama.cpp understands as lm does; nil: it cannot.
var llamaFiles = map[string]func(*fakeGGUF){
	// It has no windows in files of these architectures, and in exaone4 only with 64 layers.
	"a window": nil, "a window of each other layer": nil, "a window of some layers": nil,
	"exaone4 of GGUF": nil,
	// It refuses empty tensors, such heads of qwen2, some fused tensors, and part of a layer.
	"what changes nothing": nil, "rows of part of 256, as in Q4_K_M": nil,
	"queries, keys and values in one tensor, qwen3.5":     nil,
	"queries, keys and values in one tensor, gpt-oss":     nil,
	"qwen3.5 with experts and a layer for further tokens": nil,
	"qwen3.5 with a layer for further tokens":             nil,
	"qwen3next with a layer for further tokens":           nil,
	"phi3 of GGUF for short texts": func(f *fakeGGUF) { // of 1024 tokens
		f.Set("phi3.rope.scaling.original_context_length", uint32(1024))
	},
	// It rounds YaRN's ramp to whole pairs, and multiplies YaRN's magnitude twice.
	"gpt-oss of GGUF": func(f *fakeGGUF) { f.Set("gpt-oss.rope.scaling.factor", nil) },
	"olmo3 of GGUF":   func(f *fakeGGUF) { f.Set("olmo2.rope.scaling.attn_factor", nil) },
}

// TestLlamaCpp compares logits with llama.cpp's in float32, for random files of each architecture:
// after prompts of 5, 70 and 700 tokens, and after each of 20 tokens that follow one at a time.
func TestLlamaCpp(t *testing.T) {
	llama := gguftest.NewLlama(t)
	cases := slices.Concat(archCases, fileCases, furtherCases, layeredCases, []archCase{
		{name: "exaone4 of 64 layers", gguf: func(r *reference) *fakeGGUF { return exaoneGGUF(r, 64) }}})
	for _, c := range ggufCases {
		cases = append(cases, archCase{name: c.name, gguf: func(r *reference) *fakeGGUF {
			f := newGGUF(c.architecture, one("Q8_0"))
			c.change(f, r)
			return f
		}})
	}
	for _, c := range cases {
		change, special := llamaFiles[c.name]
		if c.gguf == nil || special && change == nil {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			r := ggufReference()
			r.stateKey = 32 // the size of values; llama.cpp knows no other
			f, path := c.gguf(&r), at(t, "fake.gguf")
			if f.widenNumbers(t, r.gelu); special {
				change(f)
			}
			f.Write(t, path)
			for _, n := range []int{5, 70, 700} {
				compareLlama(t, llama, path, n)
			}
		})
	}
}

// widenNumbers gives all tensors type F32, and matrices three times their numbers, so that tokens
// attend to few tokens. Where the activation is GELU, which llama.cpp rounds to float16 between −10
// and 10, gates are so large that few lie there.
func (f *fakeGGUF) widenNumbers(t *testing.T, gelu bool) {
	for i := range f.Tensors {
		x, n, by := &f.Tensors[i], 1, float32(1)
		for _, s := range x.Shape {
			n *= s
		}
		if len(x.Shape) > 1 {
			by = 3
		}
		if gelu && f.activated(x.Name) {
			by = 1 << 14
		}
		values := make([]float32, n)
		must(t, gguf.Type(x.Type).Decode(values, x.Data))
		for j := range values {
			values[j] *= by
		}
		x.Type = gguftest.Types["F32"]
		f.setData(x.Name, values)
	}
}

// activated reports whether a matrix computes what an activation reads: gates, if there are any.
func (f *fakeGGUF) activated(name string) bool {
	if strings.Contains(name, ".ffn_up") {
		return !f.has(strings.Replace(name, "ffn_up", "ffn_gate", 1))
	}
	return strings.Contains(name, ".inp_gate") || strings.Contains(name, ".ffn_gate") &&
		!strings.Contains(name, ".ffn_gate_inp")
}

// compareLlama compares the logits after a prompt of n tokens, and after the tokens that follow.
func compareLlama(t *testing.T, llama gguftest.Llama, path string, n int) {
	var tokens []int32
	for i := range n + 20 {
		tokens = append(tokens, int32(7*i*i+i/3)%17)
	}
	all := llama.Run(t, path, n, tokens)
	m, err := Open(path, Options{Keys: F32, Context: 1024})
	must(t, err)
	defer func() { must(t, m.Close()) }()
	s, err := m.NewSession()
	must(t, err)
	worst := 0.0
	for i := n; i <= len(tokens); i++ {
		got, err := s.Append(t.Context(), tokens[s.Len():i]...)
		must(t, err)
		worst = max(worst, worstDistance(all[(i-1)*len(got):][:len(got)], got))
	}
	if t.Logf("%d tokens: %.1e", n, worst); !(worst < 1e-3) {
		t.Errorf("%d tokens: logits differ by %.2g of their deviation, want less than 0.001", n, worst)
	}
}

// worstDistance returns the largest difference, divided by the standard deviation of want.
func worstDistance(want, got []float32) float64 {
	sum, squares, most, n := 0.0, 0.0, 0.0, float64(len(want))
	for i, x := range want {
		sum, squares = sum+float64(x), squares+float64(x)*float64(x)
		most = max(most, math.Abs(float64(x)-float64(got[i])))
	}
	return most / math.Sqrt(squares/n-sum*sum/n/n)
}
