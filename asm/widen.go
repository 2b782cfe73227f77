package main

import (
	"fmt"

	. "github.com/seed-1415985d/attn/asm/internal/neon"
)

// Widening in registers, which is exact.

// widenHalves is d = the eight elements of 16 bits in n, four in each register.
func (p *program) widenHalves(e element, d []Vec, n Vec) {
	if e == elementF16 {
		p.Fcvtl(d[0], n)
		p.Fcvtl2(d[1], n)
		return
	}
	p.Shll(d[0], n) // BF16 is the upper half of a float32
	p.Shll2(d[1], n)
}

// Bytes become numbers by a table lookup and a subtraction, which every vector unit does;
// conversions of integers have one unit on some CPUs. With its sign bit turned around a byte x is x
// + 128 without sign. As the lowest byte of 2²³, which the lookup makes it, that is the float 2²³ +
// 128 + x.
const (
	i8Sign  = Vec(28) // the sign bit of each byte
	i8Bias  = Vec(29) // 2²³ + 128
	i8Data  = Vec(30) // four steps of four columns
	i8Magic = Vec(31) // 2²³; the lookup reads both registers as one table
)

// i8Index looks up step k of four columns.
var i8Index = from(20, 4)

func (p *program) i8Constants() {
	const magic, bias = 1 << 23, 1<<23 + 128
	p.loadTable()
	p.constant(i8Sign, p.words("sign bits of bytes", 0x80808080, 0x80808080, 0x80808080, 0x80808080))
	p.constant(i8Bias, p.float(bias))
	p.constant(i8Magic, p.float(magic))
	for k, index := range i8Index {
		// the rest is bytes 1 to 3 of the magic number
		at := func(column int) uint32 { return 0x13121100 + uint32(4*column+k) }
		p.constant(index, p.words(fmt.Sprintf("step %d of four columns", k), at(0), at(1), at(2), at(3)))
	}
}

// loadFour loads four steps of four columns.
func (p *program) loadFour(base Reg, offset int) {
	p.LdrQ(i8Data, base, offset)
	p.Eor(i8Data, i8Data, i8Sign)
}

// widenOne widens into d the step that the index selects of the four that loadFour loaded.
func (p *program) widenOne(d, index Vec) {
	p.Tbl2(d, i8Data, index)
	p.Fsub(d, d, i8Bias)
}

// widenFour is d[k] = step k of the four columns in memory.
func (p *program) widenFour(d []Vec, base Reg, offset int) {
	p.loadFour(base, offset)
	for k, d := range d {
		p.Tbl2(d, i8Data, i8Index[k])
	}
	for _, d := range d {
		p.Fsub(d, d, i8Bias)
	}
}

// widen goes over whole panels of 16 bits: n is a multiple of 16.
func (p *program) widen(name string, e element) {
	const dst, v, n = R0, R1, R2
	p.kernelLike("widenGeneric", name, 0, "dst v n", "")
	p.arg("dst", dst)
	p.arg("v", v)
	p.arg("n", n)
	loop := p.label("loop")
	p.Label(loop)
	p.Ld1Post([]Vec{bLow, bHigh}, v)
	p.widenHalves(e, wide[:2], bLow)
	p.widenHalves(e, wide[2:], bHigh)
	p.St1Post(wide, dst)
	p.SubsImm(n, n, panel)
	p.Bcond(GT, loop)
	p.Ret()
}

// widenI8 widens four steps of a panel at a time and writes the ones that exist.
func (p *program) widenI8() {
	const dst, v, n, stride = R0, R1, R2, R3
	p.kernelLike("widenGeneric", "widenI8SIMD", 0, "dst v steps stride", "")
	p.arg("dst", dst)
	p.arg("v", v)
	p.arg("steps", n)
	p.arg("stride", stride)
	p.i8Constants()
	loop, end := p.label("loop"), p.label("end")
	p.Label(loop)
	at := func(k, c int) Vec { return Vec(groups*k + c) } // step k of columns 4c to 4c+3
	for c := range groups {
		p.widenFour([]Vec{at(0, c), at(1, c), at(2, c), at(3, c)}, v, c*vector)
	}
	for k := range unroll {
		p.St1Post(from(at(k, 0), groups), dst)
		p.SubImm(n, n, 1)
		p.Cbz(n, end)
	}
	p.Add(v, v, stride)
	p.B(loop)
	p.Label(end)
	p.Ret()
}
