package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// SoftmaxValues takes a block of scores into the state of some rows: softmax and
// accumulate in one pass.
//
// The weight of a key is an exp, a long chain of steps. A loop of nothing but
// exps leaves the two FMA units idle for a fifth of the time, since the processor
// does not look far enough ahead to have many chains under way. Accumulate
// has work for these gaps: between two of its steps three registers are free
// (the tile's two vectors of values and the weight), and a chain that starts there
// runs on beside the next steps.
//
// So while the outputs of one tile of 6 rows are summed, 64 columns in four
// panels, the weights of the next tile are computed, and the maxima of the one
// after it are found:
//
//	tile g:    outputs, 4 panels × 64 steps × 6 rows
//	tile g+1:  weights, 3 rows × 4 vectors in a panel
//	tile g+2:  maxima, likewise
//
// Rows are the outer loop: 64 columns of values, 16 KiB, stay in the L1 cache,
// and scores and outputs pass through it.

const (
	fusedRows   = 6
	fusedPanels = 4
	fusedAtOnce = fusedRows / 2 // rows whose weights are computed in two panels
	fusedSteps  = 16            // steps in which one vector of each of them is
)

// Registers by role, where they are not those of tile.go.
var (
	nextRows   = reg.R13 // the next tile's scores, three rows at a time
	tileAfter  = reg.R9  // bytes from these to the tile after, or 0
	nextBase   = reg.R11 // what is subtracted from them
	nextSlots  = reg.R12 // even lanes, odd lanes of their sums; maxima and what is kept after all sums
	stepGroups = count
)

type softmaxValuesProgram struct {
	// stack slots: first panel; bytes between panels; rows and panels left
	v, panelStride, rest, panels Mem
	alpha                        Mem // stack slot: of the tile's first row
	nextAlpha, m, l              Mem // stack slots: of the next tile's
	fullyMasked                  Mem // stack slot: a bit for each row without a score above −Inf
	overwrite                    Mem // stack slot: do outputs begin at 0?
	slots                        Mem // see slot
	base                         Mem // of the next tile's rows
	c                            Mem // a vector of c
}

// The slots of the next tile are aligned so that one bit tells even from odd: sums,
// then maxima (see slot), then what is kept of three rows, counted from the last of them
// as from the first (see kept).
const (
	maximaSlots = 2 * fusedRows * vector
	keptSlots   = 2 * 2 * fusedAtOnce * vector
	slotBytes   = 2*maximaSlots + keptSlots + fusedRows*vector
)

func softmaxValuesKernel() {
	TEXT("softmaxValuesSIMD", growsStack, "func(s, m, l, alpha, o, v *float32, rows, oStride int, "+
		"b *uintptr, c float32) (masked bool)")
	f := AllocLocal(10*8 + 2*vector + slotBytes + 2*vector)
	k := softmaxValuesProgram{}
	for i, m := range []*Mem{&k.v, &k.panelStride, &k.rest, &k.panels, &k.alpha, &k.nextAlpha, &k.m,
		&k.l, &k.fullyMasked, &k.overwrite} {
		*m = f.Offset(8 * i)
	}
	k.base, k.c, k.slots = f.Offset(10*8), f.Offset(10*8+vector), f.Offset(10*8+2*vector)
	k.arguments()
	k.firstTile()
	k.tiles()
	MOVQ(k.fullyMasked, a0)
	TESTQ(a0, a0)
	masked := GP8()
	SETNE(masked)
	Store(masked, ReturnIndex(0))
	finish()
}

func (k *softmaxValuesProgram) arguments() {
	for _, slot := range []struct {
		name string
		to   Mem
	}{{"v", k.v}, {"rows", k.rest}, {"alpha", k.alpha}, {"alpha", k.nextAlpha}, {"m", k.m}, {"l",
		k.l}} {
		Load(Param(slot.name), a0)
		MOVQ(a0, slot.to)
	}
	MOVQ(I32(0), k.fullyMasked)
	VMOVUPS(broadcastParam("c"), k.c)
	Load(Param("o"), cPtr)
	Load(Param("s"), aPtr)
	Load(Param("oStride"), cStride)
	SHLQ(Imm(2), cStride)
	Load(Param("b"), b0)
	MOVQ(field(b0, "panelLayout.stride"), bStride)
	SHLQ(Imm(2), bStride)
	MOVQ(field(b0, "panelLayout.panelStride"), a0)
	SHLQ(Imm(2), a0)
	MOVQ(a0, k.panelStride)
	MOVBQZX(field(b0, "panelLayout.overwrite"), a0)
	MOVQ(a0, k.overwrite)
}

// slot points p to the slots of the next tile: two vectors for each row's sum, then
// two for each row's maximum.
func (k *softmaxValuesProgram) slot(p reg.Register) {
	LEAQ(k.slots.Offset(2*vector-1), p)
	ANDQ(I32(-2*vector), p)
}

// firstTile does for the first tile what is done for others beside the tile before.
func (k *softmaxValuesProgram) firstTile() {
	Comment("Maxima and weights of the first tile, maxima of the second.")
	MOVQ(aPtr, nextRows)
	k.maxima("firstMaxima")
	k.factors()
	k.weights()
	k.sums()
	CMPQ(k.rest, imm(fusedRows))
	JE(LabelRef("firstDone"))
	LEAQ(Mem{Base: aPtr, Disp: fusedRows * blockBytes}, nextRows)
	k.maxima("secondMaxima")
	Label("firstDone")
}

// maxima finds those of the next tile by themselves.
func (k *softmaxValuesProgram) maxima(name string) {
	slot, row, n := a0, b0, stepGroups
	k.slot(slot)
	MOVQ(nextRows, row)
	MOVQ(I32(fusedRows), n)
	Label(name)
	top := [2]reg.VecVirtual{YMM(), YMM()}
	for v := range block / lanes {
		old := Op(u32(bitsNegInf))
		if v >= 2 {
			old = top[v%2]
		}
		x := YMM()
		VMOVUPS(Mem{Base: row, Disp: v * vector}, x)
		VMAXPS(old, x, x) // the old maximum wins if the score is NaN
		top[v%2] = x
	}
	for i, x := range top {
		VMOVUPS(x, Mem{Base: slot, Disp: maximaSlots + i*vector})
	}
	ADDQ(imm(2*vector), slot)
	ADDQ(imm(blockBytes), row)
	DECQ(n)
	JNE(LabelRef(name))
}

// fold is op over all lanes of the slots of the next tile's rows, in lanes 0 to 5, and
// leaves the slots as they have to be for the tile after it. These stores are between
// other instructions, because many in a row would hold up the tile.
func (k *softmaxValuesProgram) fold(op func(ops ...Op), first int,
	empty reg.VecVirtual) reg.VecVirtual {
	slot := a0
	k.slot(slot)
	return foldRows(op, func(r int) reg.VecVirtual {
		v, at := YMM(), first+2*vector*min(r, fusedRows-1)
		VMOVUPS(Mem{Base: slot, Disp: at}, v)
		if r >= fusedRows {
			return v // only for its lane
		}
		op(Mem{Base: slot, Disp: at + vector}, v, v)
		VMOVUPS(empty, Mem{Base: slot, Disp: at})
		VMOVUPS(empty, Mem{Base: slot, Disp: at + vector})
		return v
	})
}

// factors moves on the maxima of the next tile's rows.
func (k *softmaxValuesProgram) factors() {
	Comment("m' = max(m, top), alpha = 2^((m − m')·c)")
	floor := YMM()
	VMOVUPS(u32(bitsNegInf), floor)
	x := k.fold(VMAXPS, maximaSlots, floor)
	m, alpha, bits := b0, stepGroups, a0
	MOVQ(k.m, m)
	MOVQ(k.nextAlpha, alpha)
	old := loadTile(m)
	top, base, masked := newMaximum(old, x)
	storeTile(top, m)
	VMOVUPS(base, k.base)
	VMOVMSKPS(masked, bits.As32())
	ANDL(imm(1<<fusedRows-1), bits.As32())
	ORQ(bits, k.fullyMasked)
	VSUBPS(base, old, old)
	storeTile(exp2(old, constant(k.c)), alpha)
}

// weights computes those of the first tile.
func (k *softmaxValuesProgram) weights() {
	Comment("p = 2^((s − m')·c)")
	slot, row, base, n := a0, b0, nextBase, stepGroups
	k.slot(slot)
	MOVQ(aPtr, row)
	LEAQ(k.base, base)
	MOVQ(I32(fusedRows), n)
	e := newExp2Row(constant(k.c))
	e.constants()
	Label("firstWeights")
	most := YMM()
	VBROADCASTSS(Mem{Base: base}, most)
	sum := e.weigh(func(v int) Mem { return Mem{Base: row, Disp: v * vector} }, most)
	e.emit(block / lanes)
	for i, x := range sum {
		VMOVUPS(x, Mem{Base: slot, Disp: i * vector})
	}
	ADDQ(imm(2*vector), slot)
	ADDQ(imm(blockBytes), row)
	ADDQ(Imm(4), base)
	DECQ(n)
	JNE(LabelRef("firstWeights"))
}

// sums ends the next tile's sums and moves on to the tile after it.
func (k *softmaxValuesProgram) sums() {
	Comment("l = FMA(l, alpha, Σp)")
	zero := YMM()
	VXORPS(zero, zero, zero)
	total := k.fold(VADDPS, 0, zero)
	l, alpha := b0, stepGroups
	MOVQ(k.l, l)
	MOVQ(k.nextAlpha, alpha)
	x := loadTile(l)
	VFMADD213PS(total, loadTile(alpha), x)
	storeTile(x, l)
	for _, p := range []Mem{k.m, k.l, k.nextAlpha} {
		ADDQ(imm(4*fusedRows), p)
	}
}

// loadTile loads the numbers of 6 rows. Lanes 6 and 7 are 0.
func loadTile(p reg.Register) reg.VecVirtual {
	mask, x := YMM(), YMM()
	VMOVUPS(tailMasks().Offset(vector-4*fusedRows), mask)
	VMASKMOVPS(Mem{Base: p}, mask, x)
	return x
}

// storeTile stores 6 lanes. A masked store would take many more cycles.
func storeTile(x reg.VecVirtual, p reg.Register) {
	hi := XMM()
	VEXTRACTF128(Imm(1), x, hi)
	VMOVUPS(x.AsX(), Mem{Base: p})
	VMOVSD(hi, Mem{Base: p, Disp: 16})
}

func (k *softmaxValuesProgram) tiles() {
	Label("tile")
	MOVQ(k.v, bPtr)
	MOVQ(I32(fusedPanels), k.panels)
	SUBQ(imm(fusedRows), k.rest)
	JE(LabelRef("lastPanel"))
	k.factors()
	XORQ(tileAfter, tileAfter)
	CMPQ(k.rest, imm(fusedRows))
	JE(LabelRef("noneAfter"))
	MOVQ(I32(fusedRows*blockBytes), tileAfter)
	Label("noneAfter")
	LEAQ(Mem{Base: aPtr, Disp: fusedRows * blockBytes}, nextRows)
	LEAQ(k.base, nextBase)
	k.slot(nextSlots)
	Label("panel")
	k.panel("steps", true)
	DECQ(k.panels)
	TESTQ(U32(1), k.panels)
	JNE(LabelRef("panel"))
	Comment("The next three rows.")
	ADDQ(imm((fusedAtOnce-1)*blockBytes), nextRows)
	ADDQ(imm(4*fusedAtOnce), nextBase)
	ADDQ(imm(2*vector*fusedAtOnce), nextSlots)
	CMPQ(k.panels, Imm(0))
	JNE(LabelRef("panel"))
	k.sums()
	LEAQ(Mem{Base: cStride, Index: cStride, Scale: 2}, a0)
	LEAQ(Mem{Base: cPtr, Index: a0, Scale: 2, Disp: -fusedPanels * panelBytes}, cPtr)
	ADDQ(imm(fusedRows*blockBytes), aPtr)
	ADDQ(imm(4*fusedRows), k.alpha)
	JMP(LabelRef("tile"))

	Label("lastPanel")
	k.panel("lastSteps", false)
	DECQ(k.panels)
	JNE(LabelRef("lastPanel"))
}

// panel takes one panel of columns through all steps, and the next tiles beside them.
func (k *softmaxValuesProgram) panel(name string, beside bool) {
	k.begin()
	if beside {
		MOVQ(I32(block/fusedSteps-1), stepGroups)
		Label(name)
		k.steps(fusedSteps, true)
		DECQ(stepGroups)
		JNE(LabelRef(name))
		k.steps(fusedSteps-lastSteps, true)
	} else {
		MOVQ(I32(block/lastSteps-1), stepGroups)
		Label(name)
		k.steps(lastSteps, false)
		DECQ(stepGroups)
		JNE(LabelRef(name))
	}
	lastStepsAndStore(fusedRows, 2, func(i, u int) Mem {
		return Mem{Base: a0, Disp: i*blockBytes + 4*u}
	})
	ADDQ(k.panelStride, bPtr)
	Comment("Back to the tile's first row, next panel.")
	LEAQ(Mem{Base: cStride, Index: cStride, Scale: 2}, a0)
	ADDQ(a0, a0)
	SUBQ(a0, cPtr)
	ADDQ(imm(panelBytes), cPtr)
}

// begin sets the accumulators to o·alpha, or 0.
func (k *softmaxValuesProgram) begin() {
	overwrite, ready := unique("fusedOverwrite"), unique("fusedReady")
	CMPQ(k.overwrite, Imm(0))
	JNE(LabelRef(overwrite))
	alpha, c3 := a0, b0
	MOVQ(k.alpha, alpha)
	LEAQ(Mem{Base: cPtr, Index: cStride, Scale: 2}, c3)
	ADDQ(cStride, c3)
	for i := range fusedRows {
		VBROADCASTSS(Mem{Base: alpha, Disp: 4 * i}, ymm[14])
		for v := range 2 {
			VMULPS(at3(cPtr, c3, cStride, i, v*vector), ymm[14], acc(i, v, 2))
		}
	}
	JMP(LabelRef(ready))
	Label(overwrite)
	zero(2 * fusedRows)
	Label(ready)
	MOVQ(aPtr, a0)
	MOVQ(bPtr, b0)
}

// steps does some steps of the tile, and between them a vector of each of three
// of the next rows and of the rows after those.
func (k *softmaxValuesProgram) steps(n int, beside bool) {
	var pieces []func()
	for r := range fusedAtOnce {
		pieces = append(pieces, func() { k.reduce(r) }, func() { k.look(r) }, func() { k.weigh(r) })
	}
	done := 0
	for u := range n {
		for ; beside && done < len(pieces) && done*n <= u*len(pieces); done++ {
			pieces[done]()
		}
		for v := range 2 {
			VMOVUPS(Mem{Base: b0, Disp: v * vector}, ymm[12+v])
		}
		ADDQ(bStride, b0)
		for i := range fusedRows {
			VBROADCASTSS(Mem{Base: a0, Disp: i*blockBytes + 4*u}, ymm[14])
			for v := range 2 {
				VFMADD231PS(ymm[12+v], ymm[14], acc(i, v, 2))
			}
		}
	}
	ADDQ(imm(4*n), a0)
	if beside {
		ADDQ(imm(vector), nextRows)
		XORQ(imm(vector), nextSlots)
	}
}

// An exp in one piece would be a long chain, and nothing after it can leave
// the processor's window before it ends: on CPUs with fewer registers to rename
// accumulate would wait. So it is split in two, with what is known kept in memory:
// 2ⁿ in the place of the score, f and the begun polynomial in slots.

// kept is where row r of the next three keeps f and the polynomial.
func kept(r int) (f, poly Mem) {
	at := func(i int) Mem { return Mem{Base: nextSlots, Disp: 2*maximaSlots + (2*r+i)*2*vector} }
	return at(0), at(1)
}

// reduce begins a vector of weights of row r of the next three.
func (k *softmaxValuesProgram) reduce(r int) {
	y, t, p := ymm[12], ymm[13], ymm[14]
	x := Mem{Base: nextRows, Disp: r * blockBytes}
	f, poly := kept(r)
	VBROADCASTSS(Mem{Base: nextBase, Disp: 4 * r}, y)
	VSUBPS(x, y, y) // m' − s ≥ 0
	exp2Begin(y, t, p, k.c, x, f, poly)
}

// weigh ends what reduce has begun.
func (k *softmaxValuesProgram) weigh(r int) {
	y, p := ymm[12], ymm[13]
	x := Mem{Base: nextRows, Disp: r * blockBytes}
	sum := Mem{Base: nextSlots, Disp: 2 * r * vector}
	f, poly := kept(r)
	exp2End(y, p, x, f, poly)
	VMOVUPS(p, x)
	VADDPS(sum, p, p)
	VMOVUPS(p, sum)
}

// look adds a vector of row r of the tile after to its maxima.
func (k *softmaxValuesProgram) look(r int) {
	x, slot := ymm[12], Mem{Base: nextSlots, Disp: maximaSlots + 2*r*vector}
	VMOVUPS(Mem{Base: nextRows, Index: tileAfter, Scale: 1, Disp: r * blockBytes}, x)
	VMAXPS(slot, x, x) // the old maximum wins if the score is NaN
	VMOVUPS(x, slot)
}
