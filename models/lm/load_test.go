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

// TestProgress: the calls count the bytes of all files, up to the last.
func TestProgress(t *testing.T) {
	folder := newFake("F32")
	folder.shards = 2
	g, path := newGGUF("llama", one("Q8_0")), at(t, "fake.gguf")
	g.Write(t, path)
	for _, path := range []string{folder.write(t), path} {
		calls, last, all := 0, int64(0), int64(0)
		_, err := readModel(path, Options{Progress: func(done, of int64) {
			if done < last || done > of || all != 0 && of != all {
				t.Errorf("%d of %d after %d of %d", done, of, last, all)
			}
			calls, last, all = calls+1, done, of
		}})
		if must(t, err); calls < 10 || last != all || all == 0 {
			t.Errorf("%s: %d calls, the last with %d of %d bytes", path, calls, last, all)
		}
	}
}
