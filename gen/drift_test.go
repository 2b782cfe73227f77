package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/seed-1415985d/attn/internal/constants"
)

// The committed assembly is what the generator writes. The test cache does not
// see changes of it and of the Go files that the generator reads, which are outside the module: run with -count=1.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	for file, flags := range map[string][]string{"kernel_amd64.s": nil, "kernel_typed_amd64.s": {"-typed"}} {
		out := filepath.Join(t.TempDir(), file)
		args := append(append([]string{"run", "."}, flags...), "-out", out)
		if msg, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, msg)
		}
		written, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		committed, err := os.ReadFile("../" + file)
		if err != nil {
			t.Fatal(err)
		}
		header := func(b []byte) []byte { return b[bytes.IndexByte(b, '\n')+1:] } // its command line names the output
		if !bytes.Equal(header(written), header(committed)) {
			t.Errorf("%s is not what the generator writes: run `go generate` in gen/", file)
		}
	}
}

// The sizes that the generator repeats are those of the package.
func TestSizesAreThoseOfThePackage(t *testing.T) {
	for file, sizes := range map[string]map[string]float32{
		"../kernel_layout.go":   {"maximaLanes": lanes, "Block": block, "panel": panel, "softmaxRows": softmaxRows},
		"../kernel_variants.go": {"fusedRows": fusedRows, "fusedCols": fusedPanels * panel, "maximaRows": maximaRows, "maximaDim": maximaRows*maximaSteps + lastSteps},
		"../kernel_amd64.go":    {"inPlaceKeys": touchRows},
		"../kernel_prefetch.go": {"pageBytes": pageBytes, "prefetchWindow": prefetchWindow},
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
