// Package gguftest writes GGUF files for tests. It shares no code with the packages that read them.
package gguftest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"testing"
)

// File is the contents of a file.
type File struct {
	Keys    []Key
	Tensors []Tensor
	Align   int // 0: 32, without a key for it
}

// Key is an entry of the metadata. Values are numbers of Go's sized types, bools, strings, or
// slices of these.
type Key struct {
	Name  string
	Value any
}

// Tensor is a tensor with its elements in the file's encoding.
type Tensor struct {
	Name  string
	Shape []int // the last dimension is contiguous
	Type  uint32
	Data  []byte
}

// Set sets the value of a key, or adds the key; nil removes it.
func (f *File) Set(name string, value any) {
	keys := f.Keys
	f.Keys = nil
	for _, k := range keys {
		if k.Name == name && value != nil {
			k.Value, value = value, nil
		} else if k.Name == name {
			continue
		}
		f.Keys = append(f.Keys, k)
	}
	if value != nil {
		f.Keys = append(f.Keys, Key{name, value})
	}
}

// Bytes returns the file.
func (f *File) Bytes() []byte {
	var b buffer
	keys := f.Keys
	if f.Align != 0 {
		keys = append(keys[:len(keys):len(keys)], Key{"general.alignment", uint32(f.Align)})
	}
	b.WriteString("GGUF")
	b.put(uint32(3), uint64(len(f.Tensors)), uint64(len(keys)))
	for _, k := range keys {
		b.text(k.Name)
		b.value(k.Value)
	}
	at := 0
	for _, t := range f.Tensors {
		b.text(t.Name)
		b.put(uint32(len(t.Shape)))
		for i := range t.Shape {
			b.put(uint64(t.Shape[len(t.Shape)-1-i]))
		}
		b.put(t.Type, uint64(at))
		at += f.padded(len(t.Data))
	}
	b.Write(make([]byte, f.padded(b.Len())-b.Len()))
	for _, t := range f.Tensors {
		b.Write(t.Data)
		b.Write(make([]byte, f.padded(len(t.Data))-len(t.Data)))
	}
	return b.Bytes()
}

func (f *File) padded(n int) int {
	align := f.Align
	if align == 0 {
		align = 32
	}
	return (n + align - 1) / align * align
}

// Write writes the file.
func (f *File) Write(t testing.TB, path string) {
	t.Helper()
	if err := os.WriteFile(path, f.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
}

// Split divides the tensors among files. The first one has the metadata.
func (f *File) Split(count int) (files []*File) {
	for i := range count {
		part := &File{Align: f.Align}
		if i == 0 {
			part.Keys = f.Keys
		}
		part.Set("split.no", uint16(i))
		part.Set("split.count", uint16(count))
		part.Set("split.tensors.count", int32(len(f.Tensors)))
		from, to := i*len(f.Tensors)/count, (i+1)*len(f.Tensors)/count
		part.Tensors = f.Tensors[from:to]
		files = append(files, part)
	}
	return files
}

type buffer struct{ bytes.Buffer }

func (b *buffer) put(values ...any) {
	for _, v := range values {
		if err := binary.Write(b, binary.LittleEndian, v); err != nil {
			panic(err) // a test has a value of an unsupported type
		}
	}
}

func (b *buffer) text(s string) {
	b.put(uint64(len(s)))
	b.WriteString(s)
}

// value writes a type and a value.
func (b *buffer) value(v any) {
	switch v := v.(type) {
	case []string:
		list(b, v)
	case []float32:
		list(b, v)
	case []int32:
		list(b, v)
	case []uint32:
		list(b, v)
	case []uint8:
		list(b, v)
	case []int64:
		list(b, v)
	case []float64:
		list(b, v)
	case []bool:
		list(b, v)
	default:
		b.put(typeOf(v))
		b.plain(v)
	}
}

func list[T any](b *buffer, values []T) {
	var zero T
	b.put(uint32(9), typeOf(zero), uint64(len(values)))
	for _, v := range values {
		b.plain(v)
	}
}

func (b *buffer) plain(v any) {
	if s, ok := v.(string); ok {
		b.text(s)
		return
	}
	b.put(v)
}

func typeOf(v any) uint32 {
	for i, other := range []any{uint8(0), int8(0), uint16(0), int16(0), uint32(0), int32(0),
		float32(0), false, "", nil, uint64(0), int64(0), float64(0)} {
		if fmt.Sprintf("%T", other) == fmt.Sprintf("%T", v) {
			return uint32(i)
		}
	}
	return math.MaxUint32
}
