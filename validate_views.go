package attn

import (
	"math/bits"
	"unsafe"
)

// checkView validates one view. No buffer is needed for a view without elements.
func checkView[T any](name string, v *View[T]) error {
	for i, n := range [...]int{v.B, v.H, v.L, v.D} {
		if n < 0 || n > maxLength || i == 3 && n == 0 {
			return fail(ErrShape, "%s.%c is %d, want %d to %d", name, "BHLD"[i], n, i/3, maxLength)
		}
	}
	counts := [...]int{v.B, v.H, v.L}
	extent := v.D // the index of the last element plus one
	for i, stride := range [...]int{v.SB, v.SH, v.SL} {
		if stride < 0 {
			return fail(ErrStride, "%s.S%c is %d, want at least 0", name, "BHL"[i], stride)
		}
		if v.empty() {
			continue
		}
		hi, span := bits.Mul64(uint64(counts[i]-1), uint64(stride))
		if hi != 0 || span > uint64(maxInt-extent) {
			return fail(ErrStride, "%s.S%c is %d, which overflows with %s.%c = %d",
				name, "BHL"[i], stride, name, "BHL"[i], counts[i])
		}
		extent += int(span)
	}
	if v.empty() {
		return nil
	}
	if len(v.Data) < extent {
		return fail(ErrLength, "len(%s.Data) is %d, want at least %d for [%d %d %d %d] with strides "+
			"[%d %d %d]", name, len(v.Data), extent, v.B, v.H, v.L, v.D, v.SB, v.SH, v.SL)
	}
	return nil
}

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
			return fail(ErrStride, "%s has a stride of %d over %d elements, want at least %d so that no "+
				"two outputs coincide", name, stride[i], count[i], inside)
		}
		inside += (count[i] - 1) * stride[i]
	}
	return nil
}

// extent is the part of a buffer that one argument touches. The zero value
// touches nothing.
type extent struct {
	name  string
	begin uintptr // address of the first byte
	size  uintptr // bytes to the end of the last element
	row   uintptr // bytes from a position to the next in all rows; 0 if they have no common pitch
	width uintptr // bytes that the view occupies within each pitch
}

// extentOf describes the extent of a valid view, but not where it begins: see checkApart. Views
// whose heads lie side by side in rows of one pitch (BLHD, and slices of it) may share a buffer
// without sharing an element, as the Q, K and V columns of one projection do.
func extentOf[T any](name string, v *View[T]) extent {
	if v.empty() || v.D == 0 {
		return extent{}
	}
	var element T
	size := unsafe.Sizeof(element)
	m := extent{name: name, size: uintptr(v.end()) * size}
	if width := (v.H-1)*v.SH + v.D; v.SL >= width && (v.B == 1 || v.SB%v.SL == 0) {
		m.row, m.width = uintptr(v.SL)*size, uintptr(width)*size
	}
	return m
}

// extentOfSlice describes a plain slice.
func extentOfSlice(name string, s []float32) extent {
	return extent{name: name, size: 4 * uintptr(len(s))}
}

// overlaps reports whether two arguments may share a byte.
func (m *extent) overlaps(o *extent) bool {
	if m.size == 0 || o.size == 0 || m.begin >= o.begin+o.size || o.begin >= m.begin+m.size {
		return false
	}
	if m.row == 0 || m.row != o.row {
		return true
	}
	// Column windows of the same pitch: o starts after m's window and ends before it comes round.
	gap := (o.begin + m.row - m.begin%m.row) % m.row
	return gap < m.width || gap+o.width > m.row
}

// checkApart makes sure that outputs share no memory with each other, nor with inputs. The caller
// takes all addresses together, without a call in between: any call may grow the stack, and buffers
// on it move then.
func checkApart(outputs, inputs []extent) error {
	for i := range outputs {
		out := &outputs[i]
		for _, others := range [...][]extent{inputs, outputs[i+1:]} {
			for j := range others {
				if out.overlaps(&others[j]) {
					return fail(ErrOverlap, "%s overlaps %s, want separate memory", out.name, others[j].name)
				}
			}
		}
	}
	return nil
}
