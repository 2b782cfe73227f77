// Package gguf reads GGUF files, as llama.cpp and others have models: their metadata, and tensors
// in place, in one file or in several. What attn multiplies as it is goes to [attn.PackBlocks].
//
// Files are not trusted. What is damaged is an error that says what came and what is wanted, and a
// header takes no more memory than a few times its bytes, of which there are 256 MiB at most.
//
// It is own code because the Go libraries that were found change or lose what a model needs.
// gpustack/gguf-parser-go v0.28.1 takes spaces and newlines from the ends of all strings, tokens
// and chat templates among them, does not say in which of several files a tensor is, and crashes
// at nested arrays, deprecated types and other damage; fs/gguf of ollama/ollama v0.17.4 logs
// damage and goes on, allocates what a file says, and does not know MXFP4.
package gguf

import (
	"errors"
	"fmt"
	"io"

	"github.com/seed-1415985d/attn/internal/modelfile"
)

// File is a model in a GGUF file, or in several. It does not change, so several goroutines may use
// it, but for Close.
type File struct {
	Path     string     // as it was opened; "" with NewFile
	Metadata []KeyValue // in the file's order, of the first of several; keys are different
	Tensors  []*Tensor  // in the files' order; names are different

	byName map[string]*Tensor
	parts  []*modelfile.File
}

// KeyValue is one entry of the metadata. Values are of the Go types that files have: uint8, int8,
// uint16, int16, uint32, int32, float32, bool, string, uint64, int64, float64, and slices of one of
// these. Numbers are finite. Keys are UTF-8, and texts are as in the file, which need not be.
type KeyValue struct {
	Key   string
	Value any
}

// Open opens a GGUF file, or of a model in several the first, whose name ends in -00001-of-00003 or
// so, with the others in the same folder. Files are mapped where the system can: they must not
// change, or become shorter, until Close.
func Open(path string) (*File, error) {
	f := &File{Path: path, byName: map[string]*Tensor{}}
	h, err := f.open(path)
	if err == nil {
		f.Metadata = h.metadata
		err = f.openParts()
	}
	if err != nil {
		_ = f.Close() // why it cannot be used is what the caller wants to know
		return nil, err
	}
	return f, nil
}

// open adds a file's tensors.
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

// NewFile reads the header of a file that has some bytes. Tensors are read when they are asked for,
// from the same reader, which Close does not close. Of a model in several files it has what this
// one has.
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

// Tensor returns the tensor of a name, nil for none.
func (f *File) Tensor(name string) *Tensor { return f.byName[name] }

// Close closes the files. Bytes of tensors may not be looked at any more: where files are mapped,
// that ends the program.
func (f *File) Close() error {
	var errs []error
	for _, part := range f.parts {
		errs = append(errs, part.Close())
	}
	return errors.Join(errs...)
}

// named is an error about the file.
func (f *File) named(err error) error {
	if err == nil || f.Path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", f.Path, err)
}
