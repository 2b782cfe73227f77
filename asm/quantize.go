package main

import (
	"strings"

	. "github.com/seed-1415985d/attn/asm/internal/neon"
)

// largest relies on FMAX: NaN if one operand is. A single element leaves 0 in the other lanes,
// which is no larger.
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

// quantize handles 16 elements at a time, which are one vector of bytes, then 4, then single ones.
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
		p.storeBytes(s, v, all, upper, dst)
	})
	p.Ret()
}

// storeBytes stores the lowest bytes of a span of small integers by way of two vectors.
func (p *program) storeBytes(s span, v []Vec, all, upper Vec, dst Reg) {
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
}

// columns go column by column: they multiply, or add, or both, in that order.
func (p *program) columns() {
	p.columnsKernel("scaleColumnsSIMD", "f", p.Fmul)
	p.columnsKernel("addColumnsSIMD", "bias", p.Fadd)
	p.columnsKernel("scaleAddColumnsSIMD", "f bias", p.Fmul, p.Fadd)
}

func (p *program) columnsKernel(name, operands string, operations ...func(d, n, m Vec)) {
	const x, rows, stride, n, row, left = R0, R3, R4, R5, R6, R9
	first, at := [...]Reg{R1, R2}, [...]Reg{R7, R8}
	p.kernel(name, 0, "s "+operands+" rows stride n", "")
	p.arg("s", x)
	for i, name := range strings.Fields(operands) {
		p.arg(name, first[i])
	}
	p.arg("rows", rows)
	p.arg("stride", stride)
	p.arg("n", n)
	v, by := from(0, 4), from(4, 4)
	p.Label("row")
	p.Mov(row, x)
	for i := range operations {
		p.Mov(at[i], first[i])
	}
	p.Mov(left, n)
	p.each(left, 4, func(s span) {
		p.load(s, v, row)
		for i, operation := range operations {
			p.loadNext(s, by, at[i])
			for i, v := range s.of(v) {
				operation(v, v, by[i])
			}
		}
		p.storeNext(s, v, row)
	})
	p.AddShifted(x, x, stride, 2)
	p.SubImm(rows, rows, 1)
	p.Cbnz(rows, "row")
	p.Ret()
}
