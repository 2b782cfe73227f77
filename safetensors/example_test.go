package safetensors_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/safetensors"
)

// A matrix of halves is packed from the file's own bytes, one of float32 from its numbers.
func Example() {
	folder, err := writeFolder()
	defer os.RemoveAll(folder)
	if err != nil {
		panic(err)
	}
	f, err := safetensors.Open(folder) // with model.safetensors, or an index and several files
	if err != nil {
		panic(err)
	}
	defer f.Close()
	for _, t := range f.Tensors {
		m, err := pack(t)
		if err != nil {
			panic(err)
		}
		_, _, inputs, outputs := m.Dims()
		fmt.Printf("%s: %s %v, a matrix of %d inputs and %d outputs\n", t.Name, t.DType, t.Shape, inputs,
			outputs)
		m.Close()
	}
	// Output:
	// embed.weight: F32 [2 3], a matrix of 3 inputs and 2 outputs
	// head.weight: BF16 [4 3], a matrix of 3 inputs and 4 outputs
}

// pack packs a matrix, whose rows are outputs.
func pack(t *safetensors.Tensor) (*attn.Matrix, error) {
	outputs, inputs := t.Shape[0], t.Shape[1]
	block, err := safetensors.BlockTypeOf(t.DType)
	if err != nil { // attn.ErrUnsupported
		numbers, err := t.Float32s()
		if err != nil {
			return nil, err
		}
		return attn.PackMatrix(attn.BHLD(numbers, 1, 1, outputs, inputs),
			attn.MatrixConfig{Transposed: true})
	}
	data, err := t.Bytes()
	if err != nil {
		return nil, err
	}
	defer t.Release()
	return attn.PackBlocks(data, block, outputs, inputs, attn.MatrixConfig{})
}

// writeFolder writes a model with two tensors of zeros.
func writeFolder() (folder string, err error) {
	if folder, err = os.MkdirTemp("", "model"); err != nil {
		return "", err
	}
	header := `{"embed.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
		"head.weight": {"dtype": "BF16", "shape": [4, 3], "data_offsets": [24, 48]}}`
	data := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	data = append(append(data, header...), make([]byte, 48)...)
	return folder, os.WriteFile(filepath.Join(folder, "model.safetensors"), data, 0o666)
}
