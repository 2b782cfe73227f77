package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

// softmaxKernel is the online-softmax step in three loops. Within each the rows are independent of
// one another, so that the long chains of one row (fold, exp) overlap the chains of the next.
type softmaxKernel struct {
	*program
	masked bool
}

// Registers by role.
const (
	smScores  = R0
	smMax     = R1
	smSum     = R2
	smAlpha   = R3
	smVisible = R4
	smRows    = R5
	smMasked  = R6
	smBits    = R7 // visible bits of the row, the next 16 lowest
	smQuarter = R8
	smNeeded  = R10 // quarters that some row needs: after them no key is visible
)

// quarters of a row are four vectors, 16 keys.
const quarters = block / panel

// The vector registers of all three loops.
var (
	smX    = from(0, 4)
	smExp  = exp2At(smX, 4, 20)
	smFold = from(24, 4)
)

const (
	smBase = Vec(23)
	smWord = Vec(28) // visible bits of the current 16 keys
	smKeep = Vec(29) // ones for visible keys
	smFill = Vec(30) // stands for keys that do not exist
)

func (p *program) softmax() {
	p.kernel("softmaxSIMD", 0, "s m l alpha rows c:float32", "masked:bool")
	softmaxKernel{p, false}.emit()
}

func (p *program) softmaxMasked() {
	p.kernel("softmaxMaskedSIMD", 0, "s m l alpha visible rows c:float32", "masked:bool")
	softmaxKernel{p, true}.emit()
}

func (k softmaxKernel) emit() {
	k.loadTable()
	k.exp2Constants(smExp)
	if k.masked {
		k.findQuarters()
	}
	k.maxima()
	k.factors()
	k.weights()
	k.boolResult("masked", smMasked)
	k.Ret()
}

// load loads the row pointers from the arguments again, for the next loop.
func (k softmaxKernel) load() {
	k.arg("s", smScores)
	k.arg("m", smMax)
	k.arg("l", smSum)
	k.arg("alpha", smAlpha)
	k.arg("rows", smRows)
	if k.masked {
		k.arg("visible", smVisible)
	}
}

// findQuarters counts the quarters that some row needs: after the last key of a sequence and above
// a causal diagonal nothing is computed.
func (k softmaxKernel) findQuarters() {
	k.load()
	k.MovImm(smBits, 0)
	k.Label("orVisible")
	k.LdrPost(smNeeded, smVisible)
	k.Orr(smBits, smBits, smNeeded)
	k.SubImm(smRows, smRows, 1)
	k.Cbnz(smRows, "orVisible")
	k.MovImm(smNeeded, 0)
	k.Label("needed")
	k.AddImm(smNeeded, smNeeded, 1)
	k.LsrImm(smBits, smBits, panel)
	k.Cbnz(smBits, "needed")
}

// eachQuarter runs body over the quarters of a row that are needed, and rest
// over the others.
func (k softmaxKernel) eachQuarter(name string, body, rest func()) {
	if k.masked {
		k.Mov(smQuarter, smNeeded)
	} else {
		k.MovImm(smQuarter, quarters)
	}
	k.Label(name)
	body()
	k.SubImm(smQuarter, smQuarter, 1)
	k.Cbnz(smQuarter, name)
	if !k.masked {
		return
	}
	k.MovImm(smQuarter, quarters)
	k.Sub(smQuarter, smQuarter, smNeeded)
	k.Cbz(smQuarter, name+"End")
	k.Label(name + "Rest")
	rest()
	k.SubImm(smQuarter, smQuarter, 1)
	k.Cbnz(smQuarter, name+"Rest")
	k.Label(name + "End")
}

// nextVisible loads the visible bits of the next 16 keys.
func (k softmaxKernel) nextVisible() {
	k.DupReg(smWord, smBits)
	k.LsrImm(smBits, smBits, panel)
}

// keep leaves ones in smKeep for the visible keys of vector v of the 16.
func (k softmaxKernel) keep(v int) {
	k.constant(smKeep, k.bitsOfLanes(v))
	k.Cmtst(smKeep, smKeep, smWord)
}

// maxima leaves the largest visible score of each row in alpha. It compares and
// selects, because FMAXNM gives a signalling NaN precedence over numbers.
func (k softmaxKernel) maxima() {
	k.Comment("alpha_r = max of the visible scores of row r, NaN not counting")
	k.load()
	k.constant(smFill, k.words("−Inf", bitsNegInf, bitsNegInf, bitsNegInf, bitsNegInf))
	larger := from(4, 4)
	k.Label("maxRow")
	for _, top := range smFold {
		k.MovV(top, smFill)
	}
	if k.masked {
		k.LdrPost(smBits, smVisible)
	}
	k.eachQuarter("maxQuarter", func() {
		if k.masked {
			k.nextVisible()
		}
		k.Ld1Post(smX, smScores)
		for v, x := range smX {
			k.Fcmgt(larger[v], x, smFold[v])
			if k.masked {
				k.keep(v)
				k.And(larger[v], larger[v], smKeep)
			}
			k.Bit(smFold[v], x, larger[v])
		}
	}, func() { k.AddImm(smScores, smScores, 4*panel) })
	k.Fmaxnm(smFold[0], smFold[0], smFold[1])
	k.Fmaxnm(smFold[2], smFold[2], smFold[3])
	k.Fmaxnm(smFold[0], smFold[0], smFold[2])
	k.Fmaxnmv(smFold[0], smFold[0])
	k.StrSPost(smFold[0], smAlpha)
	k.SubImm(smRows, smRows, 1)
	k.Cbnz(smRows, "maxRow")
}

// factors moves the maxima on, four rows at a time.
func (k softmaxKernel) factors() {
	const (
		old, largest, top, masked = Vec(24), Vec(25), Vec(26), Vec(27)
		anyMasked                 = Vec(29)
	)
	k.Comment("m' = max(m, alpha), alpha = 2^((m − m')·c)")
	k.load()
	k.Zero(anyMasked)
	k.each(smRows, 1, func(s span) {
		k.load1(s, old, smMax)
		k.load1(s, largest, smAlpha)
		k.newMaximum(top, old, largest)
		k.base(smBase, masked, top)
		if s.single {
			k.lowLane(masked)
		}
		k.OrrV(anyMasked, anyMasked, masked)
		k.storeNext(s, []Vec{top}, smMax)
		k.Fsub(smX[0], old, smBase)
		e := smExp.of(s)
		k.exp2(e)
		k.storeNext(s, e.p, smAlpha)
	})
	k.Addv(anyMasked, anyMasked)
	k.Umov(smMasked, anyMasked, 0)
	k.CmpImm(smMasked, 0)
	k.Cset(NE, smMasked)
}

// weights replaces the scores by 2^((s − m')·c) and moves the sums on.
func (k softmaxKernel) weights() {
	k.Comment("p_j = 2^((s_j − m')·c), l = FMA(l, alpha, Σp)")
	k.load()
	k.constant(smFill, k.words("−0", bitsSign, bitsSign, bitsSign, bitsSign))
	k.Label("expRow")
	if k.masked {
		k.LdrPost(smBits, smVisible)
	}
	k.Ld1rPost(smBase, smMax)
	k.base(smBase, smKeep, smBase)
	for _, sum := range smFold {
		k.Zero(sum)
	}
	k.eachQuarter("quarter", k.quarter, func() {
		for _, weight := range smExp.p {
			k.MovV(weight, smFill)
		}
		k.St1Post(smExp.p, smScores)
	})
	k.fold(smFold)
	k.LdrSPost(smX[0], smAlpha)
	k.LdrS(smX[1], smSum, 0)
	k.Fmla(smFold[0], smX[0], smX[1])
	k.StrSPost(smFold[0], smSum)
	k.SubImm(smRows, smRows, 1)
	k.Cbnz(smRows, "expRow")
}

// quarter does so for 16 keys of a row.
func (k softmaxKernel) quarter() {
	k.Ld1(smX, smScores)
	for _, x := range smX {
		k.Fsub(x, x, smBase)
	}
	k.exp2(smExp)
	if k.masked {
		k.nextVisible()
		for v, weight := range smExp.p {
			k.keep(v)
			k.Bif(weight, smFill, smKeep)
		}
	}
	for v, weight := range smExp.p {
		k.Fadd(smFold[v], smFold[v], weight)
	}
	k.St1Post(smExp.p, smScores)
}
