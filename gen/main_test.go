package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/seed-1415985d/attn/internal/dev/constants"
	"github.com/seed-1415985d/attn/internal/dev/generate"
)

// generator compiles this command. Avo makes one file in each process.
func generator(t *testing.T) string {
	program := filepath.Join(t.TempDir(), "gen")
	if msg, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, msg)
	}
	return program
}

// The committed assembly and Go files are what the generator writes. The test cache does not see
// changes of them and of the Go files that the generator reads, which are outside the module: run
// with -count=1.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	program := generator(t)
	for _, file := range []string{"kernel_amd64.s", "internal/kernel/floats/floats_amd64.s",
		"internal/kernel/narrow/narrow_amd64.s", "internal/kernel/integers/tiles_amd64.s",
		"internal/kernel/pairs/pairs_amd64.s", "internal/kernel/pairs/pairtiles_amd64.s",
		"internal/kernel/integers/integers_amd64.s", "internal/kernel/blockwise/blocktiles_amd64.s",
		"internal/kernel/int4/int4_amd64.s",
		"internal/kernel/elements/elements_amd64.s", "internal/kernel/blockwise/blockwise_amd64.s",
		"internal/kernel/triangle/triangle_amd64.s", "internal/kernel/blockwise/types_amd64.go"} {
		out := filepath.Join(t.TempDir(), filepath.Base(file))
		run := exec.Command(program, "-out", out)
		run.Dir = ".."
		if msg, err := run.CombinedOutput(); err != nil {
			t.Fatalf("gen -out %s: %v\n%s", out, err, msg)
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if err := generate.Current(filepath.Join("..", file), text); err != nil {
			t.Error(err)
		}
		if err := generate.Greppable(text, ".", "../internal/dev/blocktypes"); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if err := generate.Twins(text, filepath.Join("..", filepath.Dir(file))); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// A generator that fails leaves the file as it is. Here it fails at a constant that is not there.
func TestFailureLeavesFile(t *testing.T) {
	const committed = "the committed file"
	folder := t.TempDir()
	files := map[string]string{
		"internal/f32/elementary.go":           "package f32\n\nconst exp2Bias = 1\n",
		"internal/kernel/layout.go":            "package kernel\n",
		"internal/kernel/blockwise/product.go": "package blockwise\n",
		"internal/kernel/triangle/rows.go":     "package triangle\n",
		"internal/kernel/integers/sums.go":     "package integers\n",
		"floats_amd64.s":                       committed,
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.Command(generator(t), "-out", "floats_amd64.s")
	run.Dir = folder
	msg, err := run.CombinedOutput()
	if err == nil {
		t.Error("the generator wrote kernels without their constants")
	}
	text, err := os.ReadFile(filepath.Join(folder, "floats_amd64.s"))
	if err != nil || string(text) != committed {
		t.Errorf("the file is %.80q, %v; the generator said\n%s", text, err, msg)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 2 {
		t.Errorf("in the folder are %v, %v", entries, err)
	}
}

// The sizes in the generator are the same as in the package.
func TestSizesAreThoseOfThePackage(t *testing.T) {
	for file, sizes := range map[string]map[string]float32{
		"../internal/kernel/layout.go": {"MaximaLanes": lanes, "Block": block, "Panel": panel,
			"SoftmaxRows": softmaxRows, "PageBytes": pageBytes, "PrefetchWindow": prefetchWindow},
		"../internal/kernel/floats/choose.go": {"MaximaRows": maximaRows,
			"MaximaDim": maximaRows*maximaSteps + lastSteps},
		"../internal/kernel/floats/kernels_amd64.go": {"inPlaceKeys": touchRows},
		"../internal/kernel/integers/kernels_amd64.go": {"leastRotated": leastRotated,
			"mostRotated": mostRotated},
		"../internal/kernel/integers/rows.go": {"Group": int8Group},
	} {
		values, err := constants.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range sizes {
			if got := values.Get(name); got != want {
				t.Errorf("%s: %s is %v, the generator has %v", file, name, got, want)
			}
		}
	}
}
