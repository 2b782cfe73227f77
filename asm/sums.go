package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

// Kernels of package nn: sums over rows, products, rotation.

// elementKernels emits the kernels of internal/kernel/elements.
func (p *program) elementKernels() {
	p.rowSum()
	p.sumSquares()
	p.addSquares()
	p.scaleRow()
	p.scaleWeighted()
	p.normalizeRow()
	p.pairs("addSIMD", p.Fadd)
	p.pairs("multiplySIMD", p.Fmul)
	p.multiplyAdd()
	p.rotateHalves()
	p.rotatePairs()
	p.combine("combineSIMD", 1)
	p.combine("combineFourSIMD", 4)
	p.columnMaxima()
	p.activations()
}

const sumLanes = block / lanes // registers of the 64 lanes of sums

// sumRows emits a loop over n elements in 64 lanes. step adds some vectors to as many registers.
// The lanes begin in memory and end there, or if lane is nil, begin with zeros. Their sum is the
// result.
func (p *program) sumRows(lane, n Reg, step func(s span, sum []Vec)) {
	const at, local, size = R5, R6, block * 4
	sum, begin, zero := from(0, sumLanes), p.label("begin"), p.label("zero")
	transfer := func(move func([]Vec, Reg)) {
		p.Mov(at, lane)
		for i := 0; i < len(sum); i += 4 {
			move(sum[i:i+4], at)
		}
	}
	p.Cbz(lane, zero)
	transfer(p.Ld1Post)
	p.B(begin)
	p.Label(zero)
	for _, v := range sum {
		p.Zero(v)
	}
	p.Label(begin)
	p.passes(n, span{vectors: len(sum)}, func(span) {
		for i := 0; i < len(sum); i += 4 {
			step(span{vectors: 4}, sum[i:i+4])
		}
	})
	p.inMemory("lanes", sum, size, local, n, func() {
		part := []Vec{28}
		p.each(n, 1, func(s span) {
			p.load(s, part, local)
			step(s, part)
			p.storeNext(s, part, local)
		})
	})
	end := p.label("end")
	p.Cbz(lane, end)
	transfer(p.St1Post)
	p.Label(end)
	p.fold(sum)
	p.floatResult("ret", sum[0])
	p.Ret()
}

func (p *program) rowSum() {
	const lane, x, n = R0, R1, R2
	p.kernel("sumSIMD", block*4, "lane x n", "ret:float32")
	p.arg("lane", lane)
	p.arg("x", x)
	p.arg("n", n)
	v := from(16, 4)
	p.sumRows(lane, n, func(s span, sum []Vec) {
		p.loadNext(s, v, x)
		for i := range s.vectors {
			p.Fadd(sum[i], sum[i], v[i])
		}
	})
}

func (p *program) sumSquares() {
	const lane, x, n = R0, R1, R2
	const mean = Vec(24)
	p.kernel("sumSquaresSIMD", block*4, "lane x n mean:float32", "ret:float32")
	p.arg("lane", lane)
	p.arg("x", x)
	p.arg("n", n)
	p.floatArg("mean", mean)
	v := from(16, 4)
	p.sumRows(lane, n, func(s span, sum []Vec) {
		p.loadNext(s, v, x)
		for i := range s.vectors {
			p.Fsub(v[i], v[i], mean)
			p.Fmla(sum[i], v[i], v[i])
		}
	})
}

func (p *program) addSquares() {
	const lane, dst, a, b, n = R0, R1, R2, R3, R4
	p.kernel("addSquaresSIMD", block*4, "lane dst a b n", "ret:float32")
	p.arg("lane", lane)
	p.arg("dst", dst)
	p.arg("a", a)
	p.arg("b", b)
	p.arg("n", n)
	v, w := from(16, 4), from(20, 4)
	p.sumRows(lane, n, func(s span, sum []Vec) {
		p.loadNext(s, v, a)
		p.loadNext(s, w, b)
		for i := range s.vectors {
			p.Fadd(v[i], v[i], w[i])
			p.Fmla(sum[i], v[i], v[i])
		}
		p.storeNext(s, v, dst)
	})
}

func (p *program) scaleRow() {
	const dst, x, n = R0, R1, R2
	const r = Vec(24)
	p.kernel("scaleSIMD", 0, "dst x n r:float32 xAhead dstAhead", "")
	p.arg("dst", dst)
	p.arg("x", x)
	p.arg("n", n)
	p.floatArg("r", r)
	v := from(0, 4)
	p.each(n, 4, func(s span) {
		p.loadNext(s, v, x)
		for _, v := range s.of(v) {
			p.Fmul(v, v, r)
		}
		p.storeNext(s, v, dst)
	})
	p.Ret()
}

func (p *program) scaleWeighted() {
	const dst, x, weight, n = R0, R1, R2, R3
	const r = Vec(24)
	p.kernel("scaleWeightedSIMD", 0, "dst x weight n r:float32 xAhead dstAhead", "")
	p.arg("dst", dst)
	p.arg("x", x)
	p.arg("weight", weight)
	p.arg("n", n)
	p.floatArg("r", r)
	v, w := from(0, 4), from(4, 4)
	p.each(n, 4, func(s span) {
		p.loadNext(s, v, x)
		p.loadNext(s, w, weight)
		for i, v := range s.of(v) {
			p.Fmul(v, v, r)
			p.Fmul(v, v, w[i])
		}
		p.storeNext(s, v, dst)
	})
	p.Ret()
}

func (p *program) normalizeRow() {
	const dst, x, weight, bias, n = R0, R1, R2, R3, R4
	const mean, r = Vec(24), Vec(25)
	p.kernel("normalizeSIMD", 0, "dst x weight bias n mean:float32 r:float32 xAhead dstAhead", "")
	p.arg("dst", dst)
	p.arg("x", x)
	p.arg("weight", weight)
	p.arg("bias", bias)
	p.arg("n", n)
	p.floatArg("mean", mean)
	p.floatArg("r", r)
	v, w, b := from(0, 4), from(4, 4), from(8, 4)
	p.each(n, 4, func(s span) {
		p.loadNext(s, v, x)
		p.loadNext(s, w, weight)
		p.loadNext(s, b, bias)
		for i, v := range s.of(v) {
			p.Fsub(v, v, mean)
			p.Fmul(v, v, r)
			p.Fmla(b[i], v, w[i])
		}
		p.storeNext(s, b, dst)
	})
	p.Ret()
}

// pairs is dst = f(a, b) element by element.
func (p *program) pairs(name string, f func(d, n, m Vec)) {
	const dst, a, b, n = R0, R1, R2, R3
	p.kernel(name, 0, "dst a b n xAhead dstAhead", "")
	p.arg("dst", dst)
	p.arg("a", a)
	p.arg("b", b)
	p.arg("n", n)
	v, w := from(0, 4), from(4, 4)
	p.each(n, 4, func(s span) {
		p.loadNext(s, v, a)
		p.loadNext(s, w, b)
		for i, v := range s.of(v) {
			f(v, v, w[i])
		}
		p.storeNext(s, v, dst)
	})
	p.Ret()
}

func (p *program) multiplyAdd() {
	const dst, a, b, n = R0, R1, R2, R3
	p.kernel("multiplyAddSIMD", 0, "dst a b n", "")
	p.arg("dst", dst)
	p.arg("a", a)
	p.arg("b", b)
	p.arg("n", n)
	v, w, u := from(0, 4), from(4, 4), from(8, 4)
	p.each(n, 4, func(s span) {
		p.loadNext(s, v, a)
		p.loadNext(s, w, b)
		p.load(s, u, dst)
		for i, u := range s.of(u) {
			p.Fmla(u, v[i], w[i])
		}
		p.storeNext(s, u, dst)
	})
	p.Ret()
}

// turn leaves x₀·c − x₁·s in y0 and x₁·c + x₀·s in y1; flip changes the sign of s, which is used
// up.
func (p *program) turn(y0, y1, x0, x1, c, s, flip, sign Vec) {
	p.Eor(s, s, flip)
	p.Fmul(y1, x0, s)
	p.Eor(s, s, sign)
	p.Fmul(y0, x1, s)
	p.Fmla(y0, x0, c)
	p.Fmla(y1, x1, c)
}

// rotation loads the arguments and constants that all rotations use.
func (p *program) rotation(dst, x, c, s, n Reg, flip, sign Vec) {
	p.arg("dst", dst)
	p.arg("x", x)
	p.arg("c", c)
	p.arg("s", s)
	p.arg("n", n)
	p.floatArg("flip", flip)
	p.loadTable()
	p.constant(sign, p.words("−0", bitsSign, bitsSign, bitsSign, bitsSign))
}

// rotateHalves turns n pairs that are half elements apart.
func (p *program) rotateHalves() {
	const dst, x, c, s, n, half, dst1, x1 = R0, R1, R2, R3, R4, R5, R6, R7
	const flip, sign = Vec(24), Vec(25)
	p.kernel("rotateHalvesSIMD", 0, "dst x c s n half flip:float32", "")
	p.rotation(dst, x, c, s, n, flip, sign)
	p.arg("half", half)
	p.AddShifted(dst1, dst, half, 2)
	p.AddShifted(x1, x, half, 2)
	first, second, cosine, sine := from(0, 2), from(2, 2), from(4, 2), from(6, 2)
	y0, y1 := from(8, 2), from(10, 2)
	p.each(n, 2, func(w span) {
		p.loadNext(w, first, x)
		p.loadNext(w, second, x1)
		p.loadNext(w, cosine, c)
		p.loadNext(w, sine, s)
		for i := range w.vectors {
			p.turn(y0[i], y1[i], first[i], second[i], cosine[i], sine[i], flip, sign)
		}
		p.storeNext(w, y0, dst)
		p.storeNext(w, y1, dst1)
	})
	p.Ret()
}

// rotatePairs turns n pairs that are neighbours. Of four, transposing pairs of two vectors gives
// x₀ of 0, 2, 1 and 3, so that cosines and sines are put in that order.
func (p *program) rotatePairs() {
	const dst, x, c, s, n = R0, R1, R2, R3, R4
	const flip, sign, order = Vec(24), Vec(25), Vec(26)
	p.kernel("rotatePairsSIMD", 0, "dst x c s n flip:float32", "")
	p.rotation(dst, x, c, s, n, flip, sign)
	p.constant(order, p.words("bytes of words 0, 2, 1, 3", 0x03020100, 0x0b0a0908, 0x07060504,
		0x0f0e0d0c))
	both, v0, v1, cosine, sine, y := from(0, 2), Vec(2), Vec(3), Vec(4), Vec(5), from(6, 2)
	p.passes(n, span{vectors: 1}, func(span) {
		p.Ld1Post(both, x)
		p.Ld1Post([]Vec{cosine}, c)
		p.Ld1Post([]Vec{sine}, s)
		p.Tbl1(cosine, cosine, order)
		p.Tbl1(sine, sine, order)
		p.Trn1(v0, both[0], both[1])
		p.Trn2(v1, both[0], both[1])
		p.turn(y[0], y[1], v0, v1, cosine, sine, flip, sign)
		p.Trn1(both[0], y[0], y[1])
		p.Trn2(both[1], y[0], y[1])
		p.St1Post(both, dst)
	})
	p.passes(n, span{vectors: 1, single: true}, func(span) {
		p.LdrSPost(v0, x)
		p.LdrSPost(v1, x)
		p.LdrSPost(cosine, c)
		p.LdrSPost(sine, s)
		p.turn(y[0], y[1], v0, v1, cosine, sine, flip, sign)
		p.StrSPost(y[0], dst)
		p.StrSPost(y[1], dst)
	})
	p.Ret()
}

// columnMaxima is best = max(best, each of some rows) + 0, of four vectors at a time.
func (p *program) columnMaxima() {
	const best, x, n, rows, stride, at, left = R0, R1, R2, R3, R4, R5, R6
	p.kernel("columnMaximaSIMD", 0, "best x n rows stride", "")
	p.arg("best", best)
	p.arg("x", x)
	p.arg("n", n)
	p.arg("rows", rows)
	p.arg("stride", stride)
	p.LslImm(stride, stride, 2)
	top, v, zero := from(0, 4), from(4, 4), Vec(8)
	p.Zero(zero)
	p.passes(n, span{vectors: 4}, func(span) {
		p.Ld1(top, best)
		p.Mov(at, x)
		p.Mov(left, rows)
		p.passes(left, span{single: true}, func(span) {
			p.Ld1(v, at)
			p.Add(at, at, stride)
			for i, v := range v {
				p.Fmax(top[i], top[i], v) // NaN stays NaN
			}
		})
		for _, v := range top {
			p.Fadd(v, v, zero)
		}
		p.St1Post(top, best)
		p.AddImm(x, x, 4*panel)
	})
	p.Ret()
}
