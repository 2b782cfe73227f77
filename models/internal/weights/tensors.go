package weights

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/gguf"
	"github.com/seed-1415985d/attn/safetensors"
)

// stored is a tensor of a safetensors or GGUF file.
type stored struct {
	inFile
	shape    []int
	encoding *encoding
	offset   int64 // in the file
	used     bool
}

// inFile is the methods that tensors of both kinds of files have.
type inFile interface {
	Path() string
	Bytes() ([]byte, error)
	Release()
}

// source is the words of errors for a kind of file.
type source struct {
	file, shapes, kind string
	kinds              func() string
}

func (l *Loader) source() source {
	if l.metadata != nil {
		return source{"GGUF file", "its metadata", "type", typesRead}
	}
	floats := func() string { return "F32, F16 or BF16" }
	return source{"safetensors file", "config.json", "dtype", floats}
}

// Open finds the tensors of the folder, in one file or in the files that an index names.
func (l *Loader) Open() {
	l.tensors = map[string]*stored{}
	if l.Err != nil {
		return
	}
	f, err := safetensors.Open(l.Path)
	if err != nil {
		l.Err = err
		return
	}
	l.files = f
	for _, t := range f.Tensors {
		l.tensors[t.Name] = &stored{inFile: t, shape: t.Shape, encoding: encodingOf(t.DType),
			offset: t.Offset}
	}
}

// openGGUF finds the tensors of a GGUF file.
func (l *Loader) openGGUF() {
	f, err := gguf.Open(l.Path)
	if err != nil {
		l.Err = err
		return
	}
	l.files, l.metadata = f, f
	for _, t := range f.Tensors {
		l.tensors[t.Name] = &stored{inFile: t, shape: t.Shape, encoding: encodingOfGGUF(t.Type),
			offset: t.Offset}
	}
}

// Has reports whether the model has a tensor.
func (l *Loader) Has(name string) bool { return l.tensors[name] != nil }

// Kind returns the type in which the files keep tensors: F32, which holds all types exactly, if
// they have several types, or a type that is no format.
func (l *Loader) Kind(names ...string) attn.Format {
	kind := attn.Format(-1)
	for _, name := range names {
		t := l.tensors[name]
		if t == nil || t.encoding.format < 0 || kind >= 0 && t.encoding.format != kind {
			return attn.F32
		}
		kind = t.encoding.format
	}
	return kind
}

// Tensor reads a tensor of a shape.
func (l *Loader) Tensor(name string, shape ...int) []float32 {
	if l.Err == nil && l.Random != nil {
		return l.Random(name, shape)
	}
	t, data := l.stored(name, shape)
	if l.Err != nil {
		return nil
	}
	defer t.Release()
	x := make([]float32, product(shape))
	l.failTensor(t, name, t.encoding.decode(x, data))
	return x
}

// CheckEqual refuses a tensor whose type or numbers differ from another tensor's.
func (l *Loader) CheckEqual(name, other string, shape ...int) {
	t, data := l.stored(name, shape)
	same, want := l.stored(other, shape)
	if l.Err != nil {
		return
	}
	defer t.Release()
	defer same.Release()
	if t.encoding.name != same.encoding.name || !bytes.Equal(data, want) {
		l.failTensor(t, name, fmt.Errorf("it differs from tensor %s, want the same numbers", other))
	}
}

// failTensor records an error about a tensor. An error about numbers that have no place in a matrix
// is not [attn.ErrOption] of the caller, whose options fit.
func (l *Loader) failTensor(t *stored, name string, err error) {
	file := l.Path
	if t != nil { // nil in a random model
		file = t.Path()
	}
	switch {
	case errors.Is(err, attn.ErrOption):
		text := strings.TrimPrefix(err.Error(), attn.ErrOption.Error()+": ")
		l.Fail("%s: tensor %s: %s", file, name, text)
	case err != nil:
		l.Fail("%s: tensor %s: %w", file, name, err)
	}
}

func product(shape []int) int {
	n := 1
	for _, s := range shape {
		n *= s
	}
	return n
}

// find finds a tensor. again says that it was found before.
func (l *Loader) find(name string, shape []int) (t *stored, again bool) {
	t = l.tensors[name]
	switch {
	case l.Err != nil:
		return nil, false
	case t == nil:
		l.Fail("%s: no %s has tensor %s, want one of shape %v", l.Path, l.source().file, name, shape)
		return nil, false
	}
	again, t.used = t.used, true
	if err := t.check(shape, l.source()); err != nil {
		l.Fail("%s: tensor %s %w", t.Path(), name, err)
	}
	return t, again
}

// stored finds a tensor and returns its bytes in the file, valid until Close.
func (l *Loader) stored(name string, shape []int) (t *stored, data []byte) {
	t, again := l.find(name, shape)
	if l.Err != nil {
		return t, nil
	}
	data, err := t.Bytes()
	if err != nil {
		l.Fail("%w", err)
	}
	if !again {
		l.progress(int64(len(data)))
	}
	return t, data
}

// Report makes the loader call f, unless it is nil, with the bytes of tensors that were read, and
// of the files.
func (l *Loader) Report(f func(done, of int64)) {
	if l.report = f; f == nil || l.Err != nil {
		return
	}
	for file := range l.paths() {
		if info, err := os.Stat(file); err == nil {
			l.toRead += info.Size()
		}
	}
}

// progress reports that n more bytes were read.
func (l *Loader) progress(n int64) {
	if l.read = min(l.read+n, l.toRead); l.report != nil {
		l.report(l.read, l.toRead)
	}
}

// Reported reports that nothing is left to read.
func (l *Loader) Reported() { l.progress(l.toRead - l.read) }

// paths returns the files of the tensors.
func (l *Loader) paths() map[string]bool {
	paths := map[string]bool{}
	for _, t := range l.tensors {
		paths[t.Path()] = true
	}
	return paths
}

// check refuses a tensor of another shape or of a type that is not supported.
func (t *stored) check(shape []int, from source) error {
	switch {
	case !sameShape(t.shape, shape):
		return fmt.Errorf("has shape %v, want %v by %s", t.shape, shape, from.shapes)
	case t.encoding.decode == nil:
		return fmt.Errorf("has %s %s, want %s", from.kind, t.encoding.name, from.kinds())
	}
	return nil
}

// sameShape compares shapes without leading ones, which do not change the order of elements.
func sameShape(a, b []int) bool { return slices.Equal(withoutOnes(a), withoutOnes(b)) }

func withoutOnes(shape []int) []int {
	for len(shape) > 0 && shape[0] == 1 {
		shape = shape[1:]
	}
	return shape
}

// CheckUsed refuses tensors that were not read, since a model that ignores them would answer
// wrongly. Allowed are tensors without elements and the names in idle, in which * matches any
// letters.
func (l *Loader) CheckUsed(idle ...string) {
	for _, name := range slices.Sorted(maps.Keys(l.tensors)) {
		t := l.tensors[name]
		known := slices.ContainsFunc(idle, func(pattern string) bool {
			ok, _ := path.Match(pattern, name)
			return ok
		})
		if !t.used && !known && !l.hasNoUse(name) && !slices.Contains(t.shape, 0) {
			l.Fail("%s: tensor %s, %s %v, has no place in this kind of model, want only those that it "+
				"has", t.Path(), name, t.encoding.name, t.shape)
		}
	}
}

// Close closes what Open opened.
func (l *Loader) Close() {
	if l.files != nil {
		_ = l.files.Close() // it was only read
	}
	if l.pool != nil {
		_ = l.pool.Close() // no call uses it
	}
}
