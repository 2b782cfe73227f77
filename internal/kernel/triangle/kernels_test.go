package triangle

import (
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
)

// rowDims are sizes of a call: rows, columns, the first row, and what lies between rows.
var rowDims = []kerneltest.Dim{kerneltest.Size("rows", 1, kernel.Panel, kernel.Panel),
	kerneltest.Size("cols", 1, 150, 2100), kerneltest.Size("first", 0, kernel.Panel-1, kernel.Panel-1),
	kerneltest.Size("gap", 0, 9, 9)}

// rowsOf are operands of sizes: a shape, weights, factors.
func rowsOf(c *kerneltest.Trial, n []int) (s *Shape, w, g []float32) {
	s = &Shape{First: n[2], Cols: n[1], Updates: n[1] + n[3], Sums: n[1] + c.IntN(3)*n[3],
		Outer: n[1] + c.IntN(3)*n[3]}
	s.Rows = min(n[0], kernel.Panel-s.First)
	w = c.Input(s.Rows * kernel.Panel)
	if c.IntN(3) > 0 {
		g = c.Input(s.Rows)
	}
	return s, w, g
}

// sums are a row's that the kernel may change, for itself and for its twin.
func sums(c *kerneltest.Trial, s *Shape) (got, want []float32) {
	n := (s.Rows-1)*s.Sums + s.Cols
	got, _ = c.Place(n)
	c.Kind.Fill(c.Rand, got)
	return got, append([]float32(nil), got...)
}

var kernelTests = []kerneltest.KernelTest{
	kerneltest.Compare("substitute", rowDims, func(c *kerneltest.Trial, n []int) {
		s, w, g := rowsOf(c, n)
		beta, v := c.Input(s.Rows), c.Input((s.Rows-1)*s.Outer+s.Cols)
		r, same := sums(c, s)
		got, want := c.Results((s.First+s.Rows-1)*s.Updates + s.Cols)
		Substitute(kerneltest.Tuned.ISA, got, r, w, g, beta, v, s)
		substituteGeneric(want, same, w, g, beta, v, s)
	}),
	kerneltest.Compare("outputs", rowDims, func(c *kerneltest.Trial, n []int) {
		s, w, g := rowsOf(c, n)
		scale, u := c.Factor(), c.Input((s.First+s.Rows-1)*s.Updates+s.Cols)
		o, same := sums(c, s)
		got, want := c.Results((s.Rows-1)*s.Outer + s.Cols)
		Outputs(kerneltest.Tuned.ISA, got, o, w, g, u, scale, s)
		outputsGeneric(want, same, w, g, u, scale, s)
	}),
	kerneltest.Compare("decayRow", channelDims, func(c *kerneltest.Trial, n []int) {
		a := c.Input(n[0])
		got, want := c.Results(n[0] * kernel.Panel)
		i := c.IntN(kernel.Panel)
		DecayRow(kerneltest.Tuned.ISA, got, a, i)
		decayRowGeneric(want, a, i)
	}),
	kerneltest.Compare("decayedSums", append(channelDims, kerneltest.Size("rows", 1, 5, 5),
		kerneltest.Size("gap", 0, 9, 9)), func(c *kerneltest.Trial, n []int) {
		d, rows, stride := n[0], n[1], n[0]+n[2]
		x, w, k := c.Input((rows-1)*stride+d), c.Input(d*kernel.Panel), c.Input(d*kernel.Panel)
		got, want := c.Results(rows * kernel.Panel)
		DecayedSums(kerneltest.Tuned.ISA, got, x, w, k, rows, stride, d)
		for r := range rows {
			decayedSumsGeneric((*[kernel.Panel]float32)(want[r*kernel.Panel:]), x[r*stride:][:d], w, k)
		}
	}),
	kerneltest.Compare("addChunk", append(channelDims, kerneltest.Size("gap", 0, 9, 9)),
		func(c *kerneltest.Trial, n []int) {
			d, updates := n[0], kernel.Panel+n[1]
			k, decay := c.Input(d*kernel.Panel), c.Input(d)
			u := c.Input((kernel.Panel-1)*updates + kernel.Panel)
			got, want := c.Results(d * kernel.Panel)
			AddChunk(kerneltest.Tuned, got, k, u, decay, updates, &Next{&k[0], &k[0], &u[0], &u[0]})
			addChunkGeneric(want, k, u, decay, updates)
			PrefetchRows(kerneltest.Tuned.ISA, u, kernel.Panel, updates, kernel.Panel)
		}),
	kerneltest.Compare("twoSums", append(channelDims, kerneltest.Size("panels", 1, 9, 12),
		kerneltest.Size("gap", 0, 9, 9)), func(c *kerneltest.Trial, n []int) {
		d, panels, stride := n[0], n[1], n[1]*kernel.Panel+n[2]
		x, y, key, s := c.Input(d), c.Input(d), c.Input(d), c.Input(panels*d*kernel.Panel)
		k, wantK := c.Results(d * kernel.Panel)
		i := c.IntN(kernel.Panel)
		got, want := c.Results(stride + panels*kernel.Panel)
		pairs, wantPairs := c.Results(2 * kernel.Panel)
		p := Pair{X: x, Y: y, S: s, K: k, Key: key, Row: i, Sums: got, Pairs: pairs, Panels: panels,
			Stride: stride}
		if !TwoSums(kerneltest.Tuned.ISA, &p) {
			twoSumsGeneric(&p)
		}
		p.K, p.Sums, p.Pairs = wantK, want, wantPairs
		twoSumsGeneric(&p)
	}),
}

var channelDims = []kerneltest.Dim{kerneltest.Size("d", 1, 140, 700)}

// Kernels give the bits of the generic code, and touch nothing outside their operands.
func TestKernelsEqualGeneric(t *testing.T) { kerneltest.EqualGeneric(t, kernelTests, false) }

func fuzzKernel(f *testing.F, name string) { kerneltest.FuzzOneOf(f, kernelTests, name) }

func FuzzSubstitute(f *testing.F)  { fuzzKernel(f, "substitute") }
func FuzzOutputs(f *testing.F)     { fuzzKernel(f, "outputs") }
func FuzzDecayRow(f *testing.F)    { fuzzKernel(f, "decayRow") }
func FuzzDecayedSums(f *testing.F) { fuzzKernel(f, "decayedSums") }
func FuzzAddChunk(f *testing.F)    { fuzzKernel(f, "addChunk") }
func FuzzTwoSums(f *testing.F)     { fuzzKernel(f, "twoSums") }
