package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tileOperands sets the pointers with which every tile begins.
func (t *tileProgram) tileOperands() {
	MOVQ(bPtr, b0)
	if t.start == fromAlpha {
		t.outputs.at(cPtr, cStride, beginFrom, a3)
		MOVQ(t.outputs.alpha, beginAlpha)
	}
}

// tile computes r rows × n panels of vecs vectors and moves cPtr on, unless there are several
// panels. It returns a function that emits its out-of-line code.
func (t *tileProgram) tile(r, n, vecs int) (asides func()) {
	Commentf("%d rows × %d columns.", r, n*vecs*lanes)
	t.begin(r, n*vecs)
	MOVQ(aPtr, a0)
	if r > 3 {
		LEAQ(Mem{Base: aPtr, Index: aStride, Scale: 2}, a3)
		ADDQ(aStride, a3)
	}
	if n > 1 {
		MOVQ(t.panelStride, a3)
	}
	name := t.unique("loop")
	spread := !t.masked && n == 1 && vecs > 1 && r > 2
	MOVQ(chainSteps, stepsLeft)
	if spread {
		SUBQ(imm(lastSteps), stepsLeft)
		JLE(LabelRef(name + "Short"))
	}
	unroll := t.roundSteps(vecs)
	if unroll > 1 {
		TESTQ(U32(unroll-1), stepsLeft)
		JNE(LabelRef(name + "Part"))
	}
	t.beginPrefetching(r, n, vecs, name)
	Label(name)
	for u := range unroll {
		if u > 0 {
			Label(tileLabel(name+"Step", u))
		}
		t.prefetchBeside(u, n)
		t.step(r, n, vecs, 4*u)
	}
	t.nextPrefetches(r, n, vecs, name)
	t.advance(r, unroll)
	SUBQ(imm(unroll), stepsLeft)
	JG(LabelRef(name))
	Label(name + "Last")
	t.endPrefetching(r, n, vecs, name)
	if spread {
		Label(name + "Spread")
		lastStepsAndStore(r, vecs, func(i, u int) Mem { return at3(a0, a3, aStride, i, 4*u) })
		Label(name + "Done")
	} else {
		t.store(r, n*vecs)
	}
	return func() {
		if unroll > 1 {
			t.part(r, n, vecs, name)
		}
		if spread {
			t.short(r, vecs, name)
		}
		t.besidePrefetches(r, n, vecs, name)
	}
}

// roundSteps is how many steps a round of the loop has. The last 8 columns are few.
func (t *tileProgram) roundSteps(vecs int) int {
	if vecs == 1 {
		return 1
	}
	return t.unroll
}

// part goes into the midst of a round of steps: the first one has the steps that are not whole
// rounds.
func (t *tileProgram) part(r, n, vecs int, name string) {
	pointers := []reg.Register{a0, a3}
	if r <= 3 {
		pointers = pointers[:1]
	}
	Label(name + "Part")
	partOfRound(t.unroll, pointers, chainSteps, t.firstRound, func() {
		MOVQ(t.steps, chainSteps)
		t.beginPrefetching(r, n, vecs, "")
	}, func(u int) string { return tileLabel(name+"Step", u) })
}

// short is a tile of lastSteps or fewer.
func (t *tileProgram) short(r, vecs int, name string) {
	Label(name + "Short")
	JE(LabelRef(name + "Spread"))
	ADDQ(imm(lastSteps), stepsLeft)
	t.singleSteps(r, 1, vecs)
	t.store(r, vecs)
	JMP(LabelRef(name + "Done"))
}

// singleSteps does count steps, at least one.
func (t *tileProgram) singleSteps(r, n, vecs int) {
	one := t.unique("one")
	Label(one)
	t.step(r, n, vecs, 0)
	t.advance(r, 1)
	DECQ(stepsLeft)
	JNE(LabelRef(one))
}

// lastSteps is the number of steps at the end of a tile that are done for two rows at a time
// instead of for all rows together, each pair followed by its stores. That spreads the stores: a
// burst of more than about 8 of them stalls the FMAs after it for a while. The loads just balance
// the FMAs.
const lastSteps = 4

// lastStepsAndStore does these steps and moves cPtr on by r rows. a addresses row i of a at step u
// of them.
func lastStepsAndStore(r, vecs int, a func(i, u int) Mem) {
	Comment("The last steps by pairs of rows, to spread the stores.")
	secondB := stepsLeft
	LEAQ(Mem{Base: b0, Index: bStride, Scale: 1}, secondB)
	for first := 0; first < r; first += 2 {
		pair := min(2, r-first)
		for u := range lastSteps {
			b := Mem{Base: []reg.Register{b0, secondB}[u%2]}
			if u >= 2 {
				b.Index, b.Scale = bStride, 2
			}
			for v := range vecs {
				b.Disp = v * vector
				VMOVUPS(b, ymm[12+v])
			}
			for i := first; i < first+pair; i++ {
				VBROADCASTSS(a(i, u), ymm[14])
				for v := range vecs {
					VFMADD231PS(ymm[12+v], ymm[14], accumulator(i, v, vecs))
				}
			}
		}
		for i := first; i < first+pair; i++ {
			for v := range vecs {
				VMOVUPS(accumulator(i, v, vecs), Mem{Base: cPtr, Disp: v * vector})
			}
			ADDQ(cStride, cPtr)
		}
	}
}

// begin sets the accumulators.
func (t *tileProgram) begin(r, vecs int) {
	if t.start == fromZero {
		zeroAccumulators(r * vecs)
		return
	}
	Comment("o·alpha. To look first whether alpha is 1 costs more than it saves.")
	for i := range r {
		VBROADCASTSS(Mem{Base: beginAlpha, Disp: 4 * i}, ymm[14])
		for v := range vecs {
			VMULPS(Mem{Base: beginFrom, Disp: v * vector}, ymm[14], accumulator(i, v, vecs))
		}
		if i+1 < r {
			ADDQ(a3, beginFrom)
		}
	}
}

// zeroAccumulators clears the first n accumulators.
func zeroAccumulators(n int) {
	for _, v := range ymm[:n] {
		VXORPS(v, v, v)
	}
}

// step is acc(i, v) = FMA(a[i][k], b[k][v], acc(i, v)) for one k.
func (t *tileProgram) step(r, n, vecs, disp int) {
	if t.masked {
		t.maskedStep(r, vecs, disp)
		return
	}
	if n > 1 {
		t.groupStep(r, n, vecs, disp)
		return
	}
	if r == 1 {
		t.rowStep(vecs, disp)
		return
	}
	for v := range vecs {
		VMOVUPS(Mem{Base: b0, Disp: v * vector}, ymm[12+v])
	}
	if t.prefetchesAhead(r, n, vecs) {
		PREFETCHT0(Mem{Base: b0, Index: chainSteps, Scale: 1})
	}
	ADDQ(bStride, b0)
	for i := range r {
		VBROADCASTSS(at3(a0, a3, aStride, i, disp), ymm[14])
		for v := range vecs {
			VFMADD231PS(ymm[12+v], ymm[14], accumulator(i, v, vecs))
		}
	}
}

// rowStep is step for one row, which needs each vector of b once, so that it may stay in memory:
// the fewer the operations, the more lines are within the processor's window.
func (t *tileProgram) rowStep(vecs, disp int) {
	if t.prefetchesAhead(1, 1, vecs) {
		PREFETCHT0(Mem{Base: b0, Index: chainSteps, Scale: 1})
	}
	VBROADCASTSS(Mem{Base: a0, Disp: disp}, ymm[14])
	for v := range vecs {
		VFMADD231PS(Mem{Base: b0, Disp: v * vector}, ymm[14], accumulator(0, v, vecs))
	}
	ADDQ(bStride, b0)
}

// groupStep is step for several panels. It reads b in place: no register is left for it.
func (t *tileProgram) groupStep(r, n, vecs, disp int) {
	if t.prefetchesRows {
		t.prefetchRows()
	}
	for i := range r {
		VBROADCASTSS(at3(a0, a3, aStride, i, disp), ymm[12+i])
	}
	for p := range n {
		b := Mem{Base: b0}
		switch p {
		case 1, 2:
			b.Index, b.Scale = a3, uint8(p)
		case 3:
			LEAQ(Mem{Base: b0, Index: a3, Scale: 2}, cPtr)
			b.Base, b.Index, b.Scale = cPtr, a3, 1
		}
		for v := range vecs {
			b.Disp = v * vector
			for i := range r {
				VFMADD231PS(b, ymm[12+i], accumulator(i, p*vecs+v, n*vecs))
			}
		}
	}
	ADDQ(bStride, b0)
}

// maskedStep is step in which b counts as 0 for rows whose weight has its sign bit set.
func (t *tileProgram) maskedStep(r, vecs, disp int) {
	VXORPS(ymm[11], ymm[11], ymm[11])
	for v := range vecs {
		VMOVUPS(Mem{Base: b0, Disp: v * vector}, ymm[12+v])
	}
	ADDQ(bStride, b0)
	for i := range r {
		VBROADCASTSS(at3(a0, a3, aStride, i, disp), ymm[14])
		for v := range vecs {
			VBLENDVPS(ymm[14], ymm[11], ymm[12+v], ymm[10])
			VFMADD231PS(ymm[10], ymm[14], accumulator(i, v, vecs))
		}
	}
}

func (t *tileProgram) advance(r, n int) {
	ADDQ(imm(4*n), a0)
	if r > 3 {
		ADDQ(imm(4*n), a3)
	}
}

// store leaves cPtr at the rows after these.
func (t *tileProgram) store(r, vecs int) {
	if r <= 3 && !t.masked && vecs > 2 {
		MOVQ(t.c, cPtr) // groupStep needed the register
	}
	for i := range r {
		for v := range vecs {
			VMOVUPS(accumulator(i, v, vecs), Mem{Base: cPtr, Disp: v * vector})
		}
		ADDQ(cStride, cPtr)
	}
}
