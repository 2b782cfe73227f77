package int4

import (
	"math"
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
)

// kernelTests has every kernel of kernel_int4.go.
var kernelTests = []kerneltest.KernelTest{
	kerneltest.Compare("encode", []kerneltest.Dim{kerneltest.Size("n", 1, 70, 3*kernel.CallElements)},
		func(c *kerneltest.Trial, n []int) {
			tryEncode(c,
				n[0])
		}),
	kerneltest.Compare("lookUp", []kerneltest.Dim{kerneltest.Size("rows", 1, 9, 9),
		kerneltest.Size("vectors", 1, 20, 2*kernel.CallElements)},
		func(c *kerneltest.Trial, n []int) { tryLookUp(c, n[0], n[1]) }),
	kerneltest.Compare("scoreInt4",
		[]kerneltest.Dim{kerneltest.Size("rows", 1, CodeRows, CodeRows), kerneltest.Size("d", 1, 70,
			20000),
			kerneltest.Size("keys", 1, kernel.Block, kernel.Block)},
		func(c *kerneltest.Trial, n []int) { tryScoreInt4(c, n[0], n[1], n[2]) }),
	kerneltest.Compare("accumulateInt4", []kerneltest.Dim{kerneltest.Size("rows", 1, CodeRows,
		CodeRows), kerneltest.Size("keys", 1, kernel.Block, kernel.Block),
		kerneltest.Multiples("cols", kernel.Panel, 19*kernel.Panel, 99*kernel.Panel, kernel.Panel)},
		func(c *kerneltest.Trial, n []int) { tryAccumulateInt4(c, n[0], n[1], n[2]) }),
}

func tryScoreInt4(c *kerneltest.Trial, rows, d, keys int) {
	c.AnyIntegers()
	cols := kernel.RoundUp(keys, kernel.Panel)
	k := c.TypedInput(kernel.I8, cols*kernel.RoundUp(d, 8)/2)
	b := kernel.ScoreLayout(kernel.I4, d, cols)
	scales := c.Factors(cols)
	q, words := drawQueries(c, rows, d)
	s, sWant := c.Results((rows-1)*kernel.Block + cols)
	Score(kerneltest.Tuned, s, &q, 0, k, scales, rows, d, keys, 0, c.IntN(2) == 0)
	scoreInt4Generic(sWant, words, k, scales, rows, &b)
}

func tryAccumulateInt4(c *kerneltest.Trial, rows, keys, cols int) {
	c.AnyIntegers()
	b := kernel.PanelLayout{Keys: keys, Cols: cols, Stride: 4 * cols, PanelStride: 4 * kernel.Panel,
		Overwrite: c.IntN(2) == 0}
	v := c.TypedInput(kernel.I8, kernel.RoundUp(keys, 8)/2*cols)
	oStride, wStride, fStride := cols+c.IntN(9), kernel.RoundUp(keys, 4)+c.IntN(9), 1+c.IntN(3)
	got, want := c.Results((rows-1)*oStride + cols)
	words, f := drawWeights(c, rows, wStride, keys), c.Factors((rows-1)*fStride+1)
	alpha := c.Factors(rows)
	x := integers.Sums{O: got, W: &integers.Rows{Words: words}, Alpha: alpha, F: f, Rows: rows,
		OStride: oStride, WStride: wStride, FStride: fStride}
	Accumulate(kerneltest.Tuned, &x, v, &b)
	x.O = want
	accumulateInt4Generic(&x, v, &b)
}

// encode also has numbers at the bounds between levels.
func tryEncode(c *kerneltest.Trial, n int) {
	scale := []float32{1, 0.37, 1e-40, 1e30, 0}[c.IntN(5)]
	write, x := c.Place(n)
	for i := range write {
		t := kernel.LevelBounds[c.IntN(len(kernel.LevelBounds))]
		switch c.IntN(4) {
		case 0:
			t = math.Nextafter32(t, 0)
		case 1:
			t = 127 * c.Float32()
		}
		write[i] = float32(math.Copysign(float64(float32(t*scale)), float64(c.IntN(2))-0.5))
	}
	dst, want := c.ResultsOf((n+3)/4, kerneltest.Normal)
	Encode(kerneltest.Tuned.ISA, kerneltest.BytesIn(dst)[:n], x, scale)
	encodeGeneric(kerneltest.BytesIn(want)[:n], x, scale)
}

// LookUp has the layouts of keys and of values.
func tryLookUp(c *kerneltest.Trial, rows, vectors int) {
	src := c.TypedInput(kernel.I8, 64*rows*vectors)
	l := LevelLayout{Rows: rows, Vectors: vectors, Row: 128 * vectors, Step: 128, Upper: 64}
	switch c.IntN(3) {
	case 0: // keys of an odd number of groups
		l.Row -= 64
	case 1:
		l.Step, l.Upper = 64, 64*vectors
	}
	last := (rows-1)*l.Row + (vectors-1)*l.Step + l.Upper + 64
	dst, want := c.ResultsOf(last/4, kerneltest.Normal)
	LookUp(kerneltest.Tuned.ISA, kerneltest.BytesIn(dst), src, &l, 0)
	lookUpGeneric(kerneltest.BytesIn(want), src, &l)
}

// Kernels of codes give the bits of the generic code, and touch nothing outside their operands.
func TestKernelsEqualGeneric(t *testing.T) { kerneltest.EqualGeneric(t, kernelTests, false) }

func FuzzEncode(f *testing.F) { fuzzKernel(f, "encode") }
func FuzzLookUp(f *testing.F) { fuzzKernel(f, "lookUp") }

func FuzzScoreInt4(f *testing.F)      { fuzzKernel(f, "scoreInt4") }
func FuzzAccumulateInt4(f *testing.F) { fuzzKernel(f, "accumulateInt4") }

// drawQueries is rows of d integers of 8 bits, as kernels and as the generic code take them.
func drawQueries(c *kerneltest.Trial, rows, d int) (got integers.Rows, want []int16) {
	stride := kernel.RoundUp(d, 4)
	got.Fit(kerneltest.Tuned, rows*stride, rows, rows)
	want = make([]int16, rows*stride)
	row := make([]int8, d)
	for r := range rows {
		for k := range row {
			row[k] = int8(c.IntN(255) - 127)
		}
		got.Put(kerneltest.Tuned.ISA, r*stride, r, row)
		integers.InGroupOrder(want[r*stride:][:stride], row)
	}
	switch {
	case got.Words != nil:
		got.Words = kerneltest.Guarded(c, got.Words)
		return got, want
	case got.Magnitudes != nil:
		got.Magnitudes = kerneltest.Guarded(c, got.Magnitudes)
	default:
		got.Bytes = kerneltest.Guarded(c, got.Bytes)
	}
	got.Starts = kerneltest.Guarded(c, got.Starts)
	return got, want
}

// drawWeights is rows of n integers of 15 bits that are stride apart. What completes the last group
// of four is 0.
func drawWeights(c *kerneltest.Trial, rows, stride, n int) []int16 {
	x := make([]int16, (rows-1)*stride+kernel.RoundUp(n, 4))
	for i := range x {
		x[i] = int16(c.IntN(1 << 15))
	}
	for r := range rows {
		last := x[r*stride+n/4*4:]
		for k := n % 4; k > 0 && k < 4; k++ {
			last[[4]int{0, 2, 1, 3}[k]] = 0
		}
	}
	return kerneltest.Guarded(c, x)
}
