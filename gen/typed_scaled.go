package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// With 8 lanes and one or two rows, widening I8 is slower than multiplying: two shifts extend a
// byte's sign, whereas one operation moves the byte to the top of its 32 bits and clears the
// others. That is 2²⁴ times the number, so all sums of the tile are 2²⁴ times as large.
//
// No bit of a result depends on it unless a sum overflows. All terms are multiples of 2⁻¹⁴⁹, so
// sums below 2⁻¹²⁶ are exact with and without the factor, and all others are rounded at the same
// digit. A sum that has overflowed ends as ±Inf or NaN: then outputs stay unchanged, and tiles of
// later groups, which extend signs, compute them.
const (
	scaledUp    = 1 << 24
	bitsTopByte = 0xff000000
	scaledMasks = typedUnroll - 1 // registers that widenI8Scaled keeps: of bytes 1, 2 and 3
)

// scales reports whether the sums of a tile have that factor. More rows keep multipliers busy. All
// rows of such a call are one tile, so none is added twice.
func (t *typedProgram) scales(r, n int) bool {
	return t.format.grouped && !t.wide && (r == 1 && n == 4 || r == 2 && n == 2)
}

// keepMasks loads the masks of widenI8Scaled into the last registers.
func (t *typedProgram) keepMasks() {
	VMOVUPS(u32(bitsTopByte), t.mask(typedUnroll-1))
	for u := 1; u < typedUnroll-1; u++ {
		VMOVUPS(topByte(u), t.mask(u))
	}
}

// mask is the register for byte u, which is not 0.
func (t *typedProgram) mask(u int) reg.VecPhysical { return t.regs[len(t.regs)-u] }

// beginScaled multiplies sums that do not begin with 0, after their own product was rounded.
func (t *typedProgram) beginScaled(sums []reg.VecPhysical, factor reg.VecPhysical) {
	VMOVUPS(f32(scaledUp), factor)
	for _, s := range sums {
		VMULPS(factor, s, s)
	}
}

// endScaled removes the factor, or jumps if a sum is infinite or NaN: 0 times such a sum is NaN.
func (t *typedProgram) endScaled(sums []reg.VecPhysical, overflow string) {
	free := t.regs[len(sums):]
	factor, zero, bad := free[0], free[1], free[2:4]
	VMOVUPS(f32(1./scaledUp), factor)
	for _, x := range free[1:4] {
		t.zero(x)
	}
	for i, s := range sums {
		VMULPS(factor, s, s)
		VFMADD231PS(s, zero, bad[i%2])
	}
	VADDPS(bad[0], bad[1], bad[0])
	VCMPPS(Imm(unordered), bad[0], bad[0], bad[0])
	VMOVMSKPS(bad[0], a0.As32())
	TESTL(a0.As32(), a0.As32())
	JNE(LabelRef(overflow))
}

// widenI8Scaled leaves byte u of each 32 bits in the upper byte. Of the second vector of a panel
// the bytes before it are memory of that panel, so it is loaded from where byte u is the upper one.
func widenI8Scaled(t *typedProgram, m Mem, u int, to []reg.VecPhysical) {
	for v := range to {
		at := m.Offset(v * t.size)
		switch {
		case v > 0 || u == typedUnroll-1:
			VPAND(at.Offset(u-(typedUnroll-1)), t.mask(typedUnroll-1), to[v])
		case u == 0:
			VMOVDQU(at, to[v])
			VPSLLD(Imm(24), to[v], to[v])
		default:
			VMOVDQU(at, to[v])
			VPSHUFB(t.mask(u), to[v], to[v])
		}
		VCVTDQ2PS(to[v], to[v])
	}
}

// topByte is the shuffle with which VPSHUFB moves byte u of each 32 bits to their upper byte, with
// 0 below.
func topByte(u int) Mem {
	w := make([]uint32, lanes)
	for i := range w {
		w[i] = uint32(4*(i%4)+u)<<24 | 0x808080
	}
	return wordTable(fmt.Sprintf("topByte%d", u), w...)
}
