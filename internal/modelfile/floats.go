package modelfile

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/f32"
)

// Numbers of a file, which are little-endian, as float32.

// FromF32 decodes numbers of float32, by a copy where memory has them in the same order.
func FromF32(dst []float32, data []byte) {
	if data = data[:4*len(dst)]; binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(dst))), len(data)), data)
		return
	}
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
}

// FromF16 decodes numbers of half precision.
func FromF16(dst []float32, data []byte) {
	for i := range dst {
		dst[i] = F16(data[2*i:])
	}
}

// FromBF16 decodes numbers of BF16.
func FromBF16(dst []float32, data []byte) {
	for i := range dst {
		dst[i] = f32.FromBF16(binary.LittleEndian.Uint16(data[2*i:]))
	}
}

// F16 is the number of half precision that bytes begin with.
func F16(data []byte) float32 { return f32.FromF16(binary.LittleEndian.Uint16(data)) }
