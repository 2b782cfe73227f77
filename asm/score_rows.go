package main

import (
	"fmt"

	. "github.com/seed-1415985d/attn/asm/internal/neon"
)

// scoreRows transposes 4 keys × 4 dimensions in registers and uses each column
// for up to four queries at once, so keys are read once and never written back.
// Sixteen keys are under way at a time, as four groups of four.

const (
	rowTile = 4 // queries at a time
	groups  = panel / lanes
)

// Registers by role.
const (
	rowScores  = R0  // scores of the first query of the tile
	rowQueries = R1  // the tile's first query
	rowKeys    = R2  // the keys
	rowCount   = R3  // queries left
	rowDim     = R4  // dimensions
	rowStride  = R5  // bytes between keys
	rowStride2 = R6  // twice as many
	rowStride3 = R7  // three times
	rowN       = R8  // keys
	keysLeft   = R9  // keys left for the tile
	keysAt     = R10 // the next key
	scoresAt   = R11 // its score
	dimLeft    = R12 // dimensions left
	rowWork    = R13
	queryBytes = R14 // bytes of a query
	query0     = R15 // moving through queries: R15, R16, R17 and R25, see rowQuery
	keysFirst  = R19 // moving through groups of keys, or through keys: R19 to R22
)

func rowQuery(r int) Reg { return []Reg{query0, R16, R17, R25}[r] }

// The vector registers: accumulators V0 to V15, then
var (
	queryVec   = from(16, 4)
	keyVec     = from(20, 4)
	mixed      = from(24, 4)
	keyColumns = from(28, 4)
)

func (p *program) scoreRows() {
	p.kernel("scoreRowsSIMD", 0, "s q k rows d stride n next", "")
	p.arg("s", rowScores)
	p.arg("q", rowQueries)
	p.arg("k", rowKeys)
	p.arg("rows", rowCount)
	p.arg("d", rowDim)
	p.arg("stride", rowStride)
	p.arg("n", rowN)
	p.LslImm(rowStride, rowStride, 2)
	p.AddShifted(rowStride2, rowStride, rowStride, 0)
	p.Add(rowStride3, rowStride2, rowStride)
	p.LslImm(queryBytes, rowDim, 2)
	p.Label("rows")
	for r := rowTile; r > 0; r-- {
		p.CmpImm(rowCount, r)
		p.Bcond(GE, fmt.Sprintf("rows%d", r))
	}
	p.Ret()
	for r := rowTile; r > 0; r-- {
		p.rowTile(r)
	}
}

// rowTile computes all scores of r queries.
func (p *program) rowTile(r int) {
	name := func(s string) string { return fmt.Sprintf("%s%d", s, r) }
	p.Comment("%d queries.", r)
	p.Label(name("rows"))
	p.Mov(keysLeft, rowN)
	p.Mov(keysAt, rowKeys)
	p.Mov(scoresAt, rowScores)

	p.Label(name("keys16for"))
	p.CmpImm(keysLeft, panel)
	p.Bcond(LT, name("keys4for"))
	sixteen := make([]keyGroup, groups)
	for g := range groups {
		key := keysFirst + Reg(g)
		if g == 0 {
			p.Mov(key, keysAt)
		} else {
			p.AddShifted(key, key-1, rowStride, 2)
		}
		sixteen[g] = strided{key, [3]Reg{rowStride, rowStride2, rowStride3}, rowWork}
	}
	p.rowScores(r, sixteen)
	p.Mov(rowWork, scoresAt)
	for i := range r {
		p.St1(from(Vec(groups*i), groups), rowWork)
		p.AddImm(rowWork, rowWork, blockBytes)
	}
	p.AddShifted(keysAt, keysAt, rowStride, 4)
	p.AddImm(scoresAt, scoresAt, panelBytes)
	p.SubImm(keysLeft, keysLeft, panel)
	p.B(name("keys16for"))

	p.Comment("The last keys: four at a time, the last of them repeated if there are fewer.")
	p.Label(name("keys4for"))
	p.CmpImm(keysLeft, 0)
	p.Bcond(LE, name("next"))
	four := keyPointers{keysFirst, keysFirst + 1, keysFirst + 2, keysFirst + 3}
	four.clamp(p, keysAt, rowStride, keysLeft)
	p.rowScores(r, []keyGroup{four})
	for i := range r {
		p.AddImm(rowWork, scoresAt, i*blockBytes)
		p.storeLow(Vec(i), keysLeft, rowWork)
	}
	p.AddShifted(keysAt, keysAt, rowStride, 2)
	p.AddImm(scoresAt, scoresAt, vector)
	p.SubImm(keysLeft, keysLeft, lanes)
	p.B(name("keys4for"))

	p.Label(name("next"))
	p.AddImm(rowScores, rowScores, r*blockBytes)
	for range r {
		p.Add(rowQueries, rowQueries, queryBytes)
	}
	p.SubImm(rowCount, rowCount, r)
	p.B("rows")
}

// rowScores leaves the scores of query i with group g in vector i·len(keys) + g.
func (p *program) rowScores(r int, keys []keyGroup) {
	for i := range r * len(keys) {
		p.Zero(Vec(i))
	}
	p.Mov(rowQuery(0), rowQueries)
	for i := 1; i < r; i++ {
		p.Add(rowQuery(i), rowQuery(i-1), queryBytes)
	}
	multiply := func(g, lane int, column Vec) {
		for i := range r {
			p.FmlaLane(Vec(i*len(keys)+g), column, queryVec[i], lane)
		}
	}
	p.dimensions(rowDim, dimLeft, func() {
		for i := range r {
			p.LdrQPost(queryVec[i], rowQuery(i))
		}
		for g, four := range keys {
			four.loadFour(p, keyVec)
			p.transpose(keyColumns, keyVec, mixed)
			for x := range lanes {
				multiply(g, x, keyColumns[x])
			}
		}
	}, func() {
		for i := range r {
			p.LdrSPost(queryVec[i], rowQuery(i))
		}
		for g, four := range keys {
			four.loadOne(p, keyColumns[0])
			multiply(g, 0, keyColumns[0])
		}
	})
}

// dimensions runs four for each four of d dimensions, then one for each that is left.
func (p *program) dimensions(d, count Reg, four, one func()) {
	loop, tail, single, end := p.label("loop"), p.label("tail"), p.label("one"), p.label("end")
	p.SubsImm(count, d, lanes)
	p.Bcond(LT, tail)
	p.Label(loop)
	four()
	p.SubsImm(count, count, lanes)
	p.Bcond(GE, loop)
	p.Label(tail)
	p.AddImm(count, count, lanes)
	p.Cbz(count, end)
	p.Label(single)
	one()
	p.SubImm(count, count, 1)
	p.Cbnz(count, single)
	p.Label(end)
}
