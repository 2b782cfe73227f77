package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Rows become integers four at a time: first the largest magnitudes of all four, which give their
// scales in one vector, then the integers.
//
// x/scale is computed as x·r + x·l, where r is 1/scale and l its error, (1 − scale·r)/scale, each
// rounded once. That is not always x/scale rounded once, but always becomes the same integer. This
// was checked for every scale at the two numbers next to each limit of rounding of quotients up to
// 127 and at their neighbours, which is enough because both functions are monotonic. Powers of two
// change nothing while nothing is subnormal.

// largeTop is 2⁸⁰: above it the error of a reciprocal would be subnormal.
const largeTop = 0x67800000

// fours is the common part of kernels that quantize rows, with 8 or 16 lanes. The scales of four
// rows need three divisions, one after another, so they are computed before the integers of the
// previous four rows.
type fours struct {
	vec    func() reg.VecVirtual
	lanes  int
	n      Mem // elements of a row
	whole  Mem // and the number in whole vectors
	col    reg.GPVirtual
	tail   reg.OpmaskVirtual // with 16 lanes, the last elements of a row
	x      reg.GPVirtual     // rows whose scales are not computed yet, stride bytes apart,
	left   Mem               // and how many they are
	stride reg.GPVirtual
	rows   [4]reg.GPVirtual // the current rows
	ahead  *Mem             // if rows that come later are prefetched: bytes to them
	scales Mem
	r, l   reg.VecVirtual // of the current four rows, in each quarter
	found  [2]Mem         // r and l of the next four
	turn   int
}

func newFours(lanes16 bool) *fours {
	k := &fours{vec: YMM, lanes: lanes}
	if lanes16 {
		k.vec, k.lanes = ZMM, avx512Lanes
	}
	return k
}

// begin loads arguments, and derives from the number of elements how they are divided.
func (k *fours) begin() {
	k.x, k.stride = param("x"), param("xStride")
	k.n, k.col = paramAddress("n"), GP64()
	k.left, k.scales = AllocLocal(8), AllocLocal(8)
	MOVQ(param("rows"), k.left)
	MOVQ(param("scales"), k.scales)
	SHLQ(Imm(2), k.stride)
	k.whole, k.found = AllocLocal(8), [2]Mem{AllocLocal(16), AllocLocal(16)}
	MOVQ(k.n, k.col)
	ANDQ(I8(-k.lanes), k.col)
	MOVQ(k.col, k.whole)
	for i := range k.rows {
		k.rows[i] = GP64()
	}
	k.r, k.l = k.vec(), k.vec()
	if k.lanes == avx512Lanes {
		k.tail = firstLanes(k.rest())
	}
}

// firstLanes has ones in the first n of 16 lanes.
func firstLanes(n reg.GPVirtual) reg.OpmaskVirtual {
	ones, mask := GP32(), K()
	MOVL(U32(0xffff), ones)
	BZHIL(n.As32(), ones, ones)
	KMOVW(ones, mask)
	return mask
}

// rest is how many elements follow whole vectors of a row.
func (k *fours) rest() reg.GPVirtual {
	rest := GP64()
	MOVQ(k.n, rest)
	SUBQ(k.whole, rest)
	return rest
}

// each emits the loop: it computes the scales of four rows, then integers quantizes the previous
// four rows, of which there are some. It ends at a scale that needs more care.
func (k *fours) each(integers func(there Mem)) {
	there, found := AllocLocal(8), AllocLocal(8) // rows from the four before on, and from these on
	MOVQ(I32(0), there)
	Label("rows")
	MOVQ(I32(0), found)
	CMPQ(k.left, Imm(0))
	JLE(LabelRef("before"))
	k.findFour(k.x, k.left)
	k.findScales(k.tops(), "before")
	MOVQ(k.left, k.col)
	MOVQ(k.col, found)
	LEAQ(Mem{Base: k.x, Index: k.stride, Scale: 4}, k.x)
	SUBQ(Imm(4), k.left)
	Label("before")
	CMPQ(there, Imm(0))
	JE(LabelRef("begun"))
	Comment("The four rows before, whether x is at those behind them or at the next.")
	first, none := k.rows[0], unique("none")
	MOVQ(k.x, first)
	MOVQ(k.stride, k.col)
	SHLQ(Imm(2), k.col)
	SUBQ(k.col, first)
	SUBQ(k.col, first)
	CMPQ(found, Imm(0))
	JNE(LabelRef(none))
	ADDQ(k.col, first)
	Label(none)
	k.findFour(first, there)
	integers(there)
	Label("begun")
	k.quarters(k.found[0], k.r)
	k.quarters(k.found[1], k.l)
	MOVQ(found, k.col)
	MOVQ(k.col, there)
	TESTQ(k.col, k.col)
	JNE(LabelRef("rows"))
	done, all := GP64(), param("rows")
	MOVQ(all, done)
	SUBQ(k.left, done)
	CMPQ(done, all)
	CMOVQGT(all, done)
	Store(done, ReturnIndex(0))
	finish()
}

// findFour sets the pointers to four rows, stride apart, from first on. Rows after the last one
// point to the last one again.
func (k *fours) findFour(first reg.GPVirtual, left Mem) {
	if first != k.rows[0] {
		MOVQ(first, k.rows[0])
	}
	for i := 1; i < len(k.rows); i++ {
		LEAQ(Mem{Base: k.rows[i-1], Index: k.stride, Scale: 1}, k.rows[i])
		CMPQ(left, imm(i))
		CMOVQLE(k.rows[i-1], k.rows[i])
	}
}

// eachColumn emits body for whole vectors of columns, then for a partial last one.
func (k *fours) eachColumn(body func(last bool)) {
	loop, rest, end := unique("columns"), unique("lastColumns"), unique("columnsEnd")
	CMPQ(k.col, k.whole)
	JGE(LabelRef(rest))
	Label(loop)
	body(false)
	ADDQ(imm(k.lanes), k.col)
	CMPQ(k.col, k.whole)
	JL(LabelRef(loop))
	Label(rest)
	CMPQ(k.col, k.n)
	JGE(LabelRef(end))
	body(true)
	Label(end)
}

// vector returns the vector of a row at the column: in memory or, if it is the last one, loaded,
// with 0 after the row's end.
func (k *fours) vector(row int, last bool, at int) Op {
	from := Mem{Base: k.rows[row], Index: k.col, Scale: 4, Disp: at}
	if !last {
		return from
	}
	v := k.vec()
	if k.lanes == avx512Lanes {
		VMOVUPS_Z(from, k.tail, v)
	} else {
		VMASKMOVPS(from, tailMask(k.rest()), v)
	}
	return v
}

// tops leaves the largest magnitudes of four rows in the lanes of one vector, by their bits, which
// have the order of the numbers.
func (k *fours) tops() reg.VecVirtual {
	abs, top := k.vec(), [4]reg.VecVirtual{}
	VBROADCASTSS(u32(bitsAbs), abs)
	for r := range top {
		top[r] = k.vec()
		k.zero(top[r])
	}
	XORL(k.col.As32(), k.col.As32())
	k.eachColumn(func(last bool) {
		later := GP64()
		if k.ahead != nil {
			MOVQ(*k.ahead, later)
			LEAQ(Mem{Base: later, Index: k.col, Scale: 4}, later)
		}
		for r := range top {
			if k.ahead != nil {
				PREFETCHT0(Mem{Base: k.rows[r], Index: later, Scale: 1})
			}
			v := k.vec()
			k.and(k.vector(r, last, 0), abs, v)
			VPMAXUD(v, top[r], top[r])
		}
	})
	return k.fold(VPMAXUD, top[0], top[1], top[2], top[3])
}

func (k *fours) zero(v reg.VecVirtual) {
	if k.lanes == lanes {
		VPXOR(v, v, v)
		return
	}
	VPXORD(v, v, v)
}

func (k *fours) and(x Op, mask, v reg.VecVirtual) {
	if k.lanes == lanes {
		VANDPS(x, mask, v)
		return
	}
	VPANDD(x, mask, v)
}

// fold reduces all lanes of vector r by an operation, into lane r of the result.
func (k *fours) fold(op func(ops ...Op), v ...Op) reg.VecVirtual {
	var pairs [2]reg.VecVirtual
	for i := range pairs {
		low, high := k.vec(), k.vec()
		VUNPCKLPS(v[2*i+1], v[2*i], low)
		VUNPCKHPS(v[2*i+1], v[2*i], high)
		op(high, low, low)
		pairs[i] = low
	}
	all, high := k.vec(), k.vec()
	VUNPCKLPD(pairs[1], pairs[0], all)
	VUNPCKHPD(pairs[1], pairs[0], high)
	op(high, all, all)
	if k.lanes == avx512Lanes {
		half := YMM()
		VEXTRACTI64X4(Imm(1), all, half)
		op(half, all.AsY(), all.AsY())
	}
	quarter := XMM()
	if k.lanes == avx512Lanes {
		VEXTRACTI32X4(Imm(1), all.AsY(), quarter)
	} else {
		VEXTRACTI128(Imm(1), all, quarter)
	}
	op(quarter, all.AsX(), all.AsX())
	return all
}

// findScales makes of the largest magnitudes of four rows their scales and the two parts of the
// reciprocals. It goes to a label if one is not between 2⁻¹⁰⁰ and 2⁸⁰: its scale needs more care.
func (k *fours) findScales(top reg.VecVirtual, rare string) {
	k.check(top, rare)
	scale := XMM()
	VDIVPS(f32(127), top.AsX(), scale)
	at := GP64()
	MOVQ(k.scales, at)
	k.storeFour(scale, Mem{Base: at}, k.left)
	ADDQ(Imm(16), k.scales)
	r, l := reciprocals(scale)
	VMOVUPS(r, k.found[0])
	VMOVUPS(l, k.found[1])
}

// check goes to a label if one of four magnitudes is not between 2⁻¹⁰⁰ and 2⁸⁰.
func (k *fours) check(top reg.VecVirtual, rare string) {
	t, some := XMM(), GP32()
	VPSUBD(u32(smallTop), top.AsX(), t)
	if k.lanes == lanes {
		limit := XMM()
		VMOVUPS(u32(largeTop-smallTop), limit)
		VPMAXUD(limit, t, limit)
		VPCMPEQD(limit, t, t) // lanes not below the limit
		VMOVMSKPS(t, some)
	} else {
		beyond := K()
		VPCMPUD(Imm(notBelow), u32(largeTop-smallTop), t, beyond)
		KMOVW(beyond, some)
	}
	TESTL(some, some)
	JNE(LabelRef(rare))
}

// reciprocals returns the two parts of the reciprocals of four scales.
func reciprocals(scale reg.VecVirtual) (r, l reg.VecVirtual) {
	one, rest := XMM(), XMM()
	r, l = XMM(), XMM()
	VMOVUPS(f32(1), one)
	VDIVPS(scale, one, r)
	VMOVUPS(one, rest)
	VFNMADD231PS(r, scale, rest)
	VDIVPS(scale, rest, l)
	return r, l
}

// notBelow is a predicate of VPCMPUD.
const notBelow = 5

// quarters repeats four lanes in each quarter of v.
func (k *fours) quarters(x Mem, v reg.VecVirtual) {
	if k.lanes == lanes {
		VBROADCASTF128(x, v)
		return
	}
	VBROADCASTF32X4(x, v)
}

// lane repeats a lane of each quarter.
func (k *fours) lane(i int, x reg.VecVirtual) reg.VecVirtual {
	v := k.vec()
	VPERMILPS(Imm(uint64(0x55*i)), x, v)
	return v
}

// fresh returns a register for integers. With 16 lanes it cycles through the upper registers, so
// that all others are below the register that the runtime keeps.
func (k *fours) fresh() reg.Register {
	if k.lanes == lanes {
		return k.vec()
	}
	k.turn++
	return zmm[len(zmm)-1-k.turn%8]
}

// integers is rint(x/scale) of a vector of a row.
func (k *fours) integers(row int, r, l reg.VecVirtual, last bool, at int) reg.Register {
	x, v := k.vector(row, last, at), k.fresh()
	VMULPS(x, l, v)
	VFMADD231PS(x, r, v)
	VCVTPS2DQ(v, v)
	return v
}

// storeFour stores the first lanes of a vector, one for each of up to four rows.
func (k *fours) storeFour(v Op, at Mem, rows Mem) {
	some, stored := unique("some"), unique("stored")
	CMPQ(rows, imm(4))
	JL(LabelRef(some))
	VMOVUPS(v, at)
	JMP(LabelRef(stored))
	Label(some)
	n := GP64()
	MOVQ(rows, n)
	if k.lanes == lanes {
		VMASKMOVPS(v, tailMask(n).AsX(), at)
	} else {
		VMOVUPS(v, firstLanes(n), at)
	}
	Label(stored)
}

// quantizeRowsKernel quantizes rows: it computes their integers, scales and, with 16 lanes, −128
// times their sums. It stops at a row whose scale needs more care, or at one of the three rows
// before it.
func quantizeRowsKernel(name string, lanes16 bool) {
	k, signature := newFours(lanes16), "func(dst *int8, scales *float32, "
	if lanes16 {
		signature += "starts *int32, "
	}
	TEXT(name, noSplit, signature+"x *float32, rows, n, dstStride, xStride int) (done int)")
	dst := param("dst")
	k.begin()
	var starts Mem
	if lanes16 {
		starts = AllocLocal(8)
		at := param("starts")
		MOVQ(at, starts)
	}
	k.each(func(there Mem) {
		var sums [4]reg.VecVirtual
		if lanes16 {
			for row := range sums {
				sums[row] = k.vec()
				k.zero(sums[row])
			}
		}
		for row := range k.rows {
			if row > 0 {
				CMPQ(there, imm(row))
				JLE(LabelRef("integers"))
			}
			k.row(row, dst, k.lane(row, k.r), k.lane(row, k.l), sums[row])
			ADDQ(paramAddress("dstStride"), dst)
		}
		Label("integers")
		if lanes16 {
			at := GP64()
			MOVQ(starts, at)
			TESTQ(at, at)
			JE(LabelRef("begun"))
			sum, start := k.fold(VPADDD, sums[0], sums[1], sums[2], sums[3]).AsX(), XMM()
			VPXORD(start, start, start)
			VPSLLD(Imm(7), sum, sum)
			VPSUBD(sum, start, start)
			k.storeFour(start, Mem{Base: at}, there)
			ADDQ(Imm(16), starts)
		}
	})
}

// row makes integers of a row, and adds them to a sum if there is one.
func (k *fours) row(row int, dst reg.GPVirtual, r, l, sum reg.VecVirtual) {
	chunk, singles := unique("chunk"), unique("singles")
	add := func(v reg.Register) {
		if sum != nil {
			VPADDD(v, sum, sum)
		}
	}
	MOVQ(U32(4*k.lanes), k.col)
	CMPQ(k.col, k.n)
	JG(LabelRef(singles))
	Label(chunk)
	bytes := k.pack(func(i int) reg.Register {
		v := k.integers(row, r, l, false, 4*k.lanes*(i-4))
		add(v)
		return v
	})
	VPERMD(bytes, k.inOrder(), bytes)
	k.store(bytes, Mem{Base: dst, Index: k.col, Scale: 1, Disp: -4 * k.lanes})
	ADDQ(imm(4*k.lanes), k.col)
	CMPQ(k.col, k.n)
	JLE(LabelRef(chunk))
	Label(singles)
	SUBQ(imm(4*k.lanes), k.col)
	k.eachColumn(func(last bool) {
		v := k.integers(row, r, l, last, 0)
		add(v)
		to := Mem{Base: dst, Index: k.col, Scale: 1}
		switch {
		case k.lanes == avx512Lanes && last:
			VPMOVDB(v, k.tail, to)
		case k.lanes == avx512Lanes:
			VPMOVDB(v, to)
		default:
			lowest, join := YMM(), YMM()
			bytesOf32(lowest, join)
			VPSHUFB(lowest, v, v)
			VPERMD(v, join, v)
			if !last {
				VMOVQ(v.(reg.VecVirtual).AsX(), to)
				return
			}
			end := GP64()
			LEAQ(to, end)
			storeRest(v.(reg.VecVirtual).AsX(), end, k.rest(), 1)
		}
	})
}

// pack makes bytes of four vectors of integers. Each quarter has four of each in turn.
func (k *fours) pack(vec func(i int) reg.Register) reg.Register {
	var words [2]reg.Register
	for i := range words {
		first, second := vec(2*i), vec(2*i+1)
		VPACKSSDW(second, first, first)
		words[i] = first
	}
	VPACKSSWB(words[1], words[0], words[0])
	return words[0]
}

func (k *fours) store(v reg.Register, to Mem) {
	if k.lanes == avx512Lanes {
		VMOVDQU32(v, to)
		return
	}
	VMOVDQU(v, to)
}

// inOrder is where the groups of four bytes go that pack leaves in turn.
func (k *fours) inOrder() reg.VecVirtual {
	var w []uint32
	quarters := k.lanes / 4
	for i := range k.lanes {
		w = append(w, uint32(i%quarters*4+i/quarters))
	}
	v, m := k.vec(), wordTable(fmt.Sprintf("inOrder%d", k.lanes), w...)
	VMOVUPS(m, v)
	return v
}

// quantizeGroupsKernel quantizes groups of four rows; the four integers of a column follow each
// other. It stops at a group with a scale that needs more care.
func quantizeGroupsKernel(name string, lanes16 bool) {
	k := newFours(lanes16)
	TEXT(name, noSplit, "func(dst *int8, scales, x *float32, rows, n, cols, xStride int) (done int)")
	dst := param("dst")
	k.begin()
	ahead := AllocLocal(8)
	MOVQ(k.stride, k.col)
	SHLQ(Imm(3), k.col)
	MOVQ(k.col, ahead)
	k.ahead = &ahead
	k.each(func(Mem) {
		var rs, ls [4]reg.VecVirtual
		for row := range rs {
			rs[row], ls[row] = k.lane(row, k.r), k.lane(row, k.l)
		}
		XORL(k.col.As32(), k.col.As32())
		k.eachColumn(func(last bool) {
			bytes, to := k.pack(func(row int) reg.Register {
				return k.integers(row, rs[row], ls[row], last, 0)
			}), Mem{Base: dst, Index: k.col, Scale: 4}
			VPSHUFB(transposedBytes(), bytes, bytes)
			switch {
			case !last:
				k.store(bytes, to)
			case lanes16:
				VMOVDQU32(bytes, k.tail, to)
			default:
				VMASKMOVPS(bytes, tailMask(k.rest()), to)
			}
		})
		cols := param("cols")
		LEAQ(Mem{Base: dst, Index: cols, Scale: 4}, dst)
	})
}

// transposedBytes is which bytes of four rows of four follow each other, in each quarter.
func transposedBytes() Mem {
	var w []uint32
	for range avx512Vector / 16 {
		w = append(w, 0x0c080400, 0x0d090501, 0x0e0a0602, 0x0f0b0703)
	}
	return wordTable("transposedBytes", w...)
}

// rowsLater sets later to the row that is prefetched while a row is read: 8 rows are far enough
// ahead for rows in the L3 cache.
func rowsLater(later, row, stride reg.GPVirtual) {
	LEAQ(Mem{Base: row, Index: stride, Scale: 8}, later)
}

// copyRowsKernel brings rows together.
func copyRowsKernel() {
	TEXT("copyRowsSIMD", noSplit, "func(dst, x *float32, rows, n, stride int)")
	dst, x, rows, stride := param("dst"), param("x"), param("rows"), param("stride")
	SHLQ(Imm(2), stride)
	Label("row")
	at, later, n, left := GP64(), GP64(), param("n"), GP64()
	MOVQ(x, at)
	rowsLater(later, x, stride)
	MOVQ(n, left)
	eachVector(left, func(mask reg.VecVirtual) {
		v := YMM()
		PREFETCHT0(Mem{Base: later})
		loadLanes(Mem{Base: at}, mask, v)
		storeLanes(v, mask, Mem{Base: dst})
	}, func() {
		for _, p := range []reg.GPVirtual{at, later, dst} {
			ADDQ(imm(vector), p)
		}
	})
	LEAQ(Mem{Base: dst, Index: left, Scale: 4}, dst)
	ADDQ(stride, x)
	DECQ(rows)
	JNE(LabelRef("row"))
	finish()
}

// foldLanes reduces all lanes by an operation, into lane 0.
func foldLanes(op func(ops ...Op), v reg.VecVirtual) {
	x, y := v.AsX(), XMM()
	VEXTRACTI128(Imm(1), v, y)
	op(y, x, x)
	for _, order := range []uint64{0x4e, 0xb1} {
		VPSHUFD(Imm(order), x, y)
		op(y, x, x)
	}
}

// magnitudesKernel makes groups of magnitudeForm of whole vectors of elements.
func magnitudesKernel() {
	TEXT("magnitudesSIMD", noSplit, "func(dst, src *int8, n int) (start int32)")
	dst, src, n := param("dst"), param("src"), param("n")
	zero, start := YMM(), YMM()
	VPXOR(zero, zero, zero)
	VPXOR(start, start, start)
	Label("vector")
	x, signs, lower := YMM(), YMM(), YMM()
	VPERMQ(Imm(0b11011000), Mem{Base: src}, x) // its quarters 0, 2, 1, 3, since halves are unpacked
	VPCMPGTB(x, zero, signs)
	VPABSB(x, x)
	VPUNPCKLDQ(signs, x, lower)
	VMOVDQU(lower, Mem{Base: dst})
	VPUNPCKHDQ(signs, x, lower)
	VMOVDQU(lower, Mem{Base: dst, Disp: vector})
	VPAND(signs, x, x)
	VPSADBW(zero, x, x)
	VPADDD(x, start, start)
	ADDQ(imm(vector), src)
	ADDQ(imm(2*vector), dst)
	SUBQ(imm(vector), n)
	JNE(LabelRef("vector"))
	foldLanes(VPADDD, start)
	sum := GP32()
	VMOVD(start.AsX(), sum)
	Store(sum, ReturnIndex(0))
	finish()
}

// interleaveKernel brings bytes of four rows together, 16 columns at a time.
func interleaveKernel() {
	TEXT("interleaveSIMD", noSplit, "func(dst, src *byte, cols, n int)")
	dst, src, cols, n := param("dst"), param("src"), param("cols"), param("n")
	third, at, left := GP64(), GP64(), GP64()
	LEAQ(Mem{Base: cols, Index: cols, Scale: 2}, third)
	Label("rows")
	MOVQ(src, at)
	MOVQ(cols, left)
	Label("columns")
	var v [4]reg.VecVirtual
	for r, row := range []Mem{{Base: at}, {Base: at, Index: cols, Scale: 1},
		{Base: at, Index: cols, Scale: 2}, {Base: at, Index: third, Scale: 1}} {
		v[r] = XMM()
		VMOVDQU(row, v[r])
	}
	for half, unpack := range []func(ops ...Op){VPUNPCKLBW, VPUNPCKHBW} {
		ab, cd, x := XMM(), XMM(), XMM()
		unpack(v[1], v[0], ab)
		unpack(v[3], v[2], cd)
		VPUNPCKLWD(cd, ab, x)
		VMOVDQU(x, Mem{Base: dst, Disp: 32 * half})
		VPUNPCKHWD(cd, ab, x)
		VMOVDQU(x, Mem{Base: dst, Disp: 32*half + 16})
	}
	ADDQ(Imm(16), at)
	ADDQ(Imm(64), dst)
	SUBQ(Imm(16), left)
	JNE(LabelRef("columns"))
	LEAQ(Mem{Base: src, Index: cols, Scale: 4}, src)
	SUBQ(Imm(4), n)
	JNE(LabelRef("rows"))
	finish()
}
