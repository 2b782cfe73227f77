package memory

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// A file's bytes are there until Close, in any length, and also when the file is closed.
func TestMap(t *testing.T) {
	for _, n := range sizes[1:] {
		before := Mapped()
		want := make([]byte, n)
		for i := range want {
			want[i] = byte(i * 7 >> 3)
		}
		m := mapped(t, want)
		if m == nil {
			return
		}
		if got := m.Bytes(); !bytes.Equal(got, want) || cap(got) != n {
			t.Errorf("%d bytes are others, or not as many", n)
		}
		if m.Huge() {
			t.Errorf("%d bytes of a file are said to be in huge pages", n)
		}
		must(t, m.Close())
		must(t, m.Close())
		if got := Mapped(); got != before || m.Bytes() != nil {
			t.Errorf("%d bytes stay mapped after Close", got-before)
		}
	}
	before := Mapped()
	mapped(t, make([]byte, 1<<16))
	waitFor(t, func() bool { return Mapped() <= before })
}

// mapped maps a file of these bytes; nil where that cannot be done.
func mapped(t *testing.T, content []byte) *Mapping {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, content, 0o600))
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	m, err := Map(file)
	if errors.Is(err, errors.ErrUnsupported) && runtime.GOOS != "linux" {
		return nil
	}
	must(t, err)
	return m
}

// What cannot be mapped is an error.
func TestMapIsRefused(t *testing.T) {
	folder := t.TempDir()
	empty, err := os.Create(filepath.Join(folder, "empty"))
	must(t, err)
	defer empty.Close()
	directory, err := os.Open(folder)
	must(t, err)
	defer directory.Close()
	unreadable, err := os.OpenFile(filepath.Join(folder, "write only"), os.O_CREATE|os.O_WRONLY, 0o600)
	must(t, err)
	defer unreadable.Close()
	_, err = unreadable.WriteString("some bytes")
	must(t, err)
	closed, err := os.Open(folder)
	must(t, err)
	must(t, closed.Close())
	before := Mapped()
	for what, file := range map[string]*os.File{"empty": empty, "directory": directory,
		"write only": unreadable, "closed": closed} {
		if m, err := Map(file); err == nil {
			t.Errorf("%s: %d bytes are mapped, want an error", what, len(m.Bytes()))
		}
	}
	if got := Mapped(); got != before {
		t.Errorf("%d bytes are mapped after errors", got-before)
	}
}
