//go:build !purego

package attn

import (
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
)

// Kernels of maxima are called by fullTile.add only.

func init() { kernelTests = append(kernelTests, maximaTests...) }

var maximaTests = []kernelTest{
	compare("scoreMaxima", []dim{multiples("rows", maximaRows, 96, maxTileRows, maximaRows),
		size("d", maximaDim, 99, 300), size("panels", 1, 4, 4)}, func(c *trial, n []int) {
		rows, d, panels := n[0], n[1], n[2]
		q, k := c.Input(rows*d), c.Input(panels*d*panel)
		got, want := c.Results((rows-1)*Block + panels*panel)
		maxima, maximaWant := c.Results(rows * kernel.MaximaLanes)
		scoreMaxima(got, q, k, maxima, rows, d, panels, c.Anywhere())
		scoreMaximaGeneric(want, q, k, maximaWant, rows, d, panels)
	}),
	compare("softmaxMaxima", []dim{size("rows", 1, maxTileRows, maxTileRows)}, func(c *trial,
		n []int) {
		s, sWant := c.Scores(n[0])
		write, maxima := c.Place(n[0] * kernel.MaximaLanes)
		maximaOf(write, s, n[0], Block)
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
	operand.WritesRows(s, rows, Block, panels*panel)
	operand.Reads(q, rows*d)
	operand.Reads(k, panels*d*panel)
	operand.Writes(maxima, rows*kernel.MaximaLanes)
	if !tuned.ISA.SIMD() {
		scoreMaximaGeneric(s, q, k, maxima, rows, d, panels)
		return
	}
	scoreMaximaSIMD(&s[0], &q[0], &k[0], &maxima[0], rows, d, panels, next)
}

// softmaxMaxima is softmax of scores whose maxima are known.
func softmaxMaxima(s, m, l, alpha, maxima []float32, rows int, c float32) (masked bool) {
	operand.Updates(s, rows*Block)
	operand.Updates(m, rows)
	operand.Updates(l, rows)
	operand.Writes(alpha, rows)
	operand.Reads(maxima, rows*kernel.MaximaLanes)
	if !tuned.ISA.SIMD() {
		return softmaxMaximaGeneric(s, m, l, alpha, maxima, rows, c)
	}
	return softmaxMaximaSIMD(&s[0], &m[0], &l[0], &alpha[0], &maxima[0], rows, c)
}
