package attn

import (
	"math"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// int8KernelTests has every kernel of kernel_int8.go.
var int8KernelTests = []kernelTest{
	compare("scoreInt8",
		[]dim{size("rows", 1, 30, 99), size("d", 1, 70, 20000), size("keys", 1, Block, Block)},
		func(c *trial, n []int) { tryScoreInt8(c, n[0], n[1], n[2]) }),
	compare("accumulateInt8", []dim{size("rows", 1, 30, 99), size("keys", 1, 70, 300),
		multiples("cols", panel, 9*panel, 20*panel, panel)},
		func(c *trial, n []int) { tryAccumulateInt8(c, n[0], n[1], n[2]) }),
	compare("softmaxInt8", []dim{size("rows", 1, 2*kernel.SoftmaxRows+1, 600)},
		func(c *trial, n []int) { trySoftmaxInt8(c, n[0]) }),
	compare("softmaxInt8FewRows", []dim{size("rows", 1, 2, 2)}, // one row has code of its own
		func(c *trial, n []int) { trySoftmaxInt8(c, n[0]) }),
	compare("quantizeRows", []dim{size("rows", 1, 20, 90), size("n", 1, 70, 600)},
		func(c *trial, n []int) { tryQuantizeRows(c, n[0], n[1]) }),
	compare("quantizeRotated", []dim{size("rows", 1, 20, 90), multiples("n", 64, 64, 128, 64)},
		func(c *trial, n []int) { tryQuantizeRotated(c, n[0], n[1]) }),
	compare("quantizeGroups", []dim{multiples("rows", 4, 32, Block, 4), size("n", 1, 70, 300)},
		func(c *trial, n []int) { tryQuantizeGroups(c, n[0], n[1]) }),
	compare("magnitudes", []dim{size("n", 1, 200, 600)}, func(c *trial, n []int) {
		tryMagnitudes(c,
			n[0])
	}),
	compare("copyRows", []dim{size("rows", 1, 20, 90), size("n", 1, 70, 600)},
		func(c *trial, n []int) { tryCopyRows(c, n[0], n[1]) }),
	compare("interleave", []dim{multiples("rows", 4, 32, Block, 4), multiples("cols", panel, 9*panel,
		20*panel, panel)},
		func(c *trial, n []int) { tryInterleave(c, n[0], n[1]) }),
	compare("largest", vectorDims, func(c *trial, n []int) {
		x := c.Input(n[0])
		c.Equal("largest", largest(x), largestGeneric(x))
	}),
	compare("quantize", vectorDims, func(c *trial, n []int) { tryQuantize(c, n[0]) }),
	compare("rotate", []dim{size("rows", 1, 5, 20), size("log2 block", 0, 9, 10), size("blocks", 1, 5,
		9),
		size("gap", 0, 20, 100)}, func(c *trial, n []int) {
		block := 1 << n[1]
		d := block * n[2]
		x, want := c.Results((n[0]-1)*(d+n[3]) + d)
		rotate(x, x, n[0], d, d+n[3], d+n[3], block)
		rotateGeneric(want, n[0], d+n[3], d, block)
	}),
	compare("rotateInto", []dim{size("rows", 1, 9, 20), size("log2 block", 0, 9, 10), size("blocks",
		1, 3, 9),
		size("gap", 0, 20, 100)}, func(c *trial, n []int) {
		block := 1 << n[1]
		d := block * n[2]
		x := c.Input((n[0]-1)*(d+n[3]) + d)
		got, want := c.Results(n[0] * d)
		rotate(got, x, n[0], d, d, d+n[3], block)
		copyRowsGeneric(want, x, n[0], d, d+n[3])
		rotateGeneric(want, n[0], d, d, block)
	}),
}

// drawIntegers is rows of n integers of 15 bits that are stride apart, in guarded memory. What
// completes the last group of four is 0.
func drawIntegers(c *trial, rows, stride, n int) []int16 {
	size := (rows-1)*stride + roundUp(n, 4)
	write, read := c.Place((size + 1) / 2)
	c.Fill(anyBits, write)
	x := elements[int16](kerneltest.BytesIn(write))
	for i := range x {
		x[i] &= math.MaxInt16
	}
	for r := range rows {
		last := x[r*stride+n/4*4:]
		for k := n % 4; k > 0 && k < 4; k++ {
			last[[4]int{0, 2, 1, 3}[k]] = 0
		}
	}
	return elements[int16](kerneltest.BytesIn(read))[:size]
}

// drawBytes is rows of n integers of 8 bits that are stride apart, as kernels and as the generic
// code take them, in guarded memory. Their sums have a start for each group of elements; those of
// rows are groupStride apart.
func drawBytes(c *trial, rows, stride, group, groupStride, n int) (got integerRows, want []int16) {
	size, groups := (rows-1)*stride+roundUp(n, 4), (rows-1)*groupStride+(n+group-1)/group
	at := func(bytes int) (write, read []byte) {
		x, y := c.Place((bytes + 3) / 4)
		return kerneltest.BytesIn(x), kerneltest.BytesIn(y)
	}
	var write integerRows
	switch write.fit(1, 1, rows); {
	case write.words != nil:
		x, y := at(2 * size)
		write.words, got.words = elements[int16](x)[:size], elements[int16](y)[:size]
	case write.magnitudes != nil:
		x, y := at(2 * size)
		write.magnitudes, got.magnitudes = elements[int8](x)[:2*size], elements[int8](y)[:2*size]
	default:
		x, y := at(size)
		write.bytes, got.bytes = elements[int8](x)[:size], elements[int8](y)[:size]
	}
	if write.starts != nil {
		x, y := at(4 * groups)
		write.starts, got.starts = elements[int32](x)[:groups], elements[int32](y)[:groups]
	}
	row := make([]int8, n)
	want = make([]int16, size)
	for r := range rows {
		for k := range row {
			row[k] = int8(c.IntN(255) - 127)
		}
		for k := 0; k < n; k += group {
			write.put(r*stride+k, r*groupStride+k/group, row[k:min(k+group, n)])
		}
		inGroupOrder(want[r*stride:][:roundUp(n, 4)], row)
	}
	return got, want
}

func tryScoreInt8(c *trial, rows, d, n int) {
	c.AnyIntegers()
	b := kernel.ScoreLayout(kernel.I8, d, roundUp(n, panel))
	k := c.TypedInput(kernel.I8, b.Cols*roundUp(d, 4))
	q, words := drawBytes(c, rows, roundUp(d, 4), d, 1, d)
	scales := c.Factors(b.Cols)
	got, want := c.Results((rows-1)*Block + b.Cols)
	scoreInt8(got, &q, 0, k, scales, rows, d, n, 0, c.IntN(2) == 0)
	scoreInt8Generic(want, words, k, scales, rows, &b)
}

func tryAccumulateInt8(c *trial, rows, keys, cols int) {
	c.AnyIntegers()
	of := c.IntN(3)
	var rowsOf integerRows
	switch rowsOf.fit(1, 1, rows); {
	case of != 0:
		keys = min(keys, Block)
	case !rowsOf.together():
		keys = min(keys, int8Group)
	}
	groups := int8Groups(keys)
	b, elements := c.AnyTypedLayout(kernel.I8, keys, cols)
	v := c.TypedInput(kernel.I8, elements)
	oStride, wStride, fStride := cols+c.IntN(9), roundUp(keys, 4)+c.IntN(9), groups+c.IntN(3)
	got, want := c.Results((rows-1)*oStride + cols)
	words, f := drawIntegers(c, rows, wStride, keys), c.Factors((rows-1)*fStride+groups)
	w := integerRows{words: words}
	var alpha []float32
	switch of {
	case 0:
		w, words = drawBytes(c, rows, wStride, int8Group, fStride, keys)
	case 1:
		alpha = c.Factors(rows)
	}
	accumulateInt8(got, &w, v, alpha, f, rows, oStride, wStride, fStride, &b)
	for g := range groups {
		part := b
		part.Keys = min(int8Group, keys-g*int8Group)
		part.Overwrite = b.Overwrite && g == 0
		accumulateInt8Generic(want, words[g*int8Group:], v[g*int8Group/4*b.Stride:], alpha, f[g:], rows,
			oStride, wStride, fStride, &part)
	}
}

func trySoftmaxInt8(c *trial, rows int) {
	s, sWant := c.Scores(rows)
	m, mWant, l, lWant := c.RunningState(rows)
	alpha, alphaWant := c.Results(rows)
	f, fWant := c.Results(rows)
	w, wWant := c.ResultsOf(rows*Block/2, normal)
	var visible []uint64
	if c.IntN(2) == 0 {
		visible = c.VisibleBits(rows)
	}
	units, scales := c.Factors(rows), drawValueScales(c)
	masked := softmaxInt8(elements[int16](kerneltest.BytesIn(w)), f, s, m, l, alpha, units, scales,
		visible, rows)
	c.Equal("masked", masked, softmaxInt8Generic(elements[int16](kerneltest.BytesIn(wWant)), fWant,
		sWant, mWant,
		lWant, alphaWant, units, scales, visible, rows))
}

// quantizeRows also has rows that are 0, tiny, infinite or NaN.
func tryQuantizeRows(c *trial, rows, n int) {
	dstStride, xStride := n+c.IntN(9), n+c.IntN(9)
	x := drawSpecialRows(c, rows, n, xStride)
	dst, dstWant := c.ResultsOf(((rows-1)*dstStride+n+3)/4, normal)
	scales, scalesWant := c.Results(rows)
	starts, startsWant := c.ResultsOf(rows, normal)
	got := elements[int32](kerneltest.BytesIn(starts))
	want := elements[int32](kerneltest.BytesIn(startsWant))
	if c.IntN(2) == 0 {
		got = nil
	}
	quantizeRows(elements[int8](kerneltest.BytesIn(dst)), scales, got, x, rows, n, dstStride, xStride)
	for r := range rows {
		to := elements[int8](kerneltest.BytesIn(dstWant))[r*dstStride:][:n]
		scalesWant[r] = quantizedGeneric(to, x[r*xStride:][:n])
		if got != nil {
			want[r] = startOf(to)
		}
	}
}

// quantizeRotated does the first rows of what quantizeRows does after a rotation, or of what packed
// keys are then, and writes nothing of those that follow the panel at which it stops.
func tryQuantizeRotated(c *trial, rows, n int) {
	tuned.DotProduct = tuned.ISA.DotProduct() && tuning.HasDotProduct()
	xStride := n + c.IntN(9)
	x := drawSpecialRows(c, rows, n, xStride)
	dst, dstWant := c.ResultsOf(rows*n/4, normal)
	scales, scalesWant := c.Results(rows)
	starts, startsWant := c.ResultsOf(rows, normal)
	got, want := elements[int32](kerneltest.BytesIn(starts)),
		elements[int32](kerneltest.BytesIn(startsWant))
	if c.IntN(2) == 0 {
		got = nil
	}
	block := n & -n
	done := quantizeRotated(elements[int8](kerneltest.BytesIn(dst)), scales, got, x, rows, n, xStride,
		block)
	made, row := elements[int8](kerneltest.BytesIn(dstWant)), make([]float32, n)
	for r := range done {
		copy(row, x[r*xStride:])
		rotateGeneric(row, 1, n, n, block)
		to := make([]int8, n)
		if scalesWant[r] = quantizedGeneric(to, row); got != nil {
			copy(made[r*n:], to)
			want[r] = startOf(to)
		} else {
			spreadGroups(rawBytes(made[r/panel*panel*n+r%panel*4:]), rawBytes(to))
		}
	}
	quantizes, special := quantizesRotated(n, block), 0
	for r := range rows / panel * panel {
		copy(row, x[r*xStride:])
		rotateGeneric(row, 1, n, n, block)
		if top := largestGeneric(row); !(top >= 0x1p-100 && top < 0x1p80) && special == 0 {
			special = 1 + r/panel*panel
		}
	}
	switch {
	case !quantizes:
		c.Equal("done", done, 0)
	case special > 0:
		c.Equal("done", done, special-1)
	default:
		c.Equal("done", done, rows/panel*panel)
	}
}

// drawSpecialRows is rows of n elements, of which one may be 0, tiny, large, infinite or NaN.
func drawSpecialRows(c *trial, rows, n, stride int) []float32 {
	write, x := c.Place((rows-1)*stride + n)
	c.Fill(c.Kind, write)
	if c.IntN(2) == 0 {
		special := []float32{0, 0x1p-101, 0x1p-149, 0x1p79, 0x1p81, math.MaxFloat32,
			float32(math.Inf(1)), float32(math.NaN())}
		row := write[c.IntN(rows)*stride:][:n]
		clear(row)
		row[c.IntN(n)] = special[c.IntN(len(special))]
	}
	return x
}

// quantizedGeneric is quantizeToken of generic code.
func quantizedGeneric(dst []int8, x []float32) (scale float32) {
	clear(dst)
	top := largestGeneric(x)
	if !(top <= math.MaxFloat32) {
		return float32(math.NaN())
	}
	scale = scaleOf(top)
	quantizeGeneric(dst, x, scale)
	return scale
}

func tryQuantizeGroups(c *trial, rows, n int) {
	cols, xStride := roundUp(n, panel), n+c.IntN(9)
	x := drawSpecialRows(c, rows, n, xStride)
	dst, want := c.ResultsOf(rows*cols/4, normal)
	scales, scalesWant := c.Results(rows)
	quantizeGroups(elements[int8](kerneltest.BytesIn(dst)), scales, x, rows, n, cols, xStride,
		make([]int8, 4*cols))
	all := make([]int8, rows*cols)
	for r := range rows {
		scalesWant[r] = quantizedGeneric(all[r*cols:][:n], x[r*xStride:][:n])
	}
	interleaveGeneric(kerneltest.BytesIn(want), rawBytes(all), cols, rows)
}

// Kernels make integers without dividing each number. A quotient that is next to a half, where
// rounding it once decides which integer it becomes, becomes the same one as by a division.
func TestQuotientsRoundLikeDivisions(t *testing.T) {
	forEach(t, func(t *testing.T) {
		c := random(t.Name())
		// whose scales are 1, nearly 2, more than 1
		tops := []float32{127, 127 * 0x1.fffffep+0, 0x1.fc0002p6}
		for range 1000 {
			tops = append(tops, float32(1+c.Float64())*float32(math.Ldexp(1, c.IntN(150)-75)))
		}
		const sides = 3 * 3 // at a half, and halfway to the next number on both sides; neighbours
		var x [1 + 127*sides]float32
		var got, want [len(x)]int8
		var scale [1]float32
		for _, top := range tops {
			limitsOfRounding(x[:], top)
			quantizeRows(got[:], scale[:], nil, x[:], 1, len(x), len(x), len(x))
			if s := quantizedGeneric(want[:], x[:]); s != scale[0] || got != want {
				for i, e := range x {
					if got[i] != want[i] {
						t.Fatalf("%g (%x) by the scale of %g is %d, want %d", e, e, top, got[i], want[i])
					}
				}
				t.Fatalf("the scale of %g is %g, want %g", top, scale[0], s)
			}
		}
	})
}

// limitsOfRounding is top and the numbers whose quotients by its scale are nearest to where
// rounding changes an integer.
func limitsOfRounding(x []float32, top float32) {
	scale, i := scaleOf(top), 0
	add := func(e float32) {
		if x[i] = e; i%2 == 1 {
			x[i] = -e
		}
		i++
	}
	add(top)
	for k := range 127 {
		half := float32(k) + 0.5
		below, above := math.Nextafter32(half, 0), math.Nextafter32(half, 1000)
		for _, limit := range []float64{float64(half), (float64(half) + float64(below)) / 2,
			(float64(half) + float64(above)) / 2} {
			at := float32(limit * float64(scale))
			add(math.Nextafter32(at, 0))
			add(at)
			add(math.Nextafter32(at, math.MaxFloat32))
		}
	}
}

func tryMagnitudes(c *trial, n int) {
	row := elements[int8](c.TypedInput(kernel.I8, n))
	dst, want := c.ResultsOf(roundUp(n, 4)/2, normal)
	got := magnitudes(elements[int8](kerneltest.BytesIn(dst)), row)
	c.Equal("start", got, magnitudesGeneric(elements[int8](kerneltest.BytesIn(want)), row))
}

func tryCopyRows(c *trial, rows, n int) {
	stride := n + c.IntN(9)
	x := c.Input((rows-1)*stride + n)
	dst, want := c.Results(rows * n)
	copyRows(dst, x, rows, n, stride)
	copyRowsGeneric(want, x, rows, n, stride)
}

func tryInterleave(c *trial, rows, cols int) {
	src := c.TypedInput(kernel.I8, rows*cols)
	dst, want := c.ResultsOf(rows*cols/4, normal)
	interleave(kerneltest.BytesIn(dst), src, cols, rows)
	interleaveGeneric(kerneltest.BytesIn(want), src, cols, rows)
}

// drawValueScales is scales of a block's values, some of them 0, tiny or no numbers.
func drawValueScales(c *trial) []float32 {
	write, read := c.Place(Block)
	size := []float32{1, 1, 1, 0, 0x1p-101, 0x1p-149}[c.IntN(6)]
	for i := range write {
		write[i] = float32(c.Float32() * size)
		if c.IntN(200) == 0 {
			write[i] = []float32{0, float32(math.NaN()), 1e38}[c.IntN(3)]
		}
	}
	return read
}

// Kernels in integers give the bits of the generic code, and touch nothing outside their operands.
func TestInt8KernelsEqualGeneric(t *testing.T) { equalGeneric(t, int8KernelTests, false) }

func FuzzScoreInt8(f *testing.F)       { fuzzKernel(f, "scoreInt8") }
func FuzzAccumulateInt8(f *testing.F)  { fuzzKernel(f, "accumulateInt8") }
func FuzzSoftmaxInt8(f *testing.F)     { fuzzKernel(f, "softmaxInt8") }
func FuzzQuantizeRows(f *testing.F)    { fuzzKernel(f, "quantizeRows") }
func FuzzQuantizeRotated(f *testing.F) { fuzzKernel(f, "quantizeRotated") }
func FuzzQuantizeGroups(f *testing.F)  { fuzzKernel(f, "quantizeGroups") }
func FuzzMagnitudes(f *testing.F)      { fuzzKernel(f, "magnitudes") }
func FuzzCopyRows(f *testing.F)        { fuzzKernel(f, "copyRows") }
func FuzzInterleave(f *testing.F)      { fuzzKernel(f, "interleave") }

// Kernels widen values of one block on their stack, so more are refused before anything is written.
func TestWordsOfMoreThanABlock(t *testing.T) {
	forEach(t, func(t *testing.T) {
		if !integerProducts() {
			return // the generic code has no such bound
		}
		const keys = Block + 4
		b := kernel.PanelLayout{Keys: keys, Cols: panel, Stride: 4 * panel, PanelStride: 4 * panel}
		o, f := make([]float32, panel), []float32{1}
		defer func() {
			if recover() == nil || slices.ContainsFunc(o, func(e float32) bool { return e != 0 }) {
				t.Errorf("%d keys are accepted", keys)
			}
		}()
		accumulateInt8(o, &integerRows{words: make([]int16, keys)}, make([]byte, 2*keys*panel), nil, f,
			1, panel, keys, 1, &b)
	})
}

// TestUnitsOfRows compares the units and factors that rows get in one pass with those that are
// found row by row.
func TestUnitsOfRows(t *testing.T) {
	scales := []float32{0, math.SmallestNonzeroFloat32, 0x1p-130, 0x1p-126, 0x1.234p-60, 1, 3, 0x1p79,
		0x1.fffffep119, 0x1p120, 0x1.8p127 / 127, math.MaxFloat32}
	r := random(t.Name())
	for range 1000 {
		scales = append(scales, math.Float32frombits(r.Uint32N(0x7f800000)))
	}
	n := len(scales)
	for _, scale := range scales[1:100] {
		for _, natural := range []bool{false, true} {
			p := &plan{scale: scale, natural: natural}
			w := &intScratch{units: slices.Clone(scales), factors: make([]float32, n)}
			want := &intScratch{units: make([]float32, n), factors: make([]float32, n)}
			w.quantizeQueries(p, &chunk{rows: n}, nil, n)
			for row, s := range scales {
				want.setUnit(p, row, p.int8Unit(s, 1))
			}
			if !slices.Equal(w.units, want.units) || !slices.Equal(w.factors, want.factors) {
				t.Fatalf("scale %v, natural %v: units or factors differ", scale, natural)
			}
		}
	}
}
