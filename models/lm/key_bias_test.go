package lm

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// biasedModel is a random model whose first and last layer have biases of keys of a norm, in the 8
// of 32 pairs that rotate slowest, as in Qwen2.
func biasedModel(t *testing.T, norm float64) *model {
	t.Helper()
	f := configFile{ModelType: "qwen2", Activation: new("silu"), Epsilon: 1e-6, Layers: 24, Dim: 256,
		Heads: 4, KVHeads: new(2), FFN: 704, Vocab: 2048, Theta: new(1e6), Tied: true}
	c, err := f.config()
	must(t, err)
	l := &weights.Loader{Random: weights.Chance(1)}
	m := newModel(l, &c, &folderNames, attn.F32)
	must(t, l.Err)
	source := rand.New(rand.NewPCG(1, 2))
	for _, i := range []int{0, m.Layers - 1} {
		for h := range m.KVHeads {
			setBias(m.layers[i].k.Bias[h*m.HeadDim:][:m.HeadDim], norm, source.NormFloat64)
		}
	}
	return m
}

// setBias sets the slow pairs of a head.
func setBias(bias []float32, norm float64, draw func() float64) {
	half, size := len(bias)/2, 0.0
	for i := range bias {
		if i%half >= half*3/4 {
			bias[i] = float32(draw())
			size += float64(bias[i]) * float64(bias[i])
		}
	}
	for i := range bias {
		if i%half >= half*3/4 {
			bias[i] *= float32(norm / math.Sqrt(size))
		}
	}
}

// TestKeyBiases: F16 is fine enough for the biases of Qwen2, and I8 and I4 are not, which Warnings
// says. The numbers are in docs/low-precision.md.
func TestKeyBiases(t *testing.T) {
	for norm, kinds := range map[float64]map[attn.Format][2]float64{ // bounds of the difference
		0:   {attn.F16: {0, 0.001}, attn.BF16: {0, 0.01}, attn.I8: {0.005, 0.02}, attn.I4: {0.1, 0.25}},
		750: {attn.F16: {0, 0.03}, attn.BF16: {0.05, 0.3}, attn.I8: {0.1, 0.5}, attn.I4: {0.5, 1}},
	} {
		m := biasedModel(t, norm)
		exact, err := sampleLogits(m, settings{workers: 2})
		must(t, err)
		for kind, between := range kinds {
			s := settings{workers: 2, keys: kind}
			got, err := sampleLogits(m, s)
			must(t, err)
			difference, equal := distance(exact, got)
			t.Logf("biases of norm %v, cache %v: %.2f %% of the deviation, %.1f %% equal tokens", norm, kind,
				100*difference, 100*equal)
			if difference < between[0] || difference > between[1] {
				t.Errorf("biases of norm %v, cache %v: logits differ by %.4f of their deviation, want %v", norm,
					kind, difference, between)
			}
			said, err := biases(m, &s)
			must(t, err)
			want := kind >= attn.I8 && norm > 0
			if strings.Contains(said, "are beyond what keys of "+kind.String()+
				" bear: rounding makes scores of layer ") != want || want != (said != "") {
				t.Errorf("biases of norm %v, cache %v: it says %q, want it: %v", norm, kind, said, want)
			}
		}
	}
}
