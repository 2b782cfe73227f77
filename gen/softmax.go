package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// softmaxProgram emits the online-softmax step in four loops over the rows. Within each
// the rows are independent of one another, so that the long chains of one (fold,
// exp) run beside those of the next.
type softmaxProgram struct {
	masked, lanes16            bool
	maximaKnown                bool // score has found the maxima
	s, m, l, alpha, visible, n reg.GPVirtual
	fullyMasked                reg.GPVirtual
	pairs                      Mem // stack slot: keys 16·pairs and up are visible in no row

	// For the choice of exp:
	least [2]reg.VecVirtual // the least visible score of even and odd vectors if one is negative, as unsigned bits
	most  reg.VecVirtual    // the largest maximum but for NaN
	odd   reg.GPVirtual     // not 0 if a maximum is NaN, as in a state that was loaded

	avx512Least reg.VecVirtual
}

func softmaxKernel(name string, masked, lanes16 bool) {
	if masked {
		softmaxProgram{masked: true, lanes16: lanes16}.emit(name, "func(s, m, l, alpha *float32, visible *uint64, rows int) (masked bool)")
	} else {
		softmaxProgram{lanes16: lanes16}.emit(name, "func(s, m, l, alpha *float32, rows int) (masked bool)")
	}
}

func softmaxMaximaKernel() {
	softmaxProgram{maximaKnown: true}.emit("softmaxMaximaSIMD", "func(s, m, l, alpha, maxima *float32, rows int) (masked bool)")
}

// emit writes the kernel.
func (k softmaxProgram) emit(name, signature string) {
	const growsStack = 0 // the frame is too large to go without a check
	TEXT(name, growsStack, signature)
	k.fullyMasked = GP64()
	slots := AllocLocal((softmaxRows+1)*vector + 8) // the lanes of each row's sum
	if k.masked {
		k.findPairs(slots.Offset((softmaxRows + 1) * vector))
	}
	if !k.masked && !k.lanes16 && !k.maximaKnown {
		k.unlessOne()
	}
	if k.maximaKnown {
		k.knownMaxima()
	} else {
		k.maxima()
	}
	k.factors()
	k.weights(slots)
	k.sums(slots)
	Store(k.fullyMasked.As8(), ReturnIndex(0))
	finish()
}

// softmaxRows is the most rows of one call.
const softmaxRows = 96

// load takes the row pointers from the arguments again, for the next loop.
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

// keep has ones in the lanes of vector v of a row whose keys are visible.
func (k *softmaxProgram) keep(row, v int) reg.VecVirtual {
	keep := YMM()
	VPBROADCASTB(Mem{Base: k.visible, Disp: row*8 + v}, keep)
	VPAND(bitOfLane(), keep, keep)
	VPCMPEQD(bitOfLane(), keep, keep)
	return keep
}

// findPairs counts the pairs of vectors that some row needs: after the last key
// of a sequence and above a causal diagonal nothing has to be computed.
func (k *softmaxProgram) findPairs(slot Mem) {
	k.pairs = slot
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
	Comment("alpha_r = max of the visible scores of row r, NaN not counting")
	k.load("s", "alpha", "rows")
	var floor reg.VecVirtual
	maximum := k.maximum
	if k.lanes16 {
		floor, maximum = ZMM(), k.avx512Maximum
		VBROADCASTSS(u32(bitsNegInf), floor)
		k.avx512Least = ZMM()
		VPXORD(k.avx512Least, k.avx512Least, k.avx512Least)
	} else {
		floor = YMM()
		VMOVUPS(u32(bitsNegInf), floor)
		for i := range k.least {
			k.least[i] = YMM()
			VPXOR(k.least[i], k.least[i], k.least[i])
		}
	}
	k.foldMaxima(func(r int) reg.VecVirtual { return maximum(r, floor) }, k.nextRows)
	if k.lanes16 {
		k.least[0] = foldHalves(VPMAXUD, k.avx512Least)
	} else {
		VPMAXUD(k.least[1], k.least[0], k.least[0])
	}
}

// knownMaxima does the same from the maxima that score has found.
func (k *softmaxProgram) knownMaxima() {
	Comment("alpha_r = the largest lane of the maxima of row r")
	k.load("alpha", "rows")
	maxima := param("maxima")
	k.least[0] = YMM()
	VMOVUPS(Mem{Base: maxima}, k.least[0])
	ADDQ(imm(vector), maxima)
	k.foldMaxima(func(r int) reg.VecVirtual {
		top := YMM()
		VMOVUPS(Mem{Base: maxima, Disp: r * vector}, top)
		return top
	}, func(n int) { ADDQ(imm(n*vector), maxima) })
}

// foldMaxima leaves the largest lane of each row's maximum in alpha; next moves on by some rows.
func (k *softmaxProgram) foldMaxima(maximum func(r int) reg.VecVirtual, next func(n int)) {
	SUBQ(imm(lanes), k.n)
	JL(LabelRef("maxRest"))
	Label("maxRows")
	VMOVUPS(foldRows(VMAXPS, maximum), Mem{Base: k.alpha})
	next(lanes)
	ADDQ(imm(vector), k.alpha)
	SUBQ(imm(lanes), k.n)
	JGE(LabelRef("maxRows"))
	Label("maxRest")
	ADDQ(imm(lanes), k.n)
	JE(LabelRef("maxEnd"))
	Label("maxRow")
	VMOVSS(foldMax(maximum(0)).AsX(), Mem{Base: k.alpha})
	next(1)
	ADDQ(Imm(4), k.alpha)
	DECQ(k.n)
	JNE(LabelRef("maxRow"))
	Label("maxEnd")
}

// maximum is the largest visible score of a row, in some lane. As unsigned integers,
// negative numbers are above positive ones, and the larger the further below zero. A
// chain of these maxima for each half of the vectors: one for all takes 2.5 cycles more a row (Zen 4, scores
// in the L1 cache).
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
			VPMAXUD(loaded, k.least[v%2], k.least[v%2])
			continue
		}
		keep, visible := k.keep(row, v), YMM()
		VPAND(x, keep, visible)
		VPMAXUD(visible, k.least[v%2], k.least[v%2])
		VBLENDVPS(keep, visible, floor, keep)
		VMAXPS(last, keep, top[v%2])
	}
	Label(end)
	VMAXPS(top[1], top[0], top[0])
	return top[0]
}

// factors moves the maxima on, for 8 rows at a time.
func (k *softmaxProgram) factors() {
	Comment("m' = max(m, alpha), alpha = exp(m − m')")
	k.load("m", "alpha", "rows")
	k.odd = GP64()
	XORQ(k.fullyMasked, k.fullyMasked)
	XORQ(k.odd, k.odd)
	k.most = YMM()
	VMOVUPS(u32(bitsNegInf), k.most)
	eachVector(k.n, func(mask reg.VecVirtual) {
		old, x := YMM(), YMM()
		load(Mem{Base: k.m}, mask, old)
		load(Mem{Base: k.alpha}, mask, x)
		top, base, masked := newMaximum(old, x)
		if mask != nil {
			VANDPS(mask, masked, masked)
		}
		any := GP32()
		VMOVMSKPS(masked, any)
		ORL(any, k.fullyMasked.As32())
		store(top, mask, Mem{Base: k.m})
		VSUBPS(base, old, old)
		store(expFlush(old), mask, Mem{Base: k.alpha})
		VMAXPS(k.most, top, k.most)
		VCMPPS(Imm(unordered), top, top, top)
		VMOVMSKPS(top, any)
		ORL(any, k.odd.As32())
	}, func() {
		ADDQ(imm(vector), k.m)
		ADDQ(imm(vector), k.alpha)
	})
	TESTL(k.fullyMasked.As32(), k.fullyMasked.As32())
	SETNE(k.fullyMasked.As8())
}

// weights replaces the scores by exp(s − m') and leaves the lanes of their sums in slots.
func (k *softmaxProgram) weights(slots Mem) {
	Comment("p_j = exp(s_j − m')")
	TESTL(k.odd.As32(), k.odd.As32())
	JNE(LabelRef("apart"))
	spread, limit := k.spread(), XMM()
	VMOVSS(f32(plainRange), limit)
	VUCOMISS(spread, limit)
	JA(LabelRef("plain")) // not if spread is NaN
	Label("apart")
	k.weightRows("carefulRow", slots, false, block/lanes)
	JMP(LabelRef("weighed"))
	Label("plain")
	if k.masked {
		k.weightPairs(slots)
	} else {
		k.weightRows("plainRow", slots, true, block/lanes)
	}
	Label("weighed")
}

// spread is the largest maximum less the least score, an upper bound of all m' − s.
func (k *softmaxProgram) spread() reg.Register {
	least, part := k.least[0].AsX(), XMM()
	VEXTRACTI128(Imm(1), k.least[0], part)
	VPMAXUD(part, least, least)
	VPSHUFD(Imm(0x4e), least, part)
	VPMAXUD(part, least, least)
	VPSHUFD(Imm(0xb1), least, part)
	VPMAXUD(part, least, least)
	VXORPS(part, part, part)
	VMINSS(least, part, least) // 0 if no score is negative; NaN stays
	most := foldMax(k.most).AsX()
	VSUBSS(least, most, most)
	return most
}

// weightPairs is weightRows for the vectors that some row needs.
func (k *softmaxProgram) weightPairs(slots Mem) {
	const most = block / lanes / 2
	for pairs := 1; pairs < most; pairs++ {
		next := fmt.Sprintf("morePairs%d", pairs)
		CMPQ(k.pairs, imm(pairs))
		JNE(LabelRef(next))
		k.weightRows(fmt.Sprintf("plainRow%d", pairs), slots, true, 2*pairs)
		JMP(LabelRef("weighed"))
		Label(next)
	}
	k.weightRows("plainRow", slots, true, 2*most)
}

// weightRows does so for the first vectors of each row; after them no key is visible.
func (k *softmaxProgram) weightRows(name string, slots Mem, plain bool, vectors int) {
	if k.lanes16 {
		k.avx512WeightRows(name, slots, plain, vectors*lanes/avx512Lanes)
		return
	}
	e := &expRow{plain: plain}
	k.load("s", "m", "rows")
	slot := aligned(slots)
	e.constants()
	Label(name)
	base := YMM()
	VBROADCASTSS(Mem{Base: k.m}, base)
	if !plain { // else no maximum is −∞ where a visible score is a number
		masked := YMM()
		VCMPPS(Imm(equal), u32(bitsNegInf), base, masked)
		VANDNPS(base, masked, base)
	}
	score := func(v int) Mem { return Mem{Base: k.s, Disp: v * vector} }
	sum := e.weigh(score, base)
	if k.masked {
		k.maskedRow(e, score, sum, vectors)
	} else {
		e.emit(0, block/lanes)
	}
	VADDPS(sum[1], sum[0], sum[0])
	VMOVUPS(sum[0], Mem{Base: slot})
	ADDQ(imm(vector), slot)
	ADDQ(Imm(4), k.m)
	k.nextRows(1)
	DECQ(k.n)
	JNE(LabelRef(name))
}

// maskedRow computes weights where keys are visible, and −0 elsewhere.
func (k *softmaxProgram) maskedRow(e *expRow, score func(v int) Mem, sum [2]reg.VecVirtual, vectors int) {
	VXORPS(sum[0], sum[0], sum[0])
	VXORPS(sum[1], sum[1], sum[1])
	e.store = func(v int, p reg.VecVirtual) {
		gone := YMM()
		VMOVUPS(u32(bitsSign), gone)
		VBLENDVPS(k.keep(0, v), p, gone, p)
		VMOVUPS(p, score(v))
		VADDPS(p, sum[v%2], sum[v%2])
	}
	if e.plain {
		e.emit(0, vectors)
		gone := YMM()
		for v := vectors; v < block/lanes; v++ {
			if v == vectors {
				VMOVUPS(u32(bitsSign), gone)
			}
			VMOVUPS(gone, score(v))
		}
		return
	}
	for v := 0; v < block/lanes; v += 2 {
		some, done := fmt.Sprintf("someVisible%d", v), fmt.Sprintf("noneVisible%d", v)
		CMPW(Mem{Base: k.visible, Disp: v}, Imm(0)) // the bits of two vectors
		JNE(LabelRef(some))
		gone := YMM()
		VMOVUPS(u32(bitsSign), gone)
		VMOVUPS(gone, score(v))
		VMOVUPS(gone, score(v+1))
		JMP(LabelRef(done))
		Label(some)
		e.emit(v, 2)
		Label(done)
	}
}

// aligned is the first address from m on where no vector crosses a cache line.
func aligned(m Mem) reg.GPVirtual {
	p := GP64()
	LEAQ(m.Offset(vector-1), p)
	ANDQ(I32(-vector), p)
	return p
}

// sums is l = FMA(l, alpha, Σp), 8 rows at a time.
func (k *softmaxProgram) sums(slots Mem) {
	Comment("l = FMA(l, alpha, Σp)")
	k.load("l", "alpha", "rows")
	slot := aligned(slots)
	eachVector(k.n, func(mask reg.VecVirtual) {
		total := foldRows(VADDPS, func(r int) reg.VecVirtual {
			v := YMM()
			VMOVUPS(Mem{Base: slot, Disp: r * vector}, v)
			return v
		})
		l, alpha := YMM(), YMM()
		load(Mem{Base: k.l}, mask, l)
		load(Mem{Base: k.alpha}, mask, alpha)
		VFMADD213PS(total, alpha, l)
		store(l, mask, Mem{Base: k.l})
	}, func() {
		ADDQ(imm(8*vector), slot)
		ADDQ(imm(vector), k.l)
		ADDQ(imm(vector), k.alpha)
	})
}
