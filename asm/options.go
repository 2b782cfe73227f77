package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

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
	const at, bias, n = R0, R1, R2
	const u = Vec(17)
	p.kernelLike("addBiasGeneric", "addBiasRowSIMD", 0, "s bias n u:float32", "")
	p.arg("s", at)
	p.arg("bias", bias)
	p.arg("n", n)
	p.floatArg("u", u)
	v, b := from(0, 4), from(4, 4)
	p.each(n, 4, func(s span) {
		p.load(s, v, at)
		p.loadNext(s, b, bias)
		for i := range s.vectors {
			p.Fmla(b[i], v[i], u)
		}
		p.storeNext(s, b, at)
	})
	p.Ret()
}

func (p *program) maskBias() {
	const bias, n, visible, shift, bits, adds = R0, R1, R2, R3, R4, R5
	const negInf, zero = Vec(16), Vec(17)
	p.kernelLike("maskBiasGeneric", "maskBiasRowSIMD", 0, "bias n", "visible adds")
	p.arg("bias", bias)
	p.arg("n", n)
	p.loadTable()
	p.constant(negInf, p.words("−Inf", bitsNegInf, bitsNegInf, bitsNegInf, bitsNegInf))
	p.Zero(zero)
	p.MovImm(visible, 0)
	p.MovImm(adds, 0)
	p.MovImm(shift, 0)
	b, same, bit, seen, added := from(0, 4), Vec(4), from(20, 4), from(24, 4), from(28, 4)
	for i, v := range bit {
		p.constant(v, p.bitsOfLanes(i))
	}
	p.each(n, 4, func(s span) {
		p.loadNext(s, b, bias)
		for i := range s.vectors {
			p.Fcmeq(same, b[i], negInf)
			p.Bic(seen[i], bit[i], same) // the bits of visible keys
			p.Fcmeq(same, b[i], zero)
			p.Bic(added[i], seen[i], same) // and of elements whose bias is not zero
			if i > 0 {
				p.OrrV(seen[0], seen[0], seen[i])
				p.OrrV(added[0], added[0], added[i])
			}
		}
		if s.single {
			p.lowLane(seen[0])
			p.lowLane(added[0])
		}
		for _, x := range []struct {
			bits Vec
			sum  Reg
		}{{seen[0], visible}, {added[0], adds}} {
			p.Addv(x.bits, x.bits)
			p.Umov(bits, x.bits, 0)
			p.Lsl(bits, bits, shift)
			p.Orr(x.sum, x.sum, bits)
		}
		p.AddImm(shift, shift, s.elements())
	})
	p.result("visible", visible)
	p.result("adds", adds)
	p.Ret()
}

// maskBits handles eight booleans at once, then single ones. A Go bool is a byte of 0 or 1.
// Multiplying eight of them, as one number, by Σ 2^(7i), i = 1 to 8, brings the byte of index i to
// bit 56+i of the product, and no two of the terms meet in a bit, so nothing is carried.
func (p *program) maskBits() {
	const mask, n, visible, shift, bits, gather = R0, R1, R2, R3, R4, R5
	p.kernelLike("maskKeysGeneric", "maskRowSIMD", 0, "mask n", "visible")
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
