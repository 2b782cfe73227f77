package main

import (
	"fmt"

	. "github.com/seed-1415985d/attn/asm/internal/neon"
)

// Sums over pairs of bfloat16: c[r][x] = c[r][x] + (e + o) for each group of 32 inputs, e and o the
// chains of FMAs over its even and its odd inputs. Nothing is flushed: who calls knows that there
// are no subnormal numbers. A line of a panel has the pairs of 16 columns: the even input is the
// lower half of 32 bits, so a shift makes a float32 of it, and a mask of the odd one.
//
// A tile of up to 2 rows has 16 columns, one of up to 5 rows 8: 16 or 20 chains.

// Registers by role, in addition to those of tile.go.
const (
	pairGroups    = R6  // groups of inputs,
	pairLeft      = R13 // and those left
	pairColumn    = R14 // bytes from the panel's first column to the tile's, of outputs and of lines
	pairA         = R20 // moving through up to 5 rows: up to R24
	pairMask      = Vec(31)
	pairOverwrite = R5 // do outputs begin with 0?
)

const (
	pairLine  = 64 // bytes of a pair of inputs, of all columns of a panel
	pairSteps = 8  // rounds of a group, of two pairs
)

// pairSizes are the rows of tiles, and from how many rows left on each is taken.
var pairSizes = [][2]int{{9, 5}, {7, 4}, {6, 3}, {5, 5}, {4, 4}, {3, 3}, {2, 2}, {1, 1}}

// pairKernels are the kernels in bfloat16.
func (p *program) pairKernels() {
	p.accumulatePairs()
	p.roundPairs()
	p.pairsOfPanel()
}

// accumulatePairs emits sums over pairs.
func (p *program) accumulatePairs() {
	p.kernelLike("accumulateGeneric", "accumulatePairsSIMD", 0, "o p v rows oStride pStride b", "")
	p.arg("o", cPanel)
	p.arg("p", aFirst)
	p.arg("v", bPanel)
	p.arg("rows", allRows)
	p.arg("oStride", cStride)
	p.LslImm(cStride, cStride, 2)
	p.arg("pStride", aStride)
	p.LslImm(aStride, aStride, 2)
	p.arg("b", moving)
	p.field(pairGroups, moving, "PanelLayout.Keys")
	p.AddImm(pairGroups, pairGroups, 4*pairSteps-1)
	p.LsrImm(pairGroups, pairGroups, 5)
	p.field(panels, moving, "PanelLayout.Cols")
	p.LsrImm(panels, panels, 4)
	p.field(panelStride, moving, "PanelLayout.PanelStride")
	p.LslImm(panelStride, panelStride, 1)
	p.byteField(pairOverwrite, moving, "PanelLayout.Overwrite")
	p.loadTable()
	mask := repeat(0xffff0000)
	p.constant(pairMask, p.words("the odd one of a pair", mask[:]...))
	p.Label("panel")
	p.Cbz(panels, "end")
	p.Mov(cTile, cPanel)
	p.Mov(aTile, aFirst)
	p.Mov(rowsLeft, allRows)
	p.Label("rows")
	for _, s := range pairSizes {
		p.CmpImm(rowsLeft, s[0])
		p.Bcond(GE, fmt.Sprintf("tile%d", s[1]))
	}
	p.AddImm(cPanel, cPanel, panelBytes)
	p.Add(bPanel, bPanel, panelStride)
	p.SubImm(panels, panels, 1)
	p.B("panel")
	for r := 1; r <= 5; r++ {
		p.Label(fmt.Sprintf("tile%d", r))
		vectors := 2
		if r <= 2 {
			vectors = 4
		}
		p.pairTile(r, vectors)
		for range r {
			p.Add(cTile, cTile, cStride)
			p.Add(aTile, aTile, aStride)
		}
		p.SubImm(rowsLeft, rowsLeft, r)
		p.B("rows")
	}
	p.Label("end")
	p.Ret()
}

// pairTile computes r rows of a panel, some vectors of columns at a time.
func (p *program) pairTile(r, vectors int) {
	sums := r * vectors
	even, odd := from(0, sums), from(Vec(sums), sums)
	a, raw, other := from(Vec(2*sums), r), from(24, vectors), Vec(29)
	if 2*sums+r > 24 { // 5 rows
		a, raw, other = from(20, r), from(25, vectors), Vec(27)
	}
	columns, group, round := p.label("columns"), p.label("group"), p.label("round")
	p.MovImm(pairColumn, 0)
	p.Label(columns)
	p.Add(b0, bPanel, pairColumn)
	p.Mov(pairA, aTile)
	for i := 1; i < r; i++ {
		p.Add(pairA+Reg(i), pairA+Reg(i-1), aStride)
	}
	begun := p.label("begun")
	p.Cbz(pairOverwrite, begun)
	p.Zero(other)
	p.eachPairOutput(r, vectors, func(i, at int) { p.StrQ(other, moving, at) })
	p.Label(begun)
	p.Mov(pairLeft, pairGroups)
	p.Label(group)
	for _, v := range from(0, 2*sums) {
		p.Zero(v)
	}
	p.MovImm(stepsLeft, pairSteps)
	p.Label(round)
	for i := range r {
		p.LdrQPost(a[i], pairA+Reg(i))
	}
	for pair := range 2 {
		for v := range vectors {
			p.LdrQ(raw[v], b0, pair*pairLine+v*vector)
		}
		for v := range vectors {
			p.Shl(other, raw[v], 16)
			for i := range r {
				p.FmlaLane(even[i*vectors+v], other, a[i], 2*pair)
			}
			p.And(raw[v], raw[v], pairMask)
			for i := range r {
				p.FmlaLane(odd[i*vectors+v], raw[v], a[i], 2*pair+1)
			}
		}
	}
	p.AddImm(b0, b0, 2*pairLine)
	p.SubImm(stepsLeft, stepsLeft, 1)
	p.Cbnz(stepsLeft, round)
	p.Comment("c + (e + o)")
	p.eachPairOutput(r, vectors, func(i, at int) {
		p.LdrQ(other, moving, at)
		p.Fadd(even[i], even[i], odd[i])
		p.Fadd(even[i], other, even[i])
		p.StrQ(even[i], moving, at)
	})
	p.SubImm(pairLeft, pairLeft, 1)
	p.Cbnz(pairLeft, group)
	p.Comment("No output is −0.")
	p.Zero(other)
	p.eachPairOutput(r, vectors, func(i, at int) {
		p.Fadd(even[i], even[i], other)
		p.StrQ(even[i], moving, at)
	})
	if vectors < 4 {
		p.AddImm(pairColumn, pairColumn, vectors*vector)
		p.CmpImm(pairColumn, panelBytes)
		p.Bcond(LT, columns)
	}
}

// eachPairOutput goes through the vectors of outputs of a tile.
func (p *program) eachPairOutput(r, vectors int, use func(i, at int)) {
	p.Add(moving, cTile, pairColumn)
	for i := range r {
		for v := range vectors {
			use(i*vectors+v, v*vector)
		}
		if i < r-1 {
			p.Add(moving, moving, cStride)
		}
	}
}

// pairConstants are what rounding needs.
var pairConstants = []struct {
	v      Vec
	remark string
	word   uint32
}{
	{24, "1", 1}, {25, "0x7fff", 0x7fff}, {26, "the bit of quiet NaN", 0x400000},
	{27, "exponents", 0x7f800000}, {28, "signs", bitsSign}, {29, "upper halves", 0xffff0000},
}

// roundedPairs rounds numbers to bfloat16 in upper halves, below which anything may be: those below
// 2⁻¹²⁶ become zeros, then a bit less than half of what is cut off is added, and all of it if the
// rest is odd. A NaN is not rounded but made quiet. Vectors 8 and up are used.
func (p *program) roundedPairs(v []Vec) {
	one, most, quiet, exponents, signs := Vec(24), Vec(25), Vec(26), Vec(27), Vec(28)
	sum, number := from(8, 4), from(12, 4)
	for i, v := range v {
		sum, number := sum[i%4], number[i%4]
		p.Cmtst(sum, v, exponents)
		p.OrrV(sum, sum, signs)
		p.And(v, v, sum)
		p.Ushr(sum, v, 16)
		p.And(sum, sum, one)
		p.AddI(sum, sum, most)
		p.AddI(sum, sum, v)
		p.Fcmeq(number, v, v)
		p.OrrV(v, v, quiet)
		p.Bit(v, sum, number)
	}
}

// roundingConstants loads them.
func (p *program) roundingConstants() {
	p.loadTable()
	for _, c := range pairConstants {
		w := repeat(c.word)
		p.constant(c.v, p.words(c.remark, w[:]...))
	}
}

// roundPairs emits rounding to bfloat16 that leaves float32.
func (p *program) roundPairs() {
	const dst, x, n = R0, R1, R2
	p.kernelLike("roundGeneric", "roundPairsSIMD", 0, "dst x n", "")
	p.arg("dst", dst)
	p.arg("x", x)
	p.arg("n", n)
	p.roundingConstants()
	v := from(0, 4)
	p.each(n, 4, func(s span) {
		p.loadNext(s, v, x)
		p.roundedPairs(s.of(v))
		for _, v := range s.of(v) {
			p.And(v, v, 29)
		}
		p.storeNext(s, v, dst)
	})
	p.Ret()
}

// pairsOfPanel emits what rounds two inputs of 16 columns at a time and brings them together.
func (p *program) pairsOfPanel() {
	const dst, x, n = R0, R1, R2
	p.kernelLike("ofPanelGeneric", "ofPanelSIMD", 0, "dst x n", "")
	p.arg("dst", dst)
	p.arg("x", x)
	p.arg("n", n)
	p.roundingConstants()
	even, odd := from(0, 4), from(4, 4)
	p.Label("pair")
	p.Ld1Post(even, x)
	p.Ld1Post(odd, x)
	p.roundedPairs(even)
	p.roundedPairs(odd)
	for i := range even {
		p.Ushr(even[i], even[i], 16)
		p.And(odd[i], odd[i], 29)
		p.OrrV(even[i], even[i], odd[i])
	}
	p.St1Post(even, dst)
	p.SubsImm(n, n, 2*panelBytes/4)
	p.Bcond(NE, "pair")
	p.Ret()
}
