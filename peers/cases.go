package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/seed-1415985d/attn"
)

// Case is one call that all peers that support it compute; cases are those of attn bench. For
// decoding, a peer may keep keys and values in any order and prepare them, since an engine does
// that once for many tokens.
type Case struct {
	Name   string `json:"name"`
	Batch  int    `json:"batch"`
	Heads  int    `json:"heads"`
	KV     int    `json:"kv_heads"`
	Lq     int    `json:"queries"`
	Lk     int    `json:"keys"`
	Dim    int    `json:"dim"`
	Causal bool   `json:"causal,omitempty"`
	// of keys and values: f32, f16, i8, i4, or integers for products in integers; or q4_0, see matrix;
	// or a shape and the kind of its weights, see model and encoder
	Type string `json:"type"`
}

var cases = []Case{
	{"prefill_d64", 1, 8, 8, 1024, 1024, 64, false, "f32"},
	{"prefill_d64_causal", 1, 8, 8, 1024, 1024, 64, true, "f32"},
	{"prefill_d128", 1, 8, 8, 2048, 2048, 128, false, "f32"},
	{"prefill_d128_causal", 1, 8, 8, 2048, 2048, 128, true, "f32"},
	{"bert", 8, 12, 12, 128, 128, 64, false, "f32"},
	{"prefill_d64, integers", 1, 8, 8, 1024, 1024, 64, false, "integers"},
	{"prefill_d64_causal, integers", 1, 8, 8, 1024, 1024, 64, true, "integers"},
	{"prefill_d128, integers", 1, 8, 8, 2048, 2048, 128, false, "integers"},
	{"prefill_d128_causal, integers", 1, 8, 8, 2048, 2048, 128, true, "integers"},
	{"bert, integers", 8, 12, 12, 128, 128, 64, false, "integers"},
	{"decode", 1, 32, 32, 1, 4096, 128, false, "f32"},
	{"decode, f16", 1, 32, 32, 1, 4096, 128, false, "f16"},
	{"decode, i8", 1, 32, 32, 1, 4096, 128, false, "i8"},
	{"decode, integers", 1, 32, 32, 1, 4096, 128, false, "integers"},
	{"decode, i4", 1, 32, 32, 1, 4096, 128, false, "i4"},
	{"decode_gqa", 1, 32, 8, 1, 4096, 128, false, "f32"},
	{"decode_gqa, f16", 1, 32, 8, 1, 4096, 128, false, "f16"},
	{"decode_gqa, i8", 1, 32, 8, 1, 4096, 128, false, "i8"},
	{"decode_gqa, integers", 1, 32, 8, 1, 4096, 128, false, "integers"},
	{"decode_gqa, i4", 1, 32, 8, 1, 4096, 128, false, "i4"},
	{"matrix, q4_0, 1 row", 1, 1, 1, 1, 4096, 4096, false, "q4_0"},
	{"matrix, q4_0, 4 rows", 1, 1, 1, 4, 4096, 4096, false, "q4_0"},
	{"matrix, q4_0, 128 rows", 1, 1, 1, 128, 4096, 4096, false, "q4_0"},
	{"matrix, q4_0, 512 rows", 1, 1, 1, 512, 4096, 4096, false, "q4_0"},
	{"model 0.5b, q4_k_m, 512 tokens", 1, 1, 1, 512, 0, 1, true, "0.5b Q4_K_M"},
	{"model 0.5b, q4_k_m, a token", 1, 1, 1, 1, 64, 1, true, "0.5b Q4_K_M"},
	{"model 0.5b, q4_k_m, a token after 4096", 1, 1, 1, 1, 4096, 1, true, "0.5b Q4_K_M"},
	{"model 0.5b, q8_0, 512 tokens", 1, 1, 1, 512, 0, 1, true, "0.5b Q8_0"},
	{"model 0.5b, q8_0, a token", 1, 1, 1, 1, 64, 1, true, "0.5b Q8_0"},
	{"model 0.5b, q8_0, a token after 4096", 1, 1, 1, 1, 4096, 1, true, "0.5b Q8_0"},
	{"model 0.5b, q4_0, 512 tokens", 1, 1, 1, 512, 0, 1, true, "0.5b Q4_0"},
	{"model 0.5b, q4_0, a token", 1, 1, 1, 1, 64, 1, true, "0.5b Q4_0"},
	{"model 0.5b, q4_0, a token after 4096", 1, 1, 1, 1, 4096, 1, true, "0.5b Q4_0"},
	{"64 texts, MiniLM", 1, 1, 1, 64, 0, 384, false, "minilm f32"},
	{"64 texts, MiniLM, integers", 1, 1, 1, 64, 0, 384, false, "minilm integers"},
	{"32 texts, BERT base", 1, 1, 1, 32, 0, 768, false, "base f32"},
	{"32 texts, BERT base, integers", 1, 1, 1, 32, 0, 768, false, "base integers"},
	{"entities, 128 tokens", 1, 1, 1, 126, 0, 1, false, "entities f32"},
	{"entities, 128 tokens, integers", 1, 1, 1, 126, 0, 1, false, "entities integers"},
	{"entities, 512 tokens", 1, 1, 1, 510, 0, 1, false, "entities f32"},
	{"entities, 512 tokens, integers", 1, 1, 1, 510, 0, 1, false, "entities integers"},
	{"CLIP ViT-B/32", 1, 1, 1, 1, 0, 512, false, "clip f32"},
	{"CLIP ViT-B/32, integers", 1, 1, 1, 1, 0, 512, false, "clip integers"},
	{"SigLIP base/16", 1, 1, 1, 1, 0, 768, false, "siglip f32"},
	{"SigLIP base/16, integers", 1, 1, 1, 1, 0, 768, false, "siglip integers"},
	{"SigLIP so400m/14 384", 1, 1, 1, 1, 0, 1152, false, "so400m f32"},
	{"SigLIP so400m/14 384, integers", 1, 1, 1, 1, 0, 1152, false, "so400m integers"},
}

// size returns the size of the case, in the form of attn bench.
func (c *Case) size() string {
	if s, _, ok := c.model(); ok {
		return fmt.Sprintf("%d×%d", s.Layers, s.Dim)
	}
	if s, _, ok := c.encoder(); ok {
		return fmt.Sprintf("%d×%d", s.Layers, s.Hidden)
	}
	if c.matrix() {
		return fmt.Sprintf("%d×%d", c.Dim, c.Lk)
	}
	if c.decode() {
		return fmt.Sprintf("H%d KV%d Lk%d D%d", c.Heads, c.KV, c.Lk, c.Dim)
	}
	return fmt.Sprintf("B%d H%d L%d D%d", c.Batch, c.Heads, c.Lq, c.Dim)
}

// matrix reports whether the case is a matrix product instead of attention: the queries are rows of
// inputs, the keys are the outputs' weights, integers of 4 bits with a scale for each 32.
func (c *Case) matrix() bool { return c.Type == "q4_0" }

// decode reports whether memory is the limit, since each key and value is read once.
func (c *Case) decode() bool { return c.Lq == 1 && c.Lk > 0 }

// integers reports whether multiply-adds of integers are the limit.
func (c *Case) integers() bool {
	_, _, model := c.model()
	_, texts, _ := c.encoder()
	return model || texts || c.Type == "integers" || c.matrix()
}

// bits returns the bits of an element of keys and values. With 8 a peer may multiply in float32 or
// in integers; attn has a case for each.
func (c *Case) bits() int {
	return map[string]int{"f32": 32, "f16": 16, "i8": 8, "integers": 8, "i4": 4, "q4_0": 4}[c.Type]
}

// work returns the useful operations, or the bytes of keys and values where memory is the limit.
func (c *Case) work() float64 {
	if _, _, ok := c.model(); ok {
		return c.modelWork()
	}
	if _, _, ok := c.encoder(); ok {
		return c.encoderWork()
	}
	if c.matrix() {
		if c.decode() {
			return float64(c.keys() / blockInputs * blockBytes)
		}
		return 2 * float64(c.Lq) * float64(c.keys())
	}
	if c.decode() {
		return 2 * float64(c.bits()) / 8 * float64(c.keys())
	}
	flops := 4 * float64(c.Batch*c.Heads) * float64(c.Lq) * float64(c.Lk) * float64(c.Dim)
	if c.Causal {
		flops /= 2
	}
	return flops
}

// tolerance bounds the difference of a result from float32's, relative to its largest element. The
// rounding of inputs to fewer bits is not an error of the peer.
func (c *Case) tolerance() float64 {
	if _, _, ok := c.model(); ok {
		return 0.15 // for some logits, after rounding each input in two ways
	}
	if _, integers, ok := c.encoder(); ok {
		return map[bool]float64{false: 1e-5, true: 0.2}[integers]
	}
	return map[string]float64{"f32": 1e-5, "f16": 5e-3, "i8": 5e-2, "integers": 5e-2,
		"i4": 0.5, "q4_0": 2e-2}[c.Type]
}

// elements of the queries, and of the output
func (c *Case) queries() int { return c.Batch * c.Heads * c.Lq * c.Dim }

// elements of the keys, and of the values
func (c *Case) keys() int { return c.Batch * c.KV * c.Lk * c.Dim }

// inputs are contiguous [B, H, L, D], or a model in the folder.
type inputs struct {
	q, k, v []float32
	dir     string
}

func newInputs(c *Case, dir string) inputs {
	_, _, model := c.model()
	if _, _, texts := c.encoder(); model || texts {
		return inputs{dir: dir}
	}
	random := rand.New(rand.NewPCG(1, 2))
	normal := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(random.NormFloat64())
		}
		return x
	}
	if c.matrix() {
		return inputs{q: normal(c.queries()), k: roundToBlocks(normal(c.keys())), dir: dir}
	}
	return inputs{normal(c.queries()), normal(c.keys()), normal(c.keys()), dir}
}

// reference returns attn's result in float32; nil for a model.
func (in inputs) reference(c *Case) ([]float32, error) {
	if _, _, ok := c.model(); ok {
		return nil, nil
	}
	if c.matrix() {
		return exactProducts(c, in)
	}
	if _, _, ok := c.encoder(); ok {
		return encoderReference(c, in.dir)
	}
	dst := make([]float32, c.queries())
	opt := &attn.Options{}
	if c.Causal {
		opt.Causal = attn.TopLeft
	}
	return dst, attn.Attend(attn.BHLD(dst, c.Batch, c.Heads, c.Lq, c.Dim),
		attn.BHLD(in.q, c.Batch, c.Heads, c.Lq, c.Dim),
		attn.BHLD(in.k, c.Batch, c.KV, c.Lk, c.Dim), attn.BHLD(in.v, c.Batch, c.KV, c.Lk, c.Dim), opt)
}

// write writes the inputs, or the model of the case, for workers to read.
func (in inputs) write(c *Case) error {
	if _, _, ok := c.model(); ok {
		if err := c.writeModel(in.dir); err != nil {
			return err
		}
	}
	if _, _, ok := c.encoder(); ok {
		if err := c.writeEncoder(in.dir); err != nil {
			return err
		}
	}
	for name, x := range map[string][]float32{"q": in.q, "k": in.k, "v": in.v} {
		if err := writeFloats(filepath.Join(in.dir, name), x); err != nil {
			return err
		}
	}
	return nil
}

func readInputs(dir string) (in inputs, err error) {
	in.dir = dir
	for name, x := range map[string]*[]float32{"q": &in.q, "k": &in.k, "v": &in.v} {
		if *x, err = readFloats(filepath.Join(dir, name)); err != nil {
			return in, err
		}
	}
	return in, nil
}

// writeFloats writes little-endian numbers.
func writeFloats(name string, x []float32) error {
	b, err := binary.Append(nil, binary.LittleEndian, x)
	if err != nil {
		return err
	}
	return os.WriteFile(name, b, 0o600)
}

func readFloats(name string) ([]float32, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	x := make([]float32, len(b)/4)
	_, err = binary.Decode(b, binary.LittleEndian, x)
	return x, err
}

// difference returns the largest difference of two results, relative to the largest element; +Inf
// if one of them has a NaN.
func difference(got, want []float32) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	most, top := 0.0, 0.0
	for i, w := range want {
		d := math.Abs(float64(got[i]) - float64(w))
		if math.IsNaN(d) {
			return math.Inf(1)
		}
		most, top = max(most, d), max(top, math.Abs(float64(w)))
	}
	return most / top
}
