package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tile computes r rows × n panels and moves cPtr, aPtr and alpha on.
func (t *typedProgram) tile(r, n int) {
	Commentf("%d rows × %d columns.", r, n*panel)
	t.tileRows = r
	t.begin(r, n)
	t.startPrefetching()
	MOVQ(aPtr, a0)
	everyThird(typedA, aStride, r)
	MOVQ(t.b, b0)
	if n == 4 {
		LEAQ(Mem{Base: b0, Index: typedPanelStride, Scale: 1}, typedB1)
	}
	MOVQ(t.steps, count)
	loop, tail, end := unique("loop"), unique("tail"), unique("end")
	SUBQ(imm(typedUnroll), count)
	JL(LabelRef(tail))
	Label(loop)
	lines := n * t.format.bytes * panel * typedUnroll / lineBytes
	for u := range typedUnroll {
		t.prefetch(lines*u/typedUnroll, lines*(u+1)/typedUnroll)
		t.step(r, n, u)
		if !t.format.grouped || u == typedUnroll-1 {
			t.nextStep(n)
		}
	}
	ADDQ(imm(lines*lineBytes), typedPrefetch)
	t.advance(r, typedUnroll)
	SUBQ(imm(typedUnroll), count)
	JGE(LabelRef(loop))
	Label(tail)
	ADDQ(imm(typedUnroll), count)
	JE(LabelRef(end))
	for u := range typedUnroll - 1 {
		t.step(r, n, u)
		if u == typedUnroll-2 {
			break
		}
		if !t.format.grouped {
			t.nextStep(n)
		}
		DECQ(count)
		JE(LabelRef(end))
	}
	Label(end)
	t.store(r, n)
	t.keepPrefetching()
	for range r {
		ADDQ(cStride, cPtr)
		ADDQ(aStride, aPtr)
	}
	t.advanceAlpha(r)
}

// startPrefetching: only the first tile of a group reads b from memory; the others prefetch what is
// here.
func (t *typedProgram) startPrefetching() {
	first := unique("firstTile")
	MOVQ(t.rest, count)
	MOVQ(t.request, typedPrefetch)
	CMPQ(count, t.rows)
	JE(LabelRef(first))
	MOVQ(t.b, typedPrefetch)
	Label(first)
}

func (t *typedProgram) keepPrefetching() {
	later := unique("laterTile")
	MOVQ(t.rest, count)
	CMPQ(count, t.rows)
	JNE(LabelRef(later))
	MOVQ(typedPrefetch, t.request)
	Label(later)
}

func (t *typedProgram) prefetch(from, to int) {
	for i := from; i < to; i++ {
		PREFETCHT0(Mem{Base: typedPrefetch, Disp: i * lineBytes})
	}
}

// step is acc(i, v) = FMA(a[i][k], b[k][v], acc(i, v)) for one k, number u of a round.
func (t *typedProgram) step(r, n, u int) {
	accs := r * n * t.vecs
	wide, a := t.regs[accs:accs+t.vecs], t.regs[accs+t.vecs:len(t.regs)-t.constants]
	once := r <= len(a) // there are registers for one of each row
	for i := range r {
		if once {
			VBROADCASTSS(rowOf(typedA, aStride, i, 4*u), a[i])
		}
	}
	for p := range n {
		t.format.widen(t, t.panel(p), u, wide)
		for i := range r {
			e := a[0]
			if once {
				e = a[i]
			} else {
				VBROADCASTSS(rowOf(typedA, aStride, i, 4*u), e)
			}
			for v := range t.vecs {
				VFMADD231PS(wide[v], e, t.acc(i, p, v, n))
			}
		}
	}
}

// acc is the accumulator of row i, panel p of n, vector v.
func (t *typedProgram) acc(i, p, v, n int) reg.VecPhysical { return t.regs[(i*n+p)*t.vecs+v] }

// panel addresses panel p at the step at hand.
func (t *typedProgram) panel(p int) Mem {
	switch p {
	case 0:
		return Mem{Base: b0}
	case 3:
		return Mem{Base: typedB1, Index: typedPanelStride, Scale: 2}
	}
	return Mem{Base: b0, Index: typedPanelStride, Scale: uint8(p)}
}

func (t *typedProgram) nextStep(n int) {
	ADDQ(bStride, b0)
	if n == 4 {
		ADDQ(bStride, typedB1)
	}
}

func (t *typedProgram) advance(r, steps int) {
	for i := 0; i < r; i += 3 {
		ADDQ(imm(4*steps), typedA[i/3])
	}
}

// begin sets the accumulators: c·alpha, c or 0.
func (t *typedProgram) begin(r, n int) {
	everyThird(typedC, cStride, r)
	plain, overwrite, ready := unique("plain"), unique("overwrite"), unique("ready")
	factor := t.regs[len(t.regs)-t.constants-1]
	each := func(row func(i int), set func(c Mem, to reg.VecPhysical)) {
		for i := range r {
			row(i)
			for p := range n {
				for v := range t.vecs {
					set(t.output(i, p, v), t.acc(i, p, v, n))
				}
			}
		}
	}
	MOVQ(t.alpha, count)
	CMPQ(count, imm(overwriteOutputs))
	JE(LabelRef(overwrite))
	JB(LabelRef(plain))
	each(func(i int) { VBROADCASTSS(Mem{Base: count, Disp: 4 * i}, factor) },
		func(c Mem, to reg.VecPhysical) { VMULPS(c, factor, to) })
	JMP(LabelRef(ready))
	Label(plain)
	each(func(int) {}, func(c Mem, to reg.VecPhysical) { VMOVUPS(c, to) })
	Label(ready)
	t.reorder(r, n, t.format.split)
	zeroed := unique("begun")
	JMP(LabelRef(zeroed))
	Label(overwrite)
	each(func(int) {}, func(_ Mem, to reg.VecPhysical) { t.zero(to) })
	Label(zeroed)
}

func (t *typedProgram) zero(v reg.VecPhysical) {
	if t.wide {
		VPXORD(v, v, v)
		return
	}
	VXORPS(v, v, v)
}

// reorder changes the order of columns of each panel, with 8 lanes.
func (t *typedProgram) reorder(r, n int, f func(x, y, s, u reg.VecPhysical)) {
	if f == nil || t.wide {
		return
	}
	for i := range r {
		for p := range n {
			f(t.acc(i, p, 0, n), t.acc(i, p, 1, n), t.regs[len(t.regs)-2], t.regs[len(t.regs)-1])
		}
	}
}

// output addresses vector v of panel p of row i of c.
func (t *typedProgram) output(i, p, v int) Mem {
	return rowOf(typedC, cStride, i, p*panelBytes+v*t.size)
}

func (t *typedProgram) store(r, n int) {
	t.reorder(r, n, t.format.join)
	everyThird(typedC, cStride, r)
	for i := range r {
		for p := range n {
			for v := range t.vecs {
				VMOVUPS(t.acc(i, p, v, n), t.output(i, p, v))
			}
		}
	}
}

func (t *typedProgram) advanceAlpha(r int) {
	skip := unique("noAlpha")
	CMPQ(t.firstAlpha, imm(overwriteOutputs))
	JBE(LabelRef(skip))
	ADDQ(imm(4*r), t.alpha)
	Label(skip)
}
