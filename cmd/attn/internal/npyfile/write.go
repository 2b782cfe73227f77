package npyfile

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"
)

// Write writes an array of float32 in C order.
func Write(w io.Writer, a Array[float32]) error {
	b := bufio.NewWriterSize(w, 1<<16)
	_, err := b.Write((&header{descr: "<f4", shape: a.Shape}).bytes())
	for i := 0; i < len(a.Data) && err == nil; i++ {
		_, err = b.Write(binary.LittleEndian.AppendUint32(b.AvailableBuffer(),
			math.Float32bits(a.Data[i])))
	}
	return b.Flush() // which returns the first error again
}
