package embed

import (
	"testing"

	"github.com/nlpodyssey/safetensors"
	"github.com/seed-1415985d/attn/models/internal/weights/foldertest"
)

var (
	tiny         = foldertest.Tiny
	encodings    = foldertest.Encodings
	writeTensors = foldertest.WriteTensors
	encode       = foldertest.Encode
	write        = foldertest.Write
)

// numbers are the weights that a folder holds.
type numbers foldertest.Weights

// writeModel writes a folder with a tiny BERT and returns it.
func writeModel(t *testing.T, kind safetensors.DType) (string, numbers) {
	t.Helper()
	path, values := foldertest.WriteBERT(t, kind)
	return path, numbers(values)
}

// tensorsOf makes the tensors of a tiny BERT.
func tensorsOf(t *testing.T, kind safetensors.DType) (map[string]safetensors.TensorView, numbers) {
	t.Helper()
	views, values := foldertest.TinyTensors(t, kind)
	return views, numbers(values)
}
