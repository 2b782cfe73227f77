package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tile computes r rows × n panels of vecs vectors and moves cPtr and aPtr on.
func (t *tileProgram) tile(r, n, vecs int) {
	Commentf("%d rows × %d columns.", r, n*vecs*lanes)
	MOVQ(bPtr, b0)
	t.begin(r, n*vecs)
	MOVQ(aPtr, a0)
	if r > 3 {
		LEAQ(Mem{Base: aPtr, Index: aStride, Scale: 2}, a3)
		ADDQ(aStride, a3)
	}
	if n > 1 {
		MOVQ(t.panelStride, a3)
	}
	spread := !t.masked && n == 1 && r > 2
	loop, tail, end := t.unique("loop"), t.unique("tail"), t.unique("end")
	MOVQ(steps, count)
	short := t.unique("short")
	if spread {
		CMPQ(count, imm(lastSteps))
		JL(LabelRef(short))
		SUBQ(imm(lastSteps), count)
	}
	t.beginPrefetching(r, n, vecs)
	SUBQ(imm(t.unroll), count)
	JL(LabelRef(tail))
	Label(loop)
	for u := range t.unroll {
		t.prefetchBeside(u, n)
		t.step(r, n, vecs, 4*u)
	}
	t.nextPrefetches(n)
	t.advance(r, t.unroll)
	SUBQ(imm(t.unroll), count)
	JGE(LabelRef(loop))
	Label(tail)
	ADDQ(imm(t.unroll), count)
	JE(LabelRef(end))
	t.singleSteps(r, n, vecs)
	Label(end)
	t.endPrefetching(r, n, vecs)
	if !spread {
		t.store(r, n*vecs)
		t.nextRows(r)
		return
	}
	lastStepsAndStore(r, vecs, func(i, u int) Mem { return at3(a0, a3, aStride, i, 4*u) })
	done := t.unique("done")
	JMP(LabelRef(done))
	Label(short)
	t.singleSteps(r, n, vecs)
	t.store(r, n*vecs)
	for range r {
		ADDQ(cStride, cPtr)
	}
	Label(done)
	for range r {
		ADDQ(aStride, aPtr)
	}
}

// singleSteps does count steps, at least one.
func (t *tileProgram) singleSteps(r, n, vecs int) {
	one := t.unique("one")
	Label(one)
	t.step(r, n, vecs, 0)
	t.advance(r, 1)
	DECQ(count)
	JNE(LabelRef(one))
}

func (t *tileProgram) nextRows(r int) {
	for range r {
		ADDQ(cStride, cPtr)
		ADDQ(aStride, aPtr)
	}
}

// lastSteps is how many steps at the end of a tile are done for two rows after the other instead of
// for all rows together, each pair followed by its stores. That spreads the stores: a burst of more
// than about 8 of them stalls the FMAs after it for a while. The loads just balance the FMAs.
const lastSteps = 4

// lastStepsAndStore does these steps and moves cPtr on by r rows. a addresses row i of a at step u
// of them.
func lastStepsAndStore(r, vecs int, a func(i, u int) Mem) {
	Comment("The last steps by pairs of rows, to spread the stores.")
	b1 := count
	LEAQ(Mem{Base: b0, Index: bStride, Scale: 1}, b1)
	for first := 0; first < r; first += 2 {
		pair := min(2, r-first)
		for u := range lastSteps {
			b := Mem{Base: []reg.Register{b0, b1}[u%2]}
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
					VFMADD231PS(ymm[12+v], ymm[14], acc(i, v, vecs))
				}
			}
		}
		for i := first; i < first+pair; i++ {
			for v := range vecs {
				VMOVUPS(acc(i, v, vecs), Mem{Base: cPtr, Disp: v * vector})
			}
			ADDQ(cStride, cPtr)
		}
	}
}

// begin sets the accumulators.
func (t *tileProgram) begin(r, vecs int) {
	if t.start == fromZero {
		zero(r * vecs)
		return
	}
	t.rowPointers(r)
	plain, overwrite, ready := t.unique("plain"), t.unique("overwrite"), t.unique("ready")
	MOVQ(t.alpha, count)
	CMPQ(count, imm(overwriteOutputs))
	JE(LabelRef(overwrite))
	JB(LabelRef(plain))
	Comment("o·alpha. To look first whether alpha is 1 costs more than it saves.")
	for i := range r {
		VBROADCASTSS(Mem{Base: count, Disp: 4 * i}, ymm[14])
		for v := range vecs {
			VMULPS(at3(cPtr, a0, cStride, i, v*vector), ymm[14], acc(i, v, vecs))
		}
	}
	JMP(LabelRef(ready))
	Label(plain)
	for i := range r {
		for v := range vecs {
			VMOVUPS(at3(cPtr, a0, cStride, i, v*vector), acc(i, v, vecs))
		}
	}
	JMP(LabelRef(ready))
	Label(overwrite)
	zero(r * vecs)
	Label(ready)
}

// zero clears the first n accumulators.
func zero(n int) {
	for _, v := range ymm[:n] {
		VXORPS(v, v, v)
	}
}

// rowPointers points a0 to row 3 of c.
func (t *tileProgram) rowPointers(r int) {
	if r > 3 {
		LEAQ(Mem{Base: cPtr, Index: cStride, Scale: 2}, a0)
		ADDQ(cStride, a0)
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
		PREFETCHT0(Mem{Base: b0, Index: steps, Scale: 1})
	}
	ADDQ(bStride, b0)
	for i := range r {
		VBROADCASTSS(at3(a0, a3, aStride, i, disp), ymm[14])
		for v := range vecs {
			VFMADD231PS(ymm[12+v], ymm[14], acc(i, v, vecs))
		}
	}
}

// rowStep is step for one row, which needs each vector of b once, so that it may stay in memory:
// the fewer the operations, the more lines are within the processor's window.
func (t *tileProgram) rowStep(vecs, disp int) {
	if t.prefetchesAhead(1, 1, vecs) {
		PREFETCHT0(Mem{Base: b0, Index: steps, Scale: 1})
	}
	VBROADCASTSS(Mem{Base: a0, Disp: disp}, ymm[14])
	for v := range vecs {
		VFMADD231PS(Mem{Base: b0, Disp: v * vector}, ymm[14], acc(0, v, vecs))
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
				VFMADD231PS(b, ymm[12+i], acc(i, p*vecs+v, n*vecs))
			}
		}
	}
	ADDQ(bStride, b0)
}

// maskedStep is step with b taken as 0 for rows whose weight has its sign bit set.
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
			VFMADD231PS(ymm[10], ymm[14], acc(i, v, vecs))
		}
	}
}

func (t *tileProgram) advance(r, n int) {
	ADDQ(imm(4*n), a0)
	if r > 3 {
		ADDQ(imm(4*n), a3)
	}
}

func (t *tileProgram) store(r, vecs int) {
	if r <= 3 && !t.masked && vecs > 2 {
		MOVQ(t.c, cPtr) // groupStep needed the register
	}
	t.rowPointers(r)
	for i := range r {
		for v := range vecs {
			VMOVUPS(acc(i, v, vecs), at3(cPtr, a0, cStride, i, v*vector))
		}
	}
}
