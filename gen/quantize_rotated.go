package main

import (
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rotatedElements is the elements of rows that are rotated and become integers in one go: those of
// four rows stay in 16 registers from the first pass to the last.
const rotatedElements = 64

const rotatedFour = 4 * 4 * rotatedElements // bytes of four

// rotatedRows is four rows in registers.
type rotatedRows struct {
	fours
	passes                   []pass
	factor, absolute, signed reg.VecVirtual
	free                     []reg.VecPhysical // registers that no element is in
	waiting, next            reg.GPVirtual     // rotated rows that wait, and the next ones
}

// quantizeRotatedKernel rotates rows of rotatedElements and makes integers of them, four at a time
// of a multiple of four: quantize_rows.go says how. It finds their scales and, unless starts is
// nil, −128 times their sums. It stops at four of which a scale needs more care. Rotated rows wait
// in memory until the scales of the next four are on their way, so that nothing waits for
// divisions.
func quantizeRotatedKernel() {
	k := rotatedRows{fours: *newFours(true), passes: passesWithin16()}
	k.free = append([]reg.VecPhysical{reg.Z13, reg.Z14}, zmm[:avx512Lanes]...)
	k.free = slices.DeleteFunc(k.free, func(v reg.VecPhysical) bool { return v == reg.Z22 }) // for 15
	TEXT("quantizeRotatedVNNIAVX512", growsStack, "func(dst *int8, scales *float32, starts *int32, "+
		"x *float32, rows, dstStride, xStride int) (done int)")
	k.reserve()
	dst, scales, starts := param("dst"), param("scales"), param("starts")
	x, rows, xStride, found := param("x"), param("rows"), param("xStride"), GP64()
	there := AllocLocal(8) // whether there are rows that wait; found: and others after them
	SHLQ(Imm(2), xStride)
	MOVQ(I32(0), there)
	k.load()
	Label("rows")
	XORL(found.As32(), found.As32())
	TESTQ(rows, rows)
	JE(LabelRef("before"))
	tops := k.rotate(x, xStride)
	top, scale := k.fold(VPMAXUD, tops[:]...), XMM()
	k.check(top, "before")
	VDIVPS(f32(127), top.AsX(), scale)
	VMOVUPS(scale, Mem{Base: scales})
	r, l := reciprocals(scale)
	ADDQ(Imm(16), scales)
	SUBQ(Imm(4), rows)
	INCQ(found)
	Label("before")
	CMPQ(there, Imm(0))
	JE(LabelRef("begun"))
	k.integersOf(dst, starts)
	Label("begun")
	k.swap()
	inQuarters(r, k.r)
	inQuarters(l, k.l)
	MOVQ(found, there)
	TESTQ(found, found)
	JNE(LabelRef("rows"))
	done := param("rows")
	SUBQ(rows, done)
	Store(done, ReturnIndex(0))
	finish()
}

// reserve finds memory for rows that wait, in whole cache lines.
func (k *rotatedRows) reserve() {
	k.waiting, k.next = GP64(), GP64()
	LEAQ(AllocLocal(2*rotatedFour+avx512Vector).Offset(avx512Vector-1), k.waiting)
	ANDQ(I32(-avx512Vector), k.waiting)
	LEAQ(Mem{Base: k.waiting, Disp: rotatedFour}, k.next)
}

// swap lets the next rows wait.
func (k *rotatedRows) swap() {
	waiting := GP64()
	MOVQ(k.waiting, waiting)
	MOVQ(k.next, k.waiting)
	MOVQ(waiting, k.next)
}

// load loads what does not change.
func (k *rotatedRows) load() {
	loadSigns(k.passes)
	k.factor, k.absolute, k.signed = k.vec(), k.vec(), k.vec()
	VBROADCASTSS(f32(0.125), k.factor) // 1/√rotatedElements
	VBROADCASTSS(u32(bitsAbs), k.absolute)
	VPBROADCASTD(u32(0x80808080), k.signed)
	k.r, k.l = k.vec(), k.vec()
}

// integersOf makes integers of the four rows that wait.
func (k *rotatedRows) integersOf(dst, starts reg.GPVirtual) {
	var sums [4]Op
	for i := range sums {
		sums[i] = k.row(i, k.lane(i, k.r), k.lane(i, k.l), Mem{Base: dst})
		ADDQ(paramAddress("dstStride"), dst)
	}
	for _, sum := range sums {
		k.give(sum.(reg.VecPhysical))
	}
	TESTQ(starts, starts)
	JE(LabelRef("begun"))
	sum, start := k.fold(VPADDD, sums[:]...).AsX(), XMM()
	VPXORD(start, start, start)
	VPSUBD(sum, start, start)
	VMOVDQU(start, Mem{Base: starts})
	ADDQ(Imm(16), starts)
}

// row makes integers of a row that waits, and returns 128 times their sums.
func (k *rotatedRows) row(i int, r, l reg.VecVirtual, dst Mem) (sum Op) {
	var v [4]reg.VecPhysical
	bytes := k.pack(func(at int) reg.Register {
		v[at] = k.take()
		x := Mem{Base: k.waiting, Disp: 4*rotatedElements*i + avx512Vector*at}
		VMULPS(x, l, v[at])
		VFMADD231PS(x, r, v[at])
		VCVTPS2DQ(v[at], v[at])
		return v[at]
	})
	VPERMD(bytes, k.inOrder(), bytes)
	k.store(bytes, dst)
	VPXORD(v[1], v[1], v[1])
	vnniAdd("VPDPBUSD", bytes, k.signed, v[1])
	k.give(v[0], v[2], v[3])
	return v[1]
}

// inQuarters repeats four lanes in each quarter of v.
func inQuarters(x, v reg.VecVirtual) { VSHUFF32X4(Imm(0), x.AsZ(), x.AsZ(), v) }

// take is a register, until it is given back.
func (k *rotatedRows) take() reg.VecPhysical {
	last := len(k.free) - 1
	v := k.free[last]
	k.free = k.free[:last]
	return v
}

func (k *rotatedRows) give(v ...reg.VecPhysical) { k.free = append(k.free, v...) }

// rotate rotates the next four rows, and requests later ones. It leaves them where rows wait, and
// returns the largest magnitudes of each. All of them go through a pass before the next one begins,
// because each pass waits for the one before.
func (k *rotatedRows) rotate(x, stride reg.GPVirtual) (tops [4]Op) {
	const vectors = rotatedElements / avx512Lanes
	var v [4 * vectors]reg.VecPhysical
	later := GP64()
	rowsLater(later, x, stride)
	for i := range v {
		v[i] = k.take()
		VMOVUPS(Mem{Base: x, Disp: i % vectors * avx512Vector}, v[i])
		PREFETCHT0(Mem{Base: later, Disp: i % vectors * avx512Vector})
		if i%vectors == vectors-1 {
			ADDQ(stride, x)
			ADDQ(stride, later)
		}
	}
	for _, p := range k.passes {
		for _, v := range v {
			other := k.vec()
			p.swap(v, other)
			VFMADD132PS(p.signs, other, v)
		}
	}
	for apart := 1; apart < vectors; apart *= 2 {
		for i := range v {
			if j := i + apart; i&apart == 0 {
				sum := k.take()
				VADDPS(v[j], v[i], sum)
				VSUBPS(v[j], v[i], v[j])
				k.give(v[i])
				v[i] = sum
			}
		}
	}
	for i, v := range v {
		VMULPS(k.factor, v, v)
		VMOVUPS(v, Mem{Base: k.next, Disp: i * avx512Vector})
		VPANDD(v, k.absolute, v)
	}
	for i := range tops {
		row := v[i*vectors:][:vectors]
		for _, v := range row[1:] {
			VPMAXUD(v, row[0], row[0])
		}
		tops[i] = row[0]
	}
	k.give(v[:]...)
	return tops
}
