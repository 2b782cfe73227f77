package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// typedFormat is how a type of fewer bits becomes float32, which is exact.
type typedFormat struct {
	name    string
	bytes   int
	grouped bool // the steps of a round are side by side

	// widen leaves a panel's step in vectors, u being its number in a round.
	widen func(t *typedProgram, m Mem, u int, to []reg.VecPhysical)

	// split takes columns 0–7 and 8–15 to the order in which widen leaves them, with two registers to spare, and join takes
	// them back. Both are nil if that is the same one.
	split, join func(x, y, s, u reg.VecPhysical)
}

var (
	typedF16     = typedFormat{name: "F16", bytes: 2, widen: widenF16}
	typedBF16    = typedFormat{name: "BF16", bytes: 2, widen: widenBF16, split: splitColumns, join: joinColumns}
	typedI8      = typedFormat{name: "I8", bytes: 1, grouped: true, widen: widenI8}
	typedFormats = []typedFormat{typedF16, typedBF16, typedI8}
)

func widenF16(t *typedProgram, m Mem, _ int, to []reg.VecPhysical) {
	for v := range to {
		VCVTPH2PS(m.Offset(v*t.size/2), to[v])
	}
}

// widenBF16: an element is the upper half of a float32. With 8 lanes the even columns of a panel, which are lower halves
// of 32 bits, are shifted, and of the odd ones the lower halves are cleared: that is less than to spread the elements.
func widenBF16(t *typedProgram, m Mem, _ int, to []reg.VecPhysical) {
	if t.wide {
		VPMOVZXWD(m, to[0])
		VPSLLD(Imm(16), to[0], to[0])
		return
	}
	VMOVDQU(m, to[0])
	VPAND(u32(bitsUpper), to[0], to[1])
	VPSLLD(Imm(16), to[0], to[0])
}

const bitsUpper = 0xffff0000

// splitColumns takes columns 0–7 and 8–15 to even and odd ones.
func splitColumns(x, y, s, u reg.VecPhysical) {
	VPERM2F128(Imm(0x20), y, x, s)
	VPERM2F128(Imm(0x31), y, x, u)
	VSHUFPS(Imm(0x88), u, s, x)
	VSHUFPS(Imm(0xdd), u, s, y)
}

// joinColumns is the inverse of splitColumns.
func joinColumns(x, y, s, u reg.VecPhysical) {
	VUNPCKLPS(y, x, s)
	VUNPCKHPS(y, x, u)
	VPERM2F128(Imm(0x20), u, s, x)
	VPERM2F128(Imm(0x31), u, s, y)
}

// widenI8 takes byte u of each 32 bits: shifting it up and down again extends its sign.
func widenI8(t *typedProgram, m Mem, u int, to []reg.VecPhysical) {
	for v := range to {
		at, up := m.Offset(v*t.size), Imm(uint64(24-8*u))
		switch {
		case u == 3 && t.wide:
			VPSRAD(Imm(24), at, to[v])
		case u == 3:
			VMOVDQU(at, to[v])
			VPSRAD(Imm(24), to[v], to[v])
		case t.wide:
			VPSLLD(up, at, to[v])
			VPSRAD(Imm(24), to[v], to[v])
		default:
			VMOVDQU(at, to[v])
			VPSLLD(up, to[v], to[v])
			VPSRAD(Imm(24), to[v], to[v])
		}
		VCVTDQ2PS(to[v], to[v])
	}
}
