package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

// softcapWidth vectors go through softcap together. Scores are mostly well below
// the cap, so that the half of tanh for |x| < 1 does for all of them.
const softcapWidth = 4

// tanhRegs are the registers of hyperbolic tangents of several vectors.
type tanhRegs struct {
	x        []Vec   // the argument
	y        []Vec   // the result
	z        []Vec   // x²
	e        expRegs // e.x is 2|x|
	one, two Vec
	tanhOne  Vec
	sign     Vec
	limit    Vec // the cap
	factor   Vec
}

// tanhAt lays out the registers for n vectors: 6·n work registers, then 8 constants.
func tanhAt(n int) tanhRegs {
	r := tanhRegs{x: from(0, n), e: expAt(from(Vec(n), n), Vec(2*n), Vec(6*n))}
	r.y = r.e.t                    // done with when y begins
	r.z, r.one = r.e.keep, r.e.min // for an exponential that flushes, as this one does not
	r.two, r.tanhOne, r.sign, r.limit, r.factor = r.one+1, r.one+2, r.one+3, r.one+4, r.one+5
	return r
}

func (r tanhRegs) of(s span) tanhRegs {
	r.x, r.y, r.z, r.e = s.of(r.x), s.of(r.y), s.of(r.z), r.e.of(s)
	return r
}

func (p *program) softcap() {
	const at, n, below = R0, R1, R2
	r := tanhAt(softcapWidth)
	p.kernel("softcapSIMD", 0, "s n limit:float32 factor:float32", "")
	p.arg("s", at)
	p.arg("n", n)
	p.floatArg("limit", r.limit)
	p.floatArg("factor", r.factor)
	p.loadTable()
	p.tanhConstants(r)
	p.each(n, softcapWidth, func(s span) {
		r := r.of(s)
		large, capped := p.label("large"), p.label("capped")
		p.load(s, r.x, at)
		for _, x := range r.x {
			p.Fmul(x, x, r.factor)
		}
		for i, x := range r.x {
			p.Fmul(r.z[i], x, x)
		}
		if s.vectors == softcapWidth {
			p.allBelowOne(below, r)
			p.Cbz(below, large)
			p.tanhSmall(r)
			p.B(capped)
			p.Label(large)
		}
		p.tanh(r)
		p.Label(capped)
		p.Comment("limit·y, y with the sign of x")
		for i, y := range r.y {
			p.Bit(y, r.x[i], r.sign)
			p.Fmul(y, y, r.limit)
		}
		p.storeNext(s, r.y, at)
	})
	p.Ret()
}

// tanhConstants loads the constants that stay in registers.
func (p *program) tanhConstants(r tanhRegs) {
	p.constant(r.e.k, p.reduction())
	p.constant(r.e.bias, p.value("expBias"))
	p.constant(r.one, p.float(1))
	p.constant(r.two, p.float(2))
	p.constant(r.tanhOne, p.value("tanhOne"))
	p.constant(r.sign, p.words("−0", bitsSign, bitsSign, bitsSign, bitsSign))
}

// allBelowOne is d = not 0 if all z < 1. A NaN is not.
func (p *program) allBelowOne(d Reg, r tanhRegs) {
	top := r.y[0]
	p.MovV(top, r.z[0])
	for _, z := range r.z[1:] {
		p.Fmax(top, top, z)
	}
	p.Fmaxv(top, top)
	p.Fcmgt(top, r.one, top)
	p.Umov(d, top, 0)
}

// tanh leaves tanh(x) in y, but for the sign.
func (p *program) tanh(r tanhRegs) {
	p.tanhLarge(r)
	large := r.e.p
	p.tanhSmall(r)
	for i, y := range r.y {
		p.Fcmgt(r.z[i], r.one, r.z[i])
		p.Bif(y, large[i], r.z[i])
	}
}

// tanhSmall leaves x + x³·P(x²) in y, which is tanh(x) for |x| < 1, but for the
// sign of −0. e.p and z are left as they are.
func (p *program) tanhSmall(r tanhRegs) {
	p.Comment("|x| < 1: x + x³·P(x²)")
	a, b := r.e.x, r.e.q
	p.polynomial(a, b, r.z, "tanhC")
	for i, x := range r.x {
		p.Fmul(b[i], r.z[i], x)
		p.MovV(r.y[i], x)
	}
	for i, y := range r.y {
		p.Fmla(y, b[i], a[i])
	}
}

// tanhLarge leaves 1 − 2/(1+e²ᵃ), a = |x|, in e.p, which is |tanh(x)| for |x| ≥ 1.
func (p *program) tanhLarge(r tanhRegs) {
	p.Comment("|x| ≥ 1: 1 − 2/(1+exp(2|x|))")
	for i, a := range r.e.x {
		p.Fabs(a, r.x[i])
		p.Fmin(a, a, r.tanhOne) // NaN stays NaN
		p.Fadd(a, a, a)
	}
	p.expReduced(r.e)
	for i, t := range r.e.t {
		d := r.e.q[i]
		p.Shl(t, t, 23) // 2ⁿ
		p.MovV(d, r.one)
		p.Fmla(d, r.e.p[i], t)
		p.Fdiv(d, r.two, d)
		p.Fsub(r.e.p[i], r.one, d)
	}
}
