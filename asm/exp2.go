package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

// 2^(x·c), the exponential of attention: f32.Exp2 step by step. This is its only emitter for NEON;
// gen/README.md lists the others.

// exp2Regs are the registers of attention's exponentials 2^(x·c) of several
// vectors at once, stage by stage as in expRegs.
type exp2Regs struct {
	x    []Vec // the argument, used up
	t    []Vec // n + exp2Bias, then 2ⁿ⁺¹
	p    []Vec // the polynomial; the result
	f    []Vec // x·c − n
	c    Vec   // c in all lanes
	bias Vec   // exp2Bias
	zero Vec   // exp2Zero
}

// exp2At lays out the registers for n vectors: arguments at x, 3·n work registers from work on,
// then 3 constants.
func exp2At(x []Vec, work Vec, constants Vec) exp2Regs {
	n := len(x)
	at := func(i int) []Vec { return from(work+Vec(i*n), n) }
	return exp2Regs{x: x, t: at(0), p: at(1), f: at(2), c: constants, bias: constants + 1,
		zero: constants + 2}
}

// of is the same for the vectors of a span.
func (e exp2Regs) of(s span) exp2Regs {
	e.x, e.t, e.p, e.f = s.of(e.x), s.of(e.t), s.of(e.p), s.of(e.f)
	return e
}

// exp2Constants loads the registers that do not change: constants, and the kernel's argument c.
func (p *program) exp2Constants(e exp2Regs) {
	p.floatArg("c", e.c)
	p.constant(e.bias, p.value("exp2Bias"))
	p.constant(e.zero, p.value("exp2Zero"))
}

// exp2 leaves 2^(x·c) in e.p, +0 where t ≤ exp2Zero, for x ≤ 0 or NaN.
func (p *program) exp2(e exp2Regs) {
	p.Comment("t = x·c + bias; n = t − bias; f = x·c − n")
	for _, t := range e.t {
		p.constant(t, p.value("exp2Bias"))
	}
	for i, x := range e.x {
		p.Fmla(e.t[i], x, e.c)
	}
	for i, t := range e.t {
		p.Fsub(e.f[i], e.bias, t) // −n, because FMLA adds to this register
	}
	for i, x := range e.x {
		p.Fmla(e.f[i], x, e.c)
	}
	p.Comment("2^f by the polynomial")
	p.polynomial(e.p, e.x, e.f, "exp2C")
	p.Comment("2ⁿ·2^f, 0 where n is too small; a NaN is not")
	flushed := e.x
	for i, t := range e.t {
		p.Fcmge(flushed[i], e.zero, t)
		p.Shl(t, t, 23)
	}
	for i, t := range e.t {
		p.Fmul(e.p[i], e.p[i], t)
	}
	for i := range e.t {
		p.Bic(e.p[i], e.p[i], flushed[i])
	}
}
