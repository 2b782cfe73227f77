package attn

import (
	"math/bits"
	"unsafe"
)

// quickValid reports that a call's four views are such that none of the thorough
// checks could object, and that no option refers to further memory. Most calls
// are like that, and a small call would take longer to check than to compute. Any
// doubt is an answer of no.
func (p *plan) quickValid(opt *Options) bool {
	dst, q, k, v := &p.dst, &p.q, &p.k, &p.v
	return opt.onlyScalars() &&
		dst.compact() && q.compact() && k.compact() && v.compact() &&
		v.B == k.B && v.H == k.H && v.L == k.L &&
		q.B == k.B && q.D == k.D && q.H%k.H == 0 &&
		dst.B == q.B && dst.H == q.H && dst.L == q.L && dst.D == v.D &&
		dst.nested() &&
		apart(dst, q) && apart(dst, k) && apart(dst, v)
}

// apart reports that one view's memory ends before the other's begins, or the
// other way round.
func apart(a, b *Tensor) bool {
	const size = unsafe.Sizeof(a.Data[0])
	aBegin, bBegin := uintptr(unsafe.Pointer(&a.Data[0])), uintptr(unsafe.Pointer(&b.Data[0]))
	return aBegin+uintptr(a.end())*size <= bBegin || bBegin+uintptr(b.end())*size <= aBegin
}

// onlyScalars reports that no option but numbers is given.
func (o *Options) onlyScalars() bool {
	return o == nil || o.Mask == nil && o.Bias == nil && o.Weights == nil &&
		o.Slopes == nil && o.Sinks == nil && o.LSE == nil && o.QueryLens == nil && o.KeyLens == nil
}

// compact reports that a view has elements, that nothing in its size overflows, and
// that its buffer is long enough.
func (v *View[T]) compact() bool {
	return bits.UintSize == 64 && v.B > 0 && v.H > 0 && v.L > 0 && v.D > 0 &&
		uint(v.B|v.H|v.L|v.D) < maxLength && uint64(v.SB|v.SH|v.SL)>>32 == 0 &&
		v.end() <= len(v.Data)
}

// end is the index after the last element.
func (v *View[T]) end() int { return (v.B-1)*v.SB + (v.H-1)*v.SH + (v.L-1)*v.SL + v.D }

// nested reports that positions, heads and batches follow each other without
// touching, in this order or with heads inside positions.
func (v *View[T]) nested() bool {
	if v.SL >= v.SH { // heads inside positions
		return v.SH >= v.D && v.SL >= (v.H-1)*v.SH+v.D && v.SB >= (v.L-1)*v.SL+v.SL
	}
	return v.SL >= v.D && v.SH >= (v.L-1)*v.SL+v.D && v.SB >= (v.H-1)*v.SH+v.SH
}
