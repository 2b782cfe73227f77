package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

// tile computes r rows × n panels of vecs vectors.
func (t *tileKernel) tile(r, n, vecs int) {
	t.Comment("%d rows × %d columns.", r, n*vecs*lanes)
	t.begin(r, n*vecs)
	for i := range n {
		if i == 0 {
			t.Mov(tileB(0), bPanel)
		} else {
			t.Add(tileB(i), tileB(i-1), panelStride)
		}
	}
	for i := range r {
		if i == 0 {
			t.Mov(tileA(0, n), aTile)
		} else {
			t.Add(tileA(i, n), tileA(i-1, n), aStride)
		}
	}
	switch {
	case t.masked:
		t.maskedSteps(r, vecs)
	case t.element == elementI8:
		t.stepsI8(r, n)
	default:
		t.steps(r, n, vecs)
	}
	t.store(r, n*vecs)
}

// begin sets the accumulators.
func (t *tileKernel) begin(r, vecs int) {
	if !t.accumulates {
		t.zero(r * vecs)
		return
	}
	used, ready := t.label("used"), t.label("ready")
	step := stepsLeft
	t.Mov(moving, cTile)
	t.Mov(step, cStride)
	t.CmpImm(tileAlpha, overwriteOutputs)
	t.Bcond(NE, used)
	t.Address(moving, zeroTable)
	t.MovImm(step, 0)
	t.Label(used)
	for i := range r {
		t.transfer(i, vecs, t.LdpQ)
		if i < r-1 {
			t.Add(moving, moving, step)
		}
	}
	t.Bcond(LE, ready)
	t.Comment("o·alpha")
	t.Mov(moving, tileAlpha)
	for i := range r {
		t.Ld1rPost(bLow, moving)
		for v := range vecs {
			t.Fmul(acc(i, v, vecs), acc(i, v, vecs), bLow)
		}
	}
	t.Label(ready)
}

// zero clears the first n accumulators.
func (t *tileKernel) zero(n int) {
	for _, v := range from(0, n) {
		t.Zero(v)
	}
}

// transfer loads or stores the accumulators of row i, which moving points to.
func (t *tileKernel) transfer(i, vecs int, pair func(d, e Vec, base Reg, offset int)) {
	for v := 0; v < vecs; v += 2 {
		pair(acc(i, v, vecs), acc(i, v+1, vecs), moving, v*vector)
	}
}

func (t *tileKernel) store(r, vecs int) {
	t.Mov(moving, cTile)
	for i := range r {
		t.transfer(i, vecs, t.StpQ)
		if i < r-1 {
			t.Add(moving, moving, cStride)
		}
	}
}

// steps emits the loop over the chain: four steps at once, then single ones.
func (t *tileKernel) steps(r, n, vecs int) {
	loop, tail, one, end := t.label("loop"), t.label("tail"), t.label("one"), t.label("end")
	t.SubsImm(stepsLeft, steps, unroll)
	t.Bcond(LT, tail)
	t.Label(loop)
	for i := range r {
		t.LdrQPost(aVec(i), tileA(i, n))
	}
	for lane := range unroll {
		t.step(r, n, vecs, lane)
	}
	t.SubsImm(stepsLeft, stepsLeft, unroll)
	t.Bcond(GE, loop)
	t.Label(tail)
	t.AddImm(stepsLeft, stepsLeft, unroll)
	t.Cbz(stepsLeft, end)
	t.Label(one)
	for i := range r {
		t.LdrSPost(aVec(i), tileA(i, n))
	}
	t.step(r, n, vecs, 0)
	t.SubImm(stepsLeft, stepsLeft, 1)
	t.Cbnz(stepsLeft, one)
	t.Label(end)
}

// step is acc(i, v) = FMA(b[k][v], a[i][k], acc(i, v)) for one k; a[i][k] is in
// the lane. Each pair of vectors of b is used for all rows at once.
func (t *tileKernel) step(r, n, vecs, lane int) {
	for i := range n {
		if t.element != elementF32 {
			t.stepHalf(r, n, i, lane)
			continue
		}
		for v := 0; v < vecs; v += 2 {
			t.LdpQ(bLow, bHigh, tileB(i), v*vector)
			for row := range r {
				t.FmlaLane(acc(row, i*vecs+v, n*vecs), bLow, aVec(row), lane)
			}
			for row := range r {
				t.FmlaLane(acc(row, i*vecs+v+1, n*vecs), bHigh, aVec(row), lane)
			}
		}
		t.Add(tileB(i), tileB(i), bStride)
	}
}

// maskedSteps emits the loop in which b counts as 0 where a has its sign bit set. One step at a
// time: this path is for values that hold NaN or infinities.
func (t *tileKernel) maskedSteps(r, vecs int) {
	const (
		weight, masked = Vec(16), Vec(17)
		visible        = Vec(18) // b with zeros for this row: four registers
		b              = Vec(22) // four registers
	)
	one := t.label("one")
	t.Mov(stepsLeft, steps)
	t.Label(one)
	t.Ld1(from(b, vecs), tileB(0))
	t.Add(tileB(0), tileB(0), bStride)
	for i := range r {
		t.Ld1rPost(weight, tileA(i, 1))
		t.Sshr(masked, weight, 31)
		for v := range Vec(vecs) {
			t.Bic(visible+v, b+v, masked)
		}
		for v := range Vec(vecs) {
			t.Fmla(acc(i, int(v), vecs), visible+v, weight)
		}
	}
	t.SubImm(stepsLeft, stepsLeft, 1)
	t.Cbnz(stepsLeft, one)
}
