package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// Scores in integers end as tile_last.go says. Outputs gain nothing by that.

const (
	int8Last         = 4 // groups of four steps
	int8RowsTogether = 4 // enough chains of sums for two units
)

// endsByRows reports whether a tile of r rows ends so.
func (p *int8Program) endsByRows(r int) bool {
	return p.wide && p.operation == scoreInt8 && p.codes == nil && r == 12 && p.n == 2
}

// endByRows computes all groups but the last ones, if there are more, and then the last ones row by
// row. It returns the code that ends the tile.
func (p *int8Program) endByRows(r int) (end func()) {
	short, done := unique("short"), unique("done")
	SUBQ(imm(int8Last), stepsLeft)
	JLE(LabelRef(short))
	p.sums(r)
	p.lastScores(r)
	JMP(LabelRef(done))
	Label(short)
	ADDQ(imm(int8Last), stepsLeft)
	return func() { Label(done) }
}

// lastScores is sums and storeScores of the last groups.
func (p *int8Program) lastScores(r int) {
	scales, from := stepsLeft, avx512Temp
	MOVQ(b0, from)
	MOVQ(p.cRow, cPtr)
	MOVQ(p.f, scales)
	for first := 0; first < r; first += int8RowsTogether {
		end := first + int8RowsTogether
		if first > 0 {
			MOVQ(from, b0)
		}
		for p.groupAt = range int8Last {
			p.stepOfBytes(r, first, end)
			ADDQ(bStride, b0)
		}
		p.groupAt = 0
		for i := first; i < end; i++ {
			for x := range p.n {
				sum := p.acc(i, x, 0)
				VCVTDQ2PS(sum, sum)
				VMULPS(Mem{Base: scales, Disp: x * panelBytes}, sum, sum)
				VMOVUPS(sum, Mem{Base: cPtr, Disp: i*blockBytes + x*panelBytes})
			}
		}
	}
}
