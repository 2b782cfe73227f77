package gguf_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/gguf"
	"github.com/seed-1415985d/attn/internal/dev/gguftest"
	"github.com/seed-1415985d/attn/internal/strictjson"
)

// The shapes of a file, as a table of its tensors.
func Example_shapes() {
	path := writeModel()
	defer os.RemoveAll(filepath.Dir(path))

	f, err := gguf.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	fmt.Println(f.Get("general.architecture"))
	for _, t := range f.Tensors {
		fmt.Printf("%-20s %-5v %v\n", t.Name, t.Type, t.Shape)
	}
	// Output:
	// llama
	// output_norm.weight   F32   [64]
	// output.weight        Q8_0  [4 64]
}

// One tensor is packed from where the file has it, and multiplies.
func Example_pack() {
	path := writeModel()
	defer os.RemoveAll(filepath.Dir(path))

	f, err := gguf.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	t := f.Tensor("output.weight")
	block, err := gguf.BlockTypeOf(t.Type)
	if err != nil {
		fmt.Println(err) // attn.ErrUnsupported: decode it, or say so
		return
	}
	data, err := t.Bytes()
	if err != nil {
		fmt.Println(err)
		return
	}
	outputs, inputs := t.Shape[0], t.Shape[1]
	m, err := attn.PackBlocks(data, block, outputs, inputs, attn.MatrixConfig{Integers: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	t.Release() // what is packed is needed no more in the file's form

	x, y := make([]float32, inputs), make([]float32, outputs)
	x[0] = 2
	err = m.MatMul(attn.BHLD(y, 1, 1, 1, outputs), attn.BHLD(x, 1, 1, 1, inputs), nil)
	fmt.Printf("%v %.1f %v\n", block, y, err)
	// Output: Q8_0 [0.0 2.0 4.0 6.0] <nil>
}

// Metadata is decoded by the names of keys. What nobody reads is an error, unless it changes
// nothing.
func ExampleFile_Unmarshal() {
	path := writeModel()
	defer os.RemoveAll(filepath.Dir(path))

	f, err := gguf.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	var shape struct {
		Layers int `json:"block_count"`
		Heads  int `json:"attention.head_count"`
	}
	err = f.Unmarshal("llama", &shape, strictjson.Idle{"rope.scaling.finetuned": nil})
	fmt.Println(shape.Layers, shape.Heads, err)

	err = f.CheckKeys(strictjson.Idle{"general.*": nil}, "llama")
	fmt.Println(errors.Unwrap(err)) // without the file's name
	// Output:
	// 2 4 <nil>
	// key "adapter.lora.alpha" is 16, want only keys that are known here
}

// writeModel writes a file with two tensors: ones, and a matrix whose row i begins with i.
func writeModel() (path string) {
	folder, err := os.MkdirTemp("", "model")
	if err != nil {
		panic(err)
	}
	ones, rows := make([]float32, 64), make([]float32, 4*64)
	for i := range ones {
		ones[i] = 1
	}
	for i := range 4 {
		rows[64*i] = float32(i)
	}
	norm, _ := gguftest.Encode("F32", ones)
	output, _ := gguftest.Encode("Q8_0", rows)
	file := gguftest.File{
		Keys: []gguftest.Key{{Name: "general.architecture", Value: "llama"},
			{Name: "llama.block_count", Value: uint32(2)},
			{Name: "llama.attention.head_count", Value: uint32(4)},
			{Name: "llama.rope.scaling.finetuned", Value: true},
			{Name: "adapter.lora.alpha", Value: float32(16)}},
		Tensors: []gguftest.Tensor{{Name: "output_norm.weight", Shape: []int{64}, Data: norm},
			{Name: "output.weight", Shape: []int{4, 64}, Type: gguftest.Types["Q8_0"], Data: output}},
	}
	path = filepath.Join(folder, "model.gguf")
	if err := os.WriteFile(path, file.Bytes(), 0o666); err != nil {
		panic(err)
	}
	return path
}
