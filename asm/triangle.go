package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

// Kernels of package linattn: rows of a chunk and the rows before them.

// triangleKernels emits the kernels of internal/kernel/triangle.
func (p *program) triangleKernels() {
	p.substitute()
	p.chunkOutputs()
	p.decayRow()
	p.decayedSums()
	p.prefetchRows()
	p.twoSums()
}

// Registers of substitute and outputs: arguments, strides in bytes; then pointers that move from
// row to row, and within a row.
const (
	triUpdates, triSums, triOuter     = R0, R1, R2
	triW, triDecay, triBeta           = R3, R4, R5
	triFirst, triRows, triPanels      = R6, R7, R8
	triStep, triSumStep, triOuterStep = R9, R10, R11

	triSumRow, triOuterRow, triWRow, triDecayRow, triBetaRow = R12, R13, R14, R15, R16
	triCount, triLeft, triOwn                                = R17, R19, R20
	triFrom, triWeights, triSteps                            = R21, R22, R23

	triWeight, triFactor = Vec(24), Vec(25)
)

func (p *program) substitute() {
	p.kernel("substituteSIMD", 0, "x", "")
	p.arg("x", triOwn)
	p.field(triBeta, triOwn, "rowsCall.beta")
	p.triangle(0, func() {
		p.Mul(triOwn, triFirst, triStep)
		p.Add(triOwn, triOwn, triUpdates)
		p.Mov(triBetaRow, triBeta)
	}, func(sum []Vec) {
		v := from(16, len(sum))
		p.loadVectors(v, triOuterRow, triFrom)
		p.Ld1rPost(triFactor, triBetaRow)
		for i := range v {
			p.Fsub(v[i], v[i], sum[i])
			p.Fmul(v[i], v[i], triFactor)
		}
		p.storeVectors(v, triOwn, triFrom)
		p.Add(triOwn, triOwn, triStep)
	})
}

func (p *program) chunkOutputs() {
	p.kernel("outputsSIMD", 0, "x", "")
	p.arg("x", triOwn)
	p.LdrS(triFactor, triOwn, p.offsets.Get("rowsCall.scale"))
	p.Dup(triFactor, triFactor, 0)
	p.triangle(1, func() {}, func(sum []Vec) {
		for _, v := range sum {
			p.Fmul(v, v, triFactor)
		}
		p.storeVectors(sum, triOuterRow, triFrom)
	})
}

// triangle emits a loop over groups of columns, and inside it a loop over rows: the sums of a row
// start with their value in memory times a factor, add the rows before it, and itself if own is 1,
// and are passed to end.
func (p *program) triangle(own int, begin func(), end func(sum []Vec)) {
	p.field(triUpdates, triOwn, "rowsCall.u")
	p.field(triSums, triOwn, "rowsCall.sums")
	p.field(triOuter, triOwn, "rowsCall.outer")
	p.field(triW, triOwn, "rowsCall.w")
	p.field(triDecay, triOwn, "rowsCall.decay")
	p.field(triPanels, triOwn, "rowsCall.panels")
	p.field(triOwn, triOwn, "rowsCall.shape")
	p.field(triFirst, triOwn, "Shape.First")
	p.field(triRows, triOwn, "Shape.Rows")
	p.field(triStep, triOwn, "Shape.Updates")
	p.field(triSumStep, triOwn, "Shape.Sums")
	p.field(triOuterStep, triOwn, "Shape.Outer")
	for _, r := range []Reg{triStep, triSumStep, triOuterStep} {
		p.LslImm(r, r, 2)
	}
	for _, n := range []int{2, 1} {
		group, next, row := p.label("group"), p.label("next"), p.label("row")
		p.Label(group)
		p.CmpImm(triPanels, n)
		p.Bcond(LT, next)
		p.Mov(triSumRow, triSums)
		p.Mov(triOuterRow, triOuter)
		p.Mov(triWRow, triW)
		p.Mov(triDecayRow, triDecay)
		p.AddImm(triCount, triFirst, own)
		p.Mov(triLeft, triRows)
		begin()
		p.Label(row)
		sum := from(0, n*panelVectors)
		p.triangleRow(sum, own)
		end(sum)
		p.AddImm(triCount, triCount, 1)
		p.AddImm(triWRow, triWRow, panelBytes)
		p.Add(triSumRow, triSumRow, triSumStep)
		p.Add(triOuterRow, triOuterRow, triOuterStep)
		p.SubsImm(triLeft, triLeft, 1)
		p.Bcond(NE, row)
		for _, r := range []Reg{triUpdates, triSums, triOuter} {
			p.AddImm(r, r, n*panelBytes)
		}
		p.SubImm(triPanels, triPanels, n)
		p.B(group)
		p.Label(next)
	}
	p.Ret()
}

const panelVectors = panel / lanes

// triangleRow is the sums of a row.
func (p *program) triangleRow(sum []Vec, own int) {
	loop, done := p.label("loop"), p.label("done")
	p.loadVectors(sum, triSumRow, triFrom)
	p.Ld1rPost(triWeight, triDecayRow)
	for _, v := range sum {
		p.Fmul(v, v, triWeight)
	}
	p.Mov(triFrom, triUpdates)
	p.Mov(triWeights, triWRow)
	p.Mov(triSteps, triCount)
	if own == 0 {
		p.Cbz(triSteps, done)
	}
	p.Label(loop)
	p.Ld1rPost(triWeight, triWeights)
	v := from(16, len(sum))
	p.loadVectors(v, triFrom, R24)
	p.Add(triFrom, triFrom, triStep)
	for i := range sum {
		p.Fmla(sum[i], v[i], triWeight)
	}
	p.SubsImm(triSteps, triSteps, 1)
	p.Bcond(NE, loop)
	p.Label(done)
}

// loadVectors loads four vectors or eight, by way of another pointer.
func (p *program) loadVectors(v []Vec, base, by Reg) {
	p.Mov(by, base)
	for i := 0; i < len(v); i += 4 {
		p.Ld1Post(v[i:i+4], by)
	}
}

// storeVectors stores them.
func (p *program) storeVectors(v []Vec, base, by Reg) {
	p.Mov(by, base)
	for i := 0; i < len(v); i += 4 {
		p.St1Post(v[i:i+4], by)
	}
}

// decayRow multiplies the weights of a chunk's rows, channel by channel.
func (p *program) decayRow() {
	const w, a, n, i, one = R0, R1, R2, R3, R4
	const factor, ones = Vec(16), Vec(17)
	v := from(0, panelVectors)
	p.kernel("decayRowSIMD", 0, "w a n i", "")
	p.arg("w", w)
	p.arg("a", a)
	p.arg("n", n)
	p.arg("i", i)
	p.MovImm(one, 0x3f800000)
	p.DupReg(ones, one)
	p.AddShifted(i, w, i, 2)
	p.Label("channel")
	p.Ld1rPost(factor, a)
	p.Ld1(v, w)
	for _, x := range v {
		p.Fmul(x, x, factor)
	}
	p.St1Post(v, w)
	p.StrSPost(ones, i)
	p.AddImm(i, i, panelBytes-4)
	p.SubsImm(n, n, 1)
	p.Bcond(NE, "channel")
	p.Ret()
}

// decayedSums multiplies one or two rows by keys that have decayed.
func (p *program) decayedSums() {
	const sum, x, w, k, n, rows, stride, second = R0, R1, R2, R3, R4, R5, R6, R7
	const factor = Vec(24)
	p.kernel("decayedSumsSIMD", 0, "sum x w k n rows stride", "")
	for i, name := range []string{"sum", "x", "w", "k", "n", "rows", "stride"} {
		p.arg(name, R0+Reg(i))
	}
	sums, weights, keys, products := from(0, 2*panelVectors), from(8, panelVectors),
		from(12, panelVectors), from(16, panelVectors)
	for _, v := range sums {
		p.Zero(v)
	}
	p.AddShifted(second, x, stride, 2)
	step := func(pointers ...Reg) {
		p.Ld1Post(weights, w)
		p.Ld1Post(keys, k)
		for r, at := range pointers {
			p.Ld1rPost(factor, at)
			for i := range weights {
				p.Fmul(products[i], weights[i], factor)
				p.Fmla(sums[r*panelVectors+i], products[i], keys[i])
			}
		}
		p.SubsImm(n, n, 1)
	}
	p.CmpImm(rows, 2)
	p.Bcond(EQ, "two")
	p.Label("one")
	step(x)
	p.Bcond(NE, "one")
	p.St1(sums[:panelVectors], sum)
	p.Ret()
	p.Label("two")
	step(x, second)
	p.Bcond(NE, "two")
	p.St1Post(sums[:panelVectors], sum)
	p.St1(sums[panelVectors:], sum)
	p.Ret()
}

// prefetchRows asks for lines of rows, into the second-level cache.
func (p *program) prefetchRows() {
	const x, rows, stride, lines, at, left = R0, R1, R2, R3, R4, R5
	p.kernel("prefetchRowsSIMD", 0, "x rows stride lines", "")
	for i, name := range []string{"x", "rows", "stride", "lines"} {
		p.arg(name, R0+Reg(i))
	}
	p.LslImm(stride, stride, 2)
	p.Label("row")
	p.Mov(at, x)
	p.Mov(left, lines)
	p.Label("line")
	p.PrefetchL2(at)
	p.AddImm(at, at, 64)
	p.SubsImm(left, left, 1)
	p.Bcond(NE, "line")
	p.Add(x, x, stride)
	p.SubsImm(rows, rows, 1)
	p.Bcond(NE, "row")
	p.Ret()
}

// Registers of twoSums: arguments, strides in bytes, and pointers that move from group to group and
// within a group.
const (
	twoSum, twoPairs, twoX, twoY        = R0, R1, R2, R3
	twoS, twoK, twoN, twoPanels         = R4, R5, R6, R7
	twoStride, twoStep                  = R8, R9
	twoXAt, twoYAt, twoKAt, twoLeft     = R10, R11, R12, R13
	twoAt, twoAt2, twoAt3, twoSecondRow = R14, R15, R16, R17
)

// twoSums multiplies two rows by panels of the state and by the chunk's keys, together: the keys
// alone would be few chains, and each step of a chain waits for the step before.
func (p *program) twoSums() {
	p.kernel("twoSumsSIMD", 0, "x", "")
	p.arg("x", twoStep)
	for i, name := range []string{"sums", "pairs", "x", "y", "s", "k", "n", "panels", "stride"} {
		p.field(R0+Reg(i), twoStep, "pairCall."+name)
	}
	p.LslImm(twoStep, twoN, 6)
	p.LslImm(twoStride, twoStride, 2)
	one, rest := p.label("one"), p.label("rest")
	p.CmpImm(twoPanels, 2)
	p.Bcond(LT, one)
	p.sumsOfPanels(2, true)
	p.B(rest)
	p.Label(one)
	p.sumsOfPanels(1, true)
	p.Label(rest)
	for _, n := range []int{3, 1} {
		again, next := p.label("again"), p.label("next")
		p.Label(again)
		p.CmpImm(twoPanels, n)
		p.Bcond(LT, next)
		p.sumsOfPanels(n, false)
		p.B(again)
		p.Label(next)
	}
	p.Ret()
}

// sumsOfPanels multiplies by n panels that begin at twoS, and by the keys, and moves on.
func (p *program) sumsOfPanels(n int, keys bool) {
	const first, second = Vec(28), Vec(29)
	pointers := []Reg{twoAt, twoAt2, twoAt3}[:n]
	for _, at := range pointers {
		p.Mov(at, twoS)
		p.Add(twoS, twoS, twoStep)
	}
	if keys {
		p.Mov(twoKAt, twoK)
		pointers = append(pointers[:n:n], twoKAt)
	}
	sums := from(0, 2*len(pointers)*panelVectors)
	for _, v := range sums {
		p.Zero(v)
	}
	p.Mov(twoXAt, twoX)
	p.Mov(twoYAt, twoY)
	p.Mov(twoLeft, twoN)
	loop := p.label("loop")
	p.Label(loop)
	p.Ld1rPost(first, twoXAt)
	p.Ld1rPost(second, twoYAt)
	for i, at := range pointers {
		b := from(24, panelVectors)
		p.Ld1Post(b, at)
		for j := range b {
			p.Fmla(sums[2*i*panelVectors+j], b[j], first)
			p.Fmla(sums[(2*i+1)*panelVectors+j], b[j], second)
		}
	}
	p.SubsImm(twoLeft, twoLeft, 1)
	p.Bcond(NE, loop)
	for i := range pointers {
		rows := sums[2*i*panelVectors:][:2*panelVectors]
		if i == n {
			p.Mov(twoXAt, twoPairs)
			p.St1Post(rows[:panelVectors], twoXAt)
			p.St1(rows[panelVectors:], twoXAt)
			break
		}
		p.Add(twoSecondRow, twoSum, twoStride)
		p.St1(rows[panelVectors:], twoSecondRow)
		p.St1Post(rows[:panelVectors], twoSum)
	}
	p.SubImm(twoPanels, twoPanels, n)
}
