package attn

import "testing"

// Full tiles give the same bits through whatever kernels they go.
func TestFullTilesEqualGeneric(t *testing.T) {
	forEach(t, func(t *testing.T) {
		if tuned.isa == generic {
			return // tiles go through the kernels of assembly only
		}
		c := newTrial(t, random("full tiles"))
		for range budget(400) {
			anyTuning(t, c.Rand)
			c.reset()
			rows, d, cols := 1+c.IntN(tuned.tileRows), 1+c.IntN(2*maximaDim), 8*(1+c.IntN(12))
			if c.IntN(2) == 0 {
				rows = max(1, rows/maximaRows) * maximaRows
			}
			a := c.newAccumulation([]int{rows, Block, cols, c.IntN(9)})
			q, k := c.input(rows*d), c.input(Block*d)
			s, sWant := c.output(rows * Block)
			m, mWant, l, lWant := c.runningState(rows)
			alpha, alphaWant := c.output(rows)
			maxima, _ := place(c.Rand, &c.arena.floats, &c.arena.used[0], mostTileRows*maximaLanes)
			unit := c.unit()
			tile := fullTile{c: unit, s: &s[0], alpha: &alpha[0], maxima: &maxima[0], k: &k[0], v: &a.v[0],
				d: d, oStride: a.oStride, layout: &a.layout, queue: c.anywhere()}
			masked := tile.add(&q[0], &m[0], &l[0], &a.got[0], rows)
			scoreGeneric(sWant, q, k, rows, d, Block/panel)
			c.equal("masked", masked, softmaxValuesGeneric(sWant, mWant, lWant, alphaWant, a.want, a.v, rows, a.oStride, &a.layout, unit))
			if c.compare(); c.text != "" {
				t.Fatalf("%d rows, %d dimensions, %d columns, distribution %d, %+v: %s", rows, d, cols, c.kind, chooseKernels(rows, d, cols), c.text)
			}
		}
	})
}

// No choice is one that the implementation lacks, and each is made where its tuning wants it.
func TestChooseKernels(t *testing.T) {
	for _, c := range []struct {
		row           tuning
		rows, d, cols int
		want          kernels
	}{
		{tuning{isa: avx512, leastRows16: 13}, 13, 64, 64, kernels{lanes16: true, softmax16: true}},
		{tuning{isa: avx512, leastRows16: 13}, 12, 64, 64, kernels{softmax16: true}},
		{tuning{isa: avx512, leastRows16: 1}, 1, 64, 64, kernels{lanes16: true}},
		{tuning{isa: avx512, leastRows16: never, maximaInScore: true}, maximaRows, maximaDim, 8, kernels{softmax16: true, maxima: true}},
		{tuning{isa: avx2, maximaInScore: true}, maximaRows, maximaDim, 8, kernels{maxima: true}},
		{tuning{isa: avx2, maximaInScore: true}, maximaRows + 1, maximaDim, 8, kernels{}},
		{tuning{isa: avx2, maximaInScore: true}, maximaRows, maximaDim - 1, 8, kernels{}},
		{tuning{isa: avx2, fusedSoftmax: true}, fusedRows, 64, fusedCols, kernels{fused: true}},
		{tuning{isa: avx2, fusedSoftmax: true}, fusedRows - 1, 64, fusedCols, kernels{}},
		{tuning{isa: avx2, fusedSoftmax: true}, fusedRows, 64, fusedCols - 8, kernels{}},
		{tuning{isa: avx512, leastRows16: never, fusedSoftmax: true}, 1, 64, fusedCols, kernels{}},
		{tuning{isa: avx2, leastRows16: 1}, 96, 128, 128, kernels{}},
		{tuning{isa: neon, maximaInScore: true, fusedSoftmax: true}, 96, 128, 128, kernels{}},
		{tuning{isa: generic, maximaInScore: true, fusedSoftmax: true}, 96, 128, 128, kernels{}},
	} {
		useTuning(t, c.row)
		if got := chooseKernels(c.rows, c.d, c.cols); got != c.want {
			t.Errorf("%+v, %d rows, %d dimensions, %d columns: %+v, want %+v", c.row, c.rows, c.d, c.cols, got, c.want)
		}
	}
}
