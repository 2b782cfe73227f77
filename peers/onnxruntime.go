//go:build cgo

package main

import (
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/seed-1415985d/attn/internal/f32"
)

// onnxRuntime computes with MultiHeadAttention, with GroupQueryAttention for causal cases and cases
// with a cache, with MatMulNBits, and with a graph of operators for an encoder.
type onnxRuntime struct{}

func openONNXRuntime() (library, error) {
	file, err := findONNXRuntime()
	if err != nil {
		return nil, err
	}
	if ort.IsInitialized() {
		return onnxRuntime{}, nil
	}
	ort.SetSharedLibraryPath(file)
	return onnxRuntime{}, ort.InitializeEnvironment()
}

func (onnxRuntime) version() string { return ort.GetVersion() }

func (onnxRuntime) prepare(c *Case, in inputs, threads int) (func() error, func() []float32,
	error) {
	if _, _, ok := c.encoder(); ok {
		return ortEncode(c, in.dir, threads)
	}
	m := &ortModel{c: c}
	switch {
	case strings.Contains(c.Type, " "):
		return nil, nil, lacking("of whole models, encoders only")
	case c.matrix():
		m.matrix(in)
	case c.decode():
		m.grouped(in, 1)
	case c.Causal:
		m.grouped(in, c.Lk)
	case c.Type != "f32":
		return nil, nil, lacking("float32 only, where there is no cache")
	default:
		m.multiHead(in)
	}
	session, err := m.session(threads)
	if err != nil {
		return nil, nil, err
	}
	call := func() error {
		defer runtime.KeepAlive(m) // the session does not keep its inputs and outputs alive
		return session.Run()
	}
	return call, m.result, nil
}

// ortModel is a model of one operator with its inputs and outputs.
type ortModel struct {
	onnxModel
	op     onnxNode
	c      *Case
	values []ort.Value // of named inputs, then of outputs
	out    []byte
	err    error
}

// multiHead adds attention over tokens with heads side by side.
func (m *ortModel) multiHead(in inputs) {
	c := m.c
	m.op.op = "MultiHeadAttention"
	m.op.attributes = []onnxAttribute{{name: "num_heads", number: c.Heads}}
	m.input("query", onnxFloat, bytesOf(byTokens(in.q, c.Batch, c.Heads, c.Lq, c.Dim)), c.Batch, c.Lq,
		c.Heads*c.Dim)
	m.input("key", onnxFloat, bytesOf(byTokens(in.k, c.Batch, c.KV, c.Lk, c.Dim)), c.Batch, c.Lk,
		c.KV*c.Dim)
	m.input("value", onnxFloat, bytesOf(byTokens(in.v, c.Batch, c.KV, c.Lk, c.Dim)), c.Batch, c.Lk,
		c.KV*c.Dim)
	m.output(onnxFloat)
}

// grouped appends the last tokens to a cache of the case's type that has the others, and computes
// attention over all. The cache is input and output: it stays in place.
func (m *ortModel) grouped(in inputs, fresh int) {
	c := m.c
	kind, encode := uint64(onnxFloat), bytesOf[float32] // of everything except the cache
	cached, k, v := uint64(onnxFloat), bytesOf(in.k), bytesOf(in.v)
	var scales [2]float32
	bits := c.bits()
	m.op.op = "GroupQueryAttention"
	m.op.attributes = []onnxAttribute{{name: "num_heads", number: c.Heads},
		{name: "kv_num_heads", number: c.KV}}
	switch bits {
	case 16:
		kind, encode, cached, k, v = onnxFloat16, halves, onnxFloat16, halves(in.k), halves(in.v)
	case 8, 4:
		cached = map[int]uint64{8: onnxInt8, 4: onnxUint8}[bits]
		k, scales[0] = toIntegers(in.k, bits)
		v, scales[1] = toIntegers(in.v, bits)
		m.op.attributes = append(m.op.attributes, onnxAttribute{name: "kv_cache_bit_width", number: bits},
			onnxAttribute{name: "k_quant_type", text: "PER_TENSOR"}, onnxAttribute{name: "v_quant_type",
				text: "PER_TENSOR"})
	}
	width := c.Dim // of a row of the cache, in elements of its kind
	if bits == 4 {
		width /= 2
	}
	m.input("query", kind, encode(byTokens(in.q, c.Batch, c.Heads, c.Lq, c.Dim)), c.Batch, c.Lq,
		c.Heads*c.Dim)
	m.input("key", kind, encode(m.last(in.k, fresh)), c.Batch, fresh, c.KV*c.Dim)
	m.input("value", kind, encode(m.last(in.v, fresh)), c.Batch, fresh, c.KV*c.Dim)
	m.input("past_key", cached, k, c.Batch, c.KV, c.Lk, width)
	m.input("past_value", cached, v, c.Batch, c.KV, c.Lk, width)
	lengths := make([]int32, c.Batch)
	for i := range lengths {
		lengths[i] = int32(c.Lk - 1)
	}
	m.input("seqlens_k", onnxInt32, bytesOf(lengths), c.Batch)
	m.input("total_sequence_length", onnxInt32, bytesOf([]int32{int32(c.Lk)}), 1)
	if bits <= 8 {
		m.op.inputs = append(m.op.inputs, make([]string, 5)...) // rotations, positions, a bias, sinks
		m.input("k_scale", onnxFloat, bytesOf(scales[:1]), 1)
		m.input("v_scale", onnxFloat, bytesOf(scales[1:]), 1)
	}
	m.output(kind)
	m.op.outputs = append(m.op.outputs, "present_key", "present_value")
	m.outputs = append(m.outputs, onnxValue{"present_key", cached, m.inputs[3].dims, nil},
		onnxValue{"present_value", cached, m.inputs[4].dims, nil})
	m.values = append(m.values, m.values[3:5]...)
}

// matrix multiplies by weights that are part of the model, so that it may reorder them, with inputs
// rounded to 8 bits.
func (m *ortModel) matrix(in inputs) {
	c := m.c
	m.op.op = "MatMulNBits"
	m.op.attributes = []onnxAttribute{{name: "K", number: c.Dim}, {name: "N", number: c.Lk},
		{name: "bits", number: 4}, {name: "block_size", number: blockInputs},
		{name: "accuracy_level", number: 4}}
	weights, scales := onnxBlocks(in.k)
	blocks := int64(c.Dim / blockInputs)
	m.input("A", onnxFloat, bytesOf(in.q), c.Batch, c.Lq, c.Dim)
	m.op.inputs = append(m.op.inputs, "B", "scales")
	m.constants = append(m.constants,
		onnxValue{"B", onnxUint8, []int64{int64(c.Lk), blocks, blockInputs / 2}, weights},
		onnxValue{"scales", onnxFloat, []int64{int64(c.Lk) * blocks}, bytesOf(scales)})
	m.output(onnxFloat)
}

// last returns the last tokens of keys or values, with heads side by side.
func (m *ortModel) last(x []float32, n int) []float32 {
	c := m.c
	y := byTokens(x, c.Batch, c.KV, c.Lk, c.Dim)
	var kept []float32
	for end := c.Lk * c.KV * c.Dim; end <= len(y); end += c.Lk * c.KV * c.Dim {
		kept = append(kept, y[end-n*c.KV*c.Dim:end]...)
	}
	return kept
}

func (m *ortModel) input(name string, kind uint64, data []byte, dims ...int) {
	v := onnxValue{name: name, kind: kind}
	for _, d := range dims {
		v.dims = append(v.dims, int64(d))
	}
	m.op.inputs, m.inputs = append(m.op.inputs, name), append(m.inputs, v)
	m.value(v, data)
}

func (m *ortModel) output(kind uint64) {
	c := m.c
	m.out = make([]byte, 4*c.queries())
	if kind == onnxFloat16 {
		m.out = m.out[:2*c.queries()]
	}
	v := onnxValue{name: "output", kind: kind,
		dims: []int64{int64(c.Batch), int64(c.Lq), int64(c.Heads * c.Dim)}}
	m.op.outputs, m.outputs = append(m.op.outputs, v.name), append(m.outputs, v)
	m.value(v, m.out)
}

func (m *ortModel) value(v onnxValue, data []byte) {
	t, err := ort.NewCustomDataTensor(v.dims, data, ort.TensorElementDataType(v.kind))
	if err != nil && m.err == nil {
		m.err = err
	}
	m.values = append(m.values, t)
}

func (m *ortModel) session(threads int) (*ort.AdvancedSession, error) {
	if m.err != nil {
		return nil, m.err
	}
	options, err := ortOptions(threads)
	if err != nil {
		return nil, err
	}
	defer options.Destroy()
	m.nodes = []onnxNode{m.op}
	var in, out []string
	for _, v := range m.inputs {
		in = append(in, v.name)
	}
	for _, v := range m.outputs {
		out = append(out, v.name)
	}
	return ort.NewAdvancedSessionWithONNXData(m.encode(), in, out, m.values[:len(in)],
		m.values[len(in):], options)
}

// ortOptions are the options of all sessions. Threads wait for work by spinning; they stop when a
// call ends, so that they do not disturb other peers' turns.
func ortOptions(threads int) (*ort.SessionOptions, error) {
	options, err := ort.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	err = errors.Join(options.SetIntraOpNumThreads(threads),
		options.AddSessionConfigEntry("session.force_spinning_stop", "1"))
	return options, err
}

func (m *ortModel) result() []float32 {
	c := m.c
	x := make([]float32, c.queries())
	for i := range x {
		if len(m.out) == 2*len(x) {
			x[i] = f32.FromF16(binary.NativeEndian.Uint16(m.out[2*i:]))
		} else {
			x[i] = math.Float32frombits(binary.NativeEndian.Uint32(m.out[4*i:]))
		}
	}
	return byTokens(x, c.Batch, c.Lq, c.Heads, c.Dim)
}

// byTokens turns [B, H, L, D] into [B, L, H, D], and back.
func byTokens(x []float32, batch, heads, length, d int) []float32 {
	y := make([]float32, 0, len(x))
	for i := range batch {
		for l := range length {
			for h := range heads {
				y = append(y, x[((i*heads+h)*length+l)*d:][:d]...)
			}
		}
	}
	return y
}

func halves(x []float32) []byte {
	b := make([]byte, 0, 2*len(x))
	for _, e := range x {
		b = binary.NativeEndian.AppendUint16(b, f32.ToF16(e))
	}
	return b
}

// toIntegers rounds to integers with one scale: with a scale for each channel the operator is
// slower. A byte has two integers of 4 bits, the first in its lower half, each 8 above its value.
func toIntegers(x []float32, bits int) (b []byte, scale float32) {
	top := float64(int(1)<<(bits-1) - 1)
	for _, e := range x {
		scale = max(scale, float32(math.Abs(float64(e))/top))
	}
	for _, e := range x {
		b = append(b, byte(int8(math.RoundToEven(float64(e/scale)))))
	}
	if bits == 8 {
		return b, scale
	}
	for i := range len(b) / 2 {
		b[i] = b[2*i] + 8 | (b[2*i+1]+8)<<4
	}
	return b[:len(b)/2], scale
}

// bytesOf returns the memory of x.
func bytesOf[T float32 | int32](x []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// onnxBlocks returns the weights in ONNX Runtime's layout: two neighbours in a byte.
func onnxBlocks(x []float32) (data []byte, scales []float32) {
	for block := range slices.Chunk(x, blockInputs) {
		n, scale := codes(block)
		scales = append(scales, scale)
		for pair := range slices.Chunk(n[:], 2) {
			data = append(data, pair[0]|pair[1]<<4)
		}
	}
	return data, scales
}
