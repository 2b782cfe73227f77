//go:build !purego

package floats

import (
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Kernels of maxima are called by fullTile.add only.

func init() { kernelTests = append(kernelTests, maximaTests...) }

var maximaTests = []kerneltest.KernelTest{
	kerneltest.Compare("scoreMaxima", []kerneltest.Dim{kerneltest.Multiples("rows", MaximaRows, 96,
		tuning.MaxTileRows, MaximaRows),
		kerneltest.Size("d", MaximaDim, 99, 300), kerneltest.Size("panels", 1, 4,
			4)}, func(c *kerneltest.Trial, n []int) {
		rows, d, panels := n[0], n[1], n[2]
		q, k := c.Input(rows*d), c.Input(panels*d*kernel.Panel)
		got, want := c.Results((rows-1)*kernel.Block + panels*kernel.Panel)
		maxima, maximaWant := c.Results(rows * kernel.MaximaLanes)
		scoreMaxima(got, q, k, maxima, rows, d, panels, c.Anywhere())
		scoreMaximaGeneric(want, q, k, maximaWant, rows, d, panels)
	}),
	kerneltest.Compare("softmaxMaxima", []kerneltest.Dim{kerneltest.Size("rows", 1,
		tuning.MaxTileRows, tuning.MaxTileRows)}, func(c *kerneltest.Trial,
		n []int) {
		s, sWant := c.Scores(n[0])
		write, maxima := c.Place(n[0] * kernel.MaximaLanes)
		maximaOf(write, s, n[0], kernel.Block)
		m, mWant, l, lWant := c.RunningState(n[0])
		alpha, alphaWant := c.Results(n[0])
		unit := c.Unit()
		masked := softmaxMaxima(s, m, l, alpha, maxima, n[0], unit)
		c.Equal("masked", masked, softmaxMaximaGeneric(sWant, mWant, lWant, alphaWant, maxima, n[0],
			unit))
	}),
}

func FuzzScoreMaxima(f *testing.F)   { fuzzKernel(f, "scoreMaxima") }
func FuzzSoftmaxMaxima(f *testing.F) { fuzzKernel(f, "softmaxMaxima") }

// scoreMaxima is score of whole rows of a tile, which leaves their maxima, too.
func scoreMaxima(s, q, k, maxima []float32, rows, d, panels int, next *kernel.PrefetchQueue) {
	operand.WritesRows(s, rows, kernel.Block, panels*kernel.Panel)
	operand.Reads(q, rows*d)
	operand.Reads(k, panels*d*kernel.Panel)
	operand.Writes(maxima, rows*kernel.MaximaLanes)
	if !kerneltest.Tuned.ISA.SIMD() {
		scoreMaximaGeneric(s, q, k, maxima, rows, d, panels)
		return
	}
	scoreMaximaSIMD(&s[0], &q[0], &k[0], &maxima[0], rows, d, panels, next)
}

// softmaxMaxima is softmax of scores whose maxima are known.
func softmaxMaxima(s, m, l, alpha, maxima []float32, rows int, c float32) (masked bool) {
	operand.Updates(s, rows*kernel.Block)
	operand.Updates(m, rows)
	operand.Updates(l, rows)
	operand.Writes(alpha, rows)
	operand.Reads(maxima, rows*kernel.MaximaLanes)
	if !kerneltest.Tuned.ISA.SIMD() {
		return softmaxMaximaGeneric(s, m, l, alpha, maxima, rows, c)
	}
	return softmaxSIMD(&s[0], &m[0], &l[0], &alpha[0], &maxima[0], nil, rows, c)
}
