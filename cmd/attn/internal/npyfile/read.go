// Package npyfile reads and writes NumPy .npy files that hold one array of
// numbers or booleans in C order. Files come from anywhere: a header's claims are held against
// the size of the file before anything is allocated for them.
package npyfile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/sbinet/npyio/npy"
)

// Array is the content of a file: its shape and its elements, the last
// dimension contiguous.
type Array[T any] struct {
	Shape []int
	Data  []T
}

// Read reads an array of float32 or float64. A float64 is rounded to float32;
// one that is finite but too large for float32 is an error.
func Read(path string) (Array[float32], error) { return open(path, decode) }

// ReadBool reads an array of bool or uint8; any uint8 but 0 is true.
func ReadBool(path string) (Array[bool], error) { return open(path, decodeBool) }

// source is a file, or in tests memory.
type source interface {
	io.Reader
	io.ReaderAt
}

// open opens a file for one of the decoders.
func open[T any](path string, decode func(f source, size int64) (Array[T], error)) (a Array[T],
	err error) {
	f, err := os.Open(path)
	if err != nil {
		return a, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err == nil {
		a, err = decode(f, info.Size())
	}
	if err != nil {
		return a, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

func decode(f source, size int64) (a Array[float32], err error) {
	r, err := start(f, size, "float32 or float64", "f4", "f8")
	if err != nil {
		return a, err
	}
	a.Shape = r.Header.Descr.Shape
	if elementSize(r.Header.Descr.Type) == 4 {
		err = r.Read(&a.Data)
		return a, err
	}
	var wide []float64
	if err := r.Read(&wide); err != nil {
		return a, err
	}
	a.Data, err = narrow(wide)
	return a, err
}

func decodeBool(f source, size int64) (a Array[bool], err error) {
	r, err := start(f, size, "bool or uint8", "b1", "u1")
	if err != nil {
		return a, err
	}
	a.Shape = r.Header.Descr.Shape
	r.Header.Descr.Type = "|u1" // the library takes bytes of a bool other than 1 for false
	var bytes []uint8
	if err := r.Read(&bytes); err != nil {
		return a, err
	}
	a.Data = make([]bool, len(bytes))
	for i, e := range bytes {
		a.Data[i] = e != 0
	}
	return a, nil
}

// narrow rounds to float32.
func narrow(wide []float64) ([]float32, error) {
	x := make([]float32, len(wide))
	for i, e := range wide {
		x[i] = float32(e)
		if math.IsInf(float64(x[i]), 0) && !math.IsInf(e, 0) {
			return nil, fmt.Errorf("element %d is %g, too large for float32", i, e)
		}
	}
	return x, nil
}

// start checks the header of a file whose elements have one of some types.
// What it returns reads the elements.
func start(f source, size int64, want string, types ...string) (*npy.Reader, error) {
	text, end, err := headerText(f, size)
	if err != nil {
		return nil, err
	}
	h, err := parseHeader(text)
	if err != nil {
		return nil, err
	}
	if err := h.check(want, types, size-end); err != nil {
		return nil, err
	}
	// The library understands headers only as NumPy spells them.
	elements := bufio.NewReaderSize(io.NewSectionReader(f, end, size-end), int(min(size, 1<<16)))
	r, err := npy.NewReader(io.MultiReader(bytes.NewReader(h.bytes()), elements))
	if err != nil {
		return nil, fmt.Errorf("malformed header: %w", err)
	}
	return r, nil
}

// headerText returns the text of the header and where the elements start. A file's size bounds what
// the header may claim.
func headerText(f io.ReaderAt, size int64) (text []byte, end int64, err error) {
	var b [12]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && err != io.EOF {
		return nil, 0, err
	}
	if n < len(npy.Magic) || !bytes.Equal(b[:len(npy.Magic)], npy.Magic[:]) {
		return nil, 0, errors.New("not a .npy file")
	}
	if n < len(b) {
		return nil, 0, fmt.Errorf("truncated: %d bytes are no complete header", size)
	}
	begin, length := int64(10), int64(binary.LittleEndian.Uint16(b[8:]))
	switch b[6] {
	case 1:
	case 2:
		begin, length = 12, int64(binary.LittleEndian.Uint32(b[8:]))
	default:
		return nil, 0, fmt.Errorf("format version %d is not supported, want 1 or 2", b[6])
	}
	if end = begin + length; end > size {
		return nil, 0, fmt.Errorf("truncated: the header ends at byte %d, the file at %d", end, size)
	}
	text = make([]byte, length)
	_, err = io.ReadFull(io.NewSectionReader(f, begin, length), text)
	return text, end, err
}

// baseType is a type without its byte order: "<f4" is "f4".
func baseType(t string) string {
	if len(t) > 2 {
		return t[1:]
	}
	return t
}

// elementSize is the number of bytes of an element of one of our types.
func elementSize(t string) int {
	return int(t[len(t)-1] - '0')
}

// elements is the product of the dimensions, −1 if it overflows.
func elements(shape []int) int64 {
	n := int64(1)
	for _, d := range shape {
		if d == 0 {
			return 0
		}
	}
	for _, d := range shape {
		if n > math.MaxInt64/int64(d) {
			return -1
		}
		n *= int64(d)
	}
	return n
}
