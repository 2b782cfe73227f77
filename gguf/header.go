package gguf

import (
	"bufio"
	"fmt"
	"io"
	"math/bits"
)

// header is what is before the tensors of a file.
type header struct {
	metadata []KeyValue
	tensors  []*Tensor
	data     int64 // the file's byte at which the tensors begin
	align    int64 // of each tensor, relative to data
}

// get returns the value of a key, nil for none.
func (h *header) get(key string) any {
	return (&File{Metadata: h.metadata}).Get(key)
}

const (
	magic          = "GGUF"
	mostDimensions = 4
	alignmentKey   = "general.alignment"
)

// readHeader reads the header of a file with a number of bytes.
func readHeader(file io.Reader, size int64) (*header, error) {
	r := &reader{file: bufio.NewReaderSize(file, 1<<18), size: size}
	h := &header{align: 32}
	tensors, keys := r.start()
	for i := uint64(0); i < keys && r.err == nil; i++ {
		h.metadata = append(h.metadata, r.keyValue())
	}
	r.check(h.unique())
	r.check(h.alignment())
	for i := uint64(0); i < tensors && r.err == nil; i++ {
		h.tensors = append(h.tensors, r.tensor())
	}
	h.data = padded(r.at, h.align)
	if r.err == nil {
		r.check(h.layout(size))
	}
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

func (h *header) unique() error {
	seen := map[string]bool{}
	for _, kv := range h.metadata {
		if seen[kv.Key] {
			return fmt.Errorf("key %q is there twice, want it once", kv.Key)
		}
		seen[kv.Key] = true
	}
	return nil
}

// alignment takes what the metadata says of it.
func (h *header) alignment() error {
	switch a := h.get(alignmentKey).(type) {
	case nil:
		return nil
	case uint32:
		if bits.OnesCount32(a) == 1 && a <= 1<<20 {
			h.align = int64(a)
			return nil
		}
	}
	return fmt.Errorf("%s is %v, want a power of 2 as uint32, up to %d", alignmentKey,
		h.get(alignmentKey), 1<<20)
}
