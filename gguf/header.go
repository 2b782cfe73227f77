package gguf

import (
	"bufio"
	"fmt"
	"io"
	"math/bits"
)

// header is the part of a file before the tensors' data.
type header struct {
	metadata []KeyValue
	tensors  []*Tensor
	data     int64 // offset of the tensors' data in the file
	align    int64 // alignment of each tensor, relative to data
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

// readHeader reads the header of a file with size bytes.
func readHeader(file io.Reader, size int64) (*header, error) {
	r := &reader{file: bufio.NewReaderSize(file, 1<<18), size: size}
	h := &header{align: 32}
	tensors, keys := r.preamble()
	for i := uint64(0); i < keys && r.err == nil; i++ {
		h.metadata = append(h.metadata, r.keyValue())
	}
	r.check(h.checkUnique())
	r.check(h.setAlignment())
	for i := uint64(0); i < tensors && r.err == nil; i++ {
		h.tensors = append(h.tensors, r.tensor())
	}
	h.data = padded(r.at, h.align)
	if r.err == nil {
		r.check(h.checkLayout(size))
	}
	return h, r.err
}

// padded returns the least multiple of align that is at least n.
func padded(n, align int64) int64 { return (n + align - 1) / align * align }

// preamble reads magic number, version and counts.
func (r *reader) preamble() (tensors, keys uint64) {
	var text [len(magic)]byte
	if r.fill(text[:]); string(text[:]) != magic {
		r.fail("it begins with %q, want %s", text, magic)
	}
	if v := r.uint32(); r.err == nil && v != 2 && v != 3 {
		r.fail("it is of version %d, want 2 or 3, little-endian", v)
	}
	const leastTensor, leastKey = 32, 13 // least bytes of an entry
	return r.count("tensors", leastTensor), r.count("keys", leastKey)
}

func (h *header) checkUnique() error {
	seen := map[string]bool{}
	for _, kv := range h.metadata {
		if seen[kv.Key] {
			return fmt.Errorf("key %q is there twice, want it once", kv.Key)
		}
		seen[kv.Key] = true
	}
	return nil
}

// setAlignment sets align if the metadata has it.
func (h *header) setAlignment() error {
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
