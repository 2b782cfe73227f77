package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

// Rows added up with weights: some columns of one or four sums, which stay in registers while the
// rows are read.

const (
	sumsCall, sumsDst, sumsFrom, sumsCols, sumsAt, sumsLeft = R0, R1, R2, R3, R4, R5
	sumsXStride, sumsStride, sumsBy, sumsAhead, sumsRow     = R6, R7, R8, R9, R10
	sumsWeights, sumsTemp                                   = R11, R15 // four pointers
	sumsX, sumsWeight                                       = Vec(16), Vec(20)
	sumsVectors                                             = 4
)

func (p *program) combine(name string, sums int) {
	p.kernelLike("combineGeneric", name, 0, "x", "")
	p.arg("x", sumsCall)
	for _, f := range []struct {
		to   Reg
		name string
	}{{sumsDst, "dst"}, {sumsFrom, "x"}, {sumsCols, "cols"}, {sumsXStride, "xStride"},
		{sumsStride, "dstStride"}, {sumsBy, "weightStride"}, {sumsAhead, "ahead"}} {
		p.field(f.to, sumsCall, "combineCall."+f.name)
	}
	p.each(sumsCols, sumsVectors, func(s span) {
		parts := make([][]Vec, sums)
		for i := range parts {
			parts[i] = s.of(from(Vec(sumsVectors*i), sumsVectors))
			for _, v := range parts[i] {
				p.Zero(v)
			}
			if i == 0 {
				p.field(sumsWeights, sumsCall, "combineCall.weights")
			} else {
				p.Add(sumsWeights+Reg(i), sumsWeights+Reg(i-1), sumsBy)
			}
		}
		begin := p.label("begin")
		p.Mov(sumsTemp, sumsCall)
		p.byteField(sumsLeft, sumsTemp, "combineCall.more")
		p.Cbz(sumsLeft, begin)
		p.eachSum(parts, func(v []Vec) { p.load(s, v, sumsTemp) })
		p.Label(begin)
		p.field(sumsLeft, sumsCall, "combineCall.rows")
		p.Mov(sumsAt, sumsFrom)
		p.passes(sumsLeft, span{single: true}, func(span) { p.combineRow(s, parts) })
		p.eachSum(parts, func(v []Vec) { p.storeNext(s, v, sumsTemp) })
		p.AddImm(sumsDst, sumsDst, 4*s.elements())
		p.AddImm(sumsFrom, sumsFrom, 4*s.elements())
	})
	p.Ret()
}

// eachSum calls f for the sums, with sumsTemp where they are in dst.
func (p *program) eachSum(parts [][]Vec, f func(v []Vec)) {
	p.Mov(sumsRow, sumsDst)
	for _, v := range parts {
		p.Mov(sumsTemp, sumsRow)
		f(v)
		p.Add(sumsRow, sumsRow, sumsStride)
	}
}

// combineRow adds a row to all sums.
func (p *program) combineRow(s span, parts [][]Vec) {
	x, near := s.of(from(sumsX, sumsVectors)), p.label("near")
	p.load(s, x, sumsAt)
	for i, sum := range parts {
		p.Ld1rPost(sumsWeight, sumsWeights+Reg(i))
		for j, v := range sum {
			p.Fmla(v, x[j], sumsWeight)
		}
	}
	if s.vectors == sumsVectors {
		p.Cbz(sumsAhead, near)
		p.Add(sumsTemp, sumsAt, sumsAhead)
		p.PrefetchL1(sumsTemp, 0)
		p.Label(near)
	}
	p.Add(sumsAt, sumsAt, sumsXStride)
}
