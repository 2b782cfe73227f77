package main

import "github.com/seed-1415985d/attn/asm/internal/neon"

// The natural exponential, f32.Exp and f32.ExpFlush, of the public functions and of tanh. Attention
// has powers of 2 instead: exp2.go. gen/README.md says where all emitters are.

// expRegs are the registers of exponentials of several vectors at once. Each
// stage is emitted for all vectors before the next, because each waits for the
// one before it.
type expRegs struct {
	x    []neon.Vec // the argument, used up; then r
	keep []neon.Vec // ones where the result is flushed; not used by expFull
	t    []neon.Vec // n + expBias, then 2ⁿ
	p, q []neon.Vec // the polynomial, in turn; the result is in p
	k    neon.Vec   // log2E, ln2Hi, ln2Lo by element
	bias neon.Vec   // expBias
	min  neon.Vec   // expMin
}

// expAt lays out the registers for n vectors: arguments at x, work registers from work on.
func expAt(x []neon.Vec, work neon.Vec, constants neon.Vec) expRegs {
	n := len(x)
	at := func(i int) []neon.Vec { return from(work+neon.Vec(i*n), n) }
	return expRegs{x: x, keep: at(0), t: at(1), p: at(2), q: at(3), k: constants, bias: constants + 1, min: constants + 2}
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

// polynomial leaves in a a polynomial in x by Horner's rule. Its coefficients are those that
// internal/f32/elementary.go has under the prefix, the leading one first, and then the fixed ones.
// No emitter counts them: whoever changes the degree does so in that file. a and b take turns,
// because FMLA adds to the register of the coefficient; the number of turns says which begins.
func (p *program) polynomial(a, b, x []neon.Vec, prefix string, fixed ...float32) {
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
func (p *program) expFull(e expRegs, hi, lo, one27 neon.Vec) {
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
	for _, n := range [][]neon.Vec{e.q, e.t} {
		for i := range e.x {
			p.AddI(n[i], n[i], one27)
			p.Shl(n[i], n[i], 23)
			p.Fmul(e.p[i], e.p[i], n[i])
		}
	}
}
