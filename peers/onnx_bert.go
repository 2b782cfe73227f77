//go:build cgo

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/seed-1415985d/attn/safetensors"
)

// onnxEncoder writes an encoder with the operators into which the optimizer of
// onnxruntime.transformers fuses an exported one. With integers, it is the result of
// quantize_dynamic of onnxruntime.quantization on that: inputs as bytes with a scale and a zero
// point found in each call, weights as signed bytes with one scale for a matrix.
type onnxEncoder struct {
	onnxModel
	file     *safetensors.File
	integers bool
	// multiHead uses MultiHeadAttention in place of Attention, which includes the products before it.
	multiHead bool
	layer     int
	err       error
}

func newONNXEncoder(c *Case, dir string, multiHead bool) (*onnxEncoder, error) {
	s, integers, _ := c.encoder()
	file, err := safetensors.Open(c.encoderPath(dir))
	if err != nil {
		return nil, err
	}
	b := &onnxEncoder{file: file, integers: integers, multiHead: multiHead}
	if s.image > 0 {
		b.image(&s)
	} else {
		b.texts(&s)
	}
	return b, errors.Join(b.err, file.Close())
}

// texts adds a BERT.
func (b *onnxEncoder) texts(s *encoder) {
	any2 := []int64{-1, -1}
	b.inputs = []onnxValue{{"ids", onnxInt32, any2, nil}, {"segments", onnxInt32, any2, nil},
		{"mask", onnxInt32, any2, nil}}
	b.embeddings(int64(s.Hidden))
	x, width := "x", s.Hidden
	for b.layer = range s.Layers {
		x = b.encoder(x, s.Hidden, s.FFN, s.Heads)
	}
	if s.TokenLabels > 0 {
		width = s.TokenLabels
		x = b.biased(x, "classifier", s.Hidden, width)
	}
	b.outputs = []onnxValue{{x, onnxFloat, []int64{-1, -1, int64(width)}, nil}}
}

func (b *onnxEncoder) node(op string, in, out []string, attributes ...onnxAttribute) {
	b.nodes = append(b.nodes, onnxNode{op, false, in, out, attributes})
}

func (b *onnxEncoder) standard(op string, in, out []string, attributes ...onnxAttribute) {
	b.nodes = append(b.nodes, onnxNode{op, true, in, out, attributes})
}

// embeddings adds the nodes of x, and of the lengths of the texts from the mask.
func (b *onnxEncoder) embeddings(hidden int64) {
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
func (b *onnxEncoder) encoder(x string, hidden, ffn, heads int) string {
	d := int64(hidden)
	names := []string{bertSelf + "query", bertSelf + "key", bertSelf + "value"}
	attended := b.attention(x, names, hidden, heads, "lengths")
	y := b.skip(b.product(attended, bertOutput+"dense", hidden, hidden), x, d, bertOutput+"LayerNorm",
		bertOutput+"dense.bias")
	act := b.named("act")
	up := b.product(y, bertLayer+"intermediate.dense", hidden, ffn)
	b.node("BiasGelu", []string{up, b.floats(bertLayer+"intermediate.dense.bias", int64(ffn))},
		[]string{act})
	return b.skip(b.product(act, bertLayer+"output.dense", ffn, hidden), y, d,
		bertLayer+"output.LayerNorm", bertLayer+"output.dense.bias")
}

// attention adds attention. The matrices of its inputs are side by side. lengths is empty if all
// rows are visible.
func (b *onnxEncoder) attention(x string, names []string, d, heads int, lengths string) string {
	n := 3 * d
	var stored, biases []float32
	for _, name := range names {
		stored = append(stored, b.tensor(name+".weight")...)
		biases = append(biases, b.tensor(name+".bias")...)
	}
	if b.err != nil {
		return ""
	}
	weights := transposed(stored, n, d)
	out, bias := b.named("attended"), b.constant("bias", []int64{int64(n)}, biases)
	with := onnxAttribute{name: "num_heads", number: heads}
	switch {
	case b.multiHead:
		all := b.matrix(x, "projected", d, n, weights)
		in := []string{all + " q", all + " k", all + " v"}
		b.standard("Split", []string{all}, in, onnxAttribute{name: "axis", number: -1})
		b.node("MultiHeadAttention", append(in, bias), []string{out}, with)
	case b.integers:
		q, scale, zero := b.quantize(x)
		w, wScale, wZero := b.bytes("weights", d, n, weights)
		b.node("QAttention", []string{q, w, bias, scale, wScale, lengths, zero, wZero}, []string{out},
			with)
	default:
		w := b.constant("weights", []int64{int64(d), int64(n)}, weights)
		b.node("Attention", []string{x, w, bias, lengths}, []string{out}, with)
	}
	return out
}

// transposed returns the matrix [in, out] of a tensor [out, in].
func transposed(stored []float32, out, in int) []float32 {
	weights := make([]float32, in*out)
	for i := range out {
		for j := range in {
			weights[j*out+i] = stored[i*in+j]
		}
	}
	return weights
}

// product adds a product by a tensor, without its bias.
func (b *onnxEncoder) product(x, name string, in, out int) string {
	stored := b.tensor(name + ".weight")
	if b.err != nil {
		return ""
	}
	return b.matrix(x, name, in, out, transposed(stored, out, in))
}

// biased adds a product by a tensor, and its bias.
func (b *onnxEncoder) biased(x, name string, in, out int) string {
	y := b.named(name + " biased")
	b.standard("Add", []string{b.product(x, name, in, out), b.floats(name+".bias", int64(out))},
		[]string{y})
	return y
}

// matrix adds a product by a matrix [in, out].
func (b *onnxEncoder) matrix(x, name string, in, out int, weights []float32) string {
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

// skip adds the norm of the sum of a product, its bias and add. The sum may be another output.
func (b *onnxEncoder) skip(x, add string, d int64, norm, bias string, sum ...string) string {
	y := b.named(norm)
	b.node("SkipLayerNormalization", []string{x, add, b.floats(norm+".weight", d),
		b.floats(norm+".bias", d), b.floats(bias, d)}, append([]string{y}, sum...),
		onnxAttribute{name: "epsilon", fraction: epsilon})
	return y
}

func (b *onnxEncoder) quantize(x string) (q, scale, zero string) {
	q, scale, zero = b.named(x+" bytes"), b.named(x+" scale"), b.named(x+" zero")
	b.standard("DynamicQuantizeLinear", []string{x}, []string{q, scale, zero})
	return q, scale, zero
}

// named returns a name in this layer.
func (b *onnxEncoder) named(name string) string { return fmt.Sprintf("%d %s", b.layer, name) }

// tensor reads weights, of this layer if the name has %d.
func (b *onnxEncoder) tensor(name string) []float32 {
	name = layerName(name, b.layer)
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
func (b *onnxEncoder) floats(name string, dims ...int64) string {
	x := b.tensor(name)
	if dims[0] < 0 {
		dims[0] = int64(len(x)) / dims[1]
	}
	return b.put(onnxValue{layerName(name, b.layer), onnxFloat, dims, bytesOf(x)})
}

func (b *onnxEncoder) constant(name string, dims []int64, x []float32) string {
	return b.put(onnxValue{b.named(name + " constant"), onnxFloat, dims, bytesOf(x)})
}

func (b *onnxEncoder) put(v onnxValue) string {
	b.constants = append(b.constants, v)
	return v.name
}

// bytes adds constants of a matrix: integers, a scale and a zero point of 0.
func (b *onnxEncoder) bytes(name string, in, out int, x []float32) (w, scale, zero string) {
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
