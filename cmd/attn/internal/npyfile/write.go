package npyfile

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/sbinet/npyio/npy"
)

// Write writes an array of float32 in C order. The library's own writer takes the
// shape from the type of a Go value, so it cannot write a slice of any other
// rank than 1.
func Write(w io.Writer, a Array[float32]) error {
	b := bufio.NewWriterSize(w, 1<<16)
	if _, err := b.Write(header(a.Shape)); err != nil {
		return err
	}
	for _, e := range a.Data {
		if _, err := b.Write(binary.LittleEndian.AppendUint32(b.AvailableBuffer(), math.Float32bits(e))); err != nil {
			return err
		}
	}
	return b.Flush()
}

// header is a version 1.0 header. Its length is a multiple of 64, so that the
// elements are aligned when the file is mapped into memory.
func header(shape []int) []byte {
	var dims strings.Builder
	for _, n := range shape {
		fmt.Fprintf(&dims, "%d, ", n)
	}
	list := strings.TrimSuffix(dims.String(), " ") // (2,) but (2, 3)
	if len(shape) > 1 {
		list = strings.TrimSuffix(list, ",")
	}
	dict := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", list)
	const fixed = len(npy.Magic) + 4
	pad := 63 - (fixed+len(dict))%64
	dict += strings.Repeat(" ", pad) + "\n"

	h := append(npy.Magic[:len(npy.Magic):len(npy.Magic)], 1, 0)
	h = binary.LittleEndian.AppendUint16(h, uint16(len(dict)))
	return append(h, dict...)
}
