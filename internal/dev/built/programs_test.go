package built

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A program has what it calls of package attn, and little else of it. Bounds are a few per cent
// above the current sizes for Linux on amd64, without symbols: a program that exceeds them links
// something that it does not call, such as what an init refers to.
func TestPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("programs are built where all tests run")
	}
	folder := t.TempDir()
	size := func(name string) int64 {
		path := filepath.Join(folder, name)
		build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path,
			"./testdata/"+name)
		build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "GOAMD64=v1", "CGO_ENABLED=0",
			"GOFLAGS=")
		if msg, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", build, err, msg)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	sizes := map[string]int64{}
	for _, name := range []string{"prints", "detects", "softmax", "attend", "gguf"} {
		sizes[name] = size(name)
	}
	for _, c := range []struct {
		name, over string
		most       int64
	}{
		{"softmax", "detects", 80_000},
		{"softmax", "prints", 240_000},  // 164 KB of it are the package that detects the CPU
		{"attend", "prints", 1_180_000}, // 64 KB of it are sums in bfloat16, 30 KB distances
		{"gguf", "prints", 1_200_000},   // it maps files
	} {
		if got := sizes[c.name] - sizes[c.over]; got > c.most || got <= 0 {
			t.Errorf("%s has %d bytes more than %s, want at most %d", c.name, got, c.over, c.most)
		} else {
			t.Logf("%s has %d bytes more than %s", c.name, got, c.over)
		}
	}
}
