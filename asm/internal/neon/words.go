package neon

import (
	"fmt"
	"strings"
)

// Vector instructions that Go's assembler does not know. Each base word has all
// registers 0; the register numbers go to m<<16 | n<<5 | d.

func (a *Asm) three(base uint32, name string, d, n, m Vec) {
	a.vectors(base, name, fmt.Sprintf("%s %s, %s, %s", name, d.s4(), n.s4(), m.s4()), d, n, m)
}

func (a *Asm) two(base uint32, name string, d, n Vec) {
	a.vectors(base, name, fmt.Sprintf("%s %s, %s", name, d.s4(), n.s4()), d, n)
}

// byElement multiplies by lane t of m.
func (a *Asm) byElement(base uint32, name string, d, n, m Vec, t int) {
	text := fmt.Sprintf("%s %s, %s, v%d.s[%d]", name, d.s4(), n.s4(), uint8(m), t)
	a.lane(base, name, text, d, n, m, t)
}

// lane is an instruction that goes by lane t of m; the lane's bits are 21 (low) and 11 (high).
func (a *Asm) lane(base uint32, name, text string, d, n, m Vec, t int) {
	between(name+"'s lane", t, 0, 3, 1)
	a.vectors(base|uint32(t&1)<<21|uint32(t>>1)<<11, fmt.Sprintf("%sLane%d", name, t), text, d, n, m)
}

// vectors is word for vector registers.
func (a *Asm) vectors(base uint32, name, text string, registers ...Vec) {
	var numbers []uint8
	for _, v := range registers {
		v.check()
		numbers = append(numbers, uint8(v))
	}
	a.word(base, name, text, numbers...)
}

// s4 is the register's name in Arm's notation.
func (v Vec) s4() string { return fmt.Sprintf("v%d.4s", uint8(v)) }

// Fadd is d = n + m.
func (a *Asm) Fadd(d, n, m Vec) { a.three(0x4e20d400, "fadd", d, n, m) }

// Fsub is d = n − m.
func (a *Asm) Fsub(d, n, m Vec) { a.three(0x4ea0d400, "fsub", d, n, m) }

// Fmul is d = n·m.
func (a *Asm) Fmul(d, n, m Vec) { a.three(0x6e20dc00, "fmul", d, n, m) }

// Fdiv is d = n/m.
func (a *Asm) Fdiv(d, n, m Vec) { a.three(0x6e20fc00, "fdiv", d, n, m) }

// Fmax is d = max(n, m), NaN if one of them is.
func (a *Asm) Fmax(d, n, m Vec) { a.three(0x4e20f400, "fmax", d, n, m) }

// Fmin is d = min(n, m), NaN if one of them is.
func (a *Asm) Fmin(d, n, m Vec) { a.three(0x4ea0f400, "fmin", d, n, m) }

// Fmaxnm is d = max(n, m), where a quiet NaN gives way to a number.
func (a *Asm) Fmaxnm(d, n, m Vec) { a.three(0x4e20c400, "fmaxnm", d, n, m) }

// Fcmgt is d = ones where n > m.
func (a *Asm) Fcmgt(d, n, m Vec) { a.three(0x6ea0e400, "fcmgt", d, n, m) }

// Fcmge is d = ones where n ≥ m.
func (a *Asm) Fcmge(d, n, m Vec) { a.three(0x6e20e400, "fcmge", d, n, m) }

// Fcmeq is d = ones where n = m.
func (a *Asm) Fcmeq(d, n, m Vec) { a.three(0x4e20e400, "fcmeq", d, n, m) }

// FmulLane is d = n·(lane t of m).
func (a *Asm) FmulLane(d, n, m Vec, t int) { a.byElement(0x4f809000, "fmul", d, n, m, t) }

// FmlaLane is d = FMA(n, lane t of m, d).
func (a *Asm) FmlaLane(d, n, m Vec, t int) { a.byElement(0x4f801000, "fmla", d, n, m, t) }

// SdotLane adds to each integer lane of d four products: bytes of n times the bytes of lane t of m.
func (a *Asm) SdotLane(d, n, m Vec, t int) {
	text := fmt.Sprintf("sdot %s, v%d.16b, v%d.4b[%d]", d.s4(), uint8(n), uint8(m), t)
	a.lane(0x4f80e000, "sdot", text, d, n, m, t)
}

// FmlsLane is d = FMA(−n, lane t of m, d).
func (a *Asm) FmlsLane(d, n, m Vec, t int) { a.byElement(0x4f805000, "fmls", d, n, m, t) }

// Fabs is d = |n|.
func (a *Asm) Fabs(d, n Vec) { a.two(0x4ea0f800, "fabs", d, n) }

// Scvtf is d = n, signed integers converted to floats.
func (a *Asm) Scvtf(d, n Vec) { a.two(0x4e21d800, "scvtf", d, n) }

// Fcvtzs is d = n cut off to signed integers.
func (a *Asm) Fcvtzs(d, n Vec) { a.two(0x4ea1b800, "fcvtzs", d, n) }

// Fcvtns is d = n rounded to signed integers, ties to even.
func (a *Asm) Fcvtns(d, n Vec) { a.two(0x4e21a800, "fcvtns", d, n) }

// form is how an instruction that changes the width of lanes looks at its registers, destination
// first.
func (a *Asm) form(base uint32, name, to, from string, d, n Vec) {
	text := fmt.Sprintf("%s v%d.%s, v%d.%s", name, uint8(d), to, uint8(n), from)
	if strings.HasSuffix(to, "b") {
		name += to // there is one for other lanes, too
	}
	a.vectors(base, name, text, d, n)
}

// Fcvtl is d = the low four halves of n, widened to float32.
func (a *Asm) Fcvtl(d, n Vec) { a.form(0x0e217800, "fcvtl", "4s", "4h", d, n) }

// Fcvtl2 is d = the high four halves of n, widened to float32.
func (a *Asm) Fcvtl2(d, n Vec) { a.form(0x4e217800, "fcvtl2", "4s", "8h", d, n) }

// Fcvtn is d = n rounded to four halves of 16 bits; the high ones become 0.
func (a *Asm) Fcvtn(d, n Vec) { a.form(0x0e216800, "fcvtn", "4h", "4s", d, n) }

// Fcvtn2 is the high four halves of d = n rounded; the low ones stay.
func (a *Asm) Fcvtn2(d, n Vec) { a.form(0x4e216800, "fcvtn2", "8h", "4s", d, n) }

// Sqxtn narrows the four integers of n to 16 bits, with saturation, into d; its high lanes become
// 0.
func (a *Asm) Sqxtn(d, n Vec) { a.form(0x0e614800, "sqxtn", "4h", "4s", d, n) }

// Sqxtn2 narrows the four integers of n to 16 bits, with saturation, into the high lanes of d; its
// low lanes stay.
func (a *Asm) Sqxtn2(d, n Vec) { a.form(0x4e614800, "sqxtn2", "8h", "4s", d, n) }

// SqxtnB narrows the eight integers of n to 8 bits, with saturation, into d; its high lanes become
// 0.
func (a *Asm) SqxtnB(d, n Vec) { a.form(0x0e214800, "sqxtn", "8b", "8h", d, n) }

// SqxtnB2 narrows the eight integers of n to 8 bits, with saturation, into the high lanes of d; its
// low lanes stay.
func (a *Asm) SqxtnB2(d, n Vec) { a.form(0x4e214800, "sqxtn2", "16b", "8h", d, n) }

// Shll is d = the low four lanes of 16 bits of n, each in the upper half of a word.
func (a *Asm) Shll(d, n Vec) {
	a.vectors(0x2e613800, "shll", fmt.Sprintf("shll %s, v%d.4h, #16", d.s4(), uint8(n)), d, n)
}

// Shll2 is d = the high four lanes of 16 bits of n, each in the upper half of a word.
func (a *Asm) Shll2(d, n Vec) {
	a.vectors(0x6e613800, "shll2", fmt.Sprintf("shll2 %s, v%d.8h, #16", d.s4(), uint8(n)), d, n)
}

// Bic is d = n &^ m.
func (a *Asm) Bic(d, n, m Vec) {
	text := fmt.Sprintf("bic v%d.16b, v%d.16b, v%d.16b", uint8(d), uint8(n), uint8(m))
	a.vectors(0x4e601c00, "bic", text, d, n, m)
}

// Sshr is d = n >> shift, signed, in four lanes.
func (a *Asm) Sshr(d, n Vec, shift int) {
	between("Sshr's shift", shift, 1, 32, 1)
	a.vectors(0x4f000400|uint32(64-shift)<<16, fmt.Sprint("sshr", shift),
		fmt.Sprintf("sshr %s, %s, #%d", d.s4(), n.s4(), shift), d, n)
}

// Fmaxv is lane 0 of d = the largest lane of n, NaN if one of them is.
func (a *Asm) Fmaxv(d, n Vec) {
	a.vectors(0x6e30f800, "fmaxv", fmt.Sprintf("fmaxv s%d, %s", uint8(d), n.s4()), d, n)
}

// Fmaxnmv is lane 0 of d = the largest lane of n, quiet NaN not counting.
func (a *Asm) Fmaxnmv(d, n Vec) {
	a.vectors(0x6e30c800, "fmaxnmv", fmt.Sprintf("fmaxnmv s%d, %s", uint8(d), n.s4()), d, n)
}

// FaddPair is lane 0 of d = n0 + n1.
func (a *Asm) FaddPair(d, n Vec) {
	a.vectors(0x7e30d800, "faddp", fmt.Sprintf("faddp s%d, v%d.2s", uint8(d), uint8(n)), d, n)
}

// LdrQIndexed loads the vector at base + index.
func (a *Asm) LdrQIndexed(d Vec, base, index Reg) {
	d.check()
	base.check()
	index.check()
	text := fmt.Sprintf("ldr q%d, [x%d, x%d]", uint8(d), uint8(base), uint8(index))
	a.word(0x3ce06800, "ldrq", text, uint8(d), uint8(base), uint8(index))
}
