package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

// The natural exponential, f32.Exp and f32.ExpFlush, of the public functions and of tanh. Attention
// has powers of 2 instead: exp2.go. gen/README.md says where all emitters are.

// expRegs are the registers of exponentials of several vectors at once. Each
// stage is emitted for all vectors before the next, because each waits for the
// one before it.
type expRegs struct {
	x    []Vec // the argument, used up; then r
	keep []Vec // ones where the result is flushed; not used by expFull
	t    []Vec // n + expBias, then 2ⁿ
	p, q []Vec // the polynomial, in turn; the result is in p
	k    Vec   // log2E, ln2Hi, ln2Lo by element
	bias Vec   // expBias
	min  Vec   // expMin
}

// expAt lays out the registers for n vectors: arguments at x, work registers from work on.
func expAt(x []Vec, work Vec, constants Vec) expRegs {
	n := len(x)
	at := func(i int) []Vec { return from(work+Vec(i*n), n) }
	return expRegs{x: x, keep: at(0), t: at(1), p: at(2), q: at(3), k: constants, bias: constants + 1,
		min: constants + 2}
}

// of is the same for the vectors of a span.
func (e expRegs) of(s span) expRegs {
	e.x, e.keep, e.t, e.p, e.q = s.of(e.x), s.of(e.keep), s.of(e.t), s.of(e.p), s.of(e.q)
	return e
}

// expConstants loads the constants that stay in registers.
func (p *program) expConstants(e expRegs) {
	p.constant(e.k, p.reduction())
	p.constant(e.bias, p.value("expBias"))
	p.constant(e.min, p.value("expMin"))
}

// expReduced leaves exp(r) in e.p and n + expBias in e.t.
func (p *program) expReduced(e expRegs) {
	p.Comment("t = x·log2e + bias; n = t − bias; r = x − n·ln 2")
	for i := range e.x {
		p.constant(e.t[i], p.value("expBias"))
	}
	for i, x := range e.x {
		p.FmlaLane(e.t[i], x, e.k, 0)
	}
	for i := range e.x {
		p.Fsub(e.p[i], e.t[i], e.bias)
	}
	for lane := 1; lane <= 2; lane++ {
		for i, x := range e.x {
			p.FmlsLane(x, e.p[i], e.k, lane)
		}
	}
	p.Comment("exp(r) by the polynomial")
	p.polynomial(e.p, e.q, e.x, "expC", 1, 1)
}

// polynomial sets a to a polynomial in x by Horner's rule. Its coefficients are the constants of
// internal/f32/elementary.go with this prefix, the leading one first, and then the fixed ones. No
// emitter counts them, so the degree is changed in that file only. a and b alternate, because FMLA
// adds to the register of the coefficient; the number of steps decides which is first.
func (p *program) polynomial(a, b, x []Vec, prefix string, fixed ...float32) {
	names := p.values.Polynomial(prefix)
	var others []int
	for _, name := range names[1:] {
		others = append(others, p.value(name))
	}
	for _, c := range fixed {
		others = append(others, p.float(c))
	}
	if len(others)%2 != 0 {
		a, b = b, a
	}
	leading := p.value(names[0])
	for i := range x {
		p.constant(a[i], leading)
	}
	for _, c := range others {
		for i := range x {
			p.constant(b[i], c)
		}
		for i := range x {
			p.Fmla(b[i], a[i], x[i])
		}
		a, b = b, a
	}
}

// expFlush leaves exp(x) in e.p, +0 below expMin, for x ≤ 0 or NaN.
func (p *program) expFlush(e expRegs) {
	for i, x := range e.x {
		p.Fcmgt(e.keep[i], e.min, x)
	}
	p.expReduced(e)
	p.Comment("2ⁿ·exp(r), 0 below the least exponent")
	for _, t := range e.t {
		p.Shl(t, t, 23)
	}
	for i := range e.x {
		p.Fmul(e.p[i], e.p[i], e.t[i])
	}
	for i := range e.x {
		p.Bic(e.p[i], e.p[i], e.keep[i])
	}
}

// expFull leaves exp(x) in e.p with gradual underflow: 2ⁿ in two factors. hi,
// lo and one27 hold expInf, expZero and the integer 127.
func (p *program) expFull(e expRegs, hi, lo, one27 Vec) {
	for _, x := range e.x {
		p.Fmin(x, x, hi) // NaN stays NaN
	}
	for _, x := range e.x {
		p.Fmax(x, x, lo)
	}
	p.expReduced(e)
	p.Comment("2ⁿ = 2^(n>>1) · 2^(n−(n>>1))")
	for _, t := range e.t {
		p.SubI(t, t, e.bias)
	}
	for i, t := range e.t {
		p.Sshr(e.q[i], t, 1)
		p.SubI(t, t, e.q[i])
	}
	for _, n := range [][]Vec{e.q, e.t} {
		for i := range e.x {
			p.AddI(n[i], n[i], one27)
			p.Shl(n[i], n[i], 23)
			p.Fmul(e.p[i], e.p[i], n[i])
		}
	}
}

func (p *program) exp() {
	const dst, x, n = R0, R1, R2
	const hi, lo, one27 = Vec(24), Vec(25), Vec(26)
	e := expAt(from(0, 4), 4, 20)
	p.kernel("expSIMD", 0, "dst x n", "")
	p.arg("dst", dst)
	p.arg("x", x)
	p.arg("n", n)
	p.loadTable()
	p.expConstants(e)
	p.constant(hi, p.float(p.values.Get("ExpInf")))
	p.constant(lo, p.float(p.values.Get("expZero")))
	p.constant(one27, p.words("127", 127, 127, 127, 127))
	p.each(n, 4, func(s span) {
		e := e.of(s)
		p.loadNext(s, e.x, x)
		p.expFull(e, hi, lo, one27)
		p.storeNext(s, e.p, dst)
	})
	p.Ret()
}

func (p *program) expSum() {
	p.kernel("expSumSIMD", panelBytes, "lane dst x n top:float32", "ret:float32")
	p.sumExponentials(true)
}

func (p *program) sumExp() {
	p.kernel("sumExpSIMD", panelBytes, "lane x n top:float32", "ret:float32")
	p.sumExponentials(false)
}

// sumExponentials goes on with sums of exp(x − top) in 16 lanes, returns them folded, and keeps the
// terms if asked.
func (p *program) sumExponentials(keep bool) {
	const dst, x, n, sums, lane = R0, R1, R2, R3, R4
	const top, most, part = Vec(28), Vec(29), Vec(30)
	e, sum := expAt(from(0, 4), 4, 20), from(24, 4)
	p.arg("x", x)
	p.arg("n", n)
	p.floatArg("top", top)
	if keep {
		p.arg("dst", dst)
	}
	p.loadTable()
	p.expConstants(e)
	p.constant(most, p.float(p.values.Get("ExpInf")))
	p.arg("lane", lane)
	p.Ld1(sum, lane)
	terms := func(s span) []Vec {
		e := e.of(s)
		p.loadNext(s, e.x, x)
		for _, x := range e.x {
			p.Fsub(x, x, top)
		}
		for _, x := range e.x {
			p.Fmin(x, x, most) // NaN stays NaN
		}
		p.expFlush(e)
		if keep {
			p.storeNext(s, e.p, dst)
		}
		return e.p
	}
	p.passes(n, span{vectors: panel / lanes}, func(s span) {
		for i, term := range terms(s) {
			p.Fadd(sum[i], sum[i], term)
		}
	})
	p.inMemory("lanes", sum, panelBytes, sums, n, func() {
		p.each(n, 1, func(s span) {
			term := terms(s)[0]
			p.load1(s, part, sums)
			p.Fadd(part, part, term)
			p.storeNext(s, []Vec{part}, sums)
		})
	})
	p.St1(sum, lane)
	p.fold(sum)
	p.floatResult("ret", sum[0])
	p.Ret()
}
