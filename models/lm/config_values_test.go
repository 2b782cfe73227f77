package lm

import (
	"fmt"
	"strings"
	"testing"
)

// smallConfig returns the keys that all kinds of folders need.
func smallConfig(a *architecture) configFile {
	f := a.usual()
	f.ModelType, f.Layers, f.Dim, f.Heads, f.KVHeads = a.kind, 2, 64, 4, new(2)
	f.HeadDim, f.FFN, f.Vocab, f.Positions = new(16), 64, 300, 128
	return f
}

// TestOtherNumberOfLayerTypes: a list of fewer layers is an error of every kind, an empty one, too.
func TestOtherNumberOfLayerTypes(t *testing.T) {
	for i := range architectures {
		a := &architectures[i]
		if a.usual == nil {
			continue
		}
		for n := range 2 {
			f := smallConfig(a)
			f.LayerTypes = []string{fullLayer}[:n]
			want := fmt.Sprintf("layer_types has %d layers, want num_hidden_layers, 2", n)
			if _, err := f.config(); !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s: the error is %v, want %q", a.kind, err, want)
			}
		}
	}
}
