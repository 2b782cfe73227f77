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

// Kernels of integers look codes up on their way: a vector of codes is two groups of four steps.

// Registers of codes, in scores; in kernels of values they are shared.
const (
	codesOf = Vec(28) // levels of the codes
	halves  = Vec(29) // ones in the lower halves of bytes
)

// codesTable points at the constants where values have other things in their register.
const codesTable = R22

// upperCodes holds the upper halves, as int8Groups holds the lower ones.
var upperCodes = from(20, panel/lanes)

func (p *program) int4Kernels() {
	t := int8Kernel{program: p, score: true, codes: true}
	p.kernelLike("scoreInt4Generic", "scoreInt4Dot", 0, "s q k scales rows qStride b", "")
	t.scoreArguments()
	t.MovImm(cStride, blockBytes)
	t.loadTable()
	t.constant(codesOf, t.levels())
	t.constant(halves, t.lowerHalves())
	t.panelLoop(int8Rows, t.codeTile)
	t.score = false
	t.weighted("accumulateInt4Generic", "accumulateInt4Dot")
}

func (p *program) levels() int { return p.words("levels of codes", int4Levels[:]...) }

func (p *program) lowerHalves() int {
	const ones = 0x0f0f0f0f
	return p.words("lower halves of bytes", ones, ones, ones, ones)
}

// codeTile is tile for codes: two groups at a time, then a last one if their number is odd.
func (t *int8Kernel) codeTile(r int) {
	t.beginTile(r)
	loop, last, end := t.label("groups"), t.label("last"), t.label("end")
	t.LsrImm(stepsLeft, steps, 1)
	t.Cbz(stepsLeft, last)
	t.Label(loop)
	t.Ld1(int8Groups, b0)
	t.Add(b0, b0, bStride)
	for i := range r {
		t.LdrD(aVec(i), a0+Reg(i), 0)
		t.AddImm(a0+Reg(i), a0+Reg(i), 8)
	}
	for v, codes := range int8Groups {
		t.UshrB(upperCodes[v], codes, 4)
		t.And(codes, codes, halves)
	}
	for half, group := range [][]Vec{int8Groups, upperCodes} {
		t.addCodes(r, group, half)
	}
	t.SubImm(stepsLeft, stepsLeft, 1)
	t.Cbnz(stepsLeft, loop)
	t.Label(last)
	t.LsrImm(stepsLeft, steps, 1)
	t.LslImm(stepsLeft, stepsLeft, 1)
	t.Cmp(stepsLeft, steps)
	t.Bcond(EQ, end)
	t.Ld1(int8Groups, b0)
	for i := range r {
		t.LdrSPost(aVec(i), a0+Reg(i))
	}
	for _, codes := range int8Groups {
		t.And(codes, codes, halves)
	}
	t.addCodes(r, int8Groups, 0)
	t.Label(end)
	t.finish(r)
	t.nextRows(r)
}

// addCodes adds products of the levels of a group and a lane of each row.
func (t *int8Kernel) addCodes(r int, group []Vec, lane int) {
	for _, codes := range group {
		t.Tbl1(codes, codesOf, codes)
	}
	for i := range r {
		for v, levels := range group {
			t.SdotLane(acc(i, v, len(group)), levels, aVec(i), lane)
		}
	}
}

// codesOfValues looks up the lower halves of a vector of each four columns, or the upper ones,
// which are the last to be read.
func (t *int8Kernel) codesOfValues(half int) {
	t.Ld1(valueGroups, b0)
	if half == 1 {
		t.Add(b0, b0, bStride)
	}
	for _, codes := range valueGroups {
		if half == 0 {
			t.And(codes, codes, int8Sign)
		} else {
			t.UshrB(codes, codes, 4)
		}
	}
	for _, codes := range valueGroups {
		t.Tbl1(codes, int8Temp, codes)
	}
}

// lookUp looks up the lower and the upper halves of 64 bytes at a time.
func (p *program) lookUp() {
	const dst, src, rows, vectors, row, step, upper = R0, R1, R2, R3, R4, R5, R6
	const left, at, above = R7, R8, R9
	p.kernel("lookUpSIMD", 0, "dst src rows vectors row step upper ahead", "")
	p.arg("dst", dst)
	p.arg("src", src)
	p.arg("rows", rows)
	p.arg("vectors", vectors)
	p.arg("row", row)
	p.arg("step", step)
	p.arg("upper", upper)
	p.loadTable()
	p.constant(codesOf, p.levels())
	p.constant(halves, p.lowerHalves())
	lower, higher := from(0, 4), from(4, 4)
	p.Label("row")
	p.Mov(left, vectors)
	p.Mov(at, dst)
	p.Label("vector")
	p.Ld1Post(higher, src)
	p.Add(above, at, upper)
	for i, v := range higher {
		p.And(lower[i], v, halves)
		p.UshrB(v, v, 4)
	}
	for i, v := range higher {
		p.Tbl1(lower[i], codesOf, lower[i])
		p.Tbl1(v, codesOf, v)
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
