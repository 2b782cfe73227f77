// Package npy writes NumPy .npy files. The library codeberg.org/sbinet/npyio (v0.14.0) needs
// seconds for each 10 MB, and requires that the shape of an array is a type.
package npy

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Magic is the beginning of a file.
const Magic = "\x93NUMPY"

// Write writes an array of float32 in C order. Its elements are the concatenated parts.
func Write(w io.Writer, shape []int, parts ...[]float32) error {
	b := bufio.NewWriterSize(w, 1<<16)
	_, err := b.Write(header("<f4", shape))
	for _, part := range parts {
		for i := 0; i < len(part) && err == nil; i++ {
			_, err = b.Write(binary.LittleEndian.AppendUint32(b.AvailableBuffer(),
				math.Float32bits(part[i])))
		}
	}
	return b.Flush() // which returns the first error again
}

// header is a header as NumPy writes it, in version 1.0. Its length is a multiple of 64, so that
// the elements are aligned when the file is mapped into memory.
func header(descr string, shape []int) []byte {
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, Tuple(shape))
	const fixed = len(Magic) + 4
	pad := 63 - (fixed+len(dict))%64
	dict += strings.Repeat(" ", pad) + "\n"

	b := append([]byte(Magic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(dict)))
	return append(b, dict...)
}

// Tuple prints a shape or an index as Python does.
func Tuple(items []int) string {
	text := make([]string, len(items))
	for i, n := range items {
		text[i] = strconv.Itoa(n)
	}
	if len(text) == 1 {
		return "(" + text[0] + ",)"
	}
	return "(" + strings.Join(text, ", ") + ")"
}
