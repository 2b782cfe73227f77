package main

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// biasedModel is a random model, whose first and last layer have biases of keys of a norm, as
// Qwen2's do, in the 8 of 32 pairs that turn slowest.
func biasedModel(t *testing.T, norm float64) *model {
	t.Helper()
	f := configFile{ModelType: "qwen2", Activation: "silu", Epsilon: 1e-6, Layers: 24, Dim: 256,
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

// TestKeyBiases: F16 bears the biases that Qwen2 has, and I8 and I4 do not, and that is said. The
// numbers are in docs/low-precision.md.
func TestKeyBiases(t *testing.T) {
	for norm, kinds := range map[float64]map[attn.Format][2]float64{ // what the difference is between
		0:   {attn.F16: {0, 0.001}, attn.BF16: {0, 0.01}, attn.I8: {0.005, 0.02}, attn.I4: {0.1, 0.25}},
		750: {attn.F16: {0, 0.03}, attn.BF16: {0.05, 0.3}, attn.I8: {0.1, 0.5}, attn.I4: {0.5, 1}},
	} {
		m := biasedModel(t, norm)
		exact, err := sampleLogits(m, settings{workers: 2})
		must(t, err)
		for kind, between := range kinds {
			s := settings{workers: 2, kind: kind}
			got, err := sampleLogits(m, s)
			must(t, err)
			difference, equal := distance(exact, got)
			t.Logf("biases of norm %v, cache %v: %.2f %% of the deviation, %.1f %% equal tokens", norm, kind,
				100*difference, 100*equal)
			if difference < between[0] || difference > between[1] {
				t.Errorf("biases of norm %v, cache %v: logits differ by %.4f of their deviation, want %v", norm,
					kind, difference, between)
			}
			var out bytes.Buffer
			must(t, noteBiases(&out, m, &s))
			want := kind >= attn.I8 && norm > 0
			if said := out.String(); strings.Contains(said, "are beyond what "+typeNames[kind]+
				" bears: rounding makes scores of layer ") != want || want != (said != "") {
				t.Errorf("biases of norm %v, cache %v: it says %q, want it: %v", norm, kind, said, want)
			}
		}
	}
}

// TestNoteBiases runs files with large biases and small ones.
func TestNoteBiases(t *testing.T) {
	for norm, want := range map[float64]bool{0.1: false, 3000: true} {
		f := newFake("F32")
		f.config["model_type"] = "qwen2"
		f.config["sliding_window"] = nil
		addBiases(f, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
		g := newShapedGGUF(smallGGUF, "qwen2", one("Q8_0"))
		for _, x := range []fakeTensor{f.tensors["model.layers.1.self_attn.k_proj.bias"],
			g.tensors["model.layers.0.self_attn.k_proj.bias"]} {
			for i := range x.data {
				x.data[i] = float32(norm) * float32(i%3-1)
			}
		}
		g.setData("blk.0.attn_k.bias", g.tensors["model.layers.0.self_attn.k_proj.bias"].data)
		path := at(t, "fake.gguf")
		g.Write(t, path)
		for _, model := range []string{f.write(t), path} {
			for _, cache := range []string{"i8", "i4", "i8,i4", "f16", "f32"} {
				var out bytes.Buffer
				err := run([]string{"-n", "1", "-cache", cache, "-model", model, "abc"}, &out, io.Discard)
				said := strings.Contains(out.String(), "The biases of keys are beyond what i")
				if err != nil || said != (want && cache[0] == 'i') {
					t.Errorf("norm %v, -cache %s of %s: %v\n%s", norm, cache, model, err, &out)
				}
			}
		}
	}
}
