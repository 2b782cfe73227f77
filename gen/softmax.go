package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// softmaxProgram emits the online-softmax step in four loops over the rows. Within each the rows
// are independent, so that the long chains of one row (fold, exp) overlap the chains of the next.
// Two of the loops exist twice: for rows that see all keys, as a visible of 0 says, and for others.
type softmaxProgram struct {
	lanes16                    bool
	masked                     bool // the current loop is for rows that do not see all keys
	takesMaxima                bool // score may have found the maxima of rows that see all keys
	int8                       bool // weights become integers
	scaled                     bool // scores, and weights, are multiplied by scales
	s, m, l, alpha, visible, n reg.GPVirtual
	fullyMasked                reg.GPVirtual
	pairs                      Mem // stack slot: keys 16·pairs and up are visible in no row
	bases                      Mem // stack slots: the number subtracted from the scores of each row
	sumLanes                   Mem // stack slots: the lanes of each row's sum

	keyScales, scales reg.GPVirtual // scales of keys, and of values

	cs   reg.GPVirtual // in integers: factors of rows,
	tops Mem           // stack slots: the lanes of each row's largest product
	top  reg.VecVirtual
}

func softmaxKernels() {
	softmaxProgram{takesMaxima: true}.emit("softmaxSIMD",
		"func(s, m, l, alpha, maxima *float32, visible *uint64, rows int, c float32) (masked bool)")
	softmaxProgram{lanes16: true}.emit("softmaxAVX512",
		"func(s, m, l, alpha *float32, visible *uint64, rows int, c float32) (masked bool)")
}

// emit writes the kernel.
func (k softmaxProgram) emit(name, signature string) {
	TEXT(name, growsStack, signature)
	k.fullyMasked = GP64()
	k.sumLanes = AllocLocal((softmaxRows + 1) * vector)
	k.bases = AllocLocal(4 * softmaxRows)
	if k.int8 {
		k.tops = AllocLocal((softmaxRows + 1) * vector)
	}
	k.pairs = AllocLocal(8)
	if !k.lanes16 {
		k.unlessOne()
	}
	k.whetherMasked(k.maxima)
	k.factors()
	k.whetherMasked(k.weights)
	k.sums()
	if k.int8 {
		k.quotients()
		k.integers()
	}
	Store(k.fullyMasked.As8(), ReturnIndex(0))
	finish()
}

// whetherMasked emits a loop for rows that see all keys, and for others.
func (k *softmaxProgram) whetherMasked(loop func()) {
	masked, end := unique("masked"), unique("end")
	CMPQ(paramAddress("visible"), Imm(0))
	JNE(LabelRef(masked))
	loop()
	JMP(LabelRef(end))
	Label(masked)
	k.masked = true
	loop()
	k.masked = false
	Label(end)
}

// softmaxRows is the most rows of one call.
const softmaxRows = 96

// load loads the row pointers from the arguments again, for the next loop.
func (k *softmaxProgram) load(names ...string) {
	for _, name := range names {
		switch name {
		case "s":
			k.s = param(name)
		case "m":
			k.m = param(name)
		case "l":
			k.l = param(name)
		case "alpha":
			k.alpha = param(name)
		case "rows":
			k.n = param(name)
		case "c":
			k.cs = param(name)
		case "scales":
			k.scales = param(name)
		}
	}
	if k.masked {
		k.visible = param("visible")
	}
}

// nextRows moves on by n rows of scores and the masks that belong to them.
func (k *softmaxProgram) nextRows(n int) {
	ADDQ(imm(n*blockBytes), k.s)
	if k.masked {
		ADDQ(imm(n*8), k.visible)
	}
}

// keep returns ones in the lanes of vector v of a row whose keys are visible.
func (k *softmaxProgram) keep(row, v int) reg.VecVirtual {
	keep := YMM()
	VPBROADCASTB(Mem{Base: k.visible, Disp: row*8 + v}, keep)
	VPAND(bitOfLane(), keep, keep)
	VPCMPEQD(bitOfLane(), keep, keep)
	return keep
}

// findPairs counts the pairs of vectors that some row needs: after the last key
// of a sequence and above a causal diagonal nothing has to be computed.
func (k *softmaxProgram) findPairs() {
	k.load("rows")
	visible := GP64()
	XORQ(visible, visible)
	Label("orVisible")
	ORQ(Mem{Base: k.visible}, visible)
	ADDQ(Imm(8), k.visible)
	DECQ(k.n)
	JNE(LabelRef("orVisible"))
	ORQ(Imm(1), visible)
	BSRQ(visible, visible)
	SHRQ(Imm(4), visible)
	INCQ(visible)
	MOVQ(visible, k.pairs)
}

// maxima leaves the largest visible score of each row in alpha.
func (k *softmaxProgram) maxima() {
	if k.masked {
		k.findPairs()
	}
	known := unique("known")
	if k.takesMaxima && !k.masked {
		find := unique("find")
		CMPQ(paramAddress("maxima"), Imm(0))
		JE(LabelRef(find))
		k.knownMaxima()
		JMP(LabelRef(known))
		Label(find)
	}
	Comment("alpha_r = max of the visible scores of row r, NaN not counting")
	k.load("s", "alpha", "rows")
	var floor reg.VecVirtual
	maximum := k.maximum
	if k.lanes16 {
		floor, maximum = ZMM(), k.avx512Maximum
		VBROADCASTSS(u32(bitsNegInf), floor)
	} else {
		floor = YMM()
		VMOVUPS(u32(bitsNegInf), floor)
	}
	k.foldMaxima(func(r int) reg.VecVirtual { return maximum(r, floor) }, k.nextRows)
	Label(known)
}

// knownMaxima does the same from the maxima that score has found.
func (k *softmaxProgram) knownMaxima() {
	Comment("alpha_r = the largest lane of the maxima of row r")
	k.load("alpha", "rows")
	maxima := param("maxima")
	k.foldMaxima(func(r int) reg.VecVirtual {
		top := YMM()
		VMOVUPS(Mem{Base: maxima, Disp: r * vector}, top)
		return top
	}, func(n int) { ADDQ(imm(n*vector), maxima) })
}

// foldMaxima leaves the largest lane of each row's maximum in alpha; next moves on by some rows.
func (k *softmaxProgram) foldMaxima(maximum func(r int) reg.VecVirtual, next func(n int)) {
	rows, rest, row, end := unique("maxRows"), unique("maxRest"), unique("maxRow"), unique("maxEnd")
	SUBQ(imm(lanes), k.n)
	JL(LabelRef(rest))
	Label(rows)
	VMOVUPS(foldRows(VMAXPS, maximum), Mem{Base: k.alpha})
	next(lanes)
	ADDQ(imm(vector), k.alpha)
	SUBQ(imm(lanes), k.n)
	JGE(LabelRef(rows))
	Label(rest)
	ADDQ(imm(lanes), k.n)
	JE(LabelRef(end))
	Label(row)
	VMOVSS(foldMax(maximum(0)).AsX(), Mem{Base: k.alpha})
	next(1)
	ADDQ(Imm(4), k.alpha)
	DECQ(k.n)
	JNE(LabelRef(row))
	Label(end)
}

// maximum is the largest visible score of a row, in some lane.
func (k *softmaxProgram) maximum(row int, floor reg.VecVirtual) reg.VecVirtual {
	top := [2]reg.VecVirtual{YMM(), YMM()}
	end := unique("maxOfRow")
	for v := range block / lanes {
		if k.masked && v > 0 && v%2 == 0 {
			CMPQ(k.pairs, imm(v/2))
			JE(LabelRef(end))
		}
		x := Mem{Base: k.s, Disp: row*blockBytes + v*vector}
		last := top[v%2]
		if v < 2 {
			last = floor
		}
		if !k.masked {
			loaded := YMM()
			VMOVUPS(x, loaded)
			VMAXPS(last, loaded, top[v%2]) // the old maximum wins if the score is NaN
			continue
		}
		keep, visible := k.keep(row, v), YMM()
		VBLENDVPS(keep, x, floor, visible)
		VMAXPS(last, visible, top[v%2])
	}
	Label(end)
	VMAXPS(top[1], top[0], top[0])
	return top[0]
}

// factors moves the maxima on, for 8 rows at a time. Where one is −∞ the row's base is 0, because
// −∞ − −∞ is NaN.
func (k *softmaxProgram) factors() {
	Comment("m' = max(m, alpha), alpha = 2^((m − m')·c)")
	k.load("m", "alpha", "rows")
	c, bases := YMM(), GP64()
	if k.int8 {
		k.load("c")
	} else {
		c = broadcastParam("c")
	}
	LEAQ(k.bases, bases)
	XORQ(k.fullyMasked, k.fullyMasked)
	eachVector(k.n, func(mask reg.VecVirtual) {
		old, x := YMM(), YMM()
		loadLanes(Mem{Base: k.m}, mask, old)
		loadLanes(Mem{Base: k.alpha}, mask, x)
		top, base, masked := newMaximum(old, x)
		if mask != nil {
			VANDPS(mask, masked, masked)
		}
		any := GP32()
		VMOVMSKPS(masked, any)
		ORL(any, k.fullyMasked.As32())
		storeLanes(top, mask, Mem{Base: k.m})
		VMOVUPS(base, Mem{Base: bases})
		VSUBPS(base, old, old)
		if k.int8 {
			loadLanes(Mem{Base: k.cs}, mask, c)
		}
		storeLanes(exp2(old, c), mask, Mem{Base: k.alpha})
	}, func() {
		if k.int8 {
			ADDQ(imm(vector), k.cs)
		}
		ADDQ(imm(vector), bases)
		ADDQ(imm(vector), k.m)
		ADDQ(imm(vector), k.alpha)
	})
	TESTL(k.fullyMasked.As32(), k.fullyMasked.As32())
	SETNE(k.fullyMasked.As8())
}

// weights replaces the scores by 2^((s − base)·c) and leaves the lanes of their sums in sumLanes.
func (k *softmaxProgram) weights() {
	Comment("p_j = 2^((s_j − m')·c)")
	if k.masked {
		k.weightPairs()
	} else {
		k.weightRows("weights", block/lanes)
	}
}

// weightPairs is weightRows for the vectors that some row needs. In integers these are half of a
// row or all, with 16 lanes also a quarter, as short texts have: three quarters would save less
// than one call in a hundred.
func (k *softmaxProgram) weightPairs() {
	const maxPairs = block / lanes / 2
	parts, end := []int{1, 2, 3}, unique("weighed")
	switch {
	case k.int8 && k.lanes16:
		parts = []int{1, 2}
	case k.int8:
		parts = []int{2}
	}
	for _, pairs := range parts {
		next := fmt.Sprintf("morePairs%d", pairs)
		CMPQ(k.pairs, imm(pairs))
		JG(LabelRef(next))
		k.weightRows(fmt.Sprintf("weights%d", pairs), 2*pairs)
		JMP(LabelRef(end))
		Label(next)
	}
	k.weightRows("weightsMasked", 2*maxPairs)
	Label(end)
}

// rowFactor is the register for the factor of a row: c, or one that each row loads.
func (k *softmaxProgram) rowFactor() reg.VecVirtual {
	if !k.int8 {
		return broadcastParam("c")
	}
	k.load("c", "scales")
	return YMM()
}

// alignedTops is where the largest products go, in integers.
func (k *softmaxProgram) alignedTops() (at reg.GPVirtual) {
	if k.int8 {
		at = aligned(k.tops)
	}
	return at
}

// gone is the bits of a weight where no key is visible.
func (k *softmaxProgram) gone() uint32 {
	if k.int8 {
		return 0
	}
	return bitsSign
}

// weightRows does so for the first vectors of each row; after them no key is visible.
func (k *softmaxProgram) weightRows(name string, vectors int) {
	if k.lanes16 {
		k.avx512WeightRows(name, vectors*lanes/avx512Lanes)
		return
	}
	c := k.rowFactor()
	e := newExp2Row(c)
	e.constants()
	k.load("s", "rows")
	slot, tops, bases := aligned(k.sumLanes), k.alignedTops(), GP64()
	LEAQ(k.bases, bases)
	Label(name)
	base := YMM()
	VBROADCASTSS(Mem{Base: bases}, base)
	if k.int8 {
		VBROADCASTSS(Mem{Base: k.cs}, c)
		k.top = YMM()
	}
	score := func(v int) Mem { return Mem{Base: k.s, Disp: v * vector} }
	sum := e.weigh(score, base)
	switch {
	case k.masked:
		k.maskedRow(e, score, sum, vectors)
	case k.int8:
		k.products(e, score, sum)
		e.emit(vectors)
	default:
		e.emit(vectors)
	}
	VADDPS(sum[1], sum[0], sum[0])
	VMOVUPS(sum[0], Mem{Base: slot})
	if k.int8 {
		VMOVUPS(k.top, Mem{Base: tops})
		ADDQ(imm(vector), tops)
		ADDQ(Imm(4), k.cs)
	}
	ADDQ(imm(vector), slot)
	ADDQ(Imm(4), bases)
	k.nextRows(1)
	DECQ(k.n)
	JNE(LabelRef(name))
}

// maskedRow computes weights where keys are visible, and −0 elsewhere.
func (k *softmaxProgram) maskedRow(e *exp2Row, score func(v int) Mem, sum [2]reg.VecVirtual,
	vectors int) {
	VXORPS(sum[0], sum[0], sum[0])
	VXORPS(sum[1], sum[1], sum[1])
	e.store = func(x *exp2Vector) {
		v := x.number
		if k.int8 {
			keep := k.keep(0, v)
			VANDPS(keep, x.p, x.p)
			VADDPS(x.p, sum[v%2], sum[v%2])
			k.product(x, keep, score(v))
			return
		}
		gone := YMM()
		VMOVUPS(u32(bitsSign), gone)
		VBLENDVPS(k.keep(0, v), x.p, gone, x.p)
		VMOVUPS(x.p, score(v))
		VADDPS(x.p, sum[v%2], sum[v%2])
	}
	e.emit(vectors)
	gone := YMM()
	for v := vectors; v < block/lanes; v++ {
		if v == vectors {
			VMOVUPS(u32(k.gone()), gone)
		}
		VMOVUPS(gone, score(v))
	}
}

// aligned is the first address from m on where no vector crosses a cache line.
func aligned(m Mem) reg.GPVirtual {
	p := GP64()
	align(m, p)
	return p
}

func align(m Mem, p reg.Register) {
	LEAQ(m.Offset(vector-1), p)
	ANDQ(I32(-vector), p)
}

// sums is l = FMA(l, alpha, Σp), 8 rows at a time.
func (k *softmaxProgram) sums() {
	Comment("l = FMA(l, alpha, Σp)")
	k.load("l", "alpha", "rows")
	slot := aligned(k.sumLanes)
	eachVector(k.n, func(mask reg.VecVirtual) {
		total := foldRows(VADDPS, func(r int) reg.VecVirtual {
			v := YMM()
			VMOVUPS(Mem{Base: slot, Disp: r * vector}, v)
			return v
		})
		l, alpha := YMM(), YMM()
		loadLanes(Mem{Base: k.l}, mask, l)
		loadLanes(Mem{Base: k.alpha}, mask, alpha)
		VFMADD213PS(total, alpha, l)
		storeLanes(l, mask, Mem{Base: k.l})
	}, func() {
		ADDQ(imm(8*vector), slot)
		ADDQ(imm(vector), k.l)
		ADDQ(imm(vector), k.alpha)
	})
}
