package floats

import (
	"math"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// columnsDims are those of kernels that go column by column.
var columnsDims = []kerneltest.Dim{kerneltest.Size("rows", 1, 20, 99),
	kerneltest.Size("cols", 1, kernel.Block, kernel.Block), kerneltest.Size("gap", 0, 20, 100)}

// kernels has every kernel of kernel.go.
var kernelTests = []kerneltest.KernelTest{
	kerneltest.Compare("packKeys", []kerneltest.Dim{kerneltest.Size("keys", 1, kernel.Block,
		kernel.Block), kerneltest.Size("d", 1, 99, 600), kerneltest.Size("gap", 0, 20,
		200)},
		func(c *kerneltest.Trial, n []int) {
			keys, d := n[0], n[1]
			stride := c.Stride(d, n[2])
			k := c.Input((keys-1)*stride + d)
			got, want := c.Results(kernel.RoundUp(keys, kernel.Panel)*d + c.IntN(20))
			PackKeys(kerneltest.Tuned, got, k, stride, keys, d)
			packKeysGeneric(want, k, stride, keys, d)
		}),
	kerneltest.Compare("packValues", []kerneltest.Dim{kerneltest.Size("keys", 1, kernel.Block,
		kernel.Block), kerneltest.Size("d", 1, 99, 600),
		kerneltest.Size("gap", 0, 20, 200)}, func(c *kerneltest.Trial, n []int) {
		keys, d := n[0], n[1]
		stride := c.Stride(d, n[2])
		v := c.Input((keys-1)*stride + d)
		got, want := c.Results((kernel.RoundUp(d,
			kernel.Panel)/kernel.Panel-1)*kernel.Block*kernel.Panel + keys*kernel.Panel + c.IntN(20))
		PackValues(kerneltest.Tuned, got, v, stride, keys, d)
		packValuesGeneric(want, v, stride, keys, d)
	}),
	kerneltest.Compare("score", []kerneltest.Dim{kerneltest.Size("rows", 1, 99, 99),
		kerneltest.Size("d", 1, 99, 600), kerneltest.Size("panels", 1, 4, 4)},
		func(c *kerneltest.Trial, n []int) {
			rows, d, panels := n[0], n[1], n[2]
			q, k := c.Input(rows*d), c.Input(panels*d*kernel.Panel)
			got, want := c.Results((rows-1)*kernel.Block + panels*kernel.Panel)
			Score(kerneltest.Tuned, got, q, k, rows, d, panels, c.Anywhere())
			scoreGeneric(want, q, k, rows, d, panels)
		}),
	kerneltest.Compare("scoreRows", []kerneltest.Dim{kerneltest.Size("rows", 1, 99, 99),
		kerneltest.Size("d", 1, 99, 600), kerneltest.Size("keys", 1, kernel.Block,
			kernel.Block),
		kerneltest.Size("gap", 0, 20, 200)}, func(c *kerneltest.Trial, n []int) {
		rows, d, keys := n[0], n[1], n[2]
		stride := c.Stride(d, n[3])
		next, after := c.Anywhere(), 0
		if next != nil {
			after = c.IntN(20)
			next.After = after
		}
		q, k := c.Input(rows*d), c.Input((keys-1+after)*stride+d)
		got, want := c.Results((rows-1)*kernel.Block + keys)
		ScoreRows(kerneltest.Tuned.ISA, got, q, KeyRows{k, stride, keys}, rows, d, next)
		scoreRowsGeneric(want, q, k, rows, d, stride, keys)
	}),
	kerneltest.Compare("softmax", []kerneltest.Dim{kerneltest.Size("rows", 1, 2*kernel.SoftmaxRows+1,
		600)}, func(c *kerneltest.Trial, n []int) {
		s, sWant := c.Scores(n[0])
		m, mWant, l, lWant := c.RunningState(n[0])
		alpha, alphaWant := c.Results(n[0])
		unit := c.Unit()
		masked := Softmax(kerneltest.Tuned, s, m, l, alpha, nil, n[0], unit)
		c.Equal("masked", masked, softmaxGeneric(sWant, mWant, lWant, alphaWant, n[0], unit))
	}),
	kerneltest.Compare("softmaxMasked", []kerneltest.Dim{kerneltest.Size("rows", 1,
		2*kernel.SoftmaxRows+1, 600)}, func(c *kerneltest.Trial,
		n []int) {
		visible := c.VisibleBits(n[0])
		s, sWant := c.Scores(n[0])
		m, mWant, l, lWant := c.RunningState(n[0])
		alpha, alphaWant := c.Results(n[0])
		unit := c.Unit()
		masked := Softmax(kerneltest.Tuned, s, m, l, alpha, visible, n[0], unit)
		c.Equal("masked", masked, softmaxMaskedGeneric(sWant, mWant, lWant, alphaWant, visible, n[0],
			unit))
	}),
	kerneltest.Compare("accumulate", accumulateDims, func(c *kerneltest.Trial, n []int) {
		a := c.NewAccumulation(n)
		alpha := a.Alpha
		if c.IntN(3) == 0 {
			alpha = nil // a matrix product
		}
		Accumulate(kerneltest.Tuned, kerneltest.Sums(a.Got, a.P, alpha, a.Rows, a.OStride, a.PStride),
			a.V, &a.Layout)
		accumulateGeneric(kerneltest.Sums(a.Want, a.P, alpha, a.Rows, a.OStride, a.PStride),
			a.V, &a.Layout)
	}),
	kerneltest.Compare("accumulateMasked", accumulateDims, func(c *kerneltest.Trial, n []int) {
		a := c.NewAccumulation(n)
		AccumulateMasked(kerneltest.Tuned,
			kerneltest.Sums(a.Got, a.P, a.Alpha, a.Rows, a.OStride, a.PStride),
			a.V, &a.Layout)
		accumulateMaskedGeneric(kerneltest.Sums(a.Want, a.P, a.Alpha, a.Rows, a.OStride, a.PStride),
			a.V, &a.Layout)
	}),
	kerneltest.Compare("scale", kerneltest.VectorDims, func(c *kerneltest.Trial, n []int) {
		got, want := c.Results(n[0] + c.IntN(9))
		f := c.Kind.Draw(c.Rand)
		if c.IntN(2) == 0 { // in place
			Scale(kerneltest.Tuned.ISA, got, got[:n[0]], f)
			scaleGeneric(want, want[:n[0]], f)
			return
		}
		x := c.Input(n[0])
		Scale(kerneltest.Tuned.ISA, got, x, f)
		scaleGeneric(want, x, f)
	}),
	kerneltest.Compare("normalize", []kerneltest.Dim{kerneltest.Size("rows", 1, 99, 99),
		kerneltest.Size("n", 1, 99, 300), kerneltest.Size("gap", 0, 20, 200),
		kerneltest.Size("pad", 0, 20, 200)}, func(c *kerneltest.Trial, n []int) {
		rows, d := n[0], n[1]
		dstStride, oStride := c.Stride(d, n[2]), c.Stride(d, n[3])
		l, o := c.Input(rows), c.Input((rows-1)*oStride+d)
		got, want := c.Results((rows-1)*dstStride + d)
		Normalize(kerneltest.Tuned.ISA, got, o, l, rows, d, dstStride, oStride)
		normalizeGeneric(want, o, l, rows, d, dstStride, oStride)
	}),
	kerneltest.Compare("merge", kerneltest.VectorDims, func(c *kerneltest.Trial, n []int) {
		b := c.Input(n[0])
		got, want := c.Results(n[0] + c.IntN(9))
		x, y := c.Factor(), c.Factor()
		Merge(kerneltest.Tuned.ISA, got, b, x, y)
		mergeGeneric(want, b, x, y)
	}),
	kerneltest.Compare("mergeRows", []kerneltest.Dim{kerneltest.Size("rows", 1, 9, 20),
		kerneltest.Size("n", 1, 99, 300), kerneltest.Size("panels", 0, 3, 9)},
		func(c *kerneltest.Trial, n []int) {
			rows, n1 := n[0], n[1]
			if n[2] > 0 {
				n1 = n[2] * kernel.Panel
			}
			b, x, y := c.Input(rows*n1), c.Factors(rows), c.Factors(rows)
			got, want := c.Results(rows * n1)
			MergeRows(kerneltest.Tuned.ISA, got, b, x, y, n1)
			for r := range rows {
				mergeGeneric(want[r*n1:][:n1], b[r*n1:][:n1], x[r], y[r])
			}
		}),
	kerneltest.Compare("mergeSums", kerneltest.VectorDims, func(c *kerneltest.Trial, n []int) {
		m, mWant, l, lWant := c.RunningState(n[0])
		m2, _, l2, _ := c.RunningState(n[0])
		x, xWant := c.Results(n[0])
		y, yWant := c.Results(n[0])
		unit := c.Unit()
		MergeSums(kerneltest.Tuned.ISA, m, l, m2, l2, x, y, unit)
		mergeSumsGeneric(mWant, lWant, m2, l2, xWant, yWant, unit)
	}),
	kerneltest.Compare("softcap", kerneltest.VectorDims, func(c *kerneltest.Trial, n []int) {
		got, want := c.Results(n[0])
		most, factor := c.Kind.Draw(c.Rand), c.Factor()
		Softcap(kerneltest.Tuned.ISA, got, most, factor)
		softcapGeneric(want, most, factor)
	}),
	kerneltest.Compare("alibi", kerneltest.VectorDims, func(c *kerneltest.Trial, n []int) {
		got, want := c.Results(n[0])
		slope := c.Kind.Draw(c.Rand)
		first := c.IntN(400) - 200
		if c.IntN(2) == 0 {
			first = c.IntN(4<<28) - 2<<28
		}
		Alibi(kerneltest.Tuned.ISA, got, slope, first)
		alibiGeneric(want, slope, first)
	}),
	kerneltest.Compare("addBias", kerneltest.PairDims, func(c *kerneltest.Trial, n []int) {
		rows, keys, step := n[0], n[1], 1+c.IntN(3)
		stride := c.Stride(keys, c.IntN(9))
		bias := c.Input((rows-1)*stride + keys)
		if c.IntN(4) == 0 {
			stride = -stride
		}
		s, sWant := c.Results((rows-1)*step*kernel.Block + keys)
		unit := c.Factor()
		AddBias(kerneltest.Tuned.ISA, s, bias, rows, step, stride, keys, unit)
		addBiasGeneric(sWant, bias, rows, step, stride, keys, unit)
	}),
	kerneltest.Compare("addDistant", kerneltest.PairDims, func(c *kerneltest.Trial, n []int) {
		width, keys := n[0], n[1]
		rows, stride, pitch := 1+c.IntN(DistantRows), c.Stride(width, c.IntN(9)), 0
		if c.IntN(2) == 0 {
			stride, pitch = 0, stride
		}
		table := c.Input((rows-1)*stride + (keys-1)*pitch + width)
		index := make([]int32, DistantRows-1+keys)
		for j := range index {
			index[j] = int32(c.IntN(width))
		}
		var orders []uint64
		if step := 1 - 2*c.IntN(2); width >= 8 && c.IntN(3) > 0 {
			index = append(index, make([]int32, 7)...)
			for j := 1; j < len(index); j++ {
				index[j] = int32(min(max(int(index[j-1])+step*c.IntN(2), 0), width-1))
			}
			orders = make([]uint64, DistantRows-1+keys)
			SetOrders(orders, index, width)
		}
		dst, want := c.Results((rows-1)*kernel.Block + keys)
		x := Distant{dst, table, index, orders, rows, stride, pitch, keys, width, c.IntN(2) == 0}
		AddDistant(kerneltest.Tuned.ISA, &x)
		x.Dst = want
		addDistantGeneric(&x)
	}),
	kerneltest.Compare("maskBias", kerneltest.PairDims, func(c *kerneltest.Trial, n []int) {
		rows, keys, step := n[0], n[1], 1+c.IntN(3)
		stride := c.Stride(keys, c.IntN(9))
		bias := c.InputBias((rows-1)*stride + keys)
		if c.IntN(4) == 0 {
			stride = -stride
		}
		visible := c.VisibleBits((rows-1)*step + 1)
		got, want := slices.Clone(visible), slices.Clone(visible)
		lo := c.IntN(kernel.Block - keys + 1)
		hides, adds := MaskBias(kerneltest.Tuned.ISA, bias, got, rows, step, stride, lo, keys)
		hidesWant, addsWant := maskBiasGeneric(bias, want, rows, step, stride, lo, keys)
		if hides != hidesWant || adds != addsWant {
			c.Wrong("hides %t, adds %t, want %t, %t", hides, adds, hidesWant, addsWant)
		}
		for r := range want {
			c.Equal("visible", got[r], want[r])
		}
	}),
	kerneltest.Compare("maskKeys", kerneltest.PairDims, func(c *kerneltest.Trial, n []int) {
		rows, keys, step := n[0], n[1], 1+c.IntN(3)
		stride := c.Stride(keys, c.IntN(9))
		mask := c.InputBools((rows-1)*stride + keys)
		visible := c.VisibleBits((rows-1)*step + 1)
		got, want := slices.Clone(visible), slices.Clone(visible)
		lo := c.IntN(kernel.Block - keys + 1)
		every := MaskKeys(kerneltest.Tuned.ISA, mask, got, rows, step, stride, lo, keys)
		c.Equal("every", every, maskKeysGeneric(mask, want, rows, step, stride, lo, keys))
		for r := range want {
			c.Equal("visible", got[r], want[r])
		}
	}),
	kerneltest.Compare("weights", kerneltest.VectorDims, func(c *kerneltest.Trial, n []int) {
		s := c.Input(n[0])
		got, want := c.Results(n[0])
		visible, r := c.Visible(), c.Factor()
		m := kernel.NegInf
		for j, e := range s {
			if visible>>j&1 != 0 && e > m {
				m = e // the final maximum is no less than any visible score
			}
		}
		if m == kernel.NegInf {
			m = c.Float32()
		}
		unit := c.Unit()
		Weights(kerneltest.Tuned.ISA, got, s, m, r, unit, visible)
		weightsGeneric(want, s, m, r, unit, visible)
	}),
	kerneltest.Compare("allFinite", kerneltest.VectorDims, func(c *kerneltest.Trial, n []int) {
		if c.IntN(2) == 0 {
			c.Kind = kerneltest.Normal
		}
		x := c.Input(n[0])
		c.Equal("finite", AllFinite(kerneltest.Tuned.ISA, x), allFiniteGeneric(x))
	}),
	kerneltest.Compare("scaleColumns", columnsDims, func(c *kerneltest.Trial, n []int) {
		stride := n[1] + n[2]
		s, want := c.Results((n[0]-1)*stride + n[1])
		f := c.Factors(n[1])
		ScaleColumns(kerneltest.Tuned.ISA, s, f, n[0], stride, n[1])
		scaleColumnsGeneric(want, f, n[0], stride, n[1])
	}),
	kerneltest.Compare("addColumns", columnsDims, func(c *kerneltest.Trial, n []int) {
		stride := n[1] + n[2]
		s, want := c.Results((n[0]-1)*stride + n[1])
		bias := c.Input(n[1])
		AddColumns(kerneltest.Tuned.ISA, s, bias, n[0], stride, n[1])
		addColumnsGeneric(want, bias, n[0], stride, n[1])
	}),
	kerneltest.Compare("scaleAddColumns", columnsDims, func(c *kerneltest.Trial, n []int) {
		stride := n[1] + n[2]
		s, want := c.Results((n[0]-1)*stride + n[1])
		f, bias := c.Factors(n[1]), c.Input(n[1])
		ScaleAddColumns(kerneltest.Tuned.ISA, s, f, bias, n[0], stride, n[1])
		scaleAddColumnsGeneric(want, f, bias, n[0], stride, n[1])
	}),
	kerneltest.Compare("softmaxScaled", []kerneltest.Dim{kerneltest.Size("rows", 1, 1, 1)},
		func(c *kerneltest.Trial, _ []int) {
			s, sWant := c.Scores(1)
			m, mWant, l, lWant := c.RunningState(1)
			alpha, alphaWant := c.Results(1)
			keys, values, unit := c.Factors(kernel.Block), c.Factors(kernel.Block), c.Unit()
			masked := SoftmaxScaled(kerneltest.Tuned, s, m, l, alpha, keys, values, unit)
			c.Equal("masked", masked, softmaxScaledGeneric(sWant, mWant, lWant, alphaWant, keys, values,
				unit))
		}),
}

var accumulateDims = []kerneltest.Dim{
	kerneltest.Size("rows", 1, 99, 99), kerneltest.Size("keys", 1, 99,
		300), kerneltest.Multiples("cols", 8, 96, 600, 8), kerneltest.Size("gap",
		0, 20,
		100),
}

// How few rows of queries go through memory depends on the CPU; the bits do not.
func TestKernelsOfFewRows(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		for _, reads := range []tuning.Reads{tuning.QueuedReads, tuning.SequentialReads} {
			kerneltest.ReadingAs(t, reads)
			kerneltest.Tuned.MinRows16 = 2
			for i := range kernelTests {
				switch k := &kernelTests[i]; k.Name {
				case "score", "scoreRows", "accumulate", "packKeys", "packValues":
					k.FewRows(t)
				}
			}
		}
	})
}

func TestKernelsEqualGeneric(t *testing.T) { kerneltest.EqualGeneric(t, kernelTests, true) }

// Softmax computes exp in one of two ways, according to how far the scores of a
// call are apart. Between them, and where r = x − n·ln 2 nearly vanishes, the bits
// must be the same.
func TestSoftmaxSpread(t *testing.T) {
	r := kerneltest.Random(t.Name())
	s, want := make([]float32, tuning.MinTileRows*kernel.Block), make([]float32,
		tuning.MinTileRows*kernel.Block)
	state := func() []float32 { return make([]float32, tuning.MinTileRows) }
	for range kerneltest.Budget(4000) {
		largest := []float32{1, 20, 63.9, 64.1, 100}[r.IntN(5)]
		for i := range s {
			s[i] = -largest * r.Float32()
			if r.IntN(4) == 0 { // near a multiple of ln 2
				x := float32(-math.Ln2 * float64(r.IntN(int(largest/math.Ln2)+1)))
				s[i] = math.Float32frombits(math.Float32bits(x) + uint32(r.IntN(9)) - 4)
			}
			if i%kernel.Block == r.IntN(kernel.Block) {
				s[i] = 0
			}
		}
		copy(want, s)
		m, l, alpha, mWant, lWant, alphaWant := state(), state(), state(), state(), state(), state()
		Softmax(kerneltest.Tuned, s, m, l, alpha, nil, tuning.MinTileRows, f32.Log2E)
		softmaxGeneric(want, mWant, lWant, alphaWant, tuning.MinTileRows, f32.Log2E)
		for _, pair := range [][2][]float32{{s, want}, {m, mWant}, {l, lWant}, {alpha, alphaWant}} {
			if i := kerneltest.FirstDifference(pair[0], pair[1]); i >= 0 {
				t.Fatalf("scores from −%v: element %d is %x, want %x", largest, i, pair[0][i], pair[1][i])
			}
		}
	}
}

// A running maximum that is NaN, as in a state that was loaded, must not hide
// from the choice of exp how far the scores of another row are apart.
func TestSoftmaxNaNMaximum(t *testing.T) {
	state := func() []float32 { return make([]float32, tuning.MinTileRows) }
	for nan := range tuning.MinTileRows {
		for far := range tuning.MinTileRows {
			s := make([]float32, tuning.MinTileRows*kernel.Block)
			s[far*kernel.Block+nan] = 1e30
			m, l, alpha, lWant, alphaWant := state(), state(), state(), state(), state()
			m[nan] = math.Float32frombits(0x7fc00000 | uint32(far%2)<<31)
			want, mWant := slices.Clone(s), slices.Clone(m)
			Softmax(kerneltest.Tuned, s, m, l, alpha, nil, tuning.MinTileRows, f32.Log2E)
			softmaxGeneric(want, mWant, lWant, alphaWant, tuning.MinTileRows, f32.Log2E)
			if i := kerneltest.FirstDifference(s, want); i >= 0 {
				t.Fatalf("m is NaN in row %d, scores are far apart in row %d: weight %d of row %d is %v, "+
					"want %v",
					nan, far, i%kernel.Block, i/kernel.Block, s[i], want[i])
			}
		}
	}
}

func FuzzPackKeys(f *testing.F)         { fuzzKernel(f, "packKeys") }
func FuzzPackValues(f *testing.F)       { fuzzKernel(f, "packValues") }
func FuzzScore(f *testing.F)            { fuzzKernel(f, "score") }
func FuzzScoreRows(f *testing.F)        { fuzzKernel(f, "scoreRows") }
func FuzzSoftmax(f *testing.F)          { fuzzKernel(f, "softmax") }
func FuzzSoftmaxMasked(f *testing.F)    { fuzzKernel(f, "softmaxMasked") }
func FuzzAccumulate(f *testing.F)       { fuzzKernel(f, "accumulate") }
func FuzzAccumulateMasked(f *testing.F) { fuzzKernel(f, "accumulateMasked") }
func FuzzScale(f *testing.F)            { fuzzKernel(f, "scale") }
func FuzzNormalize(f *testing.F)        { fuzzKernel(f, "normalize") }
func FuzzMerge(f *testing.F)            { fuzzKernel(f, "merge") }
func FuzzMergeRows(f *testing.F)        { fuzzKernel(f, "mergeRows") }
func FuzzMergeSums(f *testing.F)        { fuzzKernel(f, "mergeSums") }
func FuzzSoftcap(f *testing.F)          { fuzzKernel(f, "softcap") }
func FuzzAlibi(f *testing.F)            { fuzzKernel(f, "alibi") }
func FuzzAddBias(f *testing.F)          { fuzzKernel(f, "addBias") }
func FuzzAddDistant(f *testing.F)       { fuzzKernel(f, "addDistant") }
func FuzzMaskBias(f *testing.F)         { fuzzKernel(f, "maskBias") }
func FuzzMaskKeys(f *testing.F)         { fuzzKernel(f, "maskKeys") }
func FuzzWeights(f *testing.F)          { fuzzKernel(f, "weights") }
func FuzzAllFinite(f *testing.F)        { fuzzKernel(f, "allFinite") }

func FuzzSoftmaxScaled(f *testing.F)   { fuzzKernel(f, "softmaxScaled") }
func FuzzScaleColumns(f *testing.F)    { fuzzKernel(f, "scaleColumns") }
func FuzzScaleAddColumns(f *testing.F) { fuzzKernel(f, "scaleAddColumns") }
func FuzzAddColumns(f *testing.F)      { fuzzKernel(f, "addColumns") }
