package safetensors

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/bits"
	"slices"

	"github.com/seed-1415985d/attn/internal/strictjson"
)

// mostHeader bounds a header, slightly above the format's limit.
const mostHeader = 100 << 20

// header is the beginning of a file: the length of the JSON in 8 bytes, then the JSON.
type header struct {
	list     map[string]described
	metadata map[string]string
	data     int64 // offset of the tensors' data in the file
}

// described is the header's entry of a tensor.
type described struct {
	DType   DType    `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets []uint64 `json:"data_offsets"`
}

func (d *described) from() uint64 { return d.Offsets[0] }
func (d *described) to() uint64   { return d.Offsets[1] }

// readHeader reads the header of a file with size bytes.
func readHeader(file io.Reader, size int64) (*header, error) {
	var length [8]byte
	if _, err := io.ReadFull(file, length[:]); err != nil {
		return nil, fmt.Errorf("%d bytes, want a safetensors file, which begins with the length of its "+
			"header: %w", size, err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > uint64(size-8) || n > mostHeader {
		return nil, fmt.Errorf("its header is to have %d bytes, want at most 100 MiB and no more than "+
			"the file, which has %d", n, size)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(file, text); err != nil {
		return nil, fmt.Errorf("its header cannot be read: %w", err)
	}
	h := &header{list: map[string]described{}, data: 8 + int64(n)}
	if err := strictjson.Members(text, h.add); err != nil {
		return nil, fmt.Errorf("want a header of safetensors: %w", err)
	}
	return h, h.checkLayout(uint64(size - h.data))
}

// metadataKey is the key of texts for people.
const metadataKey = "__metadata__"

// add adds the entry of a tensor, or the metadata.
func (h *header) add(name string, value json.RawMessage) error {
	if name == metadataKey {
		if err := json.Unmarshal(value, &h.metadata); err != nil {
			return fmt.Errorf("%s: want texts: %w", metadataKey, err)
		}
		return nil
	}
	var d described
	err := strictjson.Unmarshal(value, &d, nil)
	if err == nil && (d.DType == "" || d.Shape == nil || len(d.Offsets) != 2) {
		err = errors.New("want dtype, shape and data_offsets, two numbers")
	}
	for _, n := range d.Shape {
		if n < 0 {
			err = cmp.Or(err, fmt.Errorf("shape is %d, want dimensions of 0 or more", d.Shape))
		}
	}
	if err != nil {
		return fmt.Errorf("tensor %q: %w", name, err)
	}
	h.list[name] = d
	return nil
}

// names returns the names of the tensors in the order of their data.
func (h *header) names() []string {
	return slices.SortedFunc(maps.Keys(h.list), func(a, b string) int {
		return cmp.Or(slices.Compare(h.list[a].Offsets, h.list[b].Offsets), cmp.Compare(a, b))
	})
}

// checkLayout makes sure that each tensor begins where the one before it ends, the last one ends
// with the file, and each has the bytes of its shape and type.
func (h *header) checkLayout(size uint64) error {
	end, last := uint64(0), "the header"
	names := h.names()
	for _, name := range names {
		if d := h.list[name]; d.to() < d.from() || d.to() > size {
			return fmt.Errorf("tensor %q is to be bytes %d to %d, want them within the file, which has %d "+
				"after its header", name, d.from(), d.to(), size)
		}
	}
	for _, name := range names {
		d := h.list[name]
		if d.from() != end {
			return fmt.Errorf("tensor %q begins at byte %d, want %d, where %s ends: tensors neither "+
				"overlap nor leave room", name, d.from(), end, last)
		}
		end, last = d.to(), fmt.Sprintf("%q", name)
		if err := d.checkSize(); err != nil {
			return fmt.Errorf("tensor %q %w", name, err)
		}
	}
	if end != size {
		return fmt.Errorf("the tensors have %d bytes, want %d as the file has after its header", end,
			size)
	}
	return nil
}

// checkSize compares the bytes of a tensor with its shape, if its type is known.
func (d *described) checkSize() error {
	width, known := widths[d.DType]
	if !known {
		return nil
	}
	product, overflow := uint64(width), uint64(0)
	for _, n := range d.Shape {
		if n == 0 {
			product, overflow = 0, 0
			break
		}
		var high uint64
		high, product = bits.Mul64(product, uint64(n))
		overflow |= high
	}
	got := d.to() - d.from()
	switch {
	case overflow != 0:
		return fmt.Errorf("has shape %v of %s, want no more than its %d bytes", d.Shape, d.DType, got)
	case product%8 != 0:
		return fmt.Errorf("has shape %v of %s, which is %d bits, want whole bytes", d.Shape, d.DType,
			product)
	case product/8 != got:
		return fmt.Errorf("has %d bytes, want %d for shape %v of %s", got, product/8, d.Shape, d.DType)
	}
	return nil
}
