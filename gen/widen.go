package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// typedFormat is how a type of fewer bits becomes float32, which is exact.
type typedFormat struct {
	bytes   int
	grouped bool // the steps of a round are side by side
	codes   bool // which are codes of four bits

	// keep loads the constants that widen needs, if there are some.
	keep func(t *typedProgram)

	// widen leaves a panel's step in vectors, u being its number in a round.
	widen func(t *typedProgram, m Mem, u int, to []reg.VecPhysical)

	// split permutes columns 0–7 and 8–15 to the order of widen's results, with two spare registers,
	// and join reverses it. Both are nil if the order is the same.
	split, join func(x, y, s, u reg.VecPhysical)
}

var (
	typedF16  = typedFormat{bytes: 2, widen: widenF16}
	typedBF16 = typedFormat{bytes: 2, widen: widenBF16, split: splitColumns,
		join: joinColumns}
	typedI8 = typedFormat{bytes: 1, grouped: true, keep: keepMantissas,
		widen: widenI8}
)

func widenF16(t *typedProgram, m Mem, _ int, to []reg.VecPhysical) {
	for v := range to {
		VCVTPH2PS(m.Offset(v*t.size/2), to[v])
	}
}

// widenBF16: an element is the upper half of a float32. With 8 lanes the even columns of a panel,
// which are lower halves of 32 bits, are shifted, and of the odd ones the lower halves are cleared:
// that is less than to spread the elements.
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

// splitColumns separates columns 0–7 and 8–15 into even and odd ones.
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

// widenI8 widens byte u of each 32 bits: shifting it up and down again extends its sign.
func widenI8(t *typedProgram, m Mem, u int, to []reg.VecPhysical) {
	if t.wide {
		widenI8InMantissa(t, m, u, to[0])
		return
	}
	if t.scaled {
		widenI8Scaled(t, m, u, to)
		return
	}
	for v := range to {
		at := m.Offset(v * t.size)
		switch {
		case u == 0 && t.tileRows == 1:
			Comment("A row of multiply-adds leaves their units idle, while there are too many shifts.")
			VMOVDQU(u32(1), to[v])
			VPMADDUBSW(at, to[v], to[v])
			VPMADDWD(u32(1), to[v], to[v])
		case u == typedUnroll-1:
			VMOVDQU(at, to[v])
			VPSRAD(Imm(24), to[v], to[v])
		default:
			VMOVDQU(at, to[v])
			VPSLLD(Imm(uint64(24-8*u)), to[v], to[v])
			VPSRAD(Imm(24), to[v], to[v])
		}
		VCVTDQ2PS(to[v], to[v])
	}
}

// mantissas are the constants of widenI8InMantissa, first for bytes 0 and 2, then for 1 and 3: the
// mask of the byte in 32 bits, the exponent of a number whose mantissa has 1 there, with the byte's
// sign bit inverted, and the difference between that number and the byte.
var mantissas = [2][3]uint32{
	{0xff, 0x4b000080, math.Float32bits(1<<23 + 128)},
	{0xff00, 0x47008000, math.Float32bits(1<<15 + 128)},
}

func keepMantissas(t *typedProgram) {
	if !t.wide {
		return
	}
	t.constants = len(mantissas) * len(mantissas[0])
	for i, of := range mantissas {
		for j, c := range of {
			VPBROADCASTD(u32(c), t.mantissa(i, j))
		}
	}
}

func (t *typedProgram) mantissa(i, j int) reg.VecPhysical {
	return t.regs[len(t.regs)-t.constants+i*len(mantissas[0])+j]
}

// widenI8InMantissa puts byte b in the mantissa of a large number, of which b + 128 becomes the
// last digits, and subtracts all else. That is exact, and spreads over more of the processor's
// units than shifts and conversions do.
func widenI8InMantissa(t *typedProgram, m Mem, u int, to reg.VecPhysical) {
	if u < 2 {
		VMOVDQU32(m, to)
	} else {
		VPSRLD(Imm(16), m, to)
	}
	const maskAndFlip = 0x6a // (to & mask) ^ exponent
	VPTERNLOGD(Imm(maskAndFlip), t.mantissa(u%2, 1), t.mantissa(u%2, 0), to)
	VSUBPS(t.mantissa(u%2, 2), to, to)
}

// Kernels that widen and narrow elements, one by one as far as the result is concerned.

// pairRegisters are the registers that formats use outside of tiles.
var pairRegisters = []reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3}

// widenHalfKernel widens n elements of 16 bits, whole panels of them.
func widenHalfKernel(name string, f typedFormat) {
	TEXT(name, noSplit, "func(dst *float32, v *byte, n int)")
	dst, v, n := param("dst"), param("v"), param("n")
	t := &typedProgram{format: f, vecs: panel / lanes, size: vector}
	x, y := pairRegisters[0], pairRegisters[1]
	Label("loop")
	f.widen(t, Mem{Base: v}, 0, pairRegisters[:2])
	if f.join != nil {
		f.join(x, y, pairRegisters[2], pairRegisters[3])
	}
	VMOVUPS(x, Mem{Base: dst})
	VMOVUPS(y, Mem{Base: dst, Disp: vector})
	ADDQ(imm(panel*f.bytes), v)
	ADDQ(imm(panelBytes), dst)
	SUBQ(imm(panel), n)
	JG(LabelRef("loop"))
	finish()
}

// widenI8Kernel widens a panel's groups of four steps.
func widenI8Kernel() {
	TEXT("widenI8SIMD", noSplit, "func(dst *float32, v *byte, steps, stride int)")
	dst, v, steps, stride := param("dst"), param("v"), param("steps"), param("stride")
	t := &typedProgram{format: typedI8, vecs: panel / lanes, size: vector}
	Label("group")
	for u := range typedUnroll {
		typedI8.widen(t, Mem{Base: v}, u, pairRegisters[:2])
		VMOVUPS(pairRegisters[0], Mem{Base: dst, Disp: u * panelBytes})
		VMOVUPS(pairRegisters[1], Mem{Base: dst, Disp: u*panelBytes + vector})
		DECQ(steps)
		JE(LabelRef("end"))
	}
	ADDQ(stride, v)
	ADDQ(imm(typedUnroll*panelBytes), dst)
	JMP(LabelRef("group"))
	Label("end")
	finish()
}
