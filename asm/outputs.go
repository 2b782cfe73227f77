package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

// Kernels that go over vectors element by element.

func (p *program) scale() {
	const dst, x, n = R0, R1, R2
	const zero, f = Vec(16), Vec(17)
	p.kernel("scaleSIMD", 0, "dst x n f:float32", "")
	p.arg("dst", dst)
	p.arg("x", x)
	p.arg("n", n)
	p.floatArg("f", f)
	p.Zero(zero)
	v := from(0, 4)
	p.each(n, 4, func(s span) {
		p.loadNext(s, v, x)
		for _, v := range s.of(v) {
			p.Fmul(v, v, f)
			p.Fadd(v, v, zero)
		}
		p.storeNext(s, v, dst)
	})
	p.Ret()
}

func (p *program) weights() {
	const dst, x, n, visible = R0, R1, R2, R3
	const m, r, bits, keep = Vec(24), Vec(25), Vec(26), Vec(27)
	e := exp2At(from(0, 4), 4, 20)
	p.kernel("weightsSIMD", 0, "dst s n m:float32 r:float32 c:float32 visible", "")
	p.arg("dst", dst)
	p.arg("s", x)
	p.arg("n", n)
	p.floatArg("m", m)
	p.floatArg("r", r)
	p.arg("visible", visible)
	p.loadTable()
	p.exp2Constants(e)
	p.each(n, 4, func(s span) {
		e := e.of(s)
		p.loadNext(s, e.x, x)
		for _, x := range e.x {
			p.Fsub(x, x, m)
		}
		p.exp2(e)
		p.DupReg(bits, visible)
		p.LsrImm(visible, visible, s.elements())
		for i, weight := range e.p {
			p.Fmul(weight, weight, r)
			p.constant(keep, p.bitsOfLanes(i))
			p.Cmtst(keep, keep, bits)
			p.And(weight, weight, keep)
		}
		p.storeNext(s, e.p, dst)
	})
	p.Ret()
}
