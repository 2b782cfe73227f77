// Package safetensors reads tensors in place from safetensors files, the format of models on
// Hugging Face: from one file, or from a folder with one or several. Types that attn multiplies
// directly are packed by [attn.PackBlocks].
//
// Files are not trusted. Damage is an error that names the file and the tensor, the value and what
// was wanted.
//
// The package exists because nlpodyssey/safetensors refuses files with unknown types, even of
// tensors that nobody reads, and accepts tensors that overlap.
package safetensors

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/modelfile"
	"github.com/seed-1415985d/attn/internal/strictjson"
)

// File is a model in one or several safetensors files. Except for Close it is safe for concurrent
// use.
type File struct {
	Path     string            // as given to Open; "" with NewFile
	Metadata map[string]string // __metadata__ of the first file: texts for people
	Tensors  []*Tensor         // in the files' order; names are unique

	byName map[string]*Tensor
	parts  []*modelfile.File
}

// Tensor is a tensor of a file.
type Tensor struct {
	Name   string
	DType  DType
	Shape  []int // empty for a scalar; the last dimension is contiguous
	Offset int64 // of its first byte in its file
	Size   int64 // in bytes, within the file

	file *modelfile.File
}

// The files of a folder.
const (
	single = "model.safetensors"
	index  = "model.safetensors.index.json"
)

// Open opens a file or a folder. In a folder it opens model.safetensors or, if there is none, the
// files that model.safetensors.index.json names. Files are memory-mapped where the system can: they
// must not change, or become shorter, until Close.
func Open(path string) (*File, error) {
	f := &File{Path: path, byName: map[string]*Tensor{}}
	open := f.open
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		open = f.openFolder
	}
	if err := open(path); err != nil {
		_ = f.Close() // err is the more useful error
		return nil, err
	}
	return f, nil
}

// openFolder opens the files of a folder.
func (f *File) openFolder(path string) error {
	if one := filepath.Join(path, single); exists(one) {
		return f.open(one)
	}
	list := filepath.Join(path, index)
	if !exists(list) {
		return fmt.Errorf("%s: want %s or, for a model in several files, %s", path, single, index)
	}
	var shards struct {
		Files map[string]string `json:"weight_map"`
	}
	if err := strictjson.ReadFile(list, &shards, strictjson.Idle{"metadata": nil}); err != nil {
		return err
	}
	if len(shards.Files) == 0 {
		return fmt.Errorf("%s: weight_map is empty, want tensors and the files that they are in", list)
	}
	for _, name := range slices.Compact(slices.Sorted(maps.Values(shards.Files))) {
		if name != filepath.Base(name) {
			return fmt.Errorf("%s: weight_map names %q, want files in the same folder", list, name)
		}
		if err := f.open(filepath.Join(path, name)); err != nil {
			return err
		}
	}
	for _, tensor := range slices.Sorted(maps.Keys(shards.Files)) {
		file := shards.Files[tensor]
		if t := f.Tensor(tensor); t == nil || filepath.Base(t.Path()) != file {
			return fmt.Errorf("%s: weight_map has tensor %q in %s, which has no such tensor", list, tensor,
				file)
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// open opens a file and adds its tensors.
func (f *File) open(path string) error {
	part, err := modelfile.Open(path)
	if err != nil {
		return err
	}
	if err := f.add(part); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// NewFile reads the header of a file with size bytes from r. Tensors are read from r on demand;
// Close does not close it.
func NewFile(r io.ReaderAt, size int64) (*File, error) {
	f := &File{byName: map[string]*Tensor{}}
	if err := f.add(modelfile.Of(r, size)); err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	return f, nil
}

// add reads a header and adds its tensors.
func (f *File) add(part *modelfile.File) error {
	f.parts = append(f.parts, part)
	if err := part.CheckContent(); err != nil {
		return fmt.Errorf("want a safetensors file: %w", err)
	}
	h, err := readHeader(part.Header(), part.Size)
	if err != nil {
		return err
	}
	for _, name := range h.names() {
		d := h.list[name]
		if other := f.byName[name]; other != nil {
			return fmt.Errorf("tensor %q is in %s, too", name, other.Path())
		}
		t := &Tensor{name, d.DType, d.Shape, h.data + int64(d.from()), int64(d.to() - d.from()), part}
		f.byName[name] = t
		f.Tensors = append(f.Tensors, t)
	}
	if len(f.parts) == 1 {
		f.Metadata = h.metadata
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

// Path returns the path of the tensor's file, "" with [NewFile].
func (t *Tensor) Path() string { return t.file.Path }

// Bytes returns the tensor's bytes as the file has them. If the file is mapped, they are the
// mapping: they may be read until Close, also by several goroutines, but not written to. Otherwise
// each call reads a copy.
func (t *Tensor) Bytes() ([]byte, error) {
	data, err := t.file.Bytes(t.Offset, t.Size)
	if err != nil {
		return nil, t.fail("cannot be read: %w", err)
	}
	return data, nil
}

// Float32s returns a new slice with the tensor's elements, see [DType.Decode]. If you do not trust
// a file, compare Shape with the sizes of the model first.
func (t *Tensor) Float32s() ([]float32, error) {
	if _, err := BlockTypeOf(t.DType); err != nil && t.DType != F32 {
		return nil, t.fail("has dtype %s, want F32, F16 or BF16: %w", t.DType, attn.ErrUnsupported)
	}
	data, err := t.Bytes()
	if err != nil {
		return nil, err
	}
	dst := make([]float32, len(data)/(widths[t.DType]/8))
	return dst, t.DType.Decode(dst, data) // lengths agree: the header was checked
}

// Release tells the system that the tensor's bytes are not needed soon: a mapped file then occupies
// no memory in addition to its packed copy. The bytes may be used later, and are read again then.
func (t *Tensor) Release() { t.file.Release(t.Offset, t.Size) }

// fail returns an error that names the tensor, and its file if that has a path.
func (t *Tensor) fail(format string, args ...any) error {
	err := fmt.Errorf("tensor %q "+format, append([]any{t.Name}, args...)...)
	if t.file.Path != "" {
		err = fmt.Errorf("%s: %w", t.file.Path, err)
	}
	return err
}
