package attn

import (
	"math/bits"
	"unsafe"
)

// maxLength bounds lengths and offsets, so that positions and their
// differences are exact in int32 arithmetic on every path.
const maxLength = 1 << 28

// checkView validates one view and returns its extent: the index of its last
// element plus one. No buffer is needed for a view without elements.
func checkView[T any](name string, v *View[T]) (extent int, err error) {
	for i, n := range [...]int{v.B, v.H, v.L, v.D} {
		if n < 0 || n > maxLength || i == 3 && n == 0 {
			return 0, fail(ErrShape, "%s.%c is %d, want %d to %d", name, "BHLD"[i], n, i/3, maxLength)
		}
	}
	extent = v.D
	counts := [...]int{v.B, v.H, v.L}
	for i, stride := range [...]int{v.SB, v.SH, v.SL} {
		if stride < 0 {
			return 0, fail(ErrStride, "%s.S%c is %d, want at least 0", name, "BHL"[i], stride)
		}
		if v.empty() {
			continue
		}
		hi, span := bits.Mul64(uint64(counts[i]-1), uint64(stride))
		if hi != 0 || span > uint64(maxInt-extent) {
			return 0, fail(ErrStride, "%s.S%c is %d, which overflows with %s.%c = %d", name, "BHL"[i], stride, name, "BHL"[i], counts[i])
		}
		extent += int(span)
	}
	if v.empty() {
		return 0, nil
	}
	if len(v.Data) < extent {
		return 0, fail(ErrLength, "len(%s.Data) is %d, want at least %d for [%d %d %d %d] with strides [%d %d %d]",
			name, len(v.Data), extent, v.B, v.H, v.L, v.D, v.SB, v.SH, v.SL)
	}
	return extent, nil
}

const maxInt = int(^uint(0) >> 1)

// checkDistinct makes sure that no two elements of an output view coincide:
// sorted by stride, each dimension must step over all that is inside it.
func checkDistinct(name string, v *Tensor) error {
	if v.empty() {
		return nil
	}
	count := [...]int{v.B, v.H, v.L}
	stride := [...]int{v.SB, v.SH, v.SL}
	for i := 1; i < 3; i++ { // three elements: sort by insertion
		for j := i; j > 0 && stride[j] < stride[j-1]; j-- {
			stride[j], stride[j-1] = stride[j-1], stride[j]
			count[j], count[j-1] = count[j-1], count[j]
		}
	}
	inside := v.D
	for i := range stride {
		if count[i] <= 1 {
			continue
		}
		if stride[i] < inside {
			return fail(ErrStride, "%s has a stride of %d over %d elements, want at least %d so that no two outputs coincide",
				name, stride[i], count[i], inside)
		}
		inside += (count[i] - 1) * stride[i]
	}
	return nil
}

// memory is the part of a buffer that one argument touches. The zero value
// touches nothing.
type memory struct {
	name       string
	begin, end uintptr // addresses of the first byte and behind the last
	row        uintptr // bytes from a position to the next in all of the view's rows, 0 if they have no common pitch
	width      uintptr // bytes that the view occupies within each pitch
}

// memoryOf describes the extent of a view. Views whose heads lie side by side
// in rows of one pitch (BLHD, and slices of it) may share a buffer without
// sharing an element, as the Q, K and V columns of one projection do.
func memoryOf[T any](name string, v *View[T], extent int) memory {
	if extent == 0 {
		return memory{}
	}
	size := unsafe.Sizeof(v.Data[0])
	begin := uintptr(unsafe.Pointer(&v.Data[0]))
	m := memory{name: name, begin: begin, end: begin + uintptr(extent)*size}
	if width := (v.H-1)*v.SH + v.D; v.SL >= width && (v.B == 1 || v.SB%v.SL == 0) {
		m.row, m.width = uintptr(v.SL)*size, uintptr(width)*size
	}
	return m
}

// memoryOfSlice describes a plain slice.
func memoryOfSlice[T any](name string, s []T) memory {
	return memoryOf(name, &View[T]{Data: s, B: 1, H: 1, L: 1, D: len(s)}, len(s))
}

// overlaps reports whether two arguments may share a byte.
func (m memory) overlaps(o memory) bool {
	if m.begin >= o.end || o.begin >= m.end {
		return false
	}
	if m.row == 0 || m.row != o.row {
		return true
	}
	// Column windows of the same pitch: o starts after m's window and ends before it comes round.
	gap := (o.begin + m.row - m.begin%m.row) % m.row
	return gap < m.width || gap+o.width > m.row
}

// checkApart makes sure that out shares no memory with any of others.
func checkApart(out memory, others []memory) error {
	for _, o := range others {
		if out.overlaps(o) {
			return fail(ErrOverlap, "%s overlaps %s", out.name, o.name)
		}
	}
	return nil
}
