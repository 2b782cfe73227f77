package foldertest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/nlpodyssey/safetensors"
)

// Tiny is a model that a test writes to a folder. No size is a multiple of a kernel's tile.
var Tiny = map[string]any{"model_type": "bert", "hidden_act": "gelu", "hidden_size": 30,
	"num_hidden_layers":   2,
	"num_attention_heads": 3, "intermediate_size": 37, "vocab_size": 12, "max_position_embeddings": 20,
	"type_vocab_size": 2, "layer_norm_eps": 1e-5}

// TinyVocabulary is the model's vocab.txt.
const TinyVocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\ncat\nun\n##believ\n##able\n,\n!\nzurich\n中\n"

// TinyShapes returns the shapes of the model's tensors.
func TinyShapes() map[string][]int {
	d, f := 30, 37
	shapes := map[string][]int{
		"embeddings.word_embeddings.weight":       {12, d},
		"embeddings.position_embeddings.weight":   {20, d},
		"embeddings.token_type_embeddings.weight": {2, d},
		"embeddings.LayerNorm.weight":             {d},
		"embeddings.LayerNorm.bias":               {d},
	}
	for i := range 2 {
		for name, size := range map[string][2]int{"attention.self.query": {d, d},
			"attention.self.key":   {d, d},
			"attention.self.value": {d, d}, "attention.output.dense": {d, d}, "intermediate.dense": {f,
				d}, "output.dense": {d, f}} {
			shapes[fmt.Sprintf("encoder.layer.%d.%s.weight", i, name)] = []int{size[0], size[1]}
			shapes[fmt.Sprintf("encoder.layer.%d.%s.bias", i, name)] = []int{size[0]}
		}
		for _, name := range []string{"attention.output.LayerNorm", "output.LayerNorm"} {
			shapes[fmt.Sprintf("encoder.layer.%d.%s.weight", i, name)] = []int{d}
			shapes[fmt.Sprintf("encoder.layer.%d.%s.bias", i, name)] = []int{d}
		}
	}
	return shapes
}

// Encodings returns, for each type, the bytes of the number nearest to x, and that number.
var Encodings = map[safetensors.DType]func(x float64) ([]byte, float64){
	safetensors.F32: func(x float64) ([]byte, float64) {
		f := float32(x)
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(f)), float64(f)
	},
	safetensors.BF16: func(x float64) ([]byte, float64) {
		bits := math.Float32bits(float32(x)) >> 16
		return binary.LittleEndian.AppendUint16(nil, uint16(bits)),
			float64(math.Float32frombits(bits << 16))
	},
	safetensors.F16: func(x float64) ([]byte, float64) {
		fraction, exponent := math.Frexp(math.Abs(x)) // in [½, 1), to 11 bits, or down to 2⁻²⁴
		unit := math.Ldexp(1, max(exponent-11, -24))
		n := math.Floor(math.Ldexp(fraction, exponent) / unit)
		bits := uint16(n) // a subnormal number
		if n >= 1024 {
			bits = uint16(exponent+14)<<10 | uint16(n)&1023
		}
		if x < 0 {
			return binary.LittleEndian.AppendUint16(nil, bits|1<<15), -n * unit
		}
		return binary.LittleEndian.AppendUint16(nil, bits), n * unit
	},
}

// Weights are the numbers of a folder's tensors.
type Weights map[string][]float64

// TinyTensors makes the tensors of the model with random numbers.
func TinyTensors(t *testing.T, kind safetensors.DType) (map[string]safetensors.TensorView,
	Weights) {
	t.Helper()
	return Tensors(t, kind, TinyShapes())
}

// Tensors makes tensors of random numbers, which depend on names only.
func Tensors(t *testing.T, kind safetensors.DType, shapes map[string][]int) (
	map[string]safetensors.TensorView, Weights) {
	t.Helper()
	views, values := map[string]safetensors.TensorView{}, Weights{}
	for name, shape := range shapes {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name)) // cannot fail
		random := rand.New(rand.NewPCG(h.Sum64(), uint64(kind)))
		size, dims := 1, []uint64{}
		for _, n := range shape {
			size, dims = size*n, append(dims, uint64(n))
		}
		var data []byte
		for i := range size {
			x := 0.4 * random.NormFloat64()
			if i%7 == 0 {
				x *= 1e-6 // subnormal in F16
			}
			b, value := Encodings[kind](x)
			data, values[name] = append(data, b...), append(values[name], value)
		}
		view, err := safetensors.NewTensorView(kind, dims, data)
		if err != nil {
			t.Fatal(err)
		}
		views[name] = view
	}
	return views, values
}

// WriteBERT writes the model to a folder and returns it.
func WriteBERT(t *testing.T, kind safetensors.DType) (string, Weights) {
	t.Helper()
	folder := t.TempDir()
	views, values := TinyTensors(t, kind)
	WriteTensors(t, folder, views)
	Write(t, folder, "config.json", Encode(t, Tiny))
	Write(t, folder, "vocab.txt", []byte(TinyVocabulary))
	return folder, values
}

// WriteTensors writes model.safetensors.
func WriteTensors(t *testing.T, folder string, views map[string]safetensors.TensorView) {
	t.Helper()
	data, err := safetensors.Serialize(views, nil)
	if err != nil {
		t.Fatal(err)
	}
	Write(t, folder, "model.safetensors", data)
}

// Encode encodes JSON.
func Encode(t *testing.T, x any) []byte {
	t.Helper()
	data, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Write writes a file and the folders above it.
func Write(t *testing.T, folder, name string, data []byte) {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
