package lm

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
)

// TestWeightsThatHaveNoScale: the error names file and tensor, and does not blame the options.
func TestWeightsThatHaveNoScale(t *testing.T) {
	const name = "model.layers.1.mlp.up_proj.weight"
	f := newFake("F32")
	f.tensors[name].data[24] = float32(math.NaN())
	g, path := newGGUF("llama", one("Q8_0")), at(t, "fake.gguf")
	copy(g.tensorNamed("blk.1.ffn_up.weight").Data, "\xff\xff")
	g.Write(t, path)
	for path, want := range map[string]string{
		f.write(t): "model.safetensors: tensor " + name + ": w is NaN in row 1, column 0",
		path:       "fake.gguf: tensor blk.1.ffn_up.weight: data of Q8_0: block 0 of output 0",
	} {
		_, err := readModel(path, Options{Products: Integers})
		if !strings.Contains(fmt.Sprint(err), want) || errors.Is(err, attn.ErrOption) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}
