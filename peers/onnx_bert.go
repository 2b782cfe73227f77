//go:build cgo

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/seed-1415985d/attn/safetensors"
)

// onnxBERT writes a BERT with the operators into which the optimizer of onnxruntime.transformers
// fuses an exported one. With integers, it is the result of quantize_dynamic of
// onnxruntime.quantization on that: inputs as bytes with a scale and a zero point found in each
// call, weights as signed bytes with one scale for a matrix.
type onnxBERT struct {
	onnxModel
	file     *safetensors.File
	integers bool
	layer    int
	err      error
}

func newONNXBERT(c *Case, dir string) (*onnxBERT, error) {
	s, integers, _ := c.bert()
	file, err := safetensors.Open(c.bertPath(dir))
	if err != nil {
		return nil, err
	}
	b := &onnxBERT{file: file, integers: integers}
	any2 := []int64{-1, -1}
	b.inputs = []onnxValue{{"ids", onnxInt32, any2, nil}, {"segments", onnxInt32, any2, nil},
		{"mask", onnxInt32, any2, nil}}
	b.embeddings(int64(s.Hidden))
	x := "x"
	for b.layer = range s.Layers {
		x = b.encoder(x, s.Hidden, s.FFN, s.Heads)
	}
	b.outputs = []onnxValue{{x, onnxFloat, []int64{-1, -1, int64(s.Hidden)}, nil}}
	return b, errors.Join(b.err, file.Close())
}

func (b *onnxBERT) node(op string, in, out []string, attributes ...onnxAttribute) {
	b.nodes = append(b.nodes, onnxNode{op, false, in, out, attributes})
}

func (b *onnxBERT) standard(op string, in, out []string, attributes ...onnxAttribute) {
	b.nodes = append(b.nodes, onnxNode{op, true, in, out, attributes})
}

// embeddings adds the nodes of x, and of the lengths of the texts from the mask.
func (b *onnxBERT) embeddings(hidden int64) {
	in := []string{"ids", "segments"}
	for _, name := range []string{"word_embeddings.weight", "position_embeddings.weight",
		"token_type_embeddings.weight"} {
		in = append(in, b.floats("embeddings."+name, -1, hidden))
	}
	in = append(in, b.floats("embeddings.LayerNorm.weight", hidden),
		b.floats("embeddings.LayerNorm.bias", hidden), "mask")
	b.node("EmbedLayerNormalization", in, []string{"x", "lengths"},
		onnxAttribute{name: "epsilon", fraction: epsilon})
}

// encoder adds a layer and returns the name of its output.
func (b *onnxBERT) encoder(x string, hidden, ffn, heads int) string {
	d := int64(hidden)
	attended := b.attention(x, hidden, heads)
	y := b.skip(b.product(attended, bertOutput+"dense", hidden, hidden), x, d, bertOutput+"LayerNorm",
		bertOutput+"dense.bias")
	act := b.named("act")
	up := b.product(y, bertLayer+"intermediate.dense", hidden, ffn)
	b.node("BiasGelu", []string{up, b.at(bertLayer+"intermediate.dense.bias", int64(ffn))},
		[]string{act})
	return b.skip(b.product(act, bertLayer+"output.dense", ffn, hidden), y, d,
		bertLayer+"output.LayerNorm", bertLayer+"output.dense.bias")
}

// attention adds attention. The three matrices of its inputs are side by side.
func (b *onnxBERT) attention(x string, hidden, heads int) string {
	n := 3 * hidden
	weights, biases := make([]float32, hidden*n), []float32{}
	for i, part := range []string{"query", "key", "value"} {
		w := b.tensor(fmt.Sprintf(bertSelf+part+".weight", b.layer))
		if b.err != nil {
			return ""
		}
		for out := range hidden {
			for in := range hidden {
				weights[in*n+i*hidden+out] = w[out*hidden+in]
			}
		}
		biases = append(biases, b.tensor(fmt.Sprintf(bertSelf+part+".bias", b.layer))...)
	}
	out, bias := b.named("attended"), b.constant("bias", []int64{int64(n)}, biases)
	with := onnxAttribute{name: "num_heads", number: heads}
	if !b.integers {
		w := b.constant("weights", []int64{int64(hidden), int64(n)}, weights)
		b.node("Attention", []string{x, w, bias, "lengths"}, []string{out}, with)
		return out
	}
	q, scale, zero := b.quantize(x)
	w, wScale, wZero := b.bytes("weights", hidden, n, weights)
	b.node("QAttention", []string{q, w, bias, scale, wScale, "lengths", zero, wZero}, []string{out},
		with)
	return out
}

// product adds a product by a matrix, without its bias.
func (b *onnxBERT) product(x, name string, in, out int) string {
	stored := b.tensor(fmt.Sprintf(name+".weight", b.layer))
	if b.err != nil {
		return ""
	}
	weights := make([]float32, in*out) // [in, out]
	for i := range out {
		for j := range in {
			weights[j*out+i] = stored[i*in+j]
		}
	}
	y := b.named(name)
	if !b.integers {
		w := b.constant(name, []int64{int64(in), int64(out)}, weights)
		b.standard("MatMul", []string{x, w}, []string{y})
		return y
	}
	q, scale, zero := b.quantize(x)
	w, wScale, wZero := b.bytes(name, in, out, weights)
	b.standard("MatMulInteger", []string{q, w, zero, wZero}, []string{y + " sum"})
	b.standard("Cast", []string{y + " sum"}, []string{y + " float"},
		onnxAttribute{name: "to", number: onnxFloat})
	b.standard("Mul", []string{scale, wScale}, []string{y + " scale"})
	b.standard("Mul", []string{y + " float", y + " scale"}, []string{y})
	return y
}

// skip adds the norm of the sum of a product, its bias and add.
func (b *onnxBERT) skip(x, add string, d int64, norm, bias string) string {
	y := b.named(norm)
	b.node("SkipLayerNormalization", []string{x, add, b.at(norm+".weight", d), b.at(norm+".bias", d),
		b.at(bias, d)}, []string{y}, onnxAttribute{name: "epsilon", fraction: epsilon})
	return y
}

func (b *onnxBERT) quantize(x string) (q, scale, zero string) {
	q, scale, zero = b.named(x+" bytes"), b.named(x+" scale"), b.named(x+" zero")
	b.standard("DynamicQuantizeLinear", []string{x}, []string{q, scale, zero})
	return q, scale, zero
}

// named returns a name in this layer.
func (b *onnxBERT) named(name string) string { return fmt.Sprintf("%d %s", b.layer, name) }

// tensor reads weights.
func (b *onnxBERT) tensor(name string) []float32 {
	t := b.file.Tensor(name)
	if t == nil {
		b.err = errors.Join(b.err, fmt.Errorf("there is no tensor %s", name))
		return nil
	}
	data, err := t.Bytes()
	x := make([]float32, t.Size/4)
	b.err = errors.Join(b.err, err)
	if err == nil {
		b.err = errors.Join(b.err, t.DType.Decode(x, data))
	}
	return x
}

// floats adds a constant of a tensor.
func (b *onnxBERT) floats(name string, dims ...int64) string {
	x := b.tensor(name)
	if dims[0] < 0 {
		dims[0] = int64(len(x)) / dims[1]
	}
	return b.put(onnxValue{name, onnxFloat, dims, bytesOf(x)})
}

// at adds a constant of a tensor of this layer.
func (b *onnxBERT) at(name string, size int64) string {
	return b.floats(fmt.Sprintf(name, b.layer), size)
}

func (b *onnxBERT) constant(name string, dims []int64, x []float32) string {
	return b.put(onnxValue{b.named(name + " constant"), onnxFloat, dims, bytesOf(x)})
}

func (b *onnxBERT) put(v onnxValue) string {
	b.constants = append(b.constants, v)
	return v.name
}

// bytes adds constants of a matrix: integers, a scale and a zero point of 0.
func (b *onnxBERT) bytes(name string, in, out int, x []float32) (w, scale, zero string) {
	top := float32(0)
	for _, e := range x {
		top = max(top, float32(math.Abs(float64(e))))
	}
	unit := top / 127
	data := make([]byte, len(x))
	for i, e := range x {
		data[i] = byte(int8(math.RoundToEven(float64(e / unit))))
	}
	at := b.named(name)
	return b.put(onnxValue{at + " integers", onnxInt8, []int64{int64(in), int64(out)}, data}),
		b.put(onnxValue{at + " unit", onnxFloat, nil,
			binary.NativeEndian.AppendUint32(nil, math.Float32bits(unit))}),
		b.put(onnxValue{at + " nothing", onnxInt8, nil, []byte{0}})
}
