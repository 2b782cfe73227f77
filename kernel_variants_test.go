package attn

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/tuning"
)

// Full tiles give the same bits through whatever kernels they go.
func TestFullTilesEqualGeneric(t *testing.T) {
	forEach(t, func(t *testing.T) {
		if tuned.ISA == tuning.Generic {
			return // tiles go through the kernels of assembly only
		}
		c := newTrial(t, random("full tiles"))
		for range budget(400) {
			anyTuning(t, c.Rand)
			c.reset()
			rows, d, cols := 1+c.IntN(tuned.TileRows), 1+c.IntN(2*maximaDim), 8*(1+c.IntN(12))
			if c.IntN(2) == 0 {
				rows = max(1, rows/maximaRows) * maximaRows
			}
			a := c.newAccumulation([]int{rows, Block, cols, c.IntN(9)})
			q, k := c.input(rows*d), c.input(Block*d)
			s, sWant := c.output(rows * Block)
			m, mWant, l, lWant := c.runningState(rows)
			alpha, alphaWant := c.output(rows)
			maxima, _ := place(c.Rand, &c.arena.floats, &c.arena.used[0], maxTileRows*maximaLanes)
			unit := c.unit()
			tile := fullTile{c: unit, s: &s[0], alpha: &alpha[0], maxima: &maxima[0], k: &k[0], v: &a.v[0],
				d: d, oStride: a.oStride, layout: &a.layout, queue: c.anywhere()}
			masked := tile.add(&q[0], &m[0], &l[0], &a.got[0], rows)
			scoreGeneric(sWant, q, k, rows, d, Block/panel)
			c.equal("masked", masked, softmaxValuesGeneric(sWant, mWant, lWant, alphaWant, a.want, a.v, rows,
				a.oStride, &a.layout, unit))
			if c.compare(); c.text != "" {
				t.Fatalf("%d rows, %d dimensions, %d columns, distribution %d, %+v: %s", rows, d, cols, c.kind,
					chooseKernels(rows, d, cols), c.text)
			}
		}
	})
}

// No choice is one that the implementation lacks, and each is made where its tuning wants it.
func TestChooseKernels(t *testing.T) {
	for _, c := range []struct {
		row           tuning.Row
		rows, d, cols int
		want          kernels
	}{
		{tuning.Row{ISA: tuning.AVX512, MinRows16: 13}, 13, 64, 64,
			kernels{lanes16: true, softmax16: true}},
		{tuning.Row{ISA: tuning.AVX512, MinRows16: 13}, 12, 64, 64, kernels{softmax16: true}},
		{tuning.Row{ISA: tuning.AVX512, MinRows16: 1}, 1, 64, 64, kernels{lanes16: true}},
		{tuning.Row{ISA: tuning.AVX512, MinRows16: math.MaxInt, MaximaInScore: true}, maximaRows,
			maximaDim, 8, kernels{softmax16: true, maxima: true}},
		{tuning.Row{ISA: tuning.AVX2, MaximaInScore: true}, maximaRows, maximaDim, 8,
			kernels{maxima: true}},
		{tuning.Row{ISA: tuning.AVX2, MaximaInScore: true}, maximaRows + 1, maximaDim, 8, kernels{}},
		{tuning.Row{ISA: tuning.AVX2, MaximaInScore: true}, maximaRows, maximaDim - 1, 8, kernels{}},
		{tuning.Row{ISA: tuning.AVX2, FusedSoftmax: true}, fusedRows, 64, fusedCols,
			kernels{fused: true}},
		{tuning.Row{ISA: tuning.AVX2, FusedSoftmax: true}, fusedRows - 1, 64, fusedCols, kernels{}},
		{tuning.Row{ISA: tuning.AVX2, FusedSoftmax: true}, fusedRows, 64, fusedCols - 8, kernels{}},
		{tuning.Row{ISA: tuning.AVX512, MinRows16: math.MaxInt, FusedSoftmax: true}, 1, 64, fusedCols,
			kernels{}},
		{tuning.Row{ISA: tuning.AVX2, MinRows16: 1}, 96, 128, 128, kernels{}},
		{tuning.Row{ISA: tuning.NEON, MaximaInScore: true, FusedSoftmax: true}, 96, 128, 128, kernels{}},
		{tuning.Row{ISA: tuning.Generic, MaximaInScore: true, FusedSoftmax: true}, 96, 128, 128,
			kernels{}},
	} {
		useTuning(t, c.row)
		if got := chooseKernels(c.rows, c.d, c.cols); got != c.want {
			t.Errorf("%+v, %d rows, %d dimensions, %d columns: %+v, want %+v", c.row, c.rows, c.d, c.cols,
				got, c.want)
		}
	}
}

// A machine that lacks an implementation that the run was made for must not
// pass for one that has tested it.
func TestRequiredImplementations(t *testing.T) {
	required := os.Getenv("ATTN_TEST_REQUIRE")
	if required == "" {
		required = tuning.Generic.String()
	}
	var have []string
	for _, i := range implementations() {
		have = append(have, i.String())
	}
	for _, name := range strings.Split(required, ",") {
		if !slices.Contains(have, name) {
			t.Errorf("implementation %s is required and was not tested: this machine runs %v", name, have)
		}
	}
	t.Logf("implementations: %v", have)
}

func TestImplementationName(t *testing.T) {
	if got, want := Implementation(), tuned.ISA.String(); got != want {
		t.Errorf("Implementation() = %q, want %q", got, want)
	}
	if forced := os.Getenv("ATTN_ISA"); forced != "" && Implementation() != forced {
		t.Errorf("Implementation() = %q, want %q as ATTN_ISA says", Implementation(), forced)
	}
}
