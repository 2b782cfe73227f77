// Package npyfile reads NumPy .npy files that hold one array of numbers or booleans.
// Files come from anywhere: a header's claims are compared with the size of the file before
// anything is allocated for them.
//
// The library codeberg.org/sbinet/npyio (v0.14.0) cannot read them: it returns wrong numbers for
// subnormal float16, for a header without a comma at its end and for a truncated file, it ignores
// Fortran order and bytes after the array, it panics on keys in another order, and it allocates
// what a header claims. It would also link gonum.
package npyfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/seed-1415985d/attn/cmd/attn/internal/regular"
	"github.com/seed-1415985d/attn/cmd/attn/internal/room"
	"github.com/seed-1415985d/attn/internal/npy"
)

// Array is the content of a file: its shape and its elements, the last
// dimension contiguous.
type Array[T any] struct {
	Shape []int
	Data  []T
}

// Index returns the index of element i of an array in C order.
func Index(shape []int, i int) []int {
	index := make([]int, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		index[d] = i % shape[d]
		i /= shape[d]
	}
	return index
}

const (
	floats = "float16, bfloat16 (V2), float32 or float64"
	bools  = "bool, or integers of which each is 0 or 1"
)

func isFloat(k kind) bool { return k == float }
func isBool(k kind) bool  { return k != float }

var (
	numbers   = content[float32]{floats, isFloat, toFloat32}
	logits    = content[float32]{floats, isFloat, toLogit}
	numbers64 = content[float64]{floats, isFloat, toFloat64}
	masks     = content[bool]{bools, isBool, toBool}
)

// Read reads an array of floats of any width. A float64 is rounded to float32; one that is finite
// but too large for float32 is an error.
func Read(path string) (Array[float32], error) { return numbers.read(path) }

// ReadLogits reads numbers that are added to scores: a finite float64 that is too large for float32
// becomes the largest or lowest float32.
func ReadLogits(path string) (Array[float32], error) { return logits.read(path) }

// ReadFloat64 reads an array of floats without rounding.
func ReadFloat64(path string) (Array[float64], error) { return numbers64.read(path) }

// ReadBool reads an array of bool, or of integers of any width that are 0 or 1.
func ReadBool(path string) (Array[bool], error) { return masks.read(path) }

// content is the expected content of a file.
type content[T any] struct {
	want   string
	takes  func(kind) bool
	become func(kind, float64) (T, error)
}

func (c *content[T]) read(path string) (a Array[T], err error) {
	f, info, err := regular.Open(path)
	if err != nil {
		return a, err
	}
	defer f.Close()
	if a, err = c.decode(f, info.Size()); err != nil {
		return a, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

func (c *content[T]) decode(f io.ReaderAt, size int64) (a Array[T], err error) {
	text, end, err := headerText(f, size)
	if err != nil {
		return a, err
	}
	h, err := parseHeader(text)
	if err != nil {
		return a, err
	}
	if err := h.check(c.want, c.takes, size-end); err != nil {
		return a, err
	}
	a.Shape = h.shape
	if a.Data, err = room.Make[T](int(elements(h.shape))); err != nil {
		return a, err
	}
	if err := readElements(io.NewSectionReader(f, end, size-end), &h, a.Data, c.become); err != nil {
		return a, err
	}
	if h.fortran {
		a.Data, err = fromFortran(a.Data, a.Shape)
	}
	return a, err
}

// maxHeader is far more than any program writes.
const maxHeader = 1 << 20

// headerText returns the text of the header and where the elements start. A file's size bounds what
// the header may claim.
func headerText(f io.ReaderAt, size int64) (text []byte, end int64, err error) {
	var b [12]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && err != io.EOF {
		return nil, 0, err
	}
	if !bytes.HasPrefix(b[:n], []byte(npy.Magic)) {
		return nil, 0, errors.New("not a .npy file")
	}
	if n < len(b) {
		return nil, 0, fmt.Errorf("truncated: %d bytes are no complete header", size)
	}
	begin, length := int64(10), int64(binary.LittleEndian.Uint16(b[8:]))
	switch b[6] {
	case 1:
	case 2, 3: // of 3 the text is UTF-8, which only names of fields need
		begin, length = 12, int64(binary.LittleEndian.Uint32(b[8:]))
	default:
		return nil, 0, fmt.Errorf("format version %d is not supported, want 1, 2 or 3", b[6])
	}
	if end = begin + length; end > size {
		return nil, 0, fmt.Errorf("truncated: the header ends at byte %d, the file at %d", end, size)
	}
	if length > maxHeader {
		return nil, 0, fmt.Errorf("malformed: a header of %d bytes, want at most %d", length, maxHeader)
	}
	text = make([]byte, length)
	_, err = io.ReadFull(io.NewSectionReader(f, begin, length), text)
	return text, end, err
}
