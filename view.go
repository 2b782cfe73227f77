package attn

import (
	"fmt"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/views"
)

// View is a strided view of a caller's buffer. Element (b,h,i,x) of batch b,
// head h, position i and dimension x is Data[b*SB + h*SH + i*SL + x]: the last
// dimension is always contiguous. Strides are in elements, not bytes.
//
// Three strides of 0 mean a contiguous [B, H, L, D] array, as from [BHLD]. If one stride is not 0,
// all must be given: a stride of 0 is then [ErrShape], unless its dimension is 1 or the view has no
// elements, for which any stride is valid. An input may repeat elements: the stride [Broadcast]
// repeats the same batch entry, head or position over the whole dimension. The elements of an
// output must be distinct.
//
// A dimension B, H or L of 0 is an empty view; D must be at least 1. None may
// be above 2²⁸.
type View[T any] struct {
	Data       []T
	B, H, L, D int // batch, heads, length, dimension
	SB, SH, SL int // strides in elements; all 0: contiguous; Broadcast: repeats
}

// Broadcast is the stride of a dimension over which an input repeats the same elements.
const Broadcast = views.Broadcast

// Tensor is a view of float32 values.
type Tensor = View[float32]

// Mask is a view of booleans with dimensions B, H, query, key; true = may
// attend. B and H may be 1, which stands for every batch entry or head.
type Mask = View[bool]

// BHLD views data as a contiguous [b, h, l, d] array, the layout of ONNX and
// PyTorch: all positions of a head are adjacent.
func BHLD[T any](data []T, b, h, l, d int) View[T] {
	return View[T]{Data: data, B: b, H: h, L: l, D: d, SB: h * l * d, SH: l * d, SL: d}
}

// BLHD views data as a contiguous [b, l, h, d] array: the heads of a position are adjacent in one
// row. Writing to such a view concatenates heads.
func BLHD[T any](data []T, b, l, h, d int) View[T] {
	return View[T]{Data: data, B: b, H: h, L: l, D: d, SB: l * h * d, SH: d, SL: h * d}
}

// Rows views rows of pitch elements, one for each position of each batch entry, in which the heads
// of the position are adjacent from the first element on: [BLHD] for rows with further elements. A
// projection that writes queries, keys and values into one row of pitch elements is viewed by
// Rows(x, …), Rows(x[queries:], …) and Rows(x[queries+keys:], …). Calls return [ErrStride] for a
// pitch below h·d.
func Rows[T any](data []T, b, l, h, d, pitch int) View[T] {
	v := View[T]{Data: data, B: b, H: h, L: l, D: d, SB: l * pitch, SH: d, SL: pitch}
	if pitch < h*d {
		v.SL = views.ShortPitch(pitch)
	}
	return v
}

// Strides returns how many elements lie between neighbours in Data, along batch, heads and
// positions: the strides of a contiguous array if none is given, 0 for [Broadcast].
func (v View[T]) Strides() (sb, sh, sl int) {
	sb, sh, sl = v.explicit()
	return max(sb, 0), max(sh, 0), views.Step(sl)
}

// explicit returns the strides of a view, also if they are not given.
func (v *View[T]) explicit() (sb, sh, sl int) {
	g := v.geometry()
	return g.Explicit()
}

// geometry returns the view without its elements.
func (v *View[T]) geometry() views.Geometry {
	return views.Geometry{B: v.B, H: v.H, L: v.L, D: v.D, SB: v.SB, SH: v.SH, SL: v.SL,
		Len: len(v.Data)}
}

// Slice returns the view of positions from to to−1 of every head, with explicit strides. It panics
// unless 0 ≤ from ≤ to ≤ L, as slicing a slice does.
func (v View[T]) Slice(from, to int) View[T] {
	checkRange("Slice", from, to, v.L)
	v.SB, v.SH, v.SL = v.explicit()
	return v.from(from*views.Step(v.SL), to-from, &v.L)
}

// Heads returns the view of heads from to to−1, with explicit strides. It panics unless
// 0 ≤ from ≤ to ≤ H, as slicing a slice does.
func (v View[T]) Heads(from, to int) View[T] {
	checkRange("Heads", from, to, v.H)
	v.SB, v.SH, v.SL = v.explicit()
	return v.from(from*max(v.SH, 0), to-from, &v.H)
}

// from moves the view to an element and changes the length of one of its dimensions.
func (v *View[T]) from(at, length int, dimension *int) View[T] {
	if *dimension = length; v.empty() {
		at = min(at, len(v.Data)) // rows of a pitch may end before the next one would begin
	}
	v.Data = v.Data[at:]
	return *v
}

// checkRange panics if a range is not within a dimension.
func checkRange(method string, from, to, length int) {
	if from < 0 || from > to || to > length {
		panic(fmt.Sprintf("attn: View.%s(%d, %d) is out of range of %d", method, from, to, length))
	}
}

// Row returns the D elements of batch entry b, head h, position i. It panics if there are none, as
// an index out of range does.
func (v View[T]) Row(b, h, i int) []T {
	if uint(b) >= uint(v.B) || uint(h) >= uint(v.H) || uint(i) >= uint(v.L) {
		panic(fmt.Sprintf("attn: View.Row(%d, %d, %d) is out of range of [%d %d %d …]",
			b, h, i, v.B, v.H, v.L))
	}
	sb, sh, sl := v.Strides()
	at, data := b*sb+h*sh+i*sl, v.Data[:len(v.Data):len(v.Data)]
	return data[at : at+v.D : at+v.D]
}

// The rest is for validated views: their strides are explicit, and 0 repeats, see checkView.

// offset returns the index in Data of element (b, h, i, 0).
func (v *View[T]) offset(b, h, i int) int { return b*v.SB + h*v.SH + i*v.SL }

// end returns the index after the last element.
func (v *View[T]) end() int { return (v.B-1)*v.SB + (v.H-1)*v.SH + (v.L-1)*v.SL + v.D }

// row returns row (b, h, i), D elements long.
func (v *View[T]) row(b, h, i int) []T {
	at := v.offset(b, h, i)
	return v.Data[at : at+v.D : at+v.D]
}

// empty reports that the view has no elements.
func (v *View[T]) empty() bool { return v.B == 0 || v.H == 0 || v.L == 0 }

// none reports that the view is the zero value, which means that the argument is not given.
func (v *View[T]) none() bool { return v.Data == nil && v.B|v.H|v.L|v.D|v.SB|v.SH|v.SL == 0 }

// maxLength bounds lengths and offsets, so that positions and their differences are exact in int32
// arithmetic on every path.
const maxLength = views.MaxLength

const maxInt = int(^uint(0) >> 1)

// maxElements bounds what one object allocates.
const maxElements = views.MaxElements

const (
	// Block is the number of keys of one online-softmax step. Blocks start at
	// absolute key indices that are multiples of Block.
	Block = kernel.Block

	// Segment is the number of keys that are summed from an empty state before
	// they are merged with the keys to their left. Work is split between
	// workers, and states are split, at multiples of Segment.
	Segment = kernel.Segment

	panel       = kernel.Panel
	inPlaceRows = kernel.InPlaceRows
)

var negInf = kernel.NegInf

// viewed converts a view to the type of the packages below, and allViewed converts several: their
// fields are the same.
func viewed[T any](v *View[T]) *views.View[T] { return (*views.View[T])(v) }

func allViewed(all []Tensor) []views.Tensor {
	return unsafe.Slice((*views.Tensor)(unsafe.Pointer(unsafe.SliceData(all))), len(all))
}

// Short names for constants of package kernel.

func grow[T any](x []T, n int) []T { return kernel.Grow(x, n) }

func rawBytes[T any](x []T) []byte { return kernel.RawBytes(x) }

func elements[T any](x []byte) []T { return kernel.Elements[T](x) }

// partsOf returns the number of parts of at most of elements each.
func partsOf(n, of int) int { return (n + of - 1) / of }
