package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func alibiKernel() {
	TEXT("alibiSIMD", noSplit, "func(s *float32, n int, slope float32, first int)")
	s, n, slope := param("s"), param("n"), broadcastParam("slope")
	Comment("distance = first + lane")
	distance, first := YMM(), XMM()
	at := param("first")
	VMOVD(at.As32(), first)
	VPBROADCASTD(first, distance)
	VPADDD(numberOfLane(), distance, distance)
	eachVector(n, func(mask reg.VecVirtual) {
		v, f := YMM(), YMM()
		loadLanes(Mem{Base: s}, mask, v)
		VCVTDQ2PS(distance, f)
		VFMADD231PS(f, slope, v)
		storeLanes(v, mask, Mem{Base: s})
	}, func() {
		ADDQ(imm(vector), s)
		VPADDD(u32(lanes), distance, distance)
	})
	finish()
}

// addBiasKernel computes s = FMA(s, u, bias).
func addBiasKernel() {
	TEXT("addBiasSIMD", noSplit, "func(s, bias *float32, rows, step, stride, n int, u float32)")
	s, bias, rows := param("s"), param("bias"), param("rows")
	n, unit, at, from := GP64(), broadcastParam("u"), GP64(), GP64()
	step, stride := param("step"), param("stride")
	SHLQ(Imm(8), step) // rows of s are blockBytes long
	add := func(s, bias reg.GPVirtual, disp int, mask reg.VecVirtual) {
		b, sum := YMM(), YMM()
		loadLanes(Mem{Base: bias, Disp: disp}, mask, b)
		loadLanes(Mem{Base: s, Disp: disp}, mask, sum)
		VFMADD213PS(b, unit, sum)
		storeLanes(sum, mask, Mem{Base: s, Disp: disp})
	}
	Label("row")
	Load(Param("n"), n)
	CMPQ(n, imm(block))
	JNE(LabelRef("ragged"))
	for v := range block / lanes {
		add(s, bias, v*vector, nil)
	}
	JMP(LabelRef("next"))
	Label("ragged")
	MOVQ(s, at)
	MOVQ(bias, from)
	eachVector(n, func(mask reg.VecVirtual) { add(at, from, 0, mask) }, func() {
		ADDQ(imm(vector), at)
		ADDQ(imm(vector), from)
	})
	Label("next")
	LEAQ(Mem{Base: bias, Index: stride, Scale: 4}, bias)
	ADDQ(step, s)
	DECQ(rows)
	JNE(LabelRef("row"))
	finish()
}

// addGatheredKernel computes dst_j = dst_j + table_(j·pitch + index_j), for one row.
func addGatheredKernel() {
	TEXT("addGatheredSIMD", noSplit, "func(dst, table *float32, index *int32, n, pitch int)")
	dst, table, index, n := param("dst"), param("table"), param("index"), param("n")
	pitch, first, rows := param("pitch"), XMM(), YMM()
	VMOVD(pitch.As32(), first)
	VPBROADCASTD(first, rows)
	VPMULLD(numberOfLane(), rows, rows) // where the row of each lane begins
	SHLQ(Imm(5), pitch)                 // bytes of 8 rows
	eachVector(n, func(mask reg.VecVirtual) {
		at := YMM()
		loadLanes(Mem{Base: index}, mask, at)
		VPADDD(rows, at, at)
		addLanes(dst, gathered(table, at, mask), mask)
	}, func() {
		ADDQ(imm(vector), dst)
		ADDQ(imm(vector), index)
		ADDQ(pitch, table)
	})
	finish()
}

// setNearRowsKernel sets rows to numbers of tables of their own, by orders of indices. From one row
// to the next the orders begin one earlier.
func setNearRowsKernel() {
	TEXT("setNearRowsSIMD", noSplit, "func(dst, table *float32, orders *uint64, rows, stride, n int)")
	dst, table, orders, rows := param("dst"), param("table"), param("orders"), param("rows")
	stride, n, to, from, shifts := param("stride"), GP64(), GP64(), GP64(), YMM()
	VMOVDQU(shiftOfLane(), shifts)
	Label("row")
	Load(Param("n"), n)
	MOVQ(dst, to)
	MOVQ(orders, from)
	eachVector(n, func(mask reg.VecVirtual) {
		storeLanes(gatherOrdered(table, from, 0, shifts), mask, Mem{Base: to})
	}, func() {
		ADDQ(imm(vector), to)
		ADDQ(imm(lanes*orderBytes), from)
	})
	ADDQ(U32(blockBytes), dst)
	LEAQ(Mem{Base: table, Index: stride, Scale: 4}, table)
	SUBQ(Imm(orderBytes), orders)
	DECQ(rows)
	JNE(LabelRef("row"))
	finish()
}

// addNearColumnsKernel adds to rows numbers of tables of keys, or with set replaces them: for each
// of 8 keys, the numbers of 8 rows, the last row first, are loaded at once, put in order and
// transposed.
func addNearColumnsKernel() {
	TEXT("addNearColumnsSIMD", noSplit,
		"func(dst, table *float32, orders *uint64, rows, pitch, n int, set bool)")
	dst, table, orders, rows := param("dst"), param("table"), param("orders"), param("rows")
	pitch, n, to, kept, shifts := param("pitch"), param("n"), GP64(), keptUnlessSet(), YMM()
	VMOVDQU(shiftOfLane(), shifts)
	Label("square")
	var keys [lanes]reg.VecVirtual
	for k := range keys {
		keys[k] = gatherOrdered(table, orders, k, shifts)
		LEAQ(Mem{Base: table, Index: pitch, Scale: 4}, table)
	}
	MOVQ(dst, to)
	for r, v := range transposed8(keys) {
		sum := YMM()
		VADDPS(Mem{Base: to}, v, sum)
		VBLENDVPS(kept, sum, v, sum)
		VMOVUPS(sum, Mem{Base: to})
		if r < lanes-1 {
			CMPQ(rows, Imm(uint64(r+1)))
			JE(LabelRef("next"))
			ADDQ(U32(blockBytes), to)
		}
	}
	Label("next")
	ADDQ(imm(vector), dst)
	ADDQ(imm(lanes*orderBytes), orders)
	SUBQ(imm(lanes), n)
	JNE(LabelRef("square"))
	finish()
}

// orderBytes is the size of an Order: four bytes are where 8 numbers begin, and four their nibbles.
const orderBytes = 8

func shiftOfLane() Mem { return wordTable("shiftOfLane", 0, 4, 8, 12, 16, 20, 24, 28) }

// gatherOrdered returns the numbers of a table at the indices of order i.
func gatherOrdered(table, orders reg.GPVirtual, i int, shifts reg.VecVirtual) (v reg.VecVirtual) {
	first := GP64()
	v = YMM()
	MOVL(Mem{Base: orders, Disp: i * orderBytes}, first.As32())
	VPBROADCASTD(Mem{Base: orders, Disp: i*orderBytes + 4}, v)
	VPSRLVD(shifts, v, v) // of each lane VPERMPS reads three bits
	VPERMPS(Mem{Base: table, Index: first, Scale: 4}, v, v)
	return v
}

// keptUnlessSet returns a mask of no lanes with the argument set, else of all lanes.
func keptUnlessSet() reg.VecVirtual {
	set, low, mask := GP32(), XMM(), YMM()
	Load(Param("set"), set)
	DECL(set)
	VMOVD(set, low)
	VPBROADCASTD(low, mask)
	return mask
}

// transposed8 returns the columns of 8 rows, the last one first.
func transposed8(rows [lanes]reg.VecVirtual) (out [lanes]reg.VecVirtual) {
	var quads [lanes]reg.VecVirtual // quads[4h+i]: columns i and 4+i of rows 4h to 4h+3
	for h := range 2 {
		a, b, c, d := YMM(), YMM(), YMM(), YMM()
		v := rows[4*h:]
		VUNPCKLPS(v[1], v[0], a)
		VUNPCKHPS(v[1], v[0], b)
		VUNPCKLPS(v[3], v[2], c)
		VUNPCKHPS(v[3], v[2], d)
		for i := range 4 {
			quads[4*h+i] = YMM()
		}
		VUNPCKLPD(c, a, quads[4*h])
		VUNPCKHPD(c, a, quads[4*h+1])
		VUNPCKLPD(d, b, quads[4*h+2])
		VUNPCKHPD(d, b, quads[4*h+3])
	}
	for i := range 4 {
		out[7-i], out[3-i] = YMM(), YMM()
		VPERM2F128(Imm(0x20), quads[4+i], quads[i], out[7-i])
		VPERM2F128(Imm(0x31), quads[4+i], quads[i], out[3-i])
	}
	return out
}

// gathered returns the numbers of a table at some indices.
func gathered(table reg.GPVirtual, at, mask reg.VecVirtual) (v reg.VecVirtual) {
	left := YMM()
	if v = YMM(); mask == nil {
		VPCMPEQD(at, at, left)
	} else {
		VMOVAPS(mask, left)
	}
	VXORPS(v, v, v)
	VGATHERDPS(left, Mem{Base: table, Index: at, Scale: 4}, v)
	return v
}

// addLanes adds the lanes of the mask.
func addLanes(dst reg.GPVirtual, v, mask reg.VecVirtual) {
	sum := YMM()
	loadLanes(Mem{Base: dst}, mask, sum)
	VADDPS(v, sum, sum)
	storeLanes(sum, mask, Mem{Base: dst})
}

// maskBiasKernel finds for each row, by the minimum, whether a bias is −Inf, and which bits are set
// in some bias. If there is a −Inf, a second pass finds its place, and the bits of the other
// biases.
func maskBiasKernel() {
	TEXT("maskBiasSIMD", noSplit, "func(bias *float32, visible *uint64, "+
		"rows, step, stride, lo, n int) (hides, adds bool)")
	bias, visible, rows := param("bias"), param("visible"), param("rows")
	n, lowest, any, all, from := GP64(), YMM(), YMM(), YMM(), GP64()
	VXORPS(all, all, all) // the bits of all that is not −Inf
	note := func(m Mem, mask reg.VecVirtual) {
		b := YMM()
		loadLanes(m, mask, b)
		// The old minimum wins if b is NaN; lanes that the mask leaves out are 0.
		VMINPS(lowest, b, lowest)
		VORPS(b, any, any)
	}
	bits, shift, gone, hides := GP64(), reg.RCX, GP64(), GP64()
	XORQ(hides, hides)
	masked := func(m Mem, mask reg.VecVirtual) {
		b, masked := YMM(), YMM()
		loadLanes(m, mask, b)
		VCMPPS(Imm(equal), u32(bitsNegInf), b, masked)
		VMOVMSKPS(masked, bits.As32())
		VANDNPS(b, masked, b)
		VORPS(b, all, all)
	}
	Label("row")
	VXORPS(lowest, lowest, lowest)
	VXORPS(any, any, any)
	Load(Param("n"), n)
	CMPQ(n, imm(block))
	JNE(LabelRef("ragged"))
	for v := range block / lanes {
		note(Mem{Base: bias, Disp: v * vector}, nil)
	}
	JMP(LabelRef("noted"))
	Label("ragged")
	MOVQ(bias, from)
	eachVector(n, func(mask reg.VecVirtual) { note(Mem{Base: from}, mask) },
		func() { ADDQ(imm(vector), from) })
	Label("noted")
	VCMPPS(Imm(equal), u32(bitsNegInf), lowest, lowest)
	VMOVMSKPS(lowest, bits.As32())
	TESTL(bits.As32(), bits.As32())
	JNE(LabelRef("masked"))
	VORPS(any, all, all)
	JMP(LabelRef("next"))
	Label("masked")
	Comment("Keys with a bias of −Inf are not visible.")
	MOVL(U32(1), hides.As32())
	XORQ(gone, gone)
	Load(Param("n"), n)
	CMPQ(n, imm(block))
	JNE(LabelRef("maskedRagged"))
	for v := block/lanes - 1; v >= 0; v-- {
		masked(Mem{Base: bias, Disp: v * vector}, nil)
		SHLQ(Imm(lanes), gone)
		ORQ(bits, gone)
	}
	JMP(LabelRef("found"))
	Label("maskedRagged")
	Load(Param("lo"), shift)
	MOVQ(bias, from)
	eachVector(n, func(mask reg.VecVirtual) {
		masked(Mem{Base: from}, mask)
		SHLQ(reg.CL, bits)
		ORQ(bits, gone)
	}, func() {
		ADDQ(imm(vector), from)
		ADDQ(Imm(lanes), shift)
	})
	Label("found")
	NOTQ(gone)
	ANDQ(gone, Mem{Base: visible})
	Label("next")
	nextPairs(bias, visible, 4)
	DECQ(rows)
	JNE(LabelRef("row"))
	adds, zero := GP8(), YMM()
	VXORPS(zero, zero, zero)
	VCMPPS(Imm(notEqual), zero, all, all) // a NaN is not equal
	VMOVMSKPS(all, bits.As32())
	TESTL(bits.As32(), bits.As32())
	SETNE(adds)
	Store(hides.As8(), ReturnIndex(0))
	Store(adds, ReturnIndex(1))
	finish()
}

func allOnes() reg.GPVirtual {
	r := GP64()
	MOVQ(I32(-1), r)
	return r
}

// nextPairs goes to the next row of a bias or mask, with elements of size bytes, and of the bits of
// visible keys.
func nextPairs(pairs, visible reg.GPVirtual, size uint8) {
	by := GP64()
	Load(Param("stride"), by)
	LEAQ(Mem{Base: pairs, Index: by, Scale: size}, pairs)
	Load(Param("step"), by)
	LEAQ(Mem{Base: visible, Index: by, Scale: 8}, visible)
}

// maskKeysKernel handles whole blocks at once, else 32 booleans, then 8, then single ones. A Go
// bool is a byte of 0 or 1.
func maskKeysKernel() {
	TEXT("maskKeysSIMD", noSplit, "func(mask *bool, visible *uint64, "+
		"rows, step, stride, lo, n int) (every uint64)")
	mask, visible, rows, every := param("mask"), param("visible"), param("rows"), allOnes()
	at, n, bits, gone, shift := GP64(), GP64(), GP64(), GP64(), reg.RCX
	zero := YMM()
	VPXOR(zero, zero, zero)
	Label("row")
	Load(Param("n"), n)
	CMPQ(n, imm(block))
	JNE(LabelRef("ragged"))
	low, high := YMM(), YMM()
	VPCMPEQB(Mem{Base: mask}, zero, low)
	VPCMPEQB(Mem{Base: mask, Disp: 32}, zero, high)
	VPMOVMSKB(low, gone.As32())
	VPMOVMSKB(high, bits.As32())
	SHLQ(Imm(32), bits)
	ORQ(bits, gone)
	JMP(LabelRef("gone"))
	Label("ragged")
	MOVQ(mask, at)
	XORQ(gone, gone)
	Load(Param("lo"), shift)
	step := func(size int, load func()) {
		loop, end := fmt.Sprintf("by%d", size), fmt.Sprintf("by%dEnd", size)
		Label(loop)
		CMPQ(n, imm(size))
		JL(LabelRef(end))
		load() // a bit for each key that is masked
		SHLQ(reg.CL, bits)
		ORQ(bits, gone)
		ADDQ(imm(size), at)
		ADDQ(imm(size), shift)
		SUBQ(imm(size), n)
		JMP(LabelRef(loop))
		Label(end)
	}
	step(32, func() {
		v := YMM()
		VPCMPEQB(Mem{Base: at}, zero, v)
		VPMOVMSKB(v, bits.As32())
	})
	step(8, func() {
		v := XMM()
		VMOVQ(Mem{Base: at}, v)
		VPCMPEQB(zero.AsX(), v, v)
		VPMOVMSKB(v, bits.As32())
		ANDQ(U32(0xff), bits)
	})
	step(1, func() {
		MOVBQZX(Mem{Base: at}, bits)
		XORQ(Imm(1), bits)
	})
	Label("gone")
	NOTQ(gone)
	ANDQ(Mem{Base: visible}, gone)
	MOVQ(gone, Mem{Base: visible})
	ANDQ(gone, every)
	nextPairs(mask, visible, 1)
	DECQ(rows)
	JNE(LabelRef("row"))
	Store(every, ReturnIndex(0))
	finish()
}
