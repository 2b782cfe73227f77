// Package gguf reads the headers of GGUF files: metadata, and where tensors are. It is own code
// because the Go libraries that were found change or lose what a model needs.
// gpustack/gguf-parser-go v0.28.1 takes spaces and newlines from the ends of all strings, tokens
// and chat templates among them, does not say in which of several files a tensor is, and crashes
// at nested arrays, deprecated types and other damage; fs/gguf of ollama/ollama v0.17.4 logs
// damage and goes on, allocates what a file says, and does not know MXFP4.
package gguf

import (
	"bufio"
	"fmt"
	"io"
	"math/bits"
)

// Header is what is before the tensors of a file.
type Header struct {
	Metadata []KeyValue // in the file's order; keys are different
	Tensors  []Tensor
	Data     int64 // the file's byte at which the tensors begin
	Align    int64 // of each tensor, relative to Data
}

// KeyValue is one entry of the metadata. Values have Go's types, and arrays are []any. Texts are as
// in the file, which need not be UTF-8; keys, and names of tensors, are.
type KeyValue struct {
	Key   string
	Value any
}

// Tensor is the place of a tensor.
type Tensor struct {
	Name   string
	Shape  []uint64 // the last dimension is contiguous: other than in the file
	Type   Type
	Offset int64 // from Header.Data
	Bytes  int64 // 0 for a type that is not known, and for no elements
}

// Get returns the value of a key, nil for none.
func (h *Header) Get(key string) any {
	for _, kv := range h.Metadata {
		if kv.Key == key {
			return kv.Value
		}
	}
	return nil
}

const (
	magic          = "GGUF"
	mostDimensions = 4
	alignmentKey   = "general.alignment"
)

// Read reads the header of a file with a number of bytes.
func Read(file io.Reader, size int64) (*Header, error) {
	r := &reader{file: bufio.NewReaderSize(file, 1<<18), size: size}
	h := &Header{Align: 32}
	tensors, keys := r.start()
	for i := uint64(0); i < keys && r.err == nil; i++ {
		h.Metadata = append(h.Metadata, r.keyValue())
	}
	r.check(h.unique())
	r.check(h.alignment())
	for i := uint64(0); i < tensors && r.err == nil; i++ {
		h.Tensors = append(h.Tensors, r.tensor())
	}
	h.Data = padded(r.at, h.Align)
	r.check(h.layout(size))
	return h, r.err
}

// padded is the first multiple of align from n on.
func padded(n, align int64) int64 { return (n + align - 1) / align * align }

// start reads what files begin with.
func (r *reader) start() (tensors, keys uint64) {
	var text [len(magic)]byte
	if r.fill(text[:]); string(text[:]) != magic {
		r.fail("it begins with %q, want %s", text, magic)
	}
	if v := r.uint32(); r.err == nil && v != 2 && v != 3 {
		r.fail("it is of version %d, want 2 or 3, little-endian", v)
	}
	const leastTensor, leastKey = 32, 13 // bytes
	return r.count("tensors", leastTensor), r.count("keys", leastKey)
}

func (h *Header) unique() error {
	seen := map[string]bool{}
	for _, kv := range h.Metadata {
		if seen[kv.Key] {
			return fmt.Errorf("key %q is there twice, want it once", kv.Key)
		}
		seen[kv.Key] = true
	}
	return nil
}

// alignment takes what the metadata says of it.
func (h *Header) alignment() error {
	switch a := h.Get(alignmentKey).(type) {
	case nil:
		return nil
	case uint32:
		if bits.OnesCount32(a) == 1 && a <= 1<<20 {
			h.Align = int64(a)
			return nil
		}
	}
	return fmt.Errorf("%s is %v, want a power of 2 as uint32, up to %d", alignmentKey,
		h.Get(alignmentKey), 1<<20)
}

// tensor reads what the header says of one.
func (r *reader) tensor() (t Tensor) {
	t.Name = r.utf8("the name of a tensor")
	n := r.uint32()
	if r.err == nil && (n < 1 || n > mostDimensions) {
		r.fail("tensor %q has %d dimensions, want 1 to %d", t.Name, n, mostDimensions)
	}
	for i := uint32(0); i < n && r.err == nil; i++ {
		t.Shape = append([]uint64{r.uint64()}, t.Shape...)
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

// measure finds how many bytes the tensor has: no more than the file.
func (t *Tensor) measure(size int64) error {
	info, known := types[t.Type]
	if !known {
		return nil
	}
	last := t.Shape[len(t.Shape)-1]
	if last%uint64(info.Elements) != 0 {
		return fmt.Errorf("tensor %q has rows of %d elements, want a multiple of %d, of type %v", t.Name,
			last, info.Elements, t.Type)
	}
	product := uint64(info.Bytes)
	for i, n := range t.Shape {
		if i == len(t.Shape)-1 {
			n /= uint64(info.Elements)
		}
		high, low := bits.Mul64(product, n)
		if high != 0 || low > uint64(size) {
			return fmt.Errorf("tensor %q has shape %d of type %v, want no more bytes than the file has, %d",
				t.Name, t.Shape, t.Type, size)
		}
		product = low
	}
	t.Bytes = int64(product)
	return nil
}
