package neon

import (
	"fmt"
	"strings"
)

// Vector instructions that Go's assembler knows.

func (a *Asm) s4(name string, d, n, m Vec) { a.op(name, "%v.S4, %v.S4, %v.S4", m, n, d) }

func (a *Asm) b16(name string, d, n, m Vec) { a.op(name, "%v.B16, %v.B16, %v.B16", m, n, d) }

// Fmla is d = FMA(n, m, d) in four lanes.
func (a *Asm) Fmla(d, n, m Vec) { a.s4("VFMLA", d, n, m) }

// Fmls is d = FMA(−n, m, d).
func (a *Asm) Fmls(d, n, m Vec) { a.s4("VFMLS", d, n, m) }

// AddI is d = n + m in four lanes of integers.
func (a *Asm) AddI(d, n, m Vec) { a.s4("VADD", d, n, m) }

// SubI is d = n − m in four lanes of integers.
func (a *Asm) SubI(d, n, m Vec) { a.s4("VSUB", d, n, m) }

// Cmtst is d = ones where n & m is not 0, in four lanes.
func (a *Asm) Cmtst(d, n, m Vec) { a.s4("VCMTST", d, n, m) }

// Trn1 is d = n0 m0 n2 m2.
func (a *Asm) Trn1(d, n, m Vec) { a.s4("VTRN1", d, n, m) }

// Trn2 is d = n1 m1 n3 m3.
func (a *Asm) Trn2(d, n, m Vec) { a.s4("VTRN2", d, n, m) }

// Trn1D is d = the low halves of n and m.
func (a *Asm) Trn1D(d, n, m Vec) { a.op("VTRN1", "%v.D2, %v.D2, %v.D2", m, n, d) }

// Trn2D is d = the high halves of n and m.
func (a *Asm) Trn2D(d, n, m Vec) { a.op("VTRN2", "%v.D2, %v.D2, %v.D2", m, n, d) }

// Shl is d = n << shift in four lanes.
func (a *Asm) Shl(d, n Vec, shift int) {
	between("Shl's shift", shift, 0, 31, 1)
	a.op("VSHL", "$%d, %v.S4, %v.S4", shift, n, d)
}

// Ushr is d = n >> shift, unsigned, in four lanes.
func (a *Asm) Ushr(d, n Vec, shift int) {
	between("Ushr's shift", shift, 1, 32, 1)
	a.op("VUSHR", "$%d, %v.S4, %v.S4", shift, n, d)
}

// UshrB is d = n >> shift, unsigned, in sixteen lanes of bytes.
func (a *Asm) UshrB(d, n Vec, shift int) {
	between("UshrB's shift", shift, 1, 8, 1)
	a.op("VUSHR", "$%d, %v.B16, %v.B16", shift, n, d)
}

// ShlB is d = n << shift in sixteen lanes of bytes.
func (a *Asm) ShlB(d, n Vec, shift int) {
	between("ShlB's shift", shift, 0, 7, 1)
	a.op("VSHL", "$%d, %v.B16, %v.B16", shift, n, d)
}

// SriB is the lower bits of each byte of d = n >> shift, unsigned; the upper ones stay.
func (a *Asm) SriB(d, n Vec, shift int) {
	between("SriB's shift", shift, 1, 8, 1)
	a.op("VSRI", "$%d, %v.B16, %v.B16", shift, n, d)
}

// UxtlB is d = the low eight bytes of n, without sign, in 16 bits each.
func (a *Asm) UxtlB(d, n Vec) { a.op("VUXTL", "%v.B8, %v.H8", n, d) }

// UxtlB2 is d = the high eight bytes of n, without sign, in 16 bits each.
func (a *Asm) UxtlB2(d, n Vec) { a.op("VUXTL2", "%v.B16, %v.H8", n, d) }

// UxtlH is d = the low four words of n, without sign, in four lanes.
func (a *Asm) UxtlH(d, n Vec) { a.op("VUXTL", "%v.H4, %v.S4", n, d) }

// UxtlH2 is UxtlH of the high four words.
func (a *Asm) UxtlH2(d, n Vec) { a.op("VUXTL2", "%v.H8, %v.S4", n, d) }

// CmtstB is Cmtst of sixteen bytes.
func (a *Asm) CmtstB(d, n, m Vec) { a.b16("VCMTST", d, n, m) }

// CmtstH is Cmtst of eight words.
func (a *Asm) CmtstH(d, n, m Vec) { a.op("VCMTST", "%v.H8, %v.H8, %v.H8", m, n, d) }

// AddB is d = n + m in sixteen lanes of bytes.
func (a *Asm) AddB(d, n, m Vec) { a.b16("VADD", d, n, m) }

// SubB is d = n − m in sixteen lanes of bytes.
func (a *Asm) SubB(d, n, m Vec) { a.b16("VSUB", d, n, m) }

// Trn1H is d = n0 m0 n2 m2 n4 m4 n6 m6, words.
func (a *Asm) Trn1H(d, n, m Vec) { a.op("VTRN1", "%v.H8, %v.H8, %v.H8", m, n, d) }

// Trn2H is d = n1 m1 n3 m3 n5 m5 n7 m7.
func (a *Asm) Trn2H(d, n, m Vec) { a.op("VTRN2", "%v.H8, %v.H8, %v.H8", m, n, d) }

// DupH is d = eight times the low 16 bits of n.
func (a *Asm) DupH(d Vec, n Reg) { a.op("VDUP", "%v, %v.H8", n, d) }

// DupD is d = two times n.
func (a *Asm) DupD(d Vec, n Reg) { a.op("VDUP", "%v, %v.D2", n, d) }

// And is d = n & m.
func (a *Asm) And(d, n, m Vec) { a.b16("VAND", d, n, m) }

// OrrV is d = n | m.
func (a *Asm) OrrV(d, n, m Vec) { a.b16("VORR", d, n, m) }

// Eor is d = n xor m.
func (a *Asm) Eor(d, n, m Vec) { a.b16("VEOR", d, n, m) }

// Zero is d = 0.
func (a *Asm) Zero(d Vec) { a.b16("VEOR", d, d, d) }

// MovV is d = n.
func (a *Asm) MovV(d, n Vec) { a.op("VMOV", "%v.B16, %v.B16", n, d) }

// Bsl is d = n where d has ones, m where it has zeros.
func (a *Asm) Bsl(d, n, m Vec) { a.b16("VBSL", d, n, m) }

// Bif is d = n where m has zeros.
func (a *Asm) Bif(d, n, m Vec) { a.b16("VBIF", d, n, m) }

// Bit is d = n where m has ones.
func (a *Asm) Bit(d, n, m Vec) { a.b16("VBIT", d, n, m) }

// SwapHalves is d = n's high half, then its low half.
func (a *Asm) SwapHalves(d, n Vec) { a.op("VEXT", "$8, %v.B16, %v.B16, %v.B16", n, n, d) }

// SwapPairs is d = n1 n0 n3 n2.
func (a *Asm) SwapPairs(d, n Vec) { a.op("VREV64", "%v.S4, %v.S4", n, d) }

// Uzp2H is d = the upper halves of the words of n, then of m.
func (a *Asm) Uzp2H(d, n, m Vec) { a.op("VUZP2", "%v.H8, %v.H8, %v.H8", m, n, d) }

// Zip1H is d = the low four lanes of 16 bits of n and m in turns.
func (a *Asm) Zip1H(d, n, m Vec) { a.op("VZIP1", "%v.H8, %v.H8, %v.H8", m, n, d) }

// Zip2H is d = the high four lanes of 16 bits of n and m in turns.
func (a *Asm) Zip2H(d, n, m Vec) { a.op("VZIP2", "%v.H8, %v.H8, %v.H8", m, n, d) }

// Uzp1B is d = the even bytes of n, then of m.
func (a *Asm) Uzp1B(d, n, m Vec) { a.b16("VUZP1", d, n, m) }

// Uzp2B is d = the odd bytes of n, then of m.
func (a *Asm) Uzp2B(d, n, m Vec) { a.b16("VUZP2", d, n, m) }

// AddH is d = n + m in eight lanes of integers.
func (a *Asm) AddH(d, n, m Vec) { a.op("VADD", "%v.H8, %v.H8, %v.H8", m, n, d) }

// Tbl1 is d = for each byte i of index, byte i of n.
func (a *Asm) Tbl1(d, n, index Vec) {
	a.op("VTBL", "%v.B16, [%v.B16], %v.B16", index, n, d)
}

// Tbl2 is d = for each byte i of index, byte i of the 32 of first and the register after it.
func (a *Asm) Tbl2(d, first, index Vec) {
	between("Tbl2's first", int(first), 0, 30, 1)
	a.op("VTBL", "%v.B16, [%v.B16, %v.B16], %v.B16", index, first, first+1, d)
}

// Dup is d = four times lane t of n.
func (a *Asm) Dup(d, n Vec, t int) {
	between("Dup's lane", t, 0, 3, 1)
	a.op("VDUP", "%v.S[%d], %v.S4", n, t, d)
}

// DupReg is d = four times the low 32 bits of n.
func (a *Asm) DupReg(d Vec, n Reg) { a.op("VDUP", "%v, %v.S4", n, d) }

// Umov is d = lane t of n, without sign.
func (a *Asm) Umov(d Reg, n Vec, t int) {
	between("Umov's lane", t, 0, 3, 1)
	a.op("VMOV", "%v.S[%d], %v", n, t, d)
}

// Addv is d = the sum of n's four integer lanes.
func (a *Asm) Addv(d, n Vec) { a.op("VADDV", "%v.S4, %v", n, d) }

// LdrQ loads a vector.
func (a *Asm) LdrQ(d Vec, base Reg, offset int) {
	between("LdrQ's offset", offset, 0, 65520, 16)
	a.op("FMOVQ", "%d(%v), %s", offset, base, d.f())
}

// LdrQPost loads a vector, then base += 16.
func (a *Asm) LdrQPost(d Vec, base Reg) { a.op("FMOVQ.P", "16(%v), %s", base, d.f()) }

// StrQ stores a vector.
func (a *Asm) StrQ(d Vec, base Reg, offset int) {
	between("StrQ's offset", offset, 0, 65520, 16)
	a.op("FMOVQ", "%s, %d(%v)", d.f(), offset, base)
}

// LdpQ loads two vectors.
func (a *Asm) LdpQ(d, e Vec, base Reg, offset int) {
	between("LdpQ's offset", offset, -1024, 1008, 16)
	a.op("FLDPQ", "%d(%v), (%s, %s)", offset, base, d.f(), e.f())
}

// StpQ stores two vectors.
func (a *Asm) StpQ(d, e Vec, base Reg, offset int) {
	between("StpQ's offset", offset, -1024, 1008, 16)
	a.op("FSTPQ", "(%s, %s), %d(%v)", d.f(), e.f(), offset, base)
}

// LdrS loads lane 0; the other lanes become 0.
func (a *Asm) LdrS(d Vec, base Reg, offset int) {
	between("LdrS's offset", offset, 0, 16380, 4)
	a.op("FMOVS", "%d(%v), %s", offset, base, d.f())
}

// LdrSPost loads lane 0, the other lanes become 0; then base += 4.
func (a *Asm) LdrSPost(d Vec, base Reg) { a.op("FMOVS.P", "4(%v), %s", base, d.f()) }

// StrSPost stores lane 0, then base += 4.
func (a *Asm) StrSPost(d Vec, base Reg) { a.op("FMOVS.P", "%s, 4(%v)", d.f(), base) }

// LdrD loads lanes 0 and 1; the others become 0.
func (a *Asm) LdrD(d Vec, base Reg, offset int) {
	between("LdrD's offset", offset, 0, 32760, 8)
	a.op("FMOVD", "%d(%v), %s", offset, base, d.f())
}

// StrDPost stores lanes 0 and 1, then base += 8.
func (a *Asm) StrDPost(d Vec, base Reg) { a.op("FMOVD.P", "%s, 8(%v)", d.f(), base) }

// StrQPost stores a vector, then base += 16.
func (a *Asm) StrQPost(d Vec, base Reg) { a.op("FMOVQ.P", "%s, 16(%v)", d.f(), base) }

// StrHPost stores the lowest 16 bits, then base += 2.
func (a *Asm) StrHPost(d Vec, base Reg) { a.op("VST1.P", "%v.H[0], 2(%v)", d, base) }

// StrBPost stores the lowest byte, then base += 1.
func (a *Asm) StrBPost(d Vec, base Reg) { a.op("VST1.P", "%v.B[0], 1(%v)", d, base) }

// Ld1Lane loads lane t and leaves the others.
func (a *Asm) Ld1Lane(d Vec, t int, base Reg) {
	between("Ld1Lane's lane", t, 0, 3, 1)
	a.op("VLD1", "(%v), %v.S[%d]", base, d, t)
}

// Ld1LanePost loads lane t and leaves the others, then base += 4.
func (a *Asm) Ld1LanePost(d Vec, t int, base Reg) {
	between("Ld1LanePost's lane", t, 0, 3, 1)
	a.op("VLD1.P", "4(%v), %v.S[%d]", base, d, t)
}

// St1LanePost stores lane t, then base += 4.
func (a *Asm) St1LanePost(d Vec, t int, base Reg) {
	between("St1LanePost's lane", t, 0, 3, 1)
	a.op("VST1.P", "%v.S[%d], 4(%v)", d, t, base)
}

// Ld1rPost loads one float into all four lanes, then base += 4.
func (a *Asm) Ld1rPost(d Vec, base Reg) { a.op("VLD1R.P", "4(%v), [%v.S4]", base, d) }

// Ld1 loads one to four consecutive registers.
func (a *Asm) Ld1(d []Vec, base Reg) { a.op("VLD1", "(%v), %s", base, list(d)) }

// Ld1Post loads one to four consecutive registers, then moves base after them.
func (a *Asm) Ld1Post(d []Vec, base Reg) { a.op("VLD1.P", "%d(%v), %s", 16*len(d), base, list(d)) }

// St1 stores one to four consecutive registers.
func (a *Asm) St1(d []Vec, base Reg) { a.op("VST1", "%s, (%v)", list(d), base) }

// St1Post stores one to four consecutive registers, then moves base after them.
func (a *Asm) St1Post(d []Vec, base Reg) { a.op("VST1.P", "%s, %d(%v)", list(d), 16*len(d), base) }

func list(d []Vec) string {
	between("the number of registers in a list", len(d), 1, 4, 1)
	names := make([]string, len(d))
	for i, v := range d {
		if v != d[0]+Vec(i) {
			panic(fmt.Sprintf("neon: registers of a list are %v, want consecutive ones", d))
		}
		names[i] = v.String() + ".S4"
	}
	return "[" + strings.Join(names, ", ") + "]"
}
