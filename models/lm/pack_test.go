package lm

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// TestPack opens models from packed matrices, and compares logits with the original files.
func TestPack(t *testing.T) {
	gguf := func(kind string, tied bool) string {
		f, path := newGGUF("llama", one(kind)), at(t, "fake.gguf")
		if tied {
			f.without("output.weight")
		}
		f.Write(t, path)
		return path
	}
	tied := newFake("BF16")
	tied.config["tie_word_embeddings"] = true
	delete(tied.tensors, "lm_head.weight")
	for _, c := range []struct {
		name, path string
		kind       attn.Format
		way        weights.Way
	}{
		{"Q4_K", gguf("Q4_K", false), asStored, weights.Way{Integers: true}},
		{"Q6_K, tied", gguf("Q6_K", true), asStored, weights.Way{Integers: true}},
		{"Q5_1, tied", gguf("Q5_1", true), asStored, weights.Way{Integers: true}},
		{"Q5_K, tied, bfloat16", gguf("Q5_K", true), asStored, weights.Way{BFloat16: true}},
		{"F32, tied", gguf("F32", true), asStored, weights.Way{}},
		{"decoded", gguf("Q8_0", true), attn.F16, weights.Way{}},
		{"a folder", newFake("F32").write(t), asStored, weights.Way{}},
		{"a folder, tied", tied.write(t), asStored, weights.Way{}},
		{"a folder, i8, tied", tied.write(t), attn.I8, weights.Way{Integers: true}},
		{"a folder, tied, bfloat16", tied.write(t), asStored, weights.Way{BFloat16: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			logits := func(pack string) []float32 {
				o := &options{model: c.path, pack: pack, weights: c.kind,
					bfloat16: c.way.BFloat16, settings: settings{integers: c.way.Integers}}
				m, _, err := o.open()
				must(t, err)
				return firstLogits(t, m, settings{workers: 1, places: 1, chunk: 16, context: 64,
					integers: c.way.Integers}, false, ggufPrompt)
			}
			want, path := logits(""), at(t, "packed")
			if got := logits(path); !slices.Equal(got, want) {
				t.Error("where the file is written, logits are others")
			}
			written, err := os.Stat(path)
			must(t, err)
			if got := logits(path); !slices.Equal(got, want) {
				t.Error("where matrices are those of the file, logits are others")
			}
			if again, err := os.Stat(path); err != nil || again.ModTime() != written.ModTime() {
				t.Errorf("the file was written again (%v)", err)
			}
			if left, _ := filepath.Glob(path + ".*"); left != nil {
				t.Errorf("%v is left", left)
			}
		})
	}
}

// TestPackRefuses has files of matrices of other models.
func TestPackRefuses(t *testing.T) {
	f, one, two := newShapedGGUF(smallGGUF, "qwen3", one("Q8_0")), at(t, "a.gguf"), at(t, "b.gguf")
	f.Write(t, one)
	f.tensorNamed("blk.0.ffn_up.weight").Data[7] ^= 1
	f.Write(t, two)
	pack := at(t, "packed")
	start := func(path string, o Options) error {
		o.Pack = pack
		_, err := readModel(path, o)
		return err
	}
	must(t, start(one, Options{}))
	must(t, start(one, Options{}))
	whole, err := os.ReadFile(pack)
	must(t, err)
	const other = "packed: the matrices are of another model, or of other weights or products"
	for _, err := range []error{start(two, Options{}), start(one, Options{Products: Floats}),
		start(one, Options{Weights: I8, Products: Integers})} {
		if err == nil || !strings.Contains(err.Error(), other) {
			t.Errorf("the error is %v, want one that says %q", err, other)
		}
	}
	must(t, os.WriteFile(pack, whole[:len(whole)-1], 0o600))
	if err := start(one, Options{}); err == nil || !strings.Contains(err.Error(), pack) {
		t.Errorf("a file that is cut is %v, want an error that names it", err)
	}
	if now, err := os.ReadFile(pack); err != nil || !bytes.Equal(now, whole[:len(whole)-1]) {
		t.Errorf("a file that is not the model's is changed (%v)", err)
	}
}
