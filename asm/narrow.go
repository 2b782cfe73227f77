package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

// Kernels that make elements of fewer bits.

// storeHalves stores elements of 16 bits, which fill the registers, or the low half or the lowest lane of the first.
func (p *program) storeHalves(s span, v []Vec, dst Reg) {
	switch {
	case s.single:
		p.StrHPost(v[0], dst)
	case s.vectors == 1:
		p.StrDPost(v[0], dst)
	default:
		p.St1Post(v[:s.vectors/2], dst)
	}
}

// narrowF16 rounds as FPCR says, which Go leaves at nearest, ties to even.
func (p *program) narrowF16() {
	const dst, x, n = R0, R1, R2
	p.kernelLike("narrowGeneric", "narrowF16SIMD", 0, "dst x n", "")
	p.arg("dst", dst)
	p.arg("x", x)
	p.arg("n", n)
	v, h := from(0, 4), from(4, 2)
	p.each(n, 4, func(s span) {
		p.loadNext(s, v, x)
		for i, v := range s.of(v) {
			if i%2 == 0 {
				p.Fcvtn(h[i/2], v)
			} else {
				p.Fcvtn2(h[i/2], v)
			}
		}
		p.storeHalves(s, h, dst)
	})
	p.Ret()
}

// narrowBF16 adds just less than half a unit of the upper half, or just half if that is odd, and takes the upper half.
func (p *program) narrowBF16() {
	const dst, x, n = R0, R1, R2
	const odd, most, quiet = Vec(24), Vec(25), Vec(26)
	p.kernelLike("narrowGeneric", "narrowBF16SIMD", 0, "dst x n", "")
	p.arg("dst", dst)
	p.arg("x", x)
	p.arg("n", n)
	p.loadTable()
	for _, c := range []struct {
		v      Vec
		remark string
		word   uint32
	}{{odd, "1", 1}, {most, "0x7fff", 0x7fff}, {quiet, "the bit of quiet NaN", 0x400000}} {
		w := repeat(c.word)
		p.constant(c.v, p.words(c.remark, w[:]...))
	}
	v, sum, nan, number := from(0, 4), from(4, 4), from(8, 4), from(12, 4)
	p.each(n, 4, func(s span) {
		p.loadNext(s, v, x)
		for i, v := range s.of(v) {
			p.Ushr(sum[i], v, 16)
			p.And(sum[i], sum[i], odd)
			p.AddI(sum[i], sum[i], most)
			p.AddI(sum[i], sum[i], v)
			p.OrrV(nan[i], v, quiet)
			p.Fcmeq(number[i], v, v)
			p.Bsl(number[i], sum[i], nan[i])
		}
		if s.vectors == 1 {
			p.Uzp2H(v[0], number[0], number[0])
		}
		for i := range s.vectors / 2 {
			p.Uzp2H(v[i], number[2*i], number[2*i+1])
		}
		p.storeHalves(s, v, dst)
	})
	p.Ret()
}

// largest relies on FMAX: NaN if one operand is. A single element leaves 0 in the other lanes, which is no larger.
func (p *program) largest() {
	const x, n = R0, R1
	p.kernel("largestSIMD", 0, "x n", "ret:float32")
	p.arg("x", x)
	p.arg("n", n)
	v, most := from(0, 4), from(4, 4)
	for _, m := range most {
		p.Zero(m)
	}
	p.each(n, 4, func(s span) {
		p.loadNext(s, v, x)
		for i, v := range s.of(v) {
			p.Fabs(v, v)
			p.Fmax(most[i], most[i], v)
		}
	})
	p.Fmax(most[0], most[0], most[1])
	p.Fmax(most[2], most[2], most[3])
	p.Fmax(most[0], most[0], most[2])
	p.Fmaxv(most[0], most[0])
	p.floatResult("ret", most[0])
	p.Ret()
}

// quantize takes 16 elements at a time, which are one vector of bytes, then 4, then single ones.
func (p *program) quantize() {
	const dst, x, n = R0, R1, R2
	const scale, all, upper = Vec(16), Vec(4), Vec(5)
	p.kernel("quantizeSIMD", 0, "dst x n scale:float32", "")
	p.arg("dst", dst)
	p.arg("x", x)
	p.arg("n", n)
	p.floatArg("scale", scale)
	v := from(0, 4)
	p.each(n, 4, func(s span) {
		p.loadNext(s, v, x)
		for _, v := range s.of(v) {
			p.Fdiv(v, v, scale)
		}
		for _, v := range s.of(v) {
			p.Fcvtns(v, v)
		}
		p.Sqxtn(all, v[0])
		if s.vectors > 1 {
			p.Sqxtn2(all, v[1])
			p.Sqxtn(upper, v[2])
			p.Sqxtn2(upper, v[3])
		}
		p.SqxtnB(all, all)
		switch {
		case s.single:
			p.StrBPost(all, dst)
		case s.vectors == 1:
			p.StrSPost(all, dst)
		default:
			p.SqxtnB2(all, upper)
			p.StrQPost(all, dst)
		}
	})
	p.Ret()
}

func (p *program) scaleColumns() {
	const x, f, rows, stride, n, row, factors, left = R0, R1, R2, R3, R4, R5, R6, R7
	p.kernel("scaleColumnsSIMD", 0, "s f rows stride n", "")
	p.arg("s", x)
	p.arg("f", f)
	p.arg("rows", rows)
	p.arg("stride", stride)
	p.arg("n", n)
	v, by := from(0, 4), from(4, 4)
	p.Label("row")
	p.Mov(row, x)
	p.Mov(factors, f)
	p.Mov(left, n)
	p.each(left, 4, func(s span) {
		p.load(s, v, row)
		p.loadNext(s, by, factors)
		for i, v := range s.of(v) {
			p.Fmul(v, v, by[i])
		}
		p.storeNext(s, v, row)
	})
	p.AddShifted(x, x, stride, 2)
	p.SubImm(rows, rows, 1)
	p.Cbnz(rows, "row")
	p.Ret()
}
