package modelfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/memory"
)

// ways opens a file of some bytes: mapped, read, and from a reader of the caller's.
func ways(t *testing.T, content []byte) map[string]*File {
	path := filepath.Join(t.TempDir(), "model")
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	mapped, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*File{"mapped": mapped, "of a reader": Of(bytes.NewReader(content),
		int64(len(content))), "read": {Path: path, Size: int64(len(content)), at: file, file: file}}
}

// TestFile looks at parts of a file in each way.
func TestFile(t *testing.T) {
	content := []byte(strings.Repeat("some bytes ", 1000))
	for name, f := range ways(t, content) {
		t.Run(name, func(t *testing.T) {
			if all, err := io.ReadAll(f.Header()); err != nil || !bytes.Equal(all, content) {
				t.Errorf("the header has %d bytes, want %d (%v)", len(all), len(content), err)
			}
			for _, part := range [][2]int64{{0, 0}, {5, 5}, {11000, 0}, {0, 11000}, {10999, 1}} {
				got, err := f.Bytes(part[0], part[1])
				if err != nil || string(got) != string(content[part[0]:part[0]+part[1]]) ||
					cap(got) != len(got) {
					t.Errorf("%d bytes from %d are %q (%v)", part[1], part[0], got, err)
				}
				f.Release(part[0], part[1])
			}
			for _, part := range [][2]int64{{-1, 1}, {0, -1}, {0, 11001}, {11001, 0},
				{5, math.MaxInt64}, {math.MaxInt64, 5}} {
				if got, err := f.Bytes(part[0], part[1]); err == nil {
					t.Errorf("%d bytes from %d are %d", part[1], part[0], len(got))
				}
			}
			for range 2 {
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
			if _, err := f.Bytes(0, 1); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("after Close the error is %v", err)
			}
			f.Release(0, 1)
		})
	}
}

// TestCut reads a file that has become shorter.
func TestCut(t *testing.T) {
	f := Of(bytes.NewReader(make([]byte, 10)), 20)
	if _, err := f.Bytes(5, 10); !errors.Is(err, io.EOF) ||
		!strings.Contains(err.Error(), "bytes 5 to 15 cannot be read") {
		t.Errorf("the error is %v", err)
	}
}

// TestNoFile has what cannot be opened.
func TestNoFile(t *testing.T) {
	folder := t.TempDir()
	if _, err := Open(folder); err == nil || !strings.Contains(err.Error(), folder) ||
		!strings.Contains(err.Error(), "want a regular file") {
		t.Errorf("a folder: the error is %v", err)
	}
	if _, err := Open(filepath.Join(folder, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: the error is %v", err)
	}
	empty := filepath.Join(folder, "empty")
	if err := os.WriteFile(empty, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := Open(empty)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Bytes(0, 0); err != nil || len(got) != 0 || f.Size != 0 {
		t.Errorf("%d bytes of %d (%v)", len(got), f.Size, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestMappingIsGone has a mapping until Close, and not longer.
func TestMappingIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model")
	if err := os.WriteFile(path, make([]byte, 1<<16), 0o666); err != nil {
		t.Fatal(err)
	}
	before := memory.Mapped()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.mapping == nil && runtime.GOOS != "linux" {
		return // where files are read
	}
	if memory.Mapped() <= before {
		t.Error("nothing is mapped")
	}
	if err := f.Close(); err != nil || memory.Mapped() != before {
		t.Errorf("%d bytes are mapped, want %d (%v)", memory.Mapped(), before, err)
	}
}

// TestFloats decodes numbers whose bytes are written out.
func TestFloats(t *testing.T) {
	dst := make([]float32, 3)
	for _, c := range []struct {
		decode func([]float32, []byte)
		data   string
	}{
		{FromF32, "\x00\x00\xc0\x3f\x00\x00\x00\xc0\x00\x00\x80\x7f"},
		{FromF16, "\x00\x3e\x00\xc0\x00\x7c"},
		{FromBF16, "\xc0\x3f\x00\xc0\x80\x7f"},
	} {
		clear(dst)
		c.decode(dst, []byte(c.data))
		if dst[0] != 1.5 || dst[1] != -2 || !math.IsInf(float64(dst[2]), 1) {
			t.Errorf("%x is %v, want [1.5 -2 +Inf]", c.data, dst)
		}
	}
}
