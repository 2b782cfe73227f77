package memory

import (
	"bytes"
	"errors"
	"fmt"
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

// What is kept stays mapped though nobody refers to the Mapping.
func TestKeep(t *testing.T) {
	m := mapped(t, []byte("kept"))
	if m == nil {
		return
	}
	m.Keep()
	before, bytes, gone := Mapped(), m.Bytes(), make(chan bool, 1)
	runtime.AddCleanup(m, func(gone chan bool) { gone <- true }, gone)
	m = nil
	waitFor(t, func() bool { return len(gone) > 0 })
	runtime.GC()
	if got := Mapped(); got != before || string(bytes) != "kept" {
		t.Errorf("%d bytes are mapped, want %d, and the file is %q", got, before, bytes)
	}
}

// What is forgotten leaves memory, and is read again.
func TestForget(t *testing.T) {
	const size = 32 << 20
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(i>>12 + i)
	}
	m := mapped(t, content)
	if m == nil {
		return
	}
	defer m.Close()
	for _, part := range [][2]int{{0, size}, {1, size - 1}, {4097, 8191}, {3, 4}, {size, size}} {
		if !bytes.Equal(m.Bytes(), content) {
			t.Fatalf("before %d: other bytes", part)
		}
		before := resident(t)
		m.Forget(part[0], part[1])
		if got := before - resident(t); runtime.GOOS == "linux" && part[0] < 2 && got < size*3/4 {
			t.Errorf("%d: %d bytes have left memory, want %d", part, got, size)
		}
	}
	if !bytes.Equal(m.Bytes(), content) {
		t.Error("other bytes are read again")
	}
	heap := allocate(t, minMapped)
	defer heap.Close()
	heap.Bytes()[0] = 7
	if heap.Forget(0, minMapped); heap.Bytes()[0] != 7 {
		t.Error("memory of no file is forgotten")
	}
}

// resident is the bytes of the process in memory, where that is known.
func resident(t *testing.T) int {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var all, pages int
	_, err = fmt.Sscan(string(text), &all, &pages)
	must(t, err)
	return pages * os.Getpagesize()
}
