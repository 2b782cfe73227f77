package main

import (
	"math"

	. "github.com/seed-1415985d/attn/asm/internal/neon"

	spec "github.com/seed-1415985d/attn/internal/f32"
)

// GELUs, step by step what internal/f32/gelu.go computes. A vector with no element beyond the limit
// skips the exponential; most vectors do.

// geluRegs are registers of up to two vectors.
type geluRegs struct {
	a, positive, y []Vec
	near, number   []Vec // z and the rounding error of a², in the exponential
	d              []Vec // f
	p, q           []Vec // a polynomial, in turn
	t, keep        []Vec
	pair           Vec // a row to look up, and the next one
	c, zero        Vec
}

func geluAt(n int) geluRegs {
	at := func(i int) []Vec { return from(Vec(n*i), n) }
	return geluRegs{a: at(0), positive: at(1), y: at(2), near: at(3), number: at(4), d: at(5),
		p: at(6), q: at(7), t: at(8), keep: at(9), pair: Vec(10 * n), c: Vec(10*n + 2),
		zero: Vec(10*n + 3)}
}

func (r geluRegs) of(s span) geluRegs {
	for _, v := range []*[]Vec{&r.a, &r.positive, &r.y, &r.near, &r.number, &r.d, &r.p, &r.q, &r.t,
		&r.keep} {
		*v = s.of(*v)
	}
	return r
}

func (p *program) gelus() {
	p.gelu("geluSIMD", &spec.GELUPieces, p.geluTail)
	p.gelu("geluTanhSIMD", &spec.GELUTanhPieces, p.geluTanhTail)
}

// gelu is max(x, 0) − s(|x|).
func (p *program) gelu(name string, pieces *spec.Pieces, tail func(r geluRegs)) {
	const dst, x, n, below = R0, R1, R2, R3
	p.kernelLike("activateGeneric", name, 0, "dst x n xAhead dstAhead", "")
	p.arg("dst", dst)
	p.arg("x", x)
	p.arg("n", n)
	p.loadTable()
	all := geluAt(activationVectors)
	p.Zero(all.zero)
	p.each(n, activationVectors, func(s span) {
		r, done := all.of(s), p.label("below")
		p.loadNext(s, r.a, x)
		for i, a := range r.a {
			p.Fmax(r.positive[i], a, r.zero)
			p.Fabs(a, a)
		}
		p.pieces(r, pieces)
		p.Comment("Is there an element beyond the limit, or NaN?")
		top, limit := r.q[0], r.c
		p.MovV(top, r.a[0])
		for _, a := range r.a[1:] {
			p.Fmax(top, top, a)
		}
		p.Fmaxv(top, top)
		p.constant(limit, p.float(pieces.Limit))
		p.Fcmgt(top, limit, top)
		p.Umov(below, top, 0)
		p.Cbnz(below, done)
		for i, a := range r.a {
			p.Fcmgt(r.keep[i], limit, a)
		}
		tail(r)
		for i, y := range r.y {
			p.Fsub(r.p[i], r.positive[i], r.p[i])
			p.Bif(y, r.p[i], r.keep[i])
		}
		p.Label(done)
		for _, y := range r.y {
			p.Fadd(y, y, r.zero)
		}
		p.storeNext(s, r.y, dst)
	})
	p.Ret()
}

// pieces leaves max(x, 0) − s(a) below the limit in y.
func (p *program) pieces(r geluRegs, of *spec.Pieces) {
	p.Comment("Which polynomial")
	p.constant(r.c, p.float(of.Scale))
	for i, a := range r.a {
		p.constant(r.number[i], p.float(of.Shift))
		p.Fmla(r.number[i], a, r.c)
	}
	p.constant(r.c, p.float(4))
	for i, a := range r.a {
		p.Fmul(r.near[i], a, r.c)
		p.Fmin(r.number[i], r.number[i], r.near[i])
		p.Fcvtzs(r.number[i], r.number[i])
		p.Shl(r.number[i], r.number[i], 2)
	}
	p.constant(r.pair, p.words("the low byte of each word", 0, 0x04040404, 0x08080808, 0x0c0c0c0c))
	p.constant(r.c, p.words("bytes of a word", 0x03020100, 0x03020100, 0x03020100, 0x03020100))
	for _, n := range r.number {
		p.Tbl1(n, n, r.pair)
		p.OrrV(n, n, r.c)
	}
	p.constant(r.c, p.float(1))
	for _, v := range r.near {
		p.Fmin(v, v, r.c)
	}
	p.Comment("d, and max(x, 0) − s(c)")
	p.lookUpRow(r.d, r, &of.Middle)
	p.lookUpRow(r.q, r, &of.Value)
	for i, a := range r.a {
		p.Fsub(r.d[i], a, r.d[i])
		p.MovV(r.y[i], r.positive[i])
		p.Fmls(r.y[i], r.q[i], r.near[i])
	}
	p.Comment("The polynomial")
	a, b, last := r.p, r.q, len(of.Coefficients)-1
	p.lookUpRow(a, r, &of.Coefficients[last])
	for k := last - 1; k >= 0; k-- {
		p.lookUpRow(b, r, &of.Coefficients[k])
		for i, d := range r.d {
			p.Fmla(b[i], a[i], d)
		}
		a, b = b, a
	}
	for i, d := range r.d {
		p.Fmls(r.y[i], a[i], d)
	}
}

// lookUpRow leaves in d the elements of a row that the bytes of number say.
func (p *program) lookUpRow(d []Vec, r geluRegs, row *[8]float32) {
	var w [8]uint32
	for i, x := range row {
		w[i] = math.Float32bits(x)
	}
	low, high := p.words("a row", w[:4]...), p.words("goes on", w[4:]...)
	p.constant(r.pair, low)
	p.constant(r.pair+1, high)
	for i, n := range r.number {
		p.Tbl2(d[i], r.pair, n)
	}
}

// square limits a, and sets near to a² and number to its rounding error.
func (p *program) square(r geluRegs, limit string) {
	p.constant(r.c, p.value(limit))
	for i, a := range r.a {
		p.Fmin(a, a, r.c) // NaN stays NaN
		p.Fmul(r.near[i], a, a)
		p.Fsub(r.number[i], r.zero, r.near[i])
		p.Fmla(r.number[i], a, a)
	}
}

// geluTail leaves a·Φ(−a) of large a in p.
func (p *program) geluTail(r geluRegs) {
	p.square(r, "geluMost")
	bias, hi, lo := r.pair, r.pair+1, r.c
	p.constant(bias, p.value("expBias"))
	p.constant(hi, p.value("geluLog2Hi"))
	p.constant(lo, p.value("geluLog2Lo"))
	for i, z := range r.near {
		t, f := r.t[i], r.d[i]
		p.MovV(t, bias)
		p.Fmls(t, z, hi)
		p.Fsub(f, bias, t)
		p.Fmls(f, z, hi)
		p.Fmls(f, z, lo)
		p.Fmls(f, r.number[i], hi)
	}
	p.constant(r.c, p.float(1))
	for i, z := range r.near {
		p.Fdiv(r.number[i], r.c, z)
	}
	p.polynomial(r.p, r.q, r.number, "geluTailC")
	for i, f := range r.d {
		p.MovV(r.a[i], r.p[i])
		p.Fmul(r.near[i], r.p[i], f)
	}
	p.polynomial(r.p, r.q, r.d, "growthC")
	for i, y := range r.a {
		p.Fmla(y, r.near[i], r.p[i])
	}
	p.timesPower(r.p, r.a, r)
}

// geluTanhTail leaves a/(1 + e^(2u)) of large a in p.
func (p *program) geluTanhTail(r geluRegs) {
	p.square(r, "geluTanhMost")
	c0, c1 := r.pair, r.pair+1
	p.constant(c0, p.value("geluTanhC0Hi"))
	p.constant(c1, p.value("geluTanhC1Hi"))
	sums, lost := r.p, r.q
	for i, z := range r.near {
		p.MovV(sums[i], c0)
		p.Fmla(sums[i], z, c1)
		p.Fsub(lost[i], c0, sums[i])
		p.Fmla(lost[i], z, c1)
	}
	p.constant(r.c, p.value("geluTanhC0Lo"))
	p.constant(c0, p.value("geluTanhC1Lo"))
	for i, z := range r.near {
		p.Fadd(lost[i], lost[i], r.c)
		p.Fmla(lost[i], z, c0)
		p.Fmla(lost[i], r.number[i], c1)
	}
	p.constant(r.c, p.value("expBias"))
	for i, a := range r.a {
		t, f := r.t[i], r.d[i]
		p.MovV(t, r.c)
		p.Fmls(t, a, sums[i])
		p.Fsub(f, r.c, t)
		p.Fmls(f, a, sums[i])
		p.Fmls(f, a, lost[i])
		p.Fmul(r.near[i], a, f)
	}
	p.polynomial(r.p, r.q, r.d, "growthC")
	p.constant(r.c, p.float(1))
	for i, a := range r.a {
		p.Fmla(a, r.near[i], r.p[i])
		p.MovV(r.near[i], r.c)
		p.Fmla(r.near[i], r.d[i], r.p[i])
	}
	p.timesPower(r.d, r.near, r)
	for i, y := range r.a {
		p.MovV(r.near[i], y)
		p.Fmls(r.near[i], r.d[i], y)
	}
	p.timesPower(r.p, r.near, r)
}

// timesPower sets d to x·2ⁿ, t = n + expBias, in two halves. It overwrites q, number and c.
func (p *program) timesPower(d, x []Vec, r geluRegs) {
	h, n := r.q, r.number
	p.constant(r.c, p.value("expBias"))
	for i, t := range r.t {
		p.SubI(n[i], t, r.c)
		p.Sshr(h[i], n[i], 1)
		p.SubI(n[i], n[i], h[i])
	}
	p.constant(r.c, p.words("127", 127, 127, 127, 127))
	for i := range r.t {
		p.AddI(h[i], h[i], r.c)
		p.AddI(n[i], n[i], r.c)
		p.Shl(h[i], h[i], 23)
		p.Shl(n[i], n[i], 23)
		p.Fmul(d[i], x[i], h[i])
		p.Fmul(d[i], d[i], n[i])
	}
}
