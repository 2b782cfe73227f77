package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

// Kernels that make elements of fewer bits.

// storeHalves stores elements of 16 bits, which fill the registers, or the low half or the lowest
// lane of the first.
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

// narrowBF16 adds just less than half a unit of the upper half, or just half if that is odd, and
// takes the upper half.
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
