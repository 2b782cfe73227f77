package lm

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"sync"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/dev/gguftest"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// TestEngineBits fails if logits have other bits than on the CPU where the sums were made:
// everything from a token's embedding to its logits has the same bits on each CPU.
func TestEngineBits(t *testing.T) {
	for _, c := range []struct {
		weights, cache attn.Format
		way            weights.Way
		want           uint32
	}{
		{attn.F32, attn.F32, weights.Way{}, 0x69925257},
		{attn.F16, attn.F16, weights.Way{}, 0x6292b1c5},
		{attn.I8, attn.I8, weights.Way{Integers: true}, 0xdad7afcb},
		{attn.F32, attn.F16, weights.Way{BFloat16: true}, 0x777f8fbb},
	} {
		l := &weights.Loader{Random: weights.Chance(7), Way: c.way}
		bitsOf(t, tinyModelOf(t, l, c.weights), c.cache, c.way.Integers, c.want)
	}
	shape := gguftest.Shape{Layers: 2, Dim: 256, FFN: 512, Heads: 4, KV: 2, Head: 64, Vocab: 300}
	f, path := shape.File("Q4_K_M"), at(t, "fake.gguf")
	f.Set("qwen2.rope.scaling.type", "yarn")
	f.Set("qwen2.rope.scaling.factor", float32(4))
	f.Set("qwen2.rope.scaling.original_context_length", uint32(32))
	f.Write(t, path)
	m, _, err := (&options{model: path, weights: asStored, settings: settings{integers: true}}).open()
	must(t, err)
	bitsOf(t, m, attn.F16, true, 0x4e9bc3a3)
	m, _, err = (&options{model: path, weights: asStored, bfloat16: true}).open()
	must(t, err)
	bitsOf(t, m, attn.F16, false, 0xce0d3dcb)
}

// TestEngineBitsOfArchitectures does the same for other kinds of models.
func TestEngineBitsOfArchitectures(t *testing.T) {
	for _, c := range []struct {
		file configFile
		want uint32
	}{
		{configFile{ModelType: "gemma2", QueryScalar: new(12.0), ScoreCap: new(2.0), LogitCap: new(3.0)},
			0xd37a47d7},
		{configFile{ModelType: "gemma3_text", Scaling: &scaling{Type: "linear", Factor: 8}}, 0x1e8c1d86},
		{configFile{ModelType: "phi3", Original: new(64.0), Positions: new(512.0), Rotated: new(0.75),
			Scaling: &scaling{Type: longRope, Short: []float64{1, 1.1, 1.3}, Long: []float64{1, 2, 5}}},
			0x06c36777},
		{configFile{ModelType: "qwen2_moe", Experts: new(6), Used: new(2), ExpertFFN: new(24),
			SharedFFN: new(32), UseWindow: new(false)}, 0x83ff26c8},
		{configFile{ModelType: "gpt_oss", LocalExperts: new(6), Used: new(2), AttentionBias: true,
			Scaling: &scaling{Type: "yarn", Factor: 32, Fast: 32, Slow: 1, Original: 4096,
				Truncate: new(false)}, Quantized: &quantized{Method: "mxfp4"}}, 0xb9b26fc6},
		{configFile{ModelType: "qwen3_5_text", Rotated: new(0.5), Interval: new(2), ConvWidth: new(4),
			StateKeyDim: new(16), StateValueDim: new(12), StateKeyHeads: new(2), StateHeads: new(4),
			UseWindow: new(false)}, 0x724d26f3},
		{configFile{ModelType: "olmo3", Scaling: &scaling{Type: "yarn", Factor: 8, Original: 64}},
			0xe72d365f},
		{configFile{ModelType: "smollm3", Unrotated: new(2), UseWindow: new(false)}, 0xa996023d},
		{configFile{ModelType: "ernie4_5", UseWindow: new(false)}, 0x9882b25e},
		{configFile{ModelType: "glm4", Rotated: new(0.5), AttentionBias: true, UseWindow: new(false)},
			0x55590666},
		{configFile{ModelType: "glm4_moe", Rotated: new(0.5), Routed: new(6), Used: new(2),
			ExpertFFN: new(24), SharedCount: new(1), QKNorm: new(true), UseWindow: new(false)}, 0x1026fa0d},
		{configFile{ModelType: "ministral3", Rope: &scaling{Type: "yarn", Factor: 4, Original: 16,
			QueryScale: new(0.5)}}, 0xe399c734},
		{configFile{ModelType: "granite", EmbeddingMul: new(12.0), AttentionMul: new(0.25),
			ResidualMul: new(0.22), LogitsDivisor: new(8.0), UseWindow: new(false)}, 0xf005c626},
		{configFile{ModelType: "granitemoehybrid", MambaHeads: new(8), MambaDim: new(16),
			MambaGroups: new(1), MambaState: new(16), MambaConv: new(4), MambaExpand: new(2),
			MambaBias: new(true), LayerTypes: []string{"mamba", "attention"}, AttentionMul: new(0.25),
			UseWindow: new(false)}, 0xe4160f53},
		{configFile{ModelType: "gemma4_text", FullHeadDim: new(16), Inputs: new(12), Mixed: new(true),
			Experts: new(6), TopExperts: new(2), ExpertFFN: new(24), LogitCap: new(3.0),
			Rope: &scaling{Full: &scaling{Type: proportional, Theta: new(1e6), Rotated: new(0.25)},
				Sliding: &scaling{Theta: new(10000.0)}}}, 0x552f0c2a},
		{configFile{ModelType: "gemma4_text", FullHeadDim: new(12), FullKVHeads: new(4),
			KeysAreValues: new(true), SharedLayers: new(1), Doubled: new(true),
			LayerTypes: []string{fullLayer, fullLayer}}, 0x6a25b464},
		{configFile{ModelType: "ernie4_5_moe", MoEExperts: new(6), MoEUsed: new(2), MoEShared: new(1),
			MoEFirst: new(1), ExpertFFN: new(24), UseWindow: new(false)}, 0x56664e34},
		{configFile{ModelType: "granitemoeshared", LocalExperts: new(6), Used: new(2),
			SharedWidth: new(32), AttentionMul: new(0.25), UseWindow: new(false)}, 0x8b0e0052},
		{configFile{ModelType: "exaone4"}, 0xd0474f9f},
		{configFile{ModelType: "lfm2", ShortWidth: new(3), FullOnes: []int{1}, UseWindow: new(false)},
			0x0f23de36},
	} {
		f := c.file
		f.Layers, f.Dim, f.Heads, f.KVHeads, f.FFN, f.Vocab = 2, 64, 8, new(2), 96, 300
		f.Window, f.Epsilon = new(9), 1e-6
		if f.UseWindow != nil {
			f.Window = nil
		}
		shape, err := f.config()
		must(t, err)
		l := &weights.Loader{Random: weights.Chance(7)}
		m := newModel(l, &shape, f.of.folder, attn.F32)
		must(t, l.Err)
		bitsOf(t, m, attn.F16, false, c.want)
	}
}

// bitsOf compares a sum of the logits after a prompt and after some more tokens.
func bitsOf(t *testing.T, m *model, cache attn.Format, integers bool, want uint32) {
	t.Helper()
	e, err := newTester(m, settings{workers: 2, places: 1, chunk: 100, context: 200, keys: cache,
		integers: integers})
	must(t, err)
	defer e.close()
	prompt, sum := countUp(70), crc32.NewIEEE()
	for i := range prompt {
		prompt[i] %= m.Vocab
	}
	e.queue((&call{prompt: prompt, most: 4, choose: func(logits []float32) int {
		must(t, binary.Write(sum, binary.LittleEndian, logits))
		return greedy(logits)
	}}))
	must(t, e.answer())
	if got := sum.Sum32(); got != want {
		t.Errorf("%d layers of %d, cache %v: logits have the sum %#x, want %#x", m.Layers, m.Dim, cache,
			got, want)
	}
}

// TestEngineBitsOfAnswers does the same for drawn tokens and their log-probabilities: of answers
// alone, of answers in one batch, and of a session that was saved in between.
func TestEngineBitsOfAnswers(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want uint32
	}{
		{Options{}, 0x3ea2ce45},
		{Options{Weights: I8, Products: Integers, Keys: I8}, 0xa18f9a90},
		{Options{Products: BFloat16}, 0xf0fe124a},
	} {
		c.o.Chunk = 50
		m := small(t, c.o)
		var alone, company, saved [3][]Token
		var wait sync.WaitGroup
		for i := range alone {
			alone[i] = drawn(t, small(t, c.o), i)
			wait.Go(func() { company[i] = drawn(t, m, i) })
			saved[i] = drawnSaved(t, m, i)
		}
		wait.Wait()
		for name, all := range map[string][3][]Token{"alone": alone, "in company": company,
			"saved": saved} {
			sum := crc32.NewIEEE()
			for _, answer := range all {
				for _, token := range answer {
					must(t, binary.Write(sum, binary.LittleEndian, token.ID))
					must(t, binary.Write(sum, binary.LittleEndian, token.LogProb))
				}
			}
			if got := sum.Sum32(); got != c.want {
				t.Errorf("%v, %s: tokens and log-probabilities have the sum %#x, want %#x", m, name, got,
					c.want)
			}
		}
	}
}

// drawnTokens is the length of an answer.
const drawnTokens = 12

// drawing returns the prompt and the settings of answer i.
func drawing(i int) ([]int32, Generation) {
	return append(prompt32(60), int32(i)), Generation{MaxTokens: drawnTokens,
		Logits: func(_ []int32, logits []float32) error {
			logits[257], logits[258] = -1e9, -1e9 // the answer does not end
			return nil
		},
		Sampling: [...]Sampling{{Temperature: 0.8, Seed: 1}, {Temperature: 1.3, TopP: 0.9, Seed: 2,
			Repetition: 1.2}, {Temperature: 1, TopK: 30, MinP: 0.01, Frequency: 0.3, Seed: 3}}[i]}
}

func drawn(t *testing.T, m *Model, i int) []Token {
	prompt, g := drawing(i)
	all, err := full(context.Background(), m, prompt, g)
	if err != nil || len(all) != drawnTokens {
		t.Errorf("%d tokens and %v", len(all), err)
	}
	return all
}

// drawnSaved returns the tokens of a session whose prompt was saved and loaded.
func drawnSaved(t *testing.T, m *Model, i int) []Token {
	prompt, g := drawing(i)
	s, later := m.session(t), m.session(t)
	_, err := s.Append(context.Background(), prompt...)
	must(t, err)
	var file bytes.Buffer
	_, err = s.Save(&file)
	must(t, err)
	_, err = later.Load(&file)
	must(t, err)
	g.Session = later
	all, err := full(context.Background(), m, nil, g)
	must(t, err)
	return all
}
