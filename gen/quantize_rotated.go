package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Rows of 32, 64 or 128 elements are rotated and become integers 16 at a time, a row in each lane.
// So no pass of the rotation is within a vector, one division each yields the 16 scales and their
// two-part reciprocals (see quantize_rows.go), and the integers come out in the order of keys in a
// panel.

// leastRotated to mostRotated, powers of two, are the elements of such rows.
const leastRotated, mostRotated = 32, 128

const (
	squareBytes  = avx512Lanes * avx512Vector              // 16 elements of 16 rows
	rotatedBytes = mostRotated / avx512Lanes * squareBytes // for the longest rows

	evenSquares = 4 // rows of so many squares are multiplied by 1/8, a power of two
)

// rotatedRows is 16 rows on their way.
type rotatedRows struct {
	free                          []reg.VecPhysical
	absolute, signed, order, r, l reg.VecPhysical
	dst, scales, x, n, stride     reg.GPVirtual
	starts                        Mem
	waiting, next                 Mem // rotated rows that wait, and the next ones
	at, to, count                 reg.GPVirtual
}

// quantizeRotatedKernel rotates rows of leastRotated to mostRotated elements and makes integers of
// them, 16 at a time of a multiple of 16. It finds their scales and, unless starts is nil, −128
// times their sums. Where starts is nil, the integers lie as keys do in panels, else row by row. It
// stops at 16 of which a scale needs more care. Rotated rows wait in memory until the scales of
// the next ones are on their way, so that nothing waits for divisions.
func quantizeRotatedKernel() {
	TEXT("quantizeRotatedVNNIAVX512", growsStack, "func(dst *int8, scales *float32, starts *int32, "+
		"x *float32, rows, n, xStride int) (done int)")
	k := rotatedRows{free: append([]reg.VecPhysical{reg.Z13, reg.Z14}, zmm...)}
	k.begin()
	done, found, there := AllocLocal(8), AllocLocal(8), AllocLocal(8)
	MOVQ(I32(0), done)
	MOVQ(I32(0), there)
	Label("rows")
	MOVQ(I32(0), found)
	MOVQ(done, k.at)
	CMPQ(k.at, paramAddress("rows"))
	JE(LabelRef("before"))
	k.squares()
	top := k.between()
	r, l := k.divide(top)
	ADDQ(Imm(avx512Lanes), done)
	MOVQ(I32(1), found)
	Label("before")
	CMPQ(there, Imm(0))
	JE(LabelRef("begun"))
	k.integers()
	Label("begun")
	VMOVAPS(r, k.r)
	VMOVAPS(l, k.l)
	k.give(r, l)
	k.swap()
	MOVQ(found, k.at)
	MOVQ(k.at, there)
	TESTQ(k.at, k.at)
	JNE(LabelRef("rows"))
	MOVQ(done, k.at)
	Store(k.at, ReturnIndex(0))
	finish()
}

// begin loads arguments and constants.
func (k *rotatedRows) begin() {
	k.dst, k.scales, k.x, k.n = param("dst"), param("scales"), param("x"), param("n")
	k.stride, k.starts = param("xStride"), paramAddress("starts")
	k.at, k.to, k.count = GP64(), GP64(), GP64()
	SHLQ(Imm(2), k.stride)
	SHRQ(Imm(4), k.n) // squares of a row
	k.waiting, k.next = AllocLocal(8), AllocLocal(8)
	rotated := AllocLocal(2*rotatedBytes + avx512Vector) // two in turns
	LEAQ(rotated.Offset(avx512Vector-1), k.at)
	ANDQ(I32(-avx512Vector), k.at)
	MOVQ(k.at, k.waiting)
	ADDQ(imm(rotatedBytes), k.at)
	MOVQ(k.at, k.next)
	k.absolute, k.signed, k.order = k.take(), k.take(), k.take()
	k.r, k.l = k.take(), k.take()
	VPBROADCASTD(u32(bitsAbs), k.absolute)
	VPBROADCASTD(u32(0x80808080), k.signed)
	VMOVDQU32(transposedBytes(), k.order)
}

// swap exchanges the current rows and the waiting ones.
func (k *rotatedRows) swap() {
	MOVQ(k.waiting, k.at)
	MOVQ(k.next, k.to)
	MOVQ(k.to, k.waiting)
	MOVQ(k.at, k.next)
}

// take reserves a register, until it is given back.
func (k *rotatedRows) take() reg.VecPhysical {
	last := len(k.free) - 1
	v := k.free[last]
	k.free = k.free[:last]
	return v
}

func (k *rotatedRows) give(v ...reg.VecPhysical) { k.free = append(k.free, v...) }

// pair replaces a and b by the results of two operations on them.
func (k *rotatedRows) pair(a, b *reg.VecPhysical, first, second func(ops ...Op)) {
	x, y := k.take(), k.take()
	first(*b, *a, x)
	second(*b, *a, y)
	k.give(*a, *b)
	*a, *b = x, y
}

// pass makes a + b and a − b of elements that are apart.
func (k *rotatedRows) pass(v []reg.VecPhysical, apart int) {
	for i := range v {
		if i&apart == 0 {
			k.pair(&v[i], &v[i+apart], VADDPS, VSUBPS)
		}
	}
}

// squares computes, for 16 elements after 16 of the next 16 rows, the passes within them, and
// prefetches the rows after these.
func (k *rotatedRows) squares() {
	third, later := GP64(), GP64()
	LEAQ(Mem{Base: k.stride, Index: k.stride, Scale: 2}, third)
	MOVQ(k.n, k.count)
	MOVQ(k.next, k.to)
	MOVQ(k.x, later)
	Label("square")
	var v [avx512Lanes]reg.VecPhysical
	MOVQ(later, k.at)
	for i := range v {
		v[i] = k.take()
		VMOVUPS([]Mem{{Base: k.at}, {Base: k.at, Index: k.stride, Scale: 1},
			{Base: k.at, Index: k.stride, Scale: 2}, {Base: k.at, Index: third, Scale: 1}}[i%4], v[i])
		if i%4 == 3 {
			LEAQ(Mem{Base: k.at, Index: k.stride, Scale: 4}, k.at)
		}
	}
	for i := range v {
		PREFETCHT0([]Mem{{Base: k.at}, {Base: k.at, Index: k.stride, Scale: 1},
			{Base: k.at, Index: k.stride, Scale: 2}, {Base: k.at, Index: third, Scale: 1}}[i%4])
		if i%4 == 3 {
			LEAQ(Mem{Base: k.at, Index: k.stride, Scale: 4}, k.at)
		}
	}
	k.quarters(v[:])
	for m := range 4 {
		four := v[4*m:][:4]
		k.quartersOfFour(four)
		k.pass(four, 1)
		k.pass(four, 2)
		for i, v := range four { // element 4i + m
			VMOVUPS(v, Mem{Base: k.to, Disp: (4*i + m) * avx512Vector})
		}
		k.give(four...)
	}
	ADDQ(imm(avx512Vector), later)
	ADDQ(imm(squareBytes), k.to)
	DECQ(k.count)
	JNE(LabelRef("square"))
	SHLQ(Imm(4), k.stride)
	ADDQ(k.stride, k.x)
	SHRQ(Imm(4), k.stride)
}

// quarters transposes four rows at a time within the quarters of vectors, and computes the passes
// within four elements. Vector 4m + a becomes element m of four for rows 4a to 4a + 3.
func (k *rotatedRows) quarters(v []reg.VecPhysical) {
	var turned [avx512Lanes]reg.VecPhysical
	for a := range 4 {
		four := v[4*a:][:4]
		k.unpackFour(four)
		k.pass(four, 1)
		k.pass(four, 2)
		for m, v := range four {
			turned[4*m+a] = v
		}
	}
	copy(v, turned[:])
}

// evenQuarters and oddQuarters are quarters 0 and 2, and 1 and 3, of two vectors.
func evenQuarters(ops ...Op) { VSHUFF32X4(Imm(0x88), ops[0], ops[1], ops[2]) }
func oddQuarters(ops ...Op)  { VSHUFF32X4(Imm(0xdd), ops[0], ops[1], ops[2]) }

// quartersOfFour transposes the quarters of four vectors.
func (k *rotatedRows) quartersOfFour(v []reg.VecPhysical) {
	k.pair(&v[0], &v[1], evenQuarters, oddQuarters) // quarters 0 and 2, 1 and 3 of vectors 0 and 1
	k.pair(&v[2], &v[3], evenQuarters, oddQuarters)
	k.pair(&v[0], &v[2], evenQuarters, oddQuarters) // quarters 0, 2
	k.pair(&v[1], &v[3], evenQuarters, oddQuarters) // quarters 1, 3
}

// quartersOfTwo returns four vectors, whose lower halves are a quarter of each.
func (k *rotatedRows) quartersOfTwo(v, w reg.VecPhysical) []reg.VecPhysical {
	k.pair(&v, &w, evenQuarters, oddQuarters)
	all := []reg.VecPhysical{k.take(), k.take(), k.take(), k.take()}
	for i, from := range []reg.VecPhysical{v, w} {
		evenQuarters(from, from, all[i])
		oddQuarters(from, from, all[2+i])
	}
	k.give(v, w)
	return all
}

// between computes the passes between squares of the next rows, and returns the largest magnitude
// of each row. Rows of 64 are not multiplied by 1/8 here: no power of two changes what is rounded.
func (k *rotatedRows) between() (top reg.VecPhysical) {
	tops := [2]reg.VecPhysical{k.take(), k.take()}
	for _, top := range tops {
		VPXORD(top, top, top)
	}
	MOVQ(k.next, k.to)
	MOVQ(U32(avx512Lanes), k.count)
	for squares := leastRotated / avx512Lanes; squares*avx512Lanes <= mostRotated; squares *= 2 {
		other := unique("between")
		if squares*avx512Lanes < mostRotated {
			CMPQ(k.n, imm(squares))
			JNE(LabelRef(other))
		}
		k.betweenSquares(squares, tops)
		JMP(LabelRef("rotated"))
		Label(other)
	}
	Label("rotated")
	VPMAXUD(tops[1], tops[0], tops[0])
	k.give(tops[1])
	return tops[0]
}

// betweenSquares is between for rows of some squares: it leaves the largest magnitudes in tops.
func (k *rotatedRows) betweenSquares(squares int, tops [2]reg.VecPhysical) {
	loop, factor := unique("column"), reg.VecPhysical(nil)
	if squares != evenSquares {
		factor = k.take()
		VBROADCASTSS(f32(float32(1/math.Sqrt(float64(squares*avx512Lanes)))), factor)
	}
	v := make([]reg.VecPhysical, squares)
	Label(loop)
	at := func(i int) Mem { return Mem{Base: k.to, Disp: i * squareBytes} }
	for i := range v {
		v[i] = k.take()
		VMOVUPS(at(i), v[i])
	}
	for apart := 1; apart < squares; apart *= 2 {
		k.pass(v, apart)
	}
	for i, v := range v {
		if factor != nil {
			VMULPS(factor, v, v)
		}
		VMOVUPS(v, at(i))
		VPANDD(k.absolute, v, v)
		VPMAXUD(v, tops[i%2], tops[i%2])
	}
	k.give(v...)
	ADDQ(imm(avx512Vector), k.to)
	DECQ(k.count)
	JNE(LabelRef(loop))
	if factor != nil {
		k.give(factor)
	}
}

// divide finds the scales of the largest magnitudes, and the two parts of the reciprocals.
func (k *rotatedRows) divide(top reg.VecPhysical) (r, l reg.VecPhysical) {
	one, factor, scale := k.take(), k.take(), k.take()
	whole := unique("whole")
	VBROADCASTSS(f32(1), one)
	VMOVAPS(one, factor)
	CMPQ(k.n, imm(evenSquares))
	JNE(LabelRef(whole))
	VBROADCASTSS(f32(0.125), factor)
	Label(whole)
	VMULPS(factor, top, top)
	beyond, some := K(), GP32()
	VPBROADCASTD(u32(smallTop), scale)
	VPSUBD(scale, top, scale)
	k.checked(scale, beyond, some)
	r, l = k.take(), k.take()
	VBROADCASTSS(f32(127), scale)
	VDIVPS(scale, top, scale)
	VMOVUPS(scale, Mem{Base: k.scales})
	ADDQ(imm(avx512Vector), k.scales)
	VDIVPS(scale, one, r)
	VFNMADD231PS(r, scale, one)
	VDIVPS(scale, one, l)
	VMULPS(factor, r, r)
	VMULPS(factor, l, l)
	k.give(one, factor, scale, top)
	return r, l
}

// checked goes to the end if a magnitude less 2⁻¹⁰⁰ is not below 2⁸⁰ less that.
func (k *rotatedRows) checked(t reg.VecPhysical, beyond reg.OpmaskVirtual, some reg.GPVirtual) {
	limit := k.take()
	VPBROADCASTD(u32(largeTop-smallTop), limit)
	VPCMPUD(Imm(notBelow), limit, t, beyond)
	KMOVW(beyond, some)
	TESTL(some, some)
	JNE(LabelRef("before"))
	k.give(limit)
}

// integers makes integers of the rows that wait.
func (k *rotatedRows) integers() {
	rows := unique("inPanels")
	sum := k.take()
	VPXORD(sum, sum, sum)
	MOVQ(k.n, k.count)
	SHLQ(Imm(2), k.count)
	MOVQ(k.waiting, k.at)
	MOVQ(k.dst, k.to)
	CMPQ(k.starts, Imm(0))
	JE(LabelRef(rows))
	MOVQ(k.waiting, k.to) // behind what is read
	Label(rows)
	Label("integers")
	var v [4]reg.VecPhysical
	for i := range v {
		v[i] = k.take()
		x := Mem{Base: k.at, Disp: i * avx512Vector}
		VMULPS(x, k.l, v[i])
		VFMADD231PS(x, k.r, v[i])
		VCVTPS2DQ(v[i], v[i])
	}
	VPACKSSDW(v[1], v[0], v[0])
	VPACKSSDW(v[3], v[2], v[2])
	VPACKSSWB(v[2], v[0], v[0])
	VPSHUFB(k.order, v[0], v[0])
	VMOVDQU32(v[0], Mem{Base: k.to})
	vnniAdd("VPDPBUSD", v[0], k.signed, sum)
	k.give(v[:]...)
	ADDQ(imm(4*avx512Vector), k.at)
	ADDQ(imm(avx512Vector), k.to)
	DECQ(k.count)
	JNE(LabelRef("integers"))
	MOVQ(k.starts, k.at)
	TESTQ(k.at, k.at)
	JNE(LabelRef("inRows"))
	MOVQ(k.to, k.dst)
	JMP(LabelRef("begun"))
	Label("inRows")
	zero := k.take()
	VPXORD(zero, zero, zero)
	VPSUBD(sum, zero, zero)
	VMOVDQU32(zero, Mem{Base: k.at})
	ADDQ(imm(avx512Vector), k.starts)
	k.give(zero, sum)
	k.rows()
}

// rows brings integers of 16 rows, which lie as in a panel, to rows: 64 of each row at a time, or
// all 32.
func (k *rotatedRows) rows() {
	short := unique("short")
	stride, to, third := GP64(), GP64(), GP64()
	MOVQ(k.waiting, k.at)
	MOVQ(k.n, stride)
	SHLQ(Imm(4), stride)
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, third)
	MOVQ(k.dst, to)
	MOVQ(k.n, k.count)
	SHRQ(Imm(2), k.count)
	JE(LabelRef(short))
	Label("sixtyFour")
	k.sixteenRows(to, stride, third, avx512Lanes)
	ADDQ(imm(squareBytes), k.at)
	ADDQ(imm(avx512Vector), to)
	DECQ(k.count)
	JNE(LabelRef("sixtyFour"))
	JMP(LabelRef("turned"))
	Label(short)
	k.sixteenRows(to, stride, third, lanes)
	Label("turned")
	SHLQ(Imm(4), stride)
	ADDQ(stride, k.dst)
}

// sixteenRows stores some groups of four integers of each row: 16, or half as many.
func (k *rotatedRows) sixteenRows(to, stride, third reg.GPVirtual, groups int) {
	turned, quads := make([]reg.VecPhysical, groups), groups/4
	for a := range quads {
		var four [4]reg.VecPhysical
		for i := range four {
			four[i] = k.take()
			VMOVDQU32(Mem{Base: k.at, Disp: (4*a + i) * avx512Vector}, four[i])
		}
		k.unpackFour(four[:])
		for m, v := range four {
			turned[quads*m+a] = v
		}
	}
	MOVQ(to, k.to)
	for m := range 4 {
		rows := turned[quads*m:][:quads]
		if quads == 4 {
			k.quartersOfFour(rows)
		} else {
			rows = k.quartersOfTwo(rows[0], rows[1])
		}
		for i, at := range []Mem{{Base: k.to}, {Base: k.to, Index: stride, Scale: 4},
			{Base: k.to, Index: stride, Scale: 8}, {Base: k.to, Index: third, Scale: 4}} {
			if v := rows[i]; quads == 4 { // row 4i + m
				VMOVDQU32(v, at)
			} else {
				VMOVDQU32(v.AsY(), at)
			}
		}
		ADDQ(stride, k.to)
		k.give(rows...)
	}
}

// unpackFour transposes four vectors within their quarters.
func (k *rotatedRows) unpackFour(v []reg.VecPhysical) {
	k.pair(&v[0], &v[1], VUNPCKLPS, VUNPCKHPS) // elements 0 and 1, 2 and 3 of vectors 0 and 1
	k.pair(&v[2], &v[3], VUNPCKLPS, VUNPCKHPS) // of vectors 2 and 3
	k.pair(&v[0], &v[2], VUNPCKLPD, VUNPCKHPD) // elements 0, 1
	k.pair(&v[1], &v[3], VUNPCKLPD, VUNPCKHPD) // elements 2, 3
	v[1], v[2] = v[2], v[1]
}
