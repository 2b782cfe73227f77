// Package gguf reads GGUF files, the model format of llama.cpp: metadata, and tensors in place, in
// one file or in several. Blocks that attn multiplies directly are packed by [attn.PackBlocks].
//
// Files are not trusted. Damage is an error that names the value and what was wanted. A header has
// at most 256 MiB, and needs no more memory than a few times its size.
//
// The package exists because the Go libraries found change or lose data that a model needs.
// gpustack/gguf-parser-go v0.28.1 strips spaces and newlines from the ends of all strings,
// including tokens and chat templates, does not tell in which of several files a tensor is, and
// crashes on nested arrays, deprecated types and other damage; fs/gguf of ollama/ollama v0.17.4
// logs damage and continues, allocates as much as a file claims, and does not know MXFP4.
package gguf

import (
	"errors"
	"fmt"
	"io"

	"github.com/seed-1415985d/attn/internal/modelfile"
)

// File is a model in one or several GGUF files. Except for Close it is safe for concurrent use.
type File struct {
	Path     string     // as given to Open; "" with NewFile
	Metadata []KeyValue // of the first file, in its order; keys are unique
	Tensors  []*Tensor  // in the files' order; names are unique

	byName map[string]*Tensor
	parts  []*modelfile.File
}

// KeyValue is one entry of the metadata. Value has the Go type of the file's: uint8, int8, uint16,
// int16, uint32, int32, float32, bool, string, uint64, int64, float64, or a slice of one of these.
// Numbers are finite. Keys are valid UTF-8; strings are as in the file and may be invalid.
type KeyValue struct {
	Key   string
	Value any
}

// Open opens a model in a GGUF file. Of a model in several files path is the first, with a name
// such as model-00001-of-00003.gguf; the others must be in the same folder. Files are memory-mapped
// where the system can: they must not change, or become shorter, until Close.
func Open(path string) (*File, error) {
	f := &File{Path: path, byName: map[string]*Tensor{}}
	h, err := f.open(path)
	if err == nil {
		f.Metadata = h.metadata
		err = f.openParts()
	}
	if err != nil {
		_ = f.Close() // err is the more useful error
		return nil, err
	}
	return f, nil
}

// open opens a file and adds its tensors.
func (f *File) open(path string) (*header, error) {
	part, err := modelfile.Open(path)
	if err != nil {
		return nil, err
	}
	h, err := f.add(part)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}

// NewFile reads the header of a file with size bytes from r. Tensors are read from r on demand;
// Close does not close it. Of a model in several files only this one is read.
func NewFile(r io.ReaderAt, size int64) (*File, error) {
	f := &File{byName: map[string]*Tensor{}}
	h, err := f.add(modelfile.Of(r, size))
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	f.Metadata = h.metadata
	return f, nil
}

// add reads a header and adds its tensors.
func (f *File) add(part *modelfile.File) (*header, error) {
	f.parts = append(f.parts, part)
	if err := part.CheckContent(); err != nil {
		return nil, fmt.Errorf("want a GGUF file: %w", err)
	}
	h, err := readHeader(part.Header(), part.Size)
	if err != nil {
		return nil, fmt.Errorf("want a GGUF file: %w", err)
	}
	for _, t := range h.tensors {
		if other := f.byName[t.Name]; other != nil {
			return nil, fmt.Errorf("tensor %q is in %s, too", t.Name, other.Path())
		}
		t.file = part
		f.byName[t.Name] = t
	}
	f.Tensors = append(f.Tensors, h.tensors...)
	return h, nil
}

// Get returns the value of a key, nil for none.
func (f *File) Get(key string) any {
	for _, kv := range f.Metadata {
		if kv.Key == key {
			return kv.Value
		}
	}
	return nil
}

// Tensor returns the tensor with a name, nil for none.
func (f *File) Tensor(name string) *Tensor { return f.byName[name] }

// Close closes the files. Bytes of tensors must not be read afterwards: where files are mapped, the
// program would crash.
func (f *File) Close() error {
	var errs []error
	for _, part := range f.parts {
		errs = append(errs, part.Close())
	}
	return errors.Join(errs...)
}

// named adds the file's path to an error.
func (f *File) named(err error) error {
	if err == nil || f.Path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", f.Path, err)
}
