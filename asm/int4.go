package main

import (
	"math"

	. "github.com/seed-1415985d/attn/asm/internal/neon"
)

// Codes of four bits (kernel_int4.go of the package): numbers become codes, and codes the levels
// that kernels of I8 read.

// int4Levels are the levels of the codes, four bytes a word.
var int4Levels = [4]uint32{0x281c1005, 0x75594536, 0xd8e4f0fb, 0x8ba7bbca}

// int4Bounds are where magnitudes are rounded to the next level.
var int4Bounds = []float32{10.5, 22, 34, 47, 61.5, 79, 103}

// encode counts the bounds that a magnitude reaches, and puts its sign above.
func (p *program) encode() {
	const dst, x, n, word = R0, R1, R2, R3
	const scale, all, upper = Vec(16), Vec(12), Vec(13)
	p.kernel("encodeSIMD", 0, "dst x n scale:float32", "")
	p.arg("dst", dst)
	p.arg("x", x)
	p.arg("n", n)
	p.floatArg("scale", scale)
	v, code, reached, bounds := from(0, 4), from(4, 4), from(8, 4), from(17, len(int4Bounds))
	for i, e := range int4Bounds {
		p.MovImm(word, int64(math.Float32bits(e)))
		p.DupReg(bounds[i], word)
	}
	p.each(n, 4, func(s span) {
		p.loadNext(s, v, x)
		for _, v := range s.of(v) {
			p.Fdiv(v, v, scale)
		}
		for i, v := range s.of(v) {
			p.Ushr(code[i], v, 31)
			p.Shl(code[i], code[i], 3)
			p.Fabs(v, v)
		}
		for _, bound := range bounds {
			for i, v := range s.of(v) {
				p.Fcmge(reached[i], v, bound)
				p.SubI(code[i], code[i], reached[i])
			}
		}
		p.storeBytes(s, code, all, upper, dst)
	})
	p.Ret()
}

// lookUp looks up the lower and the upper halves of 64 bytes at a time.
func (p *program) lookUp() {
	const dst, src, rows, vectors, row, step, upper = R0, R1, R2, R3, R4, R5, R6
	const left, at, above, word = R7, R8, R9, R10
	const codes, halves = Vec(16), Vec(17)
	p.kernel("lookUpSIMD", 0, "dst src rows vectors row step upper ahead", "")
	p.arg("dst", dst)
	p.arg("src", src)
	p.arg("rows", rows)
	p.arg("vectors", vectors)
	p.arg("row", row)
	p.arg("step", step)
	p.arg("upper", upper)
	p.loadTable()
	p.constant(codes, p.words("levels of codes", int4Levels[:]...))
	p.MovImm(word, 0x0f0f0f0f)
	p.DupReg(halves, word)
	lower, higher := from(0, 4), from(4, 4)
	p.Label("row")
	p.Mov(left, vectors)
	p.Mov(at, dst)
	p.Label("vector")
	p.Ld1Post(higher, src)
	p.Add(above, at, upper)
	for i, v := range higher {
		p.And(lower[i], v, halves)
		p.Ushr(v, v, 4)
		p.And(v, v, halves)
	}
	for i, v := range higher {
		p.Tbl1(lower[i], codes, lower[i])
		p.Tbl1(v, codes, v)
	}
	p.St1(lower, at)
	p.St1(higher, above)
	p.Add(at, at, step)
	p.SubImm(left, left, 1)
	p.Cbnz(left, "vector")
	p.Add(dst, dst, row)
	p.SubImm(rows, rows, 1)
	p.Cbnz(rows, "row")
	p.Ret()
}
