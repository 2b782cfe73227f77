package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tile computes r rows × n panels and moves cPtr, aPtr and alpha on. It returns a function that
// emits its out-of-line code. Scaled sums that overflow jump to the given label before anything has
// changed.
func (t *typedProgram) tile(r, n int, overflow string) (asides func()) {
	Commentf("%d rows × %d columns.", r, n*panel)
	t.tileRows = r
	sums := t.regs[:r*n*t.vecs]
	if t.scaled = t.scales(r, n); t.scaled {
		t.constants = scaledMasks
		defer func() { t.constants = 0 }()
	}
	name := unique("loop")
	t.begin(r, n, name)
	if t.scaled {
		t.keepMasks()
	}
	MOVQ(aPtr, a0)
	everyThird(typedA, aStride, r)
	end := name + "End"
	MOVQ(t.steps, stepsLeft)
	unroll := t.unroll()
	if !t.format.grouped {
		TESTQ(U32(unroll-1), stepsLeft)
		JNE(LabelRef(name + "Part"))
	}
	Label(name)
	lines := n * t.format.bytes * panel * unroll / lineBytes
	if t.format.codes {
		lines /= 2
	}
	for u := range unroll {
		if u > 0 && t.format.grouped { // the last group may have fewer steps
			CMPQ(stepsLeft, imm(u))
			JE(LabelRef(end))
		} else if u > 0 {
			Label(tileLabel(name+"Step", u))
		}
		t.prefetch(lines*u/unroll, lines*(u+1)/unroll)
		t.step(r, n, u)
		if !t.format.grouped || u == unroll-1 {
			t.nextStep(n)
		}
	}
	ADDQ(imm(lines*lineBytes), typedPrefetch)
	t.advance(r, unroll)
	SUBQ(imm(unroll), stepsLeft)
	JG(LabelRef(name))
	Label(end)
	if t.scaled {
		t.endScaled(sums, overflow)
	}
	t.store(r, n)
	return func() {
		t.beginZero(r, n, name)
		if !t.format.grouped {
			t.part(r, name)
		}
	}
}

// unroll is how many steps a round has. Two are as fast where a step is long.
func (t *typedProgram) unroll() int {
	switch {
	case t.format.codes:
		return 2 * typedUnroll
	case t.wide && !t.format.grouped:
		return 2
	}
	return typedUnroll
}

// part goes into the midst of a round of steps: the first one has the steps that are not whole
// rounds.
func (t *typedProgram) part(r int, name string) {
	Label(name + "Part")
	partOfRound(t.unroll(), typedA[:(r+2)/3], typedPrefetch, t.firstRound, func() {
		MOVQ(t.requestNow, typedPrefetch)
	}, func(u int) string { return tileLabel(name+"Step", u) })
}

// keepPrefetching: only the first tile of a group reads b from memory; the others prefetch lines
// that are already in the cache.
func (t *typedProgram) keepPrefetching() {
	later := unique("laterTile")
	MOVQ(t.rest, stepsLeft)
	CMPQ(stepsLeft, t.rows)
	JNE(LabelRef(later))
	MOVQ(typedPrefetch, t.request)
	move(t.b, t.requestNow)
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

// panel addresses panel p at the current step.
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

// begin sets the accumulators: c·alpha, c or 0. Scores begin with 0, which is emitted out of line.
func (t *typedProgram) begin(r, n int, name string) {
	factor := t.regs[len(t.regs)-t.constants-1]
	CMPQ(t.outputs.zeros, Imm(0))
	JNE(LabelRef(name + "Zero"))
	for i := range r {
		VBROADCASTSS(Mem{Base: beginAlpha, Disp: 4 * i}, factor)
		for at := range n * t.vecs {
			VMULPS(Mem{Base: beginFrom, Disp: at * t.size}, factor, t.regs[i*n*t.vecs+at])
		}
		if i+1 < r {
			ADDQ(cStride, beginFrom)
		}
	}
	t.reorder(r, n, t.format.split)
	if t.scaled {
		t.beginScaled(t.regs[:r*n*t.vecs], factor)
	}
	Label(name + "Begun")
}

// beginZero is begin where outputs begin with 0.
func (t *typedProgram) beginZero(r, n int, name string) {
	Label(name + "Zero")
	for _, v := range t.regs[:r*n*t.vecs] {
		t.zero(v)
	}
	JMP(LabelRef(name + "Begun"))
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

// store leaves cPtr at the rows after these.
func (t *typedProgram) store(r, n int) {
	t.reorder(r, n, t.format.join)
	for i := range r {
		for at := range n * t.vecs {
			VMOVUPS(t.regs[i*n*t.vecs+at], Mem{Base: cPtr, Disp: at * t.size})
		}
		ADDQ(cStride, cPtr)
	}
}
