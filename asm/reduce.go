package main

import (
	"fmt"

	. "github.com/seed-1415985d/attn/asm/internal/neon"
)

// Kernels that return a number.

// allFinite sums x·0, which is NaN where x is not finite.
func (p *program) allFinite() {
	const x, n, yes = R0, R1, R2
	const zero = Vec(16)
	p.kernel("allFiniteSIMD", 0, "x n", "ret:bool")
	p.arg("x", x)
	p.arg("n", n)
	v, sum := from(0, 4), from(4, 4)
	p.Zero(zero)
	for _, s := range sum {
		p.Zero(s)
	}
	p.each(n, 4, func(s span) {
		p.loadNext(s, v, x)
		for i := range s.vectors {
			p.Fmla(sum[i], v[i], zero)
		}
	})
	p.fold(sum)
	p.Line("\tFCMPS F%d, F%d", sum[0], sum[0])
	p.Cset(VC, yes)
	p.boolResult("ret", yes)
	p.Ret()
}

// maxOf relies on FMAX: NaN if one operand is.
func (p *program) maxOf() {
	const x, n = R0, R1
	const zero = Vec(16)
	p.kernel("maxOfSIMD", 0, "x n", "ret:float32")
	p.arg("x", x)
	p.arg("n", n)
	p.loadTable()
	v, top := from(0, 4), from(4, 4)
	for _, t := range top {
		p.constant(t, p.words("−Inf", bitsNegInf, bitsNegInf, bitsNegInf, bitsNegInf))
	}
	p.each(n, 4, func(s span) {
		p.loadNext(s, v, x)
		if s.single {
			p.Dup(v[0], v[0], 0)
		}
		for i := range s.vectors {
			p.Fmax(top[i], top[i], v[i])
		}
	})
	p.Fmax(top[0], top[0], top[1])
	p.Fmax(top[2], top[2], top[3])
	p.Fmax(top[0], top[0], top[2])
	p.Fmaxv(top[0], top[0])
	p.Zero(zero)
	p.Fadd(top[0], top[0], zero) // −0 becomes +0
	p.floatResult("ret", top[0])
	p.Ret()
}

// dot keeps the sum of index i in lane i%64. The elements after the last multiple of 64 are added
// to the lanes in memory, where single lanes can be addressed.
func (p *program) dot() {
	const a, b, n, sums = R0, R1, R2, R3
	const size = block * 4
	p.kernel("dotSIMD", size, "a b n", "ret:float32")
	p.arg("a", a)
	p.arg("b", b)
	p.arg("n", n)
	lane := from(0, block/lanes)
	for _, v := range lane {
		p.Zero(v)
	}
	p.products(lane, a, b, n)
	x := from(16, 4)
	p.inMemory("lanes", lane, size, sums, n, func() {
		p.each(n, 1, func(s span) {
			p.loadNext(s, x[:1], a)
			p.loadNext(s, x[1:2], b)
			p.load(s, x[2:3], sums)
			p.Fmla(x[2], x[0], x[1])
			p.storeNext(s, x[2:3], sums)
		})
	})
	p.fold(lane)
	p.Zero(x[0])
	p.Fadd(lane[0], lane[0], x[0])
	p.floatResult("ret", lane[0])
	p.Ret()
}

// products adds the products of 64 elements at a time to as many lanes.
func (p *program) products(lane []Vec, a, b, n Reg) {
	x, y := from(16, 4), from(20, 4)
	p.passes(n, span{vectors: len(lane)}, func(span) {
		for i := 0; i < len(lane); i += 4 {
			p.Ld1Post(x, a)
			p.Ld1Post(y, b)
			for t := range x {
				p.Fmla(lane[i+t], x[t], y[t])
			}
		}
	})
}

// addProducts is the loop of dot on lanes in memory.
func (p *program) addProducts() {
	const sums, a, b, n, at = R0, R1, R2, R3, R4
	p.kernel("addProductsSIMD", 0, "lane a b n", "")
	p.arg("lane", sums)
	p.arg("a", a)
	p.arg("b", b)
	p.arg("n", n)
	lane := from(0, block/lanes)
	transfer := func(move func([]Vec, Reg)) {
		p.Mov(at, sums)
		for i := 0; i < len(lane); i += 4 {
			move(lane[i:i+4], at)
		}
	}
	transfer(p.Ld1Post)
	p.products(lane, a, b, n)
	transfer(p.St1Post)
	p.Ret()
}

// inMemory runs body, if there is something left to do, with the lanes in the
// function's frame of size bytes instead of in registers; at points to the first.
func (p *program) inMemory(name string, lane []Vec, size int, at, left Reg, body func()) {
	local, end := fmt.Sprintf("%s-%d(SP)", name, size), p.label("end")
	transfer := func(move func([]Vec, Reg)) {
		p.Address(at, local)
		for i := 0; i < len(lane); i += 4 {
			move(lane[i:i+4], at)
		}
	}
	p.Cbz(left, end)
	transfer(p.St1Post)
	p.Address(at, local)
	body()
	transfer(p.Ld1Post)
	p.Label(end)
}

// fold sums the lanes of v in halves, lane t with lane t+half, into lane 0 of v[0].
func (p *program) fold(v []Vec) {
	for half := len(v) / 2; half > 0; half /= 2 {
		for i := range half {
			p.Fadd(v[i], v[i], v[i+half])
		}
	}
	p.SwapHalves(31, v[0])
	p.Fadd(v[0], v[0], 31)
	p.FaddPair(v[0], v[0])
}
