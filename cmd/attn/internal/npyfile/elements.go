package npyfile

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/seed-1415985d/attn/cmd/attn/internal/room"
	"github.com/seed-1415985d/attn/internal/f32"
)

// kind says how elements of a type can be used.
type kind int

const (
	boolean kind = iota
	integer
	float
)

// elementType is a type of elements that this package reads.
type elementType struct {
	kind  kind
	size  int                    // bytes
	value func(b []byte) float64 // of an element whose bytes are in little-endian order
}

// elementTypes by their names in headers, without the byte order. A 64-bit integer other than 0 and
// 1 is neither as a float64, which suffices for masks.
var elementTypes = map[string]elementType{
	"b1": {boolean, 1, unsigned},
	"u1": {integer, 1, unsigned},
	"u2": {integer, 2, unsigned},
	"u4": {integer, 4, unsigned},
	"u8": {integer, 8, unsigned},
	"i1": {integer, 1, func(b []byte) float64 { return float64(int8(b[0])) }},
	"i2": {integer, 2, func(b []byte) float64 { return float64(int16(little.Uint16(b))) }},
	"i4": {integer, 4, func(b []byte) float64 { return float64(int32(little.Uint32(b))) }},
	"i8": {integer, 8, func(b []byte) float64 { return float64(int64(little.Uint64(b))) }},
	"f2": {float, 2, half},
	"V2": {float, 2, bfloat16}, // NumPy has no name for it: two bytes of anything
	"f4": {float, 4, func(b []byte) float64 { return single(little.Uint32(b)) }},
	"f8": {float, 8, func(b []byte) float64 { return math.Float64frombits(little.Uint64(b)) }},
}

var little = binary.LittleEndian

func unsigned(b []byte) float64 {
	var wide [8]byte
	copy(wide[:], b)
	return float64(little.Uint64(wide[:]))
}

func half(b []byte) float64 { return float64(f32.FromF16(little.Uint16(b))) }

func bfloat16(b []byte) float64 { return float64(f32.FromBF16(little.Uint16(b))) }

func single(bits uint32) float64 { return float64(math.Float32frombits(bits)) }

// readElements reads and converts elements, in the order of the file.
func readElements[T any](r io.Reader, h *header, data []T,
	become func(kind, float64) (T, error)) error {
	t := elementTypes[h.element]
	buffered := bufio.NewReaderSize(r, 1<<16)
	b := make([]byte, t.size)
	for i := range data {
		if _, err := io.ReadFull(buffered, b); err != nil {
			return err
		}
		if h.bigEndian {
			slices.Reverse(b)
		}
		var err error
		if data[i], err = become(t.kind, t.value(b)); err != nil {
			return fmt.Errorf("element %v %w", h.index(i), err)
		}
	}
	return nil
}

// toFloat64 returns the number unchanged.
func toFloat64(_ kind, x float64) (float64, error) { return x, nil }

// toFloat32 rounds. A finite number that would become infinite is an error.
func toFloat32(_ kind, x float64) (float32, error) {
	y := float32(x)
	if math.IsInf(float64(y), 0) && !math.IsInf(x, 0) {
		return y, fmt.Errorf("is %g, too large for float32", x)
	}
	return y, nil
}

// toLogit is toFloat32 for numbers added to scores: the lowest float64 in a mask means "hardly
// ever", and so does the lowest float32.
func toLogit(k kind, x float64) (float32, error) {
	if y, err := toFloat32(k, x); err == nil {
		return y, nil
	}
	return float32(math.Copysign(math.MaxFloat32, x)), nil
}

// toBool treats any byte of a bool but 0 as true, as NumPy does.
func toBool(k kind, x float64) (bool, error) {
	if k == integer && x != 0 && x != 1 {
		return false, fmt.Errorf("is %g, want 0 or 1", x)
	}
	return x != 0, nil
}

// fromFortran converts elements to C order, with the last dimension contiguous.
func fromFortran[T any](data []T, shape []int) ([]T, error) {
	stride := make([]int, len(shape))
	n := 1
	for d := range shape {
		stride[d] = n
		n *= shape[d]
	}
	turned, err := room.Make[T](len(data))
	if err != nil {
		return nil, err
	}
	index, from := make([]int, len(shape)), 0
	for i := range turned {
		turned[i] = data[from]
		for d := len(shape) - 1; d >= 0; d-- {
			from += stride[d]
			if index[d]++; index[d] < shape[d] {
				break
			}
			from -= shape[d] * stride[d]
			index[d] = 0
		}
	}
	return turned, nil
}
