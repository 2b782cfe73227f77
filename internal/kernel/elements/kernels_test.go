package elements

import (
	"math"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
)

// kernelTests has every kernel.
var kernelTests = []kerneltest.KernelTest{
	kerneltest.Compare("sum", kerneltest.VectorDims, func(c *kerneltest.Trial, n []int) {
		x := c.Input(n[0])
		var lane [Lanes]float32
		sumGeneric(&lane, x)
		c.Equal("sum", Sum(kerneltest.Tuned.ISA, x), f32.Fold(lane[:]))
	}),
	kerneltest.Compare("sumSquares", kerneltest.VectorDims, func(c *kerneltest.Trial, n []int) {
		x, mean := c.Input(n[0]), c.Factor()
		var lane [Lanes]float32
		sumSquaresGeneric(&lane, x, mean)
		c.Equal("sumSquares", SumSquares(kerneltest.Tuned.ISA, x, mean), f32.Fold(lane[:]))
	}),
	kerneltest.Compare("addSquares", kerneltest.VectorDims, func(c *kerneltest.Trial, n []int) {
		a, b := c.Input(n[0]), c.Input(n[0])
		got, want := c.Results(n[0])
		var lane [Lanes]float32
		addSquaresGeneric(&lane, want, a, b)
		c.Equal("addSquares", AddSquares(kerneltest.Tuned.ISA, got, a, b), f32.Fold(lane[:]))
	}),
	kerneltest.Compare("scale", kerneltest.VectorDims, func(c *kerneltest.Trial, n []int) {
		x, r := c.Input(n[0]), c.Factor()
		got, want := c.Results(n[0])
		Scale(kerneltest.Tuned.ISA, got, x, nil, r, anyAhead(c))
		scaleGeneric(want, x, r)
	}),
	kerneltest.Compare("scaleWeighted", kerneltest.VectorDims, func(c *kerneltest.Trial, n []int) {
		x, weight, r := c.Input(n[0]), c.Input(n[0]), c.Factor()
		got, want := c.Results(n[0])
		Scale(kerneltest.Tuned.ISA, got, x, weight, r, anyAhead(c))
		scaleWeightedGeneric(want, x, weight, r)
	}),
	kerneltest.Compare("normalize", kerneltest.VectorDims, func(c *kerneltest.Trial, n []int) {
		x, mean, r := c.Input(n[0]), c.Factor(), c.Factor()
		w, b := ones[:], zeros[:]
		var weight, bias []float32
		if c.IntN(2) == 0 {
			weight = c.Input(n[0])
			w = weight
		}
		if c.IntN(2) == 0 {
			bias = c.Input(n[0])
			b = bias
		}
		got, want := c.Results(n[0])
		Normalize(kerneltest.Tuned.ISA, got, x, weight, bias, mean, r, anyAhead(c))
		normalizeGeneric(want, x, w, b, mean, r)
	}),
	kerneltest.Compare("add", kerneltest.VectorDims, func(c *kerneltest.Trial, n []int) {
		a, b := c.Input(n[0]), c.Input(n[0])
		got, want := c.Results(n[0])
		Add(kerneltest.Tuned.ISA, got, a, b, anyAhead(c))
		addGeneric(want, a, b)
	}),
	kerneltest.Compare("multiply", kerneltest.VectorDims, func(c *kerneltest.Trial, n []int) {
		a, b := c.Input(n[0]), c.Input(n[0])
		got, want := c.Results(n[0])
		Multiply(kerneltest.Tuned.ISA, got, a, b, anyAhead(c))
		multiplyGeneric(want, a, b)
	}),
	kerneltest.Compare("multiplyAdd", kerneltest.VectorDims, func(c *kerneltest.Trial, n []int) {
		a, b := c.Input(n[0]), c.Input(n[0])
		got, want := c.Results(n[0])
		MultiplyAdd(kerneltest.Tuned.ISA, got, a, b)
		multiplyAddGeneric(want, a, b)
	}),
	kerneltest.Compare("combine", combineDims, func(c *kerneltest.Trial, n []int) {
		x := Combination{Sums: n[0], Rows: n[1], Cols: n[2]}
		x.DstStride, x.XStride = x.Cols+c.IntN(9), c.Stride(x.Cols, 9)
		x.WeightStride = c.Stride(x.Rows, 9)
		x.X = c.Input(max(0, x.Rows-1)*x.XStride + x.Cols)
		x.Weights = c.Input(max(0, x.Sums-1)*x.WeightStride + x.Rows)
		got, want := c.Results(max(0, x.Sums-1)*x.DstStride + x.Cols)
		x.Dst = got
		Combine(kerneltest.Tuned.ISA, &x, anyAhead(c).X)
		x.Dst = want
		combineGeneric(&x)
	}),
	kerneltest.Compare("columnMaxima", columnDims, func(c *kerneltest.Trial, n []int) {
		cols, rows := n[0]*kernel.Panel, n[1]
		stride := c.Stride(cols, 9)
		x := c.Input(max(0, rows-1)*stride + cols)
		got, want := c.Results(cols)
		copy(got, want)
		ColumnMaxima(kerneltest.Tuned.ISA, got, x, rows, stride)
		columnMaximaGeneric(want, x, rows, stride)
	}),
	kerneltest.Compare("gateClamped", kerneltest.VectorDims, func(c *kerneltest.Trial, n []int) {
		gate, up := c.InputOf(n[0], c.Exponents()), c.Input(n[0])
		alpha, limit := []float32{1.702, 1, 1e-30}[c.IntN(3)], []float32{7, 0.5,
			float32(math.Inf(1))}[c.IntN(3)]
		got, want := c.Results(n[0])
		GateClamped(kerneltest.Tuned.ISA, got, gate, up, alpha, limit, anyAhead(c))
		gateClampedGeneric(want, gate, up, alpha, limit)
	}),
	kerneltest.Compare("rotateHalves", kerneltest.VectorDims, func(c *kerneltest.Trial, n []int) {
		half := n[0] + c.IntN(9)
		x, cosines, sines := c.Input(half+n[0]), c.Input(n[0]), c.Input(n[0])
		got, want := c.Results(half + n[0])
		inverse := c.IntN(2) == 0
		RotateHalves(kerneltest.Tuned.ISA, got, x, cosines, sines, half, inverse)
		rotateHalvesGeneric(want, x, cosines, sines, half, inverse)
	}),
	kerneltest.Compare("rotatePairs", kerneltest.VectorDims, func(c *kerneltest.Trial, n []int) {
		x, cosines, sines := c.Input(2*n[0]), c.Input(n[0]), c.Input(n[0])
		got, want := c.Results(2 * n[0])
		inverse := c.IntN(2) == 0
		RotatePairs(kerneltest.Tuned.ISA, got, x, cosines, sines, inverse)
		rotatePairsGeneric(want, x, cosines, sines, inverse)
	}),
	kerneltest.Compare("activate", activationDims, func(c *kerneltest.Trial, n []int) {
		x, f := c.InputOf(n[0], c.Exponents()), Function(n[1])
		got, want := c.Results(n[0])
		Activate(kerneltest.Tuned.ISA, got, x, f, anyAhead(c))
		activateGeneric(want, x, f)
	}),
	kerneltest.Compare("gate", activationDims, func(c *kerneltest.Trial, n []int) {
		x, up, f := c.InputOf(n[0], c.Exponents()), c.Input(n[0]), Function(n[1])
		got, want := c.Results(n[0])
		Gate(kerneltest.Tuned.ISA, got, x, up, f, anyAhead(c))
		activateGeneric(want, x, f)
		multiplyGeneric(want, want, up)
	}),
}

// anyAhead prefetches near the operands, or what does not exist.
func anyAhead(c *kerneltest.Trial) Ahead {
	if c.IntN(2) == 0 {
		return Ahead{}
	}
	return Ahead{int(c.Uint64()), c.IntN(1<<16) - 1<<15}
}

var activationDims = []kerneltest.Dim{kerneltest.Size("n", 0, 70, 3000),
	kerneltest.Size("function", 0, int(Functions)-1, int(Functions)-1)}

var combineDims = []kerneltest.Dim{kerneltest.Size("sums", 0, 9, 9),
	kerneltest.Size("rows", 1, 12, 300), kerneltest.Size("cols", 0, 300, 3000)}

var columnDims = []kerneltest.Dim{kerneltest.Size("panels", 0, 5, 20),
	kerneltest.Size("rows", 0, 20, 130)}

// Kernels give the bits of the generic code, and touch nothing outside their operands.
func TestKernelsEqualGeneric(t *testing.T) { kerneltest.EqualGeneric(t, kernelTests, false) }

// Where calls are split, nothing changes.
func TestSplitCalls(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		isa := kerneltest.Tuned.ISA
		kerneltest.SplitVectors(t, func(c *kerneltest.Trial, x []float32, mean float32) {
			n := len(x)
			got, want := c.Results(n)
			var lane [Lanes]float32
			sumGeneric(&lane, x)
			c.Equal("Sum", Sum(isa, x), f32.Fold(lane[:]))
			lane = [Lanes]float32{}
			sumSquaresGeneric(&lane, x, mean)
			c.Equal("SumSquares", SumSquares(isa, x, mean), f32.Fold(lane[:]))
			lane = [Lanes]float32{}
			addSquaresGeneric(&lane, want, x, x)
			c.Equal("AddSquares", AddSquares(isa, got, x, x), f32.Fold(lane[:]))
			Normalize(isa, got, x, nil, nil, mean, 3, Ahead{})
			for from := 0; from < n; from += len(ones) {
				to := min(from+len(ones), n)
				normalizeGeneric(want[from:to], x[from:to], ones[:], zeros[:], mean, 3)
			}
		})
	})
}

// BenchmarkElements computes on vectors in the second-level cache.
func BenchmarkElements(b *testing.B) {
	const n = 1 << 15
	isa := kerneltest.Tuned.ISA
	x, y, dst := make([]float32, n), make([]float32, n), make([]float32, n)
	r := kerneltest.Random(b.Name())
	kerneltest.Normal.Fill(r, x)
	kerneltest.Normal.Fill(r, y)
	rows := func(f func(from, to int)) func() {
		return func() {
			for from := 0; from < n; from += kernel.CallElements {
				f(from, from+kernel.CallElements)
			}
		}
	}
	type run struct {
		name string
		f    func()
	}
	list := []run{
		{"copy", rows(func(from, to int) { copy(dst[from:to], x[from:to]) })},
		{"sum", rows(func(from, to int) { Sum(isa, x[from:to]) })},
		{"sumSquares", rows(func(from, to int) { SumSquares(isa, x[from:to], 0) })},
		{"add", rows(func(from, to int) {
			Add(isa, dst[from:to], x[from:to], y[from:to], Ahead{})
		})},
		{"addSquares", rows(func(from, to int) {
			AddSquares(isa, dst[from:to], x[from:to], y[from:to])
		})},
		{"scaleWeighted", rows(func(from, to int) {
			Scale(isa, dst[from:to], x[from:to], y[:to-from], 3, Ahead{})
		})},
		{"rotateHalves", rows(func(from, to int) {
			RotateHalves(isa, dst[from:to], x[from:to], y[:2048], y[2048:4096], 2048, false)
		})},
		{"rotatePairs", rows(func(from, to int) {
			RotatePairs(isa, dst[from:to], x[from:to], y[:2048], y[2048:4096], false)
		})},
		{"gateClamped", rows(func(from, to int) {
			GateClamped(isa, dst[from:to], x[from:to], y[from:to], 1, 7, Ahead{})
		})},
		{"swiglu", rows(func(from, to int) {
			Gate(isa, dst[from:to], x[from:to], y[from:to], SiLU, Ahead{})
		})},
	}
	for i, name := range []string{"silu", "gelu", "geluTanh", "relu", "reluSquared", "sigmoid", "tanh",
		"softplus", "exp"} {
		list = append(list, run{name, rows(func(from, to int) {
			Activate(isa, dst[from:to], x[from:to], Function(i), Ahead{})
		})})
	}
	for _, c := range list {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c.f()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/element")
		})
	}
}
