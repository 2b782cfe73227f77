//go:build unix

package regular

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A fifo that nobody writes to, and what has no end, are errors at once.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, dir, os.DevNull} {
		if _, _, err := Open(path); err == nil || err.Error() != path+": not a regular file" {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, _, err := Open(filepath.Join(dir, "none")); err == nil ||
		!strings.Contains(err.Error(), "none: no such file") {
		t.Error(err)
	}
}
