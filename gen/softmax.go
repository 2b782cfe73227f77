package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// softmaxProgram emits the online-softmax step in three loops. Within each the
// rows are independent of one another, so that the long chains of one row (fold,
// exp) run beside those of the next.
type softmaxProgram struct {
	masked                  bool
	s, m, l, alpha, live, n reg.GPVirtual
	dead                    reg.GPVirtual
}

func softmaxKernel(masked bool) {
	if masked {
		TEXT("softmaxMaskedSIMD", 4, "func(s, m, l, alpha *float32, live *uint64, rows int) (dead bool)")
	} else {
		TEXT("softmaxSIMD", 4, "func(s, m, l, alpha *float32, rows int) (dead bool)")
	}
	k := softmaxProgram{masked: masked, dead: GP64()}
	k.maxima()
	k.factors()
	k.weights()
	Store(k.dead.As8(), ReturnIndex(0))
	finish()
}

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

// keep has ones in the lanes of vector v of the row whose keys are live.
func (k *softmaxProgram) keep(v int) reg.VecVirtual {
	keep := YMM()
	VPBROADCASTB(Mem{Base: k.live, Disp: v}, keep)
	VPAND(bitOfLane(), keep, keep)
	VPCMPEQD(bitOfLane(), keep, keep)
	return keep
}

// maxima leaves the largest live score of each row in alpha.
func (k *softmaxProgram) maxima() {
	Comment("alpha_r = max of the live scores of row r, NaN not counting")
	k.load("s", "alpha", "rows")
	floor := YMM()
	VMOVUPS(u32(bitsNegInf), floor)
	Label("maxRow")
	top := [2]reg.VecVirtual{YMM(), YMM()}
	for v := range block / lanes {
		x := YMM()
		VMOVUPS(Mem{Base: k.s, Disp: v * vector}, x)
		if k.masked {
			VBLENDVPS(k.keep(v), x, floor, x)
		}
		last := top[v%2]
		if v < 2 {
			last = floor
		}
		VMAXPS(last, x, top[v%2]) // the old maximum wins if x is NaN
	}
	VMAXPS(top[1], top[0], top[0])
	VMOVSS(foldMax(top[0]).AsX(), Mem{Base: k.alpha})
	ADDQ(imm(blockBytes), k.s)
	ADDQ(Imm(4), k.alpha)
	if k.masked {
		ADDQ(Imm(8), k.live)
	}
	DECQ(k.n)
	JNE(LabelRef("maxRow"))
}

// factors moves the maxima on, for 8 rows at a time.
func (k *softmaxProgram) factors() {
	Comment("m' = max(m, alpha), alpha = exp(m − m')")
	k.load("m", "alpha", "rows")
	XORQ(k.dead, k.dead)
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
	}, func() {
		ADDQ(imm(vector), k.m)
		ADDQ(imm(vector), k.alpha)
	})
	TESTL(k.dead.As32(), k.dead.As32())
	SETNE(k.dead.As8())
}

// expWidth vectors go through exp together, step by step: each step's results
// are needed a full round later, which hides the latency of FMA. With more there
// would be no registers left for constants.
const expWidth = 2

// weights replaces the scores by exp(s − m') and moves the sums on. The fold of
// a row's sum is a long chain at the end of a long row: it would fill the
// processor's window with waiting instructions, so it runs within the next row.
func (k *softmaxProgram) weights() {
	Comment("p_j = exp(s_j − m'), l = FMA(l, alpha, Σp)")
	k.load("s", "m", "l", "alpha", "rows")
	e := newExpGroup()
	last := GP64() // the row before has a sum to fold
	XORQ(last, last)
	sums := YMM() // of the row before
	VXORPS(sums, sums, sums)
	Label("expRow")
	base, dead := YMM(), YMM()
	VBROADCASTSS(Mem{Base: k.m}, base)
	VCMPPS(Imm(equal), u32(bitsNegInf), base, dead)
	VANDNPS(base, dead, base)
	sum := [2]reg.VecVirtual{YMM(), YMM()}
	if k.masked {
		VXORPS(sum[0], sum[0], sum[0])
		VXORPS(sum[1], sum[1], sum[1])
	}
	for v := 0; v < block/lanes; v += expWidth {
		k.weightGroup(e, v, base, sum)
		if v == expWidth {
			TESTQ(last, last)
			JE(LabelRef("expFirst"))
			k.sumRow(sums)
			Label("expFirst")
		}
	}
	VADDPS(sum[1], sum[0], sums)
	MOVQ(U32(1), last)
	ADDQ(imm(blockBytes), k.s)
	ADDQ(Imm(4), k.m)
	if k.masked {
		ADDQ(Imm(8), k.live)
	}
	DECQ(k.n)
	JNE(LabelRef("expRow"))
	k.sumRow(sums)
}

// sumRow is l = FMA(l, alpha, Σp), on to the next row.
func (k *softmaxProgram) sumRow(sums reg.VecVirtual) {
	total := foldAdd(sums).AsX()
	l := XMM()
	VMOVSS(Mem{Base: k.l}, l)
	VFMADD132SS(Mem{Base: k.alpha}, total, l)
	VMOVSS(l, Mem{Base: k.l})
	ADDQ(Imm(4), k.l)
	ADDQ(Imm(4), k.alpha)
}

// weightGroup computes expWidth vectors of weights from vector v on, −0 for
// keys that are not live, and adds them to the row's sums.
func (k *softmaxProgram) weightGroup(e *expGroup, v int, base reg.VecVirtual, sum [2]reg.VecVirtual) {
	some, done := fmt.Sprintf("someLive%d", v), fmt.Sprintf("noneLive%d", v)
	if k.masked {
		CMPW(Mem{Base: k.live, Disp: v}, Imm(0)) // the bits of two vectors
		JNE(LabelRef(some))
		gone := YMM()
		VMOVUPS(u32(bitsSign), gone)
		for i := range expWidth {
			VMOVUPS(gone, Mem{Base: k.s, Disp: (v + i) * vector})
		}
		JMP(LabelRef(done))
		Label(some)
	}
	var y [expWidth]reg.VecVirtual
	for i := range y {
		y[i] = YMM()
		VSUBPS(Mem{Base: k.s, Disp: (v + i) * vector}, base, y[i]) // m' − s ≥ 0
	}
	p := e.emit(y)
	for i, p := range p {
		if k.masked {
			gone := YMM()
			VMOVUPS(u32(bitsSign), gone)
			VBLENDVPS(k.keep(v+i), p, gone, p)
		}
		VMOVUPS(p, Mem{Base: k.s, Disp: (v + i) * vector})
		if v == 0 && !k.masked {
			VMOVAPS(p, sum[i])
		} else {
			VADDPS(p, sum[i], sum[i])
		}
	}
	if k.masked {
		Label(done)
	}
}
