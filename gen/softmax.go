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
	masked, wide, tops      bool // tops: what maxima looks for has been found by scoreTops
	s, m, l, alpha, live, n reg.GPVirtual
	dead                    reg.GPVirtual
	pairs                   Mem // stack slot: keys 16·pairs and up are live in no row

	// For the choice of exp:
	least [2]reg.VecVirtual // the least live score of even and odd vectors if one is negative, as unsigned bits
	most  reg.VecVirtual    // the largest maximum but for NaN
	odd   reg.GPVirtual     // not 0 if a maximum is NaN, as in a state that was loaded

	wideLeast reg.VecVirtual
}

func softmaxKernel(name string, masked, wide bool) {
	if masked {
		softmaxProgram{masked: true, wide: wide}.emit(name, "func(s, m, l, alpha *float32, live *uint64, rows int) (masked bool)")
	} else {
		softmaxProgram{wide: wide}.emit(name, "func(s, m, l, alpha *float32, rows int) (masked bool)")
	}
}

func softmaxTopsKernel() {
	softmaxProgram{tops: true}.emit("softmaxMaximaSIMD", "func(s, m, l, alpha, maxima *float32, rows int) (masked bool)")
}

// emit writes the kernel.
func (k softmaxProgram) emit(name, signature string) {
	const growsStack = 0 // the frame is too large to go without a check
	TEXT(name, growsStack, signature)
	k.dead = GP64()
	slots := AllocLocal((softmaxRows+1)*vector + 8) // the lanes of each row's sum
	if k.masked {
		k.findPairs(slots.Offset((softmaxRows + 1) * vector))
	}
	if !k.masked && !k.wide && !k.tops {
		k.unlessOne()
	}
	if k.tops {
		k.maximaOfTops()
	} else {
		k.maxima()
	}
	k.factors()
	k.weights(slots)
	k.sums(slots)
	Store(k.dead.As8(), ReturnIndex(0))
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
		k.live = param("live")
	}
}

// nextRows moves on by n rows of scores and the masks that belong to them.
func (k *softmaxProgram) nextRows(n int) {
	ADDQ(imm(n*blockBytes), k.s)
	if k.masked {
		ADDQ(imm(n*8), k.live)
	}
}

// keep has ones in the lanes of vector v of a row whose keys are live.
func (k *softmaxProgram) keep(row, v int) reg.VecVirtual {
	keep := YMM()
	VPBROADCASTB(Mem{Base: k.live, Disp: row*8 + v}, keep)
	VPAND(bitOfLane(), keep, keep)
	VPCMPEQD(bitOfLane(), keep, keep)
	return keep
}

// findPairs counts the pairs of vectors that some row needs: behind the last key
// of a sequence and above a causal diagonal nothing has to be computed.
func (k *softmaxProgram) findPairs(slot Mem) {
	k.pairs = slot
	k.load("rows")
	live := GP64()
	XORQ(live, live)
	Label("orLive")
	ORQ(Mem{Base: k.live}, live)
	ADDQ(Imm(8), k.live)
	DECQ(k.n)
	JNE(LabelRef("orLive"))
	ORQ(Imm(1), live)
	BSRQ(live, live)
	SHRQ(Imm(4), live)
	INCQ(live)
	MOVQ(live, k.pairs)
}

// maxima leaves the largest live score of each row in alpha.
func (k *softmaxProgram) maxima() {
	Comment("alpha_r = max of the live scores of row r, NaN not counting")
	k.load("s", "alpha", "rows")
	var floor reg.VecVirtual
	maximum := k.maximum
	if k.wide {
		floor, maximum = ZMM(), k.wideMaximum
		VBROADCASTSS(u32(bitsNegInf), floor)
		k.wideLeast = ZMM()
		VPXORD(k.wideLeast, k.wideLeast, k.wideLeast)
	} else {
		floor = YMM()
		VMOVUPS(u32(bitsNegInf), floor)
		for i := range k.least {
			k.least[i] = YMM()
			VPXOR(k.least[i], k.least[i], k.least[i])
		}
	}
	k.foldMaxima(func(r int) reg.VecVirtual { return maximum(r, floor) }, k.nextRows)
	if k.wide {
		k.least[0] = foldHalves(VPMAXUD, k.wideLeast)
	} else {
		VPMAXUD(k.least[1], k.least[0], k.least[0])
	}
}

// maximaOfTops does the same from tops.
func (k *softmaxProgram) maximaOfTops() {
	Comment("alpha_r = the largest of the lanes of row r's top")
	k.load("alpha", "rows")
	tops := param("maxima")
	k.least[0] = YMM()
	VMOVUPS(Mem{Base: tops}, k.least[0])
	ADDQ(imm(vector), tops)
	k.foldMaxima(func(r int) reg.VecVirtual {
		top := YMM()
		VMOVUPS(Mem{Base: tops, Disp: r * vector}, top)
		return top
	}, func(n int) { ADDQ(imm(n*vector), tops) })
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

// maximum is the largest live score of a row, in some lane. As unsigned integers,
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
		keep, live := k.keep(row, v), YMM()
		VPAND(x, keep, live)
		VPMAXUD(live, k.least[v%2], k.least[v%2])
		VBLENDVPS(keep, live, floor, keep)
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
	XORQ(k.dead, k.dead)
	XORQ(k.odd, k.odd)
	k.most = YMM()
	VMOVUPS(u32(bitsNegInf), k.most)
	eachVector(k.n, func(mask reg.VecVirtual) {
		old, x := YMM(), YMM()
		load(Mem{Base: k.m}, mask, old)
		load(Mem{Base: k.alpha}, mask, x)
		top, base, dead := newMaximum(old, x)
		if mask != nil {
			VANDPS(mask, dead, dead)
		}
		any := GP32()
		VMOVMSKPS(dead, any)
		ORL(any, k.dead.As32())
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
	TESTL(k.dead.As32(), k.dead.As32())
	SETNE(k.dead.As8())
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

// weightRows does so for the first vectors of each row; behind them no key is live.
func (k *softmaxProgram) weightRows(name string, slots Mem, plain bool, vectors int) {
	if k.wide {
		k.wideWeightRows(name, slots, plain, vectors*lanes/wideLanes)
		return
	}
	e := &expRow{plain: plain}
	k.load("s", "m", "rows")
	slot := aligned(slots)
	e.constants()
	Label(name)
	base := YMM()
	VBROADCASTSS(Mem{Base: k.m}, base)
	if !plain { // else no maximum is −∞ where a live score is a number
		dead := YMM()
		VCMPPS(Imm(equal), u32(bitsNegInf), base, dead)
		VANDNPS(base, dead, base)
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

// maskedRow computes weights where keys are live, and −0 elsewhere.
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
		some, done := fmt.Sprintf("someLive%d", v), fmt.Sprintf("noneLive%d", v)
		CMPW(Mem{Base: k.live, Disp: v}, Imm(0)) // the bits of two vectors
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
