package kernel

import "unsafe"

// RoundUp is the next multiple of to.
func RoundUp(n, to int) int { return (n + to - 1) / to * to }

// LowBits has bits 0 to n−1 set.
func LowBits(n int) uint64 { return 1<<n - 1 }

// Elements is memory as elements of another type.
func Elements[T any](x []byte) []T {
	var e T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(x))), len(x)/int(unsafe.Sizeof(e)))
}

// RawBytes is elements as memory.
func RawBytes[T any](x []T) []byte {
	var e T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(e)))
}

// Grow returns x, if it has n elements, or a slice that has. It never gets shorter: others may
// rely on what they have seen.
func Grow[T any](x []T, n int) []T {
	if len(x) < n {
		return make([]T, n)
	}
	return x
}
