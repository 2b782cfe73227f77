package attn

import (
	"math"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// kernels has every kernel of kernel.go.
var kernelTests = []kernelTest{
	compare("packKeys", []dim{size("keys", 1, Block, Block), size("d", 1, 99, 600), size("gap", 0, 20,
		200)},
		func(c *trial, n []int) {
			keys, d := n[0], n[1]
			stride := c.Stride(d, n[2])
			k := c.Input((keys-1)*stride + d)
			got, want := c.Results(roundUp(keys, panel)*d + c.IntN(20))
			packKeys(got, k, stride, keys, d)
			packKeysGeneric(want, k, stride, keys, d)
		}),
	compare("packValues", []dim{size("keys", 1, Block, Block), size("d", 1, 99, 600),
		size("gap", 0, 20, 200)}, func(c *trial, n []int) {
		keys, d := n[0], n[1]
		stride := c.Stride(d, n[2])
		v := c.Input((keys-1)*stride + d)
		got, want := c.Results((roundUp(d, panel)/panel-1)*Block*panel + keys*panel + c.IntN(20))
		packValues(got, v, stride, keys, d)
		packValuesGeneric(want, v, stride, keys, d)
	}),
	compare("score", []dim{size("rows", 1, 99, 99), size("d", 1, 99, 600), size("panels", 1, 4, 4)},
		func(c *trial, n []int) {
			rows, d, panels := n[0], n[1], n[2]
			q, k := c.Input(rows*d), c.Input(panels*d*panel)
			got, want := c.Results((rows-1)*Block + panels*panel)
			scorePrefetch(got, q, k, rows, d, panels, c.Anywhere())
			scoreGeneric(want, q, k, rows, d, panels)
		}),
	compare("scoreRows", []dim{size("rows", 1, 99, 99), size("d", 1, 99, 600), size("keys", 1, Block,
		Block),
		size("gap", 0, 20, 200)}, func(c *trial, n []int) {
		rows, d, keys := n[0], n[1], n[2]
		stride := c.Stride(d, n[3])
		next, after := c.Anywhere(), 0
		if next != nil {
			after = c.IntN(20)
			next.After = after
		}
		q, k := c.Input(rows*d), c.Input((keys-1+after)*stride+d)
		got, want := c.Results((rows-1)*Block + keys)
		scoreRows(got, q, k, rows, d, stride, keys, next)
		scoreRowsGeneric(want, q, k, rows, d, stride, keys)
	}),
	compare("softmax", []dim{size("rows", 1, 2*kernel.SoftmaxRows+1, 600)}, func(c *trial, n []int) {
		s, sWant := c.Scores(n[0])
		m, mWant, l, lWant := c.RunningState(n[0])
		alpha, alphaWant := c.Results(n[0])
		unit := c.Unit()
		masked := softmax(s, m, l, alpha, nil, n[0], unit)
		c.Equal("masked", masked, softmaxGeneric(sWant, mWant, lWant, alphaWant, n[0], unit))
	}),
	compare("softmaxMasked", []dim{size("rows", 1, 2*kernel.SoftmaxRows+1, 600)}, func(c *trial,
		n []int) {
		visible := c.VisibleBits(n[0])
		s, sWant := c.Scores(n[0])
		m, mWant, l, lWant := c.RunningState(n[0])
		alpha, alphaWant := c.Results(n[0])
		unit := c.Unit()
		masked := softmax(s, m, l, alpha, visible, n[0], unit)
		c.Equal("masked", masked, softmaxMaskedGeneric(sWant, mWant, lWant, alphaWant, visible, n[0],
			unit))
	}),
	compare("accumulate", accumulateDims, func(c *trial, n []int) {
		a := c.NewAccumulation(n)
		alpha := a.Alpha
		if c.IntN(3) == 0 {
			alpha = nil // a matrix product
		}
		accumulate(a.Got, a.P, a.V, alpha, a.Rows, a.OStride, a.PStride, &a.Layout)
		accumulateGeneric(a.Want, a.P, a.V, alpha, a.Rows, a.OStride, a.PStride, &a.Layout)
	}),
	compare("accumulateMasked", accumulateDims, func(c *trial, n []int) {
		a := c.NewAccumulation(n)
		accumulateMasked(a.Got, a.P, a.V, a.Alpha, a.Rows, a.OStride, a.PStride, &a.Layout)
		accumulateMaskedGeneric(a.Want, a.P, a.V, a.Alpha, a.Rows, a.OStride, a.PStride, &a.Layout)
	}),
	compare("scale", vectorDims, func(c *trial, n []int) {
		got, want := c.Results(n[0] + c.IntN(9))
		f := c.Kind.Draw(c.Rand)
		if c.IntN(2) == 0 { // in place
			scale(got, got[:n[0]], f)
			scaleGeneric(want, want[:n[0]], f)
			return
		}
		x := c.Input(n[0])
		scale(got, x, f)
		scaleGeneric(want, x, f)
	}),
	compare("normalize", []dim{size("rows", 1, 99, 99), size("n", 1, 99, 300), size("gap", 0, 20, 200),
		size("pad", 0, 20, 200)}, func(c *trial, n []int) {
		rows, d := n[0], n[1]
		dstStride, oStride := c.Stride(d, n[2]), c.Stride(d, n[3])
		l, o := c.Input(rows), c.Input((rows-1)*oStride+d)
		got, want := c.Results((rows-1)*dstStride + d)
		normalize(got, o, l, rows, d, dstStride, oStride)
		normalizeGeneric(want, o, l, rows, d, dstStride, oStride)
	}),
	compare("merge", vectorDims, func(c *trial, n []int) {
		b := c.Input(n[0])
		got, want := c.Results(n[0] + c.IntN(9))
		x, y := c.Factor(), c.Factor()
		merge(got, b, x, y)
		mergeGeneric(want, b, x, y)
	}),
	compare("mergeSums", vectorDims, func(c *trial, n []int) {
		m, mWant, l, lWant := c.RunningState(n[0])
		m2, _, l2, _ := c.RunningState(n[0])
		x, xWant := c.Results(n[0])
		y, yWant := c.Results(n[0])
		unit := c.Unit()
		mergeSums(m, l, m2, l2, x, y, unit)
		mergeSumsGeneric(mWant, lWant, m2, l2, xWant, yWant, unit)
	}),
	compare("softcap", vectorDims, func(c *trial, n []int) {
		got, want := c.Results(n[0])
		most, factor := c.Kind.Draw(c.Rand), c.Factor()
		softcap(got, most, factor)
		softcapGeneric(want, most, factor)
	}),
	compare("alibi", vectorDims, func(c *trial, n []int) {
		got, want := c.Results(n[0])
		slope := c.Kind.Draw(c.Rand)
		first := c.IntN(400) - 200
		if c.IntN(2) == 0 {
			first = c.IntN(4*maxLength) - 2*maxLength
		}
		alibi(got, slope, first)
		alibiGeneric(want, slope, first)
	}),
	compare("addBias", kerneltest.PairDims, func(c *trial, n []int) {
		rows, keys, step := n[0], n[1], 1+c.IntN(3)
		stride := c.Stride(keys, c.IntN(9))
		bias := c.Input((rows-1)*stride + keys)
		s, sWant := c.Results((rows-1)*step*Block + keys)
		unit := c.Factor()
		addBias(s, bias, rows, step, stride, keys, unit)
		addBiasGeneric(sWant, bias, rows, step, stride, keys, unit)
	}),
	compare("maskBias", kerneltest.PairDims, func(c *trial, n []int) {
		rows, keys, step := n[0], n[1], 1+c.IntN(3)
		stride := c.Stride(keys, c.IntN(9))
		bias := c.InputBias((rows-1)*stride + keys)
		visible := c.VisibleBits((rows-1)*step + 1)
		got, want := slices.Clone(visible), slices.Clone(visible)
		lo := c.IntN(Block - keys + 1)
		hides, adds := maskBias(bias, got, rows, step, stride, lo, keys)
		hidesWant, addsWant := maskBiasGeneric(bias, want, rows, step, stride, lo, keys)
		if hides != hidesWant || adds != addsWant {
			c.Wrong("hides %t, adds %t, want %t, %t", hides, adds, hidesWant, addsWant)
		}
		for r := range want {
			c.Equal("visible", got[r], want[r])
		}
	}),
	compare("maskKeys", kerneltest.PairDims, func(c *trial, n []int) {
		rows, keys, step := n[0], n[1], 1+c.IntN(3)
		stride := c.Stride(keys, c.IntN(9))
		mask := c.InputBools((rows-1)*stride + keys)
		visible := c.VisibleBits((rows-1)*step + 1)
		got, want := slices.Clone(visible), slices.Clone(visible)
		lo := c.IntN(Block - keys + 1)
		every := maskKeys(mask, got, rows, step, stride, lo, keys)
		c.Equal("every", every, maskKeysGeneric(mask, want, rows, step, stride, lo, keys))
		for r := range want {
			c.Equal("visible", got[r], want[r])
		}
	}),
	compare("weights", vectorDims, func(c *trial, n []int) {
		s := c.Input(n[0])
		got, want := c.Results(n[0])
		visible, r := c.Visible(), c.Factor()
		m := negInf
		for j, e := range s {
			if visible>>j&1 != 0 && e > m {
				m = e // the final maximum is no less than any visible score
			}
		}
		if m == negInf {
			m = c.Float32()
		}
		unit := c.Unit()
		weights(got, s, m, r, unit, visible)
		weightsGeneric(want, s, m, r, unit, visible)
	}),
	compare("allFinite", vectorDims, func(c *trial, n []int) {
		if c.IntN(2) == 0 {
			c.Kind = normal
		}
		x := c.Input(n[0])
		c.Equal("finite", allFinite(x), allFiniteGeneric(x))
	}),
	compare("scaleColumns", []dim{size("rows", 1, 20, 99), size("cols", 1, Block, Block),
		size("gap", 0, 20, 100)}, func(c *trial, n []int) {
		stride := n[1] + n[2]
		s, want := c.Results((n[0]-1)*stride + n[1])
		f := c.Factors(n[1])
		scaleColumns(s, f, n[0], stride, n[1])
		scaleColumnsGeneric(want, f, n[0], stride, n[1])
	}),
	compare("softmaxScaled", []dim{size("rows", 1, 1, 1)}, func(c *trial, _ []int) {
		s, sWant := c.Scores(1)
		m, mWant, l, lWant := c.RunningState(1)
		alpha, alphaWant := c.Results(1)
		keys, values, unit := c.Factors(Block), c.Factors(Block), c.Unit()
		masked := softmaxScaled(s, m, l, alpha, keys, values, unit)
		c.Equal("masked", masked, softmaxScaledGeneric(sWant, mWant, lWant, alphaWant, keys, values,
			unit))
	}),
}

// passTests has every pass over slices.
var passTests = []kernelTest{
	compare("dot", vectorDims, func(c *trial, n []int) {
		a, b := c.Input(n[0]), c.Input(n[0])
		c.Equal("dot", dot(a, b), dotGeneric(a, b))
	}),
	compare("addProducts", vectorDims, func(c *trial, n []int) {
		a, b := c.Input(n[0]), c.Input(n[0])
		s, sWant := c.Results(64)
		addProducts((*[64]float32)(s), a, b)
		addProductsGeneric((*[64]float32)(sWant), a, b)
	}),
	compare("maxOf", vectorDims, func(c *trial, n []int) {
		x := c.Input(n[0])
		c.Equal("max", maxOf(x), maxOfGeneric(x))
	}),
	compare("exp", vectorDims, func(c *trial, n []int) {
		got, want := c.Results(n[0])
		if c.IntN(2) == 0 { // in place
			exp(got, got)
			expGeneric(want, want)
			return
		}
		x := c.InputOf(n[0], c.Exponents())
		exp(got, x)
		expGeneric(want, x)
	}),
	compare("expSum", vectorDims, func(c *trial, n []int) {
		got, want := c.Results(n[0])
		top := c.Kind.Draw(c.Rand)
		if c.IntN(2) == 0 { // in place
			sum := expSum(got, got, top)
			c.Equal("sum", sum, expSumGeneric(want, want, top))
			return
		}
		x := c.InputOf(n[0], c.Exponents())
		sum := expSum(got, x, top)
		c.Equal("sum", sum, expSumGeneric(want, x, top))
	}),
	compare("sumExp", vectorDims, func(c *trial, n []int) {
		x, top := c.InputOf(n[0], c.Exponents()), c.Kind.Draw(c.Rand)
		c.Equal("sum", sumExp(x, top), sumExpGeneric(x, top))
	}),
}

// Passes over slices give the bits of the generic code, and touch nothing outside their operands.
func TestPassesEqualGeneric(t *testing.T) {
	equalGeneric(t, passTests, true)
}

var accumulateDims = []dim{
	size("rows", 1, 99, 99), size("keys", 1, 99, 300), multiples("cols", 8, 96, 600, 8), size("gap",
		0, 20,
		100),
}

// How few rows of queries go through memory depends on the CPU; the bits do not.
func TestKernelsOfFewRows(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, reads := range []tuning.Reads{tuning.QueuedReads, tuning.SequentialReads} {
			readingAs(t, reads)
			tuned.MinRows16 = 2
			for i := range kernelTests {
				switch k := &kernelTests[i]; k.Name {
				case "score", "scoreRows", "accumulate", "packKeys", "packValues":
					k.FewRows(t)
				}
			}
		}
	})
}

func TestKernelsEqualGeneric(t *testing.T) { equalGeneric(t, kernelTests, true) }

// equalGeneric compares kernels with their generic twins with each implementation, and if grid for
// all combinations of small sizes.
func equalGeneric(t *testing.T, tests []kernelTest, grid bool) {
	forEach(t, func(t *testing.T) {
		for i := range tests {
			k := &tests[i]
			t.Run(k.Name, func(t *testing.T) {
				c := newTrial(t, random(k.Name))
				k.Sweep(t, c)
				if grid {
					k.Grid(t, c)
				}
				k.Large(t, c)
			})
		}
	})
}

// Softmax computes exp in one of two ways, according to how far the scores of a
// call are apart. Between them, and where r = x − n·ln 2 nearly vanishes, the bits
// must be the same.
func TestSoftmaxSpread(t *testing.T) {
	r := random(t.Name())
	s, want := make([]float32, minTileRows*Block), make([]float32, minTileRows*Block)
	state := func() []float32 { return make([]float32, minTileRows) }
	for range budget(4000) {
		largest := []float32{1, 20, 63.9, 64.1, 100}[r.IntN(5)]
		for i := range s {
			s[i] = -largest * r.Float32()
			if r.IntN(4) == 0 { // near a multiple of ln 2
				x := float32(-math.Ln2 * float64(r.IntN(int(largest/math.Ln2)+1)))
				s[i] = math.Float32frombits(math.Float32bits(x) + uint32(r.IntN(9)) - 4)
			}
			if i%Block == r.IntN(Block) {
				s[i] = 0
			}
		}
		copy(want, s)
		m, l, alpha, mWant, lWant, alphaWant := state(), state(), state(), state(), state(), state()
		softmax(s, m, l, alpha, nil, minTileRows, f32.Log2E)
		softmaxGeneric(want, mWant, lWant, alphaWant, minTileRows, f32.Log2E)
		for _, pair := range [][2][]float32{{s, want}, {m, mWant}, {l, lWant}, {alpha, alphaWant}} {
			if i := firstDifference(pair[0], pair[1]); i >= 0 {
				t.Fatalf("scores from −%v: element %d is %x, want %x", largest, i, pair[0][i], pair[1][i])
			}
		}
	}
}

// A running maximum that is NaN, as in a state that was loaded, must not hide
// from the choice of exp how far the scores of another row are apart.
func TestSoftmaxNaNMaximum(t *testing.T) {
	state := func() []float32 { return make([]float32, minTileRows) }
	for nan := range minTileRows {
		for far := range minTileRows {
			s := make([]float32, minTileRows*Block)
			s[far*Block+nan] = 1e30
			m, l, alpha, lWant, alphaWant := state(), state(), state(), state(), state()
			m[nan] = math.Float32frombits(0x7fc00000 | uint32(far%2)<<31)
			want, mWant := slices.Clone(s), slices.Clone(m)
			softmax(s, m, l, alpha, nil, minTileRows, f32.Log2E)
			softmaxGeneric(want, mWant, lWant, alphaWant, minTileRows, f32.Log2E)
			if i := firstDifference(s, want); i >= 0 {
				t.Fatalf("m is NaN in row %d, scores are far apart in row %d: weight %d of row %d is %v, "+
					"want %v",
					nan, far, i%Block, i/Block, s[i], want[i])
			}
		}
	}
}

// fuzzKernel compares one kernel of kernel_test.go with its generic twin.
func fuzzKernel(f *testing.F, name string) {
	kerneltest.FuzzOneOf(f, slices.Concat(kernelTests, passTests, typedKernelTests,
		transposeKernelTests,
		int8KernelTests,
		int4KernelTests, blockKernelTests), name)
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
func FuzzMergeSums(f *testing.F)        { fuzzKernel(f, "mergeSums") }
func FuzzSoftcap(f *testing.F)          { fuzzKernel(f, "softcap") }
func FuzzAlibi(f *testing.F)            { fuzzKernel(f, "alibi") }
func FuzzAddBias(f *testing.F)          { fuzzKernel(f, "addBias") }
func FuzzMaskBias(f *testing.F)         { fuzzKernel(f, "maskBias") }
func FuzzMaskKeys(f *testing.F)         { fuzzKernel(f, "maskKeys") }
func FuzzWeights(f *testing.F)          { fuzzKernel(f, "weights") }
func FuzzAllFinite(f *testing.F)        { fuzzKernel(f, "allFinite") }
func FuzzDot(f *testing.F)              { fuzzKernel(f, "dot") }
func FuzzAddProducts(f *testing.F)      { fuzzKernel(f, "addProducts") }
func FuzzMaxOf(f *testing.F)            { fuzzKernel(f, "maxOf") }
func FuzzExp(f *testing.F)              { fuzzKernel(f, "exp") }
func FuzzExpSum(f *testing.F)           { fuzzKernel(f, "expSum") }
func FuzzSumExp(f *testing.F)           { fuzzKernel(f, "sumExp") }

func FuzzAccumulateF16(f *testing.F)   { fuzzKernel(f, "accumulateF16") }
func FuzzAccumulateBF16(f *testing.F)  { fuzzKernel(f, "accumulateBF16") }
func FuzzAccumulateI8(f *testing.F)    { fuzzKernel(f, "accumulateI8") }
func FuzzWidenF16(f *testing.F)        { fuzzKernel(f, "widenF16") }
func FuzzWidenBF16(f *testing.F)       { fuzzKernel(f, "widenBF16") }
func FuzzWidenI8(f *testing.F)         { fuzzKernel(f, "widenI8") }
func FuzzNarrowF16(f *testing.F)       { fuzzKernel(f, "narrowF16") }
func FuzzNarrowBF16(f *testing.F)      { fuzzKernel(f, "narrowBF16") }
func FuzzLargest(f *testing.F)         { fuzzKernel(f, "largest") }
func FuzzSoftmaxScaled(f *testing.F)   { fuzzKernel(f, "softmaxScaled") }
func FuzzQuantize(f *testing.F)        { fuzzKernel(f, "quantize") }
func FuzzScaleColumns(f *testing.F)    { fuzzKernel(f, "scaleColumns") }
func FuzzRotate(f *testing.F)          { fuzzKernel(f, "rotate") }
func FuzzRotateInto(f *testing.F)      { fuzzKernel(f, "rotateInto") }
func FuzzTransposeFloats(f *testing.F) { fuzzKernel(f, "transposeFloats") }
func FuzzTransposeHalves(f *testing.F) { fuzzKernel(f, "transposeHalves") }
func FuzzTransposeGroups(f *testing.F) { fuzzKernel(f, "transposeGroups") }
