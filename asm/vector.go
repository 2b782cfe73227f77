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
	const a, b, top, base, masked, sum, sum2 = Vec(24), Vec(25), Vec(26), Vec(27), Vec(28), Vec(29), Vec(30)
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

func (p *program) alibi() {
	const at, n, first, step = R0, R1, R2, R3
	const slope, distance, by, f = Vec(16), Vec(17), Vec(18), Vec(19)
	p.kernel("alibiSIMD", 0, "s n slope:float32 first", "")
	p.arg("s", at)
	p.arg("n", n)
	p.floatArg("slope", slope)
	p.arg("first", first)
	p.loadTable()
	p.Comment("distance = first + lane")
	p.DupReg(distance, first)
	p.constant(by, p.words("lanes", 0, 1, 2, 3))
	p.AddI(distance, distance, by)
	v := from(0, 4)
	p.each(n, 4, func(s span) {
		p.load(s, v, at)
		p.MovImm(step, int64(min(lanes, s.elements())))
		p.DupReg(by, step)
		for _, v := range s.of(v) {
			p.Scvtf(f, distance)
			p.Fmla(v, f, slope)
			p.AddI(distance, distance, by)
		}
		p.storeNext(s, v, at)
	})
	p.Ret()
}

func (p *program) addBias() {
	const at, bias, n, visible, shift, bits = R0, R1, R2, R3, R4, R5
	const negInf, u = Vec(16), Vec(17)
	p.kernel("addBiasRowSIMD", 0, "s bias n u:float32", "visible")
	p.arg("s", at)
	p.arg("bias", bias)
	p.arg("n", n)
	p.floatArg("u", u)
	p.loadTable()
	p.constant(negInf, p.words("−Inf", bitsNegInf, bitsNegInf, bitsNegInf, bitsNegInf))
	p.MovImm(visible, 0)
	p.MovImm(shift, 0)
	v, b, bit, seen := from(0, 4), from(4, 4), from(20, 4), from(24, 4)
	for i, v := range bit {
		p.constant(v, p.bitsOfLanes(i))
	}
	p.each(n, 4, func(s span) {
		p.load(s, v, at)
		p.loadNext(s, b, bias)
		for i := range s.vectors {
			p.Fcmeq(seen[i], b[i], negInf)
			p.Fmla(b[i], v[i], u)
			p.Bic(seen[i], bit[i], seen[i]) // the bits of visible keys
			if i > 0 {
				p.OrrV(seen[0], seen[0], seen[i])
			}
		}
		if s.single {
			p.lowLane(seen[0])
		}
		p.storeNext(s, b, at)
		p.Addv(seen[0], seen[0])
		p.Umov(bits, seen[0], 0)
		p.Lsl(bits, bits, shift)
		p.Orr(visible, visible, bits)
		p.AddImm(shift, shift, s.elements())
	})
	p.result("visible", visible)
	p.Ret()
}

// maskBits takes eight booleans at once, then single ones. A Go bool is a byte
// of 0 or 1. Multiplying eight of them, as one number, by Σ 2^(7i), i = 1 to 8,
// brings the byte of index i to bit 56+i of the product, and no two of the terms
// meet in a bit, so nothing is carried.
func (p *program) maskBits() {
	const mask, n, visible, shift, bits, gather = R0, R1, R2, R3, R4, R5
	p.kernel("maskRowSIMD", 0, "mask n", "visible")
	p.arg("mask", mask)
	p.arg("n", n)
	p.MovImm(visible, 0)
	p.MovImm(shift, 0)
	p.MovImm(gather, 0x0102040810204080)
	passes := func(size int, load func()) {
		loop, end := p.label("loop"), p.label("end")
		p.SubsImm(n, n, size)
		p.Bcond(LT, end)
		p.Label(loop)
		load()
		p.Lsl(bits, bits, shift)
		p.Orr(visible, visible, bits)
		p.AddImm(shift, shift, size)
		p.SubsImm(n, n, size)
		p.Bcond(GE, loop)
		p.Label(end)
		p.AddImm(n, n, size)
	}
	passes(8, func() {
		p.LdrPost(bits, mask)
		p.Mul(bits, bits, gather)
		p.LsrImm(bits, bits, 56)
	})
	passes(1, func() { p.LdrbPost(bits, mask) })
	p.result("visible", visible)
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
