package gguf

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/modelfile"
)

// Tensor is a tensor of a file. A matrix has the shape [outputs, inputs]; a row consists of whole
// blocks of its type.
type Tensor struct {
	Name   string
	Shape  []int // 1 to 4 dimensions of 0 or more, the contiguous one last; the file has it first
	Type   Type
	Offset int64 // of its first byte in its file
	Size   int64 // in bytes, within the file; 0 for an unknown type

	file *modelfile.File
}

// Path returns the path of the tensor's file, "" with [NewFile].
func (t *Tensor) Path() string { return t.file.Path }

// Bytes returns the tensor's bytes as the file has them. If the file is mapped, they are the
// mapping: they may be read until Close, also by several goroutines, but not written to. Otherwise
// each call reads a copy. An unknown type is [attn.ErrUnsupported].
func (t *Tensor) Bytes() ([]byte, error) {
	if _, known := t.Type.traits(); !known {
		return nil, t.fail("is of %v, want one that is known here: %w", t.Type, attn.ErrUnsupported)
	}
	if t.Size == 0 {
		return nil, nil
	}
	data, err := t.file.Bytes(t.Offset, t.Size)
	if err != nil {
		return nil, t.fail("cannot be read: %w", err)
	}
	return data, nil
}

// Float32s returns a new slice with the tensor's elements, see [Type.Decode]. If you do not trust a
// file, compare Shape with the sizes of the model first.
func (t *Tensor) Float32s() ([]float32, error) {
	data, err := t.Bytes()
	if err != nil {
		return nil, err
	}
	elements, bytes := t.Type.Block()
	dst := make([]float32, len(data)/bytes*elements)
	if err := t.Type.Decode(dst, data); err != nil {
		return nil, t.fail("cannot be decoded: %w", err)
	}
	return dst, nil
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

// tensor reads the header's entry of a tensor. Offset is still relative to the data.
func (r *reader) tensor() *Tensor {
	t := &Tensor{Name: r.utf8("the name of a tensor")}
	n := r.uint32()
	if r.err == nil && (n < 1 || n > mostDimensions) {
		r.fail("tensor %q has %d dimensions, want 1 to %d", t.Name, n, mostDimensions)
	}
	if r.err == nil {
		t.Shape = make([]int, n)
	}
	for i := range t.Shape {
		size := r.uint64()
		if size > math.MaxInt {
			r.fail("tensor %q has a dimension of %d, want at most %d", t.Name, size, math.MaxInt)
		}
		t.Shape[len(t.Shape)-1-i] = int(size)
	}
	t.Type = Type(r.uint32())
	offset := r.uint64()
	if r.err == nil && offset > uint64(r.size) {
		r.fail("tensor %q is to begin at byte %d of the data, want it within the file, which has %d",
			t.Name, offset, r.size)
	}
	t.Offset = int64(offset)
	if r.err == nil {
		r.check(t.measure(r.size))
	}
	return t
}

// measure sets the tensor's Size by its shape and type. It must not exceed the file's size.
func (t *Tensor) measure(size int64) error {
	elements, bytes := t.Type.Block()
	if elements == 0 {
		return nil
	}
	last := t.Shape[len(t.Shape)-1]
	if last%elements != 0 {
		return fmt.Errorf("tensor %q has rows of %d elements, want a multiple of %d, of type %v", t.Name,
			last, elements, t.Type)
	}
	if slices.Contains(t.Shape, 0) {
		return nil
	}
	product := uint64(bytes)
	for i, n := range t.Shape {
		if i == len(t.Shape)-1 {
			n /= elements
		}
		high, low := bits.Mul64(product, uint64(n))
		if high != 0 || low > uint64(size) {
			return fmt.Errorf("tensor %q has shape %d of type %v, want no more bytes than the file has, %d",
				t.Name, t.Shape, t.Type, size)
		}
		product = low
	}
	t.Size = int64(product)
	return nil
}
