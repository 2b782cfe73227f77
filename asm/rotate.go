package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

// rotate makes sums and differences over the whole row for each distance: 1 and 2 within vectors,
// then 4, 8, … between them. Blocks do not meet, because distances stay below their size.
func (p *program) rotate() {
	const x, n, size, at = R0, R1, R2, R3
	const factor, odd, high = Vec(16), Vec(17), Vec(18)
	p.kernel("rotateSIMD", 0, "x n block factor:float32", "")
	p.arg("x", x)
	p.arg("n", n)
	p.arg("block", size)
	p.floatArg("factor", factor)
	p.loadTable()
	p.constant(odd, p.words("signs of odd lanes", 0, bitsSign, 0, bitsSign))
	p.constant(high, p.words("signs of the high lanes", 0, 0, bitsSign, bitsSign))
	v, w := Vec(0), Vec(1)

	p.Comment("Blocks of 2: a single sum and difference each.")
	p.CmpImm(size, 2)
	p.Bcond(NE, "four")
	p.Label("two")
	p.LdrD(v, x, 0)
	p.sumsAndDifferences(v, w, odd, p.SwapPairs)
	p.Fmul(v, v, factor)
	p.StrDPost(v, x)
	p.SubsImm(n, n, 2)
	p.Bcond(GT, "two")
	p.Ret()

	p.Comment("Others: first distances 1 and 2.")
	p.Label("four")
	p.overRow(x, n, at, func() {
		p.LdrQ(v, at, 0)
		p.sumsAndDifferences(v, w, odd, p.SwapPairs)
		p.sumsAndDifferences(v, w, high, p.SwapHalves)
		p.StrQPost(v, at)
	})
	p.rotateVectors(x, n, size)

	p.Comment("1/√block")
	p.overRow(x, n, at, func() {
		p.LdrQ(v, at, 0)
		p.Fmul(v, v, factor)
		p.StrQPost(v, at)
	})
	p.Ret()
}

// sumsAndDifferences puts a + b and a − b in the place of pairs within v that swap exchanges; signs
// are set in the lanes of b.
func (p *program) sumsAndDifferences(v, work, signs Vec, swap func(d, n Vec)) {
	swap(work, v)
	p.Eor(v, v, signs)
	p.Fadd(v, work, v)
}

// overRow runs body, which moves at, for each vector of the row.
func (p *program) overRow(x, n, at Reg, body func()) {
	const left = R4
	loop := p.label("loop")
	p.Mov(at, x)
	p.Mov(left, n)
	p.Label(loop)
	body()
	p.SubsImm(left, left, lanes)
	p.Bcond(GT, loop)
}

// rotateVectors does distances of whole vectors up to size/2.
func (p *program) rotateVectors(x, n, size Reg) {
	const left, distance, lower, upper, end, bytes = R4, R5, R6, R7, R8, R9
	v, w, sum := Vec(0), Vec(1), Vec(2)
	p.Comment("Distances from 4 on: sums go where the first of a pair was, differences where the " +
		"second was.")
	p.MovImm(distance, lanes)
	p.Label("distance")
	p.Cmp(distance, size)
	p.Bcond(GE, "factor")
	p.Mov(lower, x)
	p.Mov(left, n)
	p.LslImm(bytes, distance, 2)
	p.Label("pairs")
	p.Add(upper, lower, bytes)
	p.Mov(end, upper)
	p.Label("pair")
	p.LdrQ(v, lower, 0)
	p.LdrQ(w, upper, 0)
	p.Fadd(sum, v, w)
	p.Fsub(v, v, w)
	p.StrQPost(sum, lower)
	p.StrQPost(v, upper)
	p.Cmp(lower, end)
	p.Bcond(NE, "pair")
	p.Mov(lower, upper)
	p.Sub(left, left, distance)
	p.Sub(left, left, distance)
	p.Cbnz(left, "pairs")
	p.LslImm(distance, distance, 1)
	p.B("distance")
	p.Label("factor")
}
