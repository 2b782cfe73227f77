package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

// Activations in float32, step by step what internal/f32/activations.go computes. GELUs are in
// gelu.go. Softplus needs float64, of which a vector has only two lanes, so it is written in Go.

const bitsLowest = 0xff7fffff // −MaxFloat32

// activationVectors go together: more would make the file larger.
const activationVectors = 2

// activationRegs are registers of up to four vectors.
type activationRegs struct {
	e                               expRegs // e.keep has the argument
	hi, lo, one27, sign, one, least Vec
	zero                            Vec
}

func (p *program) activations() {
	p.map1("siluSIMD", func(s span, r activationRegs) []Vec { return p.silu(s, r) })
	p.siluGate()
	p.map1("sigmoidSIMD", func(s span, r activationRegs) []Vec {
		return p.sigmoid(s, r)
	})
	p.map1("expAllSIMD", func(s span, r activationRegs) []Vec {
		e := r.e.of(s)
		for i, x := range e.keep {
			p.MovV(e.x[i], x)
		}
		p.expFull(e, r.hi, r.lo, r.one27)
		return e.p
	})
	p.map1("reluSIMD", func(s span, r activationRegs) []Vec { return p.relu(s, r) })
	p.map1("reluSquaredSIMD", func(s span, r activationRegs) []Vec {
		y := p.relu(s, r)
		for _, v := range y {
			p.Fmul(v, v, v)
		}
		return y
	})
	p.tanhAll()
	p.gelus()
	p.gateClamped()
}

// activationConstants lays out registers and loads constants.
func (p *program) activationConstants() activationRegs {
	r := activationRegs{e: expAt(from(0, 4), 4, 20), hi: 24, lo: 25, one27: 26, sign: 27, one: 28,
		least: 29, zero: 30}
	p.loadTable()
	p.expConstants(r.e)
	p.constant(r.hi, p.float(p.values.Get("ExpInf")))
	p.constant(r.lo, p.float(p.values.Get("expZero")))
	p.constant(r.one27, p.words("127", 127, 127, 127, 127))
	p.constant(r.sign, p.words("−0", bitsSign, bitsSign, bitsSign, bitsSign))
	p.constant(r.one, p.float(1))
	p.constant(r.least, p.words("−MaxFloat32", bitsLowest, bitsLowest, bitsLowest, bitsLowest))
	p.Zero(r.zero)
	return r
}

// map1 computes dst = f(x): f gets the argument in e.keep.
func (p *program) map1(name string, f func(s span, r activationRegs) []Vec) {
	const dst, x, n = R0, R1, R2
	p.kernelLike("activateGeneric", name, 0, "dst x n xAhead dstAhead", "")
	p.arg("dst", dst)
	p.arg("x", x)
	p.arg("n", n)
	r := p.activationConstants()
	p.each(n, activationVectors, func(s span) {
		p.loadNext(s, r.e.keep, x)
		p.storeNext(s, f(s, r), dst)
	})
	p.Ret()
}

// onePlusExpMinus leaves 1 + exp(−x) in e.p, x in e.x.
func (p *program) onePlusExpMinus(e expRegs, r activationRegs) {
	for _, x := range e.x {
		p.Eor(x, x, r.sign)
	}
	p.expFull(e, r.hi, r.lo, r.one27)
	for _, y := range e.p {
		p.Fadd(y, y, r.one)
	}
}

// silu is x/(1 + exp(−x)) + 0.
func (p *program) silu(s span, r activationRegs) []Vec {
	e := r.e.of(s)
	for i, x := range e.keep {
		p.Fmax(x, x, r.least) // NaN stays NaN
		p.MovV(e.x[i], x)
	}
	p.onePlusExpMinus(e, r)
	for i, y := range e.p {
		p.Fdiv(y, e.keep[i], y)
		p.Fadd(y, y, r.zero)
	}
	return e.p
}

// sigmoid is 1/(1 + exp(−x)).
func (p *program) sigmoid(s span, r activationRegs) []Vec {
	e := r.e.of(s)
	for i, x := range e.keep {
		p.MovV(e.x[i], x)
	}
	p.onePlusExpMinus(e, r)
	for _, y := range e.p {
		p.Fdiv(y, r.one, y)
	}
	return e.p
}

// relu is max(x, 0), +0 for −0.
func (p *program) relu(s span, r activationRegs) []Vec {
	y := s.of(r.e.keep)
	for _, x := range y {
		p.Fmax(x, x, r.zero) // NaN stays NaN
	}
	return y
}

// siluGate is SwiGLU, which most models have.
func (p *program) siluGate() {
	const dst, x, up, n = R0, R1, R2, R3
	p.kernel("siluGateSIMD", 0, "dst x up n xAhead dstAhead", "")
	p.arg("dst", dst)
	p.arg("x", x)
	p.arg("up", up)
	p.arg("n", n)
	r := p.activationConstants()
	p.each(n, activationVectors, func(s span) {
		p.loadNext(s, r.e.keep, x)
		y := p.silu(s, r)
		p.loadNext(s, r.e.x, up)
		for i, y := range y {
			p.Fmul(y, y, r.e.x[i])
		}
		p.storeNext(s, y, dst)
	})
	p.Ret()
}

func (p *program) gateClamped() {
	const dst, gate, up, n = R0, R1, R2, R3
	const alpha, limit = Vec(30), Vec(31)
	p.kernel("gateClampedSIMD", 0, "dst gate up n alpha:float32 limit:float32 xAhead dstAhead", "")
	p.arg("dst", dst)
	p.arg("gate", gate)
	p.arg("up", up)
	p.arg("n", n)
	r := p.activationConstants() // but for zero
	p.floatArg("alpha", alpha)
	p.floatArg("limit", limit)
	p.each(n, activationVectors, func(s span) {
		e := r.e.of(s)
		p.loadNext(s, e.keep, gate)
		for i, g := range e.keep {
			p.Fmin(g, g, limit) // NaN stays NaN
			p.Fmul(e.x[i], g, alpha)
		}
		p.onePlusExpMinus(e, r)
		for i, y := range e.p {
			p.Fdiv(y, r.one, y)
			p.Fmul(y, e.keep[i], y)
			p.Fcmgt(e.t[i], r.least, e.keep[i]) // −Inf
			p.Bic(y, y, e.t[i])
		}
		p.loadNext(s, e.x, up)
		for i, u := range e.x {
			p.Eor(e.q[i], r.least, r.sign)
			p.Fmin(e.q[i], e.q[i], limit)
			p.Bsl(e.t[i], e.q[i], limit) // 0 times a finite number is 0
			p.Fmin(u, u, e.t[i])
			p.Eor(e.t[i], e.t[i], r.sign)
			p.Fmax(u, u, e.t[i])
			p.Fadd(u, u, r.one)
			p.Fmul(e.p[i], e.p[i], u)
		}
		p.storeNext(s, e.p, dst)
	})
	p.Ret()
}

// tanhAll is tanh of all elements.
func (p *program) tanhAll() {
	const dst, x, n = R0, R1, R2
	r := tanhAt(activationVectors)
	p.kernelLike("activateGeneric", "tanhSIMD", 0, "dst x n xAhead dstAhead", "")
	p.arg("dst", dst)
	p.arg("x", x)
	p.arg("n", n)
	p.loadTable()
	p.tanhConstants(r)
	p.each(n, activationVectors, func(s span) {
		r := r.of(s)
		p.loadNext(s, r.x, x)
		for i, x := range r.x {
			p.Fmul(r.z[i], x, x)
		}
		p.tanh(r)
		for i, y := range r.y {
			p.Bit(y, r.x[i], r.sign)
		}
		p.storeNext(s, r.y, dst)
	})
	p.Ret()
}
