package attn

import (
	"math"
	"math/bits"
	"slices"
)

// View is a strided view of a caller's buffer. Element (b,h,i,x) of batch b,
// head h, position i and dimension x is Data[b*SB + h*SH + i*SL + x]: the last
// dimension is always contiguous. Strides are in elements, not bytes. An input
// may repeat elements: a stride of 0 broadcasts one batch, head or position
// over the whole dimension. The elements of an output must be distinct.
//
// A dimension B, H or L of 0 is an empty view; D must be at least 1. None may
// be above 2²⁸.
type View[T any] struct {
	Data       []T
	B, H, L, D int // batch, heads, length, dimension
	SB, SH, SL int // strides in elements; a stride of 0 broadcasts
}

// Tensor is a view of float32 values.
type Tensor = View[float32]

// Mask is a view of booleans with dimensions B, H, query, key; true = may
// attend. B and H may be 1, which stands for every batch or head.
type Mask = View[bool]

// BHLD views data as a contiguous [b, h, l, d] array, the layout of ONNX and
// PyTorch: all positions of a head are adjacent.
func BHLD[T any](data []T, b, h, l, d int) View[T] {
	return View[T]{Data: data, B: b, H: h, L: l, D: d, SB: h * l * d, SH: l * d, SL: d}
}

// BLHD views data as a contiguous [b, l, h, d] array: the heads of a position
// lie side by side in one row. Writing to such a view concatenates heads.
func BLHD[T any](data []T, b, l, h, d int) View[T] {
	return View[T]{Data: data, B: b, H: h, L: l, D: d, SB: l * h * d, SH: d, SL: h * d}
}

// offset returns the index in Data of element (b, h, i, 0).
func (v *View[T]) offset(b, h, i int) int { return b*v.SB + h*v.SH + i*v.SL }

// row returns row (b, h, i), D elements long.
func (v *View[T]) row(b, h, i int) []T {
	at := v.offset(b, h, i)
	return v.Data[at : at+v.D : at+v.D]
}

// empty reports that the view has no elements.
func (v *View[T]) empty() bool { return v.B == 0 || v.H == 0 || v.L == 0 }

// maxLength bounds lengths and offsets, so that positions and their differences are exact in int32
// arithmetic on every path.
const maxLength = 1 << 28

const maxInt = int(^uint(0) >> 1)

// maxElements bounds what one object allocates, so that a size beyond the address space is an error
// and not a panic.
const maxElements = min(math.MaxInt/8, 1<<44)

// product multiplies, and reports whether the result is at most maxElements. Where a factor is 0 it
// is 0, however large the others.
func product(factors ...int) (n int, ok bool) {
	if slices.Contains(factors, 0) {
		return 0, true
	}
	n = 1
	for _, f := range factors {
		hi, lo := bits.Mul64(uint64(n), uint64(f))
		if hi != 0 || lo > maxElements {
			return 0, false
		}
		n = int(lo)
	}
	return n, true
}

// roundUp is the next multiple of to.
func roundUp(n, to int) int { return (n + to - 1) / to * to }

// lowBits has bits 0 to n−1 set.
func lowBits(n int) uint64 { return 1<<n - 1 }

// grow returns x, if it has n elements, or a slice that has. It never gets shorter: others may
// rely on what they have seen.
func grow[T any](x []T, n int) []T {
	if len(x) < n {
		return make([]T, n)
	}
	return x
}
