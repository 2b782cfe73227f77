package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The committed assembly is what the generator writes. The test cache does not
// see changes of it and of elementary.go, which are outside the module: run with -count=1.
func TestGeneratedFileIsCurrent(t *testing.T) {
	out := filepath.Join(t.TempDir(), "kernel_amd64.s")
	if msg, err := exec.Command("go", "run", ".", "-out", out).CombinedOutput(); err != nil {
		t.Fatalf("go run . -out: %v\n%s", err, msg)
	}
	fresh, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile("../kernel_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	header := func(b []byte) []byte { return b[bytes.IndexByte(b, '\n')+1:] } // its command line names the output
	if !bytes.Equal(header(fresh), header(committed)) {
		t.Error("kernel_amd64.s is not what the generator writes: run `go generate` in gen/")
	}
}
