// Package modelfile is shared by the readers of models' files: access to bytes of a file in place,
// and decoding of numbers.
package modelfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"github.com/seed-1415985d/attn/internal/memory"
)

// File is a file whose bytes are accessed in place if the system can map it, and are read
// otherwise.
type File struct {
	Path    string // "" for a reader of the caller's
	Size    int64
	at      io.ReaderAt
	file    *os.File        // what is to be closed; nil for none
	mapping *memory.Mapping // nil for none
	closed  bool
}

// Open opens a file. The file must not change while it is open; if it becomes shorter, access to
// missing bytes ends the program.
func Open(path string) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: it is of mode %v, want a regular file", path, info.Mode())
	}
	if err != nil {
		_ = file.Close() // it was not read
		return nil, err
	}
	f := &File{Path: path, Size: info.Size(), at: file, file: file}
	if m, err := memory.Map(file); err == nil { // otherwise it is read
		m.Keep()
		f.mapping, f.at, f.file = m, bytes.NewReader(m.Bytes()), nil
		return f, file.Close()
	}
	return f, nil
}

// Of returns a File of some bytes of a reader.
func Of(at io.ReaderAt, size int64) *File { return &File{at: at, Size: size} }

// CheckContent refuses files that are no models: empty ones, and pointers of Git LFS, which name
// the size and the hash of a file that was not downloaded.
func (f *File) CheckContent() error {
	if f.Size == 0 {
		return errors.New("it is empty")
	}
	begin, err := io.ReadAll(io.LimitReader(f.Header(), int64(len(pointer))))
	if err != nil {
		return err
	}
	return CheckPointer(begin)
}

// pointer is what pointers of Git LFS begin with.
const pointer = "version https://git-lfs.github.com/spec/"

// CheckPointer refuses the content of a pointer of Git LFS.
func CheckPointer(data []byte) error {
	if bytes.HasPrefix(data, []byte(pointer)) {
		return errors.New("it is a Git LFS pointer, want the file that it stands for, which git lfs " +
			"pull downloads")
	}
	return nil
}

// Header reads from the beginning.
func (f *File) Header() io.Reader { return io.NewSectionReader(f.at, 0, f.Size) }

// Bytes returns n bytes from an offset on: bytes of the mapping, valid until Close, which must not
// be written, or a copy. Several goroutines may call it.
func (f *File) Bytes(from, n int64) ([]byte, error) {
	switch {
	case f.closed:
		return nil, fs.ErrClosed
	case from < 0 || n < 0 || n > f.Size-from || n > math.MaxInt:
		return nil, fmt.Errorf("bytes %d to %d are asked for, want some of %d, and at most %d", from,
			from+n, f.Size, math.MaxInt)
	case f.mapping != nil:
		return f.mapping.Bytes()[from : from+n : from+n], nil
	}
	data := make([]byte, n)
	if read, err := f.at.ReadAt(data, from); read < len(data) {
		return nil, fmt.Errorf("bytes %d to %d cannot be read: %w", from, from+n, err)
	}
	return data, nil
}

// Release lets bytes leave memory until the next access.
func (f *File) Release(from, n int64) {
	if f.mapping != nil && !f.closed {
		f.mapping.Forget(int(from), int(from+n))
	}
}

// Close closes the file. Doing it again does nothing.
func (f *File) Close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	if f.mapping != nil {
		return f.mapping.Close()
	}
	if f.file != nil {
		return f.file.Close()
	}
	return nil
}
