package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

// newMaximum is top = max(a, b) + 0, where a NaN b does not count.
func (p *program) newMaximum(top, a, b Vec) {
	p.Fcmgt(top, b, a)
	p.Bsl(top, b, a)
	p.Zero(31)
	p.Fadd(top, top, 31)
}

// base is base = top, or 0 where top is −Inf, and masked = ones there: with no
// score above −Inf all weights must be 0, but −Inf − −Inf is NaN.
func (p *program) base(base, masked, top Vec) {
	p.constant(31, p.words("−Inf", bitsNegInf, bitsNegInf, bitsNegInf, bitsNegInf))
	p.Fcmeq(masked, top, 31)
	p.Bic(base, top, masked)
}

func (p *program) merge() {
	const o, b, n = R0, R1, R2
	const x, y = Vec(16), Vec(17)
	p.kernel("mergeSIMD", 0, "o b n x:float32 y:float32", "")
	p.arg("o", o)
	p.arg("b", b)
	p.arg("n", n)
	p.floatArg("x", x)
	p.floatArg("y", y)
	ov, bv := from(0, 4), from(4, 4)
	p.each(n, 4, func(s span) {
		p.load(s, ov, o)
		p.loadNext(s, bv, b)
		for i := range s.vectors {
			p.Fmul(bv[i], bv[i], y)
			p.Fmla(bv[i], ov[i], x) // o·x + b·y
		}
		p.storeNext(s, bv, o)
	})
	p.Ret()
}

func (p *program) mergeSums() {
	const m, l, m2, l2, x, y, n = R0, R1, R2, R3, R4, R5, R6
	const a, b, top, base, masked, sum, sum2 = Vec(24), Vec(25), Vec(26), Vec(27), Vec(28), Vec(29),
		Vec(30)
	e := exp2At(from(0, 2), 4, 20) // both at once
	p.kernel("mergeSumsSIMD", 0, "m l m2 l2 x y n c:float32", "")
	for i, name := range []string{"m", "l", "m2", "l2", "x", "y", "n"} {
		p.arg(name, Reg(i))
	}
	p.loadTable()
	p.exp2Constants(e)
	p.each(n, 1, func(s span) {
		p.load1(s, a, m)
		p.loadNext(s, []Vec{b}, m2)
		p.newMaximum(top, a, b)
		p.base(base, masked, top)
		p.storeNext(s, []Vec{top}, m)
		p.Fsub(e.x[0], a, base)
		p.Fsub(e.x[1], b, base)
		p.exp2(e)
		p.storeNext(s, e.p[:1], x)
		p.storeNext(s, e.p[1:], y)
		p.load1(s, sum, l)
		p.loadNext(s, []Vec{sum2}, l2)
		p.Fmul(sum2, sum2, e.p[1])
		p.Fmla(sum2, sum, e.p[0]) // l·x + l2·y
		p.storeNext(s, []Vec{sum2}, l)
	})
	p.Ret()
}
