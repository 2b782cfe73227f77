package integers

import (
	"math"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// kernelTests has every kernel of kernel_int8.go.
var kernelTests = []kerneltest.KernelTest{
	kerneltest.Compare("scoreInt8",
		[]kerneltest.Dim{kerneltest.Size("rows", 1, 30, 99), kerneltest.Size("d", 1, 70, 20000),
			kerneltest.Size("keys", 1, kernel.Block, kernel.Block)},
		func(c *kerneltest.Trial, n []int) { tryScoreInt8(c, n[0], n[1], n[2]) }),
	kerneltest.Compare("accumulateInt8", []kerneltest.Dim{kerneltest.Size("rows", 1, 30, 99),
		kerneltest.Size("keys", 1, 70, 300),
		kerneltest.Multiples("cols", kernel.Panel, 9*kernel.Panel, 20*kernel.Panel, kernel.Panel)},
		func(c *kerneltest.Trial, n []int) { tryAccumulateInt8(c, n[0], n[1], n[2]) }),
	kerneltest.Compare("softmaxInt8", []kerneltest.Dim{kerneltest.Size("rows", 1,
		2*kernel.SoftmaxRows+1, 600)},
		func(c *kerneltest.Trial, n []int) { trySoftmaxInt8(c, n[0]) }),
	// one row has code of its own
	kerneltest.Compare("softmaxInt8FewRows", []kerneltest.Dim{kerneltest.Size("rows", 1, 2, 2)},
		func(c *kerneltest.Trial, n []int) { trySoftmaxInt8(c, n[0]) }),
	kerneltest.Compare("quantizeRows", []kerneltest.Dim{kerneltest.Size("rows", 1, 20, 90),
		kerneltest.Size("n", 1, 70, 600)},
		func(c *kerneltest.Trial, n []int) { tryQuantizeRows(c, n[0], n[1]) }),
	kerneltest.Compare("quantizeRotated", []kerneltest.Dim{kerneltest.Size("rows", 1, 20, 90),
		kerneltest.Multiples("n", 32, 32, 128, 32)},
		func(c *kerneltest.Trial, n []int) { tryQuantizeRotated(c, n[0], n[1]) }),
	kerneltest.Compare("quantizeGroups", []kerneltest.Dim{kerneltest.Multiples("rows", 4, 32,
		kernel.Block, 4), kerneltest.Size("n", 1, 70, 300)},
		func(c *kerneltest.Trial, n []int) { tryQuantizeGroups(c, n[0], n[1]) }),
	kerneltest.Compare("magnitudes", []kerneltest.Dim{kerneltest.Size("n", 1, 200, 600)},
		func(c *kerneltest.Trial, n []int) {
			tryMagnitudes(c,
				n[0])
		}),
	kerneltest.Compare("copyRows", []kerneltest.Dim{kerneltest.Size("rows", 1, 20, 90),
		kerneltest.Size("n", 1, 70, 600)},
		func(c *kerneltest.Trial, n []int) { tryCopyRows(c, n[0], n[1]) }),
	kerneltest.Compare("interleave", []kerneltest.Dim{kerneltest.Multiples("rows", 4, 32,
		kernel.Block, 4), kerneltest.Multiples("cols", kernel.Panel, 9*kernel.Panel,
		20*kernel.Panel, kernel.Panel)},
		func(c *kerneltest.Trial, n []int) { tryInterleave(c, n[0], n[1]) }),
	kerneltest.Compare("largest", kerneltest.VectorDims, func(c *kerneltest.Trial, n []int) {
		x := c.Input(n[0])
		c.Equal("largest", Largest(kerneltest.Tuned.ISA, x), largestGeneric(x))
	}),
	kerneltest.Compare("quantize", kerneltest.VectorDims, func(c *kerneltest.Trial,
		n []int) {
		tryQuantize(c, n[0])
	}),
	kerneltest.Compare("rotate", []kerneltest.Dim{kerneltest.Size("rows", 1, 5, 20),
		kerneltest.Size("log2 block", 0, 9, 10), kerneltest.Size("blocks", 1, 5,
			9),
		kerneltest.Size("gap", 0, 20, 100)}, func(c *kerneltest.Trial, n []int) {
		block := 1 << n[1]
		d := block * n[2]
		x, want := c.Results((n[0]-1)*(d+n[3]) + d)
		Rotate(kerneltest.Tuned.ISA, x, x, n[0], d, d+n[3], d+n[3], block)
		rotateGeneric(want, n[0], d+n[3], d, block)
	}),
	kerneltest.Compare("rotateInto", []kerneltest.Dim{kerneltest.Size("rows", 1, 9, 20),
		kerneltest.Size("log2 block", 0, 9, 10), kerneltest.Size("blocks",
			1, 3, 9),
		kerneltest.Size("gap", 0, 20, 100)}, func(c *kerneltest.Trial, n []int) {
		block := 1 << n[1]
		d := block * n[2]
		x := c.Input((n[0]-1)*(d+n[3]) + d)
		got, want := c.Results(n[0] * d)
		Rotate(kerneltest.Tuned.ISA, got, x, n[0], d, d, d+n[3], block)
		copyRowsGeneric(want, x, n[0], d, d+n[3])
		rotateGeneric(want, n[0], d, d, block)
	}),
}

// drawIntegers is rows of n integers of 15 bits that are stride apart, in guarded memory. What
// completes the last group of four is 0.
func drawIntegers(c *kerneltest.Trial, rows, stride, n int) []int16 {
	size := (rows-1)*stride + kernel.RoundUp(n, 4)
	write, read := c.Place((size + 1) / 2)
	c.Fill(kerneltest.AnyBits, write)
	x := kernel.Elements[int16](kerneltest.BytesIn(write))
	for i := range x {
		x[i] &= math.MaxInt16
	}
	for r := range rows {
		last := x[r*stride+n/4*4:]
		for k := n % 4; k > 0 && k < 4; k++ {
			last[[4]int{0, 2, 1, 3}[k]] = 0
		}
	}
	return kernel.Elements[int16](kerneltest.BytesIn(read))[:size]
}

// drawBytes is rows of n integers of 8 bits that are stride apart, as kernels and as the generic
// code take them, in guarded memory. Their sums have a start for each group of elements; those of
// rows are groupStride apart.
func drawBytes(c *kerneltest.Trial, rows, stride, group, groupStride, n int) (got Rows,
	want []int16) {
	size, groups := (rows-1)*stride+kernel.RoundUp(n, 4), (rows-1)*groupStride+(n+group-1)/group
	at := func(bytes int) (write, read []byte) {
		x, y := c.Place((bytes + 3) / 4)
		return kerneltest.BytesIn(x), kerneltest.BytesIn(y)
	}
	var write Rows
	switch write.Fit(kerneltest.Tuned, 1, 1, rows); {
	case write.Words != nil:
		x, y := at(2 * size)
		write.Words, got.Words = kernel.Elements[int16](x)[:size], kernel.Elements[int16](y)[:size]
	case write.Magnitudes != nil:
		x, y := at(2 * size)
		write.Magnitudes, got.Magnitudes = kernel.Elements[int8](x)[:2*size],
			kernel.Elements[int8](y)[:2*size]
	default:
		x, y := at(size)
		write.Bytes, got.Bytes = kernel.Elements[int8](x)[:size], kernel.Elements[int8](y)[:size]
	}
	if write.Starts != nil {
		x, y := at(4 * groups)
		write.Starts, got.Starts = kernel.Elements[int32](x)[:groups], kernel.Elements[int32](y)[:groups]
	}
	row := make([]int8, n)
	want = make([]int16, size)
	for r := range rows {
		for k := range row {
			row[k] = int8(c.IntN(255) - 127)
		}
		for k := 0; k < n; k += group {
			write.Put(kerneltest.Tuned.ISA, r*stride+k, r*groupStride+k/group, row[k:min(k+group, n)])
		}
		InGroupOrder(want[r*stride:][:kernel.RoundUp(n, 4)], row)
	}
	return got, want
}

func tryScoreInt8(c *kerneltest.Trial, rows, d, n int) {
	c.AnyIntegers()
	b := kernel.ScoreLayout(kernel.I8, d, kernel.RoundUp(n, kernel.Panel))
	k := c.TypedInput(kernel.I8, b.Cols*kernel.RoundUp(d, 4))
	q, words := drawBytes(c, rows, kernel.RoundUp(d, 4), d, 1, d)
	scales := c.Factors(b.Cols)
	got, want := c.Results((rows-1)*kernel.Block + b.Cols)
	Score(kerneltest.Tuned, got, &q, 0, k, scales, rows, d, n, 0, c.IntN(2) == 0)
	scoreInt8Generic(want, words, k, scales, rows, &b)
}

func tryAccumulateInt8(c *kerneltest.Trial, rows, keys, cols int) {
	c.AnyIntegers()
	of := c.IntN(3)
	var rowsOf Rows
	switch rowsOf.Fit(kerneltest.Tuned, 1, 1, rows); {
	case of != 0:
		keys = min(keys, kernel.Block)
	case !rowsOf.Together():
		keys = min(keys, Group)
	}
	groups := Groups(keys)
	b, elements := c.AnyTypedLayout(kernel.I8, keys, cols)
	v := c.TypedInput(kernel.I8, elements)
	oStride, wStride, fStride := cols+c.IntN(9), kernel.RoundUp(keys, 4)+c.IntN(9), groups+c.IntN(3)
	got, want := c.Results((rows-1)*oStride + cols)
	words, f := drawIntegers(c, rows, wStride, keys), c.Factors((rows-1)*fStride+groups)
	w := Rows{Words: words}
	var alpha []float32
	switch of {
	case 0:
		w, words = drawBytes(c, rows, wStride, Group, fStride, keys)
	case 1:
		alpha = c.Factors(rows)
	}
	x := Sums{got, &w, alpha, f, rows, oStride, wStride, fStride}
	if of == 0 {
		Multiply(kerneltest.Tuned, &x, v, &b)
	} else {
		Accumulate(kerneltest.Tuned, &x, v, &b)
	}
	for g := range groups {
		part := b
		part.Keys = min(Group, keys-g*Group)
		part.Overwrite = b.Overwrite && g == 0
		x.O, x.W, x.F = want, &Rows{Words: words[g*Group:]}, f[g:]
		accumulateInt8Generic(&x, v[g*Group/4*b.Stride:], &part)
	}
}

func trySoftmaxInt8(c *kerneltest.Trial, rows int) {
	s, sWant := c.Scores(rows)
	m, mWant, l, lWant := c.RunningState(rows)
	alpha, alphaWant := c.Results(rows)
	f, fWant := c.Results(rows)
	w, wWant := c.ResultsOf(rows*kernel.Block/2, kerneltest.Normal)
	var visible []uint64
	if c.IntN(2) == 0 {
		visible = c.VisibleBits(rows)
	}
	units, scales := c.Factors(rows), drawValueScales(c)
	masked := Softmax(kerneltest.Tuned, kernel.Elements[int16](kerneltest.BytesIn(w)), f, s, m, l,
		alpha, units, scales,
		visible, rows)
	c.Equal("masked", masked, softmaxInt8Generic(kerneltest.Tuned,
		kernel.Elements[int16](kerneltest.BytesIn(wWant)), fWant,
		sWant, mWant,
		lWant, alphaWant, units, scales, visible, rows))
}

// QuantizeRows also has rows that are 0, tiny, infinite or NaN.
func tryQuantizeRows(c *kerneltest.Trial, rows, n int) {
	dstStride, xStride := n+c.IntN(9), n+c.IntN(9)
	x := drawSpecialRows(c, rows, n, xStride)
	dst, dstWant := c.ResultsOf(((rows-1)*dstStride+n+3)/4, kerneltest.Normal)
	scales, scalesWant := c.Results(rows)
	starts, startsWant := c.ResultsOf(rows, kerneltest.Normal)
	got := kernel.Elements[int32](kerneltest.BytesIn(starts))
	want := kernel.Elements[int32](kerneltest.BytesIn(startsWant))
	if c.IntN(2) == 0 {
		got = nil
	}
	QuantizeRows(kerneltest.Tuned.ISA, kernel.Elements[int8](kerneltest.BytesIn(dst)), scales, got, x,
		rows, n, dstStride, xStride)
	for r := range rows {
		to := kernel.Elements[int8](kerneltest.BytesIn(dstWant))[r*dstStride:][:n]
		scalesWant[r] = quantizedGeneric(to, x[r*xStride:][:n])
		if got != nil {
			want[r] = startOf(to)
		}
	}
}

// QuantizeRotated does the first rows of what QuantizeRows does after a rotation, or of what packed
// keys are then, and writes nothing of those that follow the panel at which it stops.
func tryQuantizeRotated(c *kerneltest.Trial, rows, n int) {
	kerneltest.Tuned.DotProduct = tuning.HasDotProduct(kerneltest.Tuned.ISA)
	xStride := n + c.IntN(9)
	x := drawSpecialRows(c, rows, n, xStride)
	dst, dstWant := c.ResultsOf(rows*n/4, kerneltest.Normal)
	scales, scalesWant := c.Results(rows)
	starts, startsWant := c.ResultsOf(rows, kerneltest.Normal)
	got, want := kernel.Elements[int32](kerneltest.BytesIn(starts)),
		kernel.Elements[int32](kerneltest.BytesIn(startsWant))
	if c.IntN(2) == 0 {
		got = nil
	}
	block := n & -n
	done := QuantizeRotated(kerneltest.Tuned, kernel.Elements[int8](kerneltest.BytesIn(dst)), scales,
		got, x, rows, n, xStride,
		block)
	made, row := kernel.Elements[int8](kerneltest.BytesIn(dstWant)), make([]float32, n)
	for r := range done {
		copy(row, x[r*xStride:])
		rotateGeneric(row, 1, n, n, block)
		to := make([]int8, n)
		if scalesWant[r] = quantizedGeneric(to, row); got != nil {
			copy(made[r*n:], to)
			want[r] = startOf(to)
		} else {
			spreadGroups(kernel.RawBytes(made[r/kernel.Panel*kernel.Panel*n+r%kernel.Panel*4:]),
				kernel.RawBytes(to))
		}
	}
	quantizes, special := quantizesRotated(kerneltest.Tuned, n, block), 0
	for r := range rows / kernel.Panel * kernel.Panel {
		copy(row, x[r*xStride:])
		rotateGeneric(row, 1, n, n, block)
		if top := largestGeneric(row); !(top >= 0x1p-100 && top < 0x1p80) && special == 0 {
			special = 1 + r/kernel.Panel*kernel.Panel
		}
	}
	switch {
	case !quantizes:
		c.Equal("done", done, 0)
	case special > 0:
		c.Equal("done", done, special-1)
	default:
		c.Equal("done", done, rows/kernel.Panel*kernel.Panel)
	}
}

// drawSpecialRows is rows of n elements, of which one may be 0, tiny, large, infinite or NaN.
func drawSpecialRows(c *kerneltest.Trial, rows, n, stride int) []float32 {
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

// quantizedGeneric is QuantizeToken of generic code.
func quantizedGeneric(dst []int8, x []float32) (scale float32) {
	clear(dst)
	top := largestGeneric(x)
	if !(top <= math.MaxFloat32) {
		return float32(math.NaN())
	}
	scale = ScaleOf(top)
	quantizeGeneric(dst, x, scale)
	return scale
}

func tryQuantizeGroups(c *kerneltest.Trial, rows, n int) {
	cols, xStride := kernel.RoundUp(n, kernel.Panel), n+c.IntN(9)
	x := drawSpecialRows(c, rows, n, xStride)
	dst, want := c.ResultsOf(rows*cols/4, kerneltest.Normal)
	scales, scalesWant := c.Results(rows)
	QuantizeGroups(kerneltest.Tuned.ISA, kernel.Elements[int8](kerneltest.BytesIn(dst)), scales, x,
		rows, n, cols, xStride,
		make([]int8, 4*cols))
	all := make([]int8, rows*cols)
	for r := range rows {
		scalesWant[r] = quantizedGeneric(all[r*cols:][:n], x[r*xStride:][:n])
	}
	interleaveGeneric(kerneltest.BytesIn(want), kernel.RawBytes(all), cols, rows)
}

// Kernels make integers without dividing each number. A quotient that is next to a half, where
// rounding it once decides which integer it becomes, becomes the same one as by a division.
func TestQuotientsRoundLikeDivisions(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		c := kerneltest.Random(t.Name())
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
			QuantizeRows(kerneltest.Tuned.ISA, got[:], scale[:], nil, x[:], 1, len(x), len(x), len(x))
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
	scale, i := ScaleOf(top), 0
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

func tryMagnitudes(c *kerneltest.Trial, n int) {
	row := kernel.Elements[int8](c.TypedInput(kernel.I8, n))
	dst, want := c.ResultsOf(kernel.RoundUp(n, 4)/2, kerneltest.Normal)
	got := magnitudes(kerneltest.Tuned.ISA, kernel.Elements[int8](kerneltest.BytesIn(dst)), row)
	c.Equal("start", got, magnitudesGeneric(kernel.Elements[int8](kerneltest.BytesIn(want)), row))
}

func tryCopyRows(c *kerneltest.Trial, rows, n int) {
	stride := n + c.IntN(9)
	x := c.Input((rows-1)*stride + n)
	dst, want := c.Results(rows * n)
	CopyRows(kerneltest.Tuned.ISA, dst, x, rows, n, stride)
	copyRowsGeneric(want, x, rows, n, stride)
}

func tryInterleave(c *kerneltest.Trial, rows, cols int) {
	src := c.TypedInput(kernel.I8, rows*cols)
	dst, want := c.ResultsOf(rows*cols/4, kerneltest.Normal)
	Interleave(kerneltest.Tuned.ISA, kerneltest.BytesIn(dst), src, cols, rows)
	interleaveGeneric(kerneltest.BytesIn(want), src, cols, rows)
}

// drawValueScales is scales of a block's values, some of them 0, tiny or no numbers.
func drawValueScales(c *kerneltest.Trial) []float32 {
	write, read := c.Place(kernel.Block)
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
func TestKernelsEqualGeneric(t *testing.T) { kerneltest.EqualGeneric(t, kernelTests, false) }

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
	kerneltest.ForEach(t, func(t *testing.T) {
		if !Products(kerneltest.Tuned) {
			return // the generic code has no such bound
		}
		const keys = kernel.Block + 4
		b := kernel.PanelLayout{Keys: keys, Cols: kernel.Panel, Stride: 4 * kernel.Panel,
			PanelStride: 4 * kernel.Panel}
		o, f := make([]float32, kernel.Panel), []float32{1}
		defer func() {
			if recover() == nil || slices.ContainsFunc(o, func(e float32) bool { return e != 0 }) {
				t.Errorf("%d keys are accepted", keys)
			}
		}()
		x := Sums{o, &Rows{Words: make([]int16, keys)}, nil, f, 1, kernel.Panel, keys, 1}
		Accumulate(kerneltest.Tuned, &x, make([]byte, 2*keys*kernel.Panel), &b)
	})
}

// quantize takes elements that a scale suits.
func tryQuantize(c *kerneltest.Trial, n int) {
	write, x := c.Place(n)
	c.Fill([]kerneltest.Distribution{kerneltest.Normal, kerneltest.Zeroes, kerneltest.Huge,
		kerneltest.Tiny, kerneltest.Coarse}[c.IntN(5)], write)
	for i, e := range write {
		if e-e != 0 {
			write[i] = 1
		}
	}
	scale := ScaleOf(largestGeneric(x))
	out, wantOut := c.ResultsOf((n+3)/4+c.IntN(9), kerneltest.Normal)
	got, want := kernel.Elements[int8](kerneltest.BytesIn(out)),
		kernel.Elements[int8](kerneltest.BytesIn(wantOut))
	Quantize(kerneltest.Tuned.ISA, got[:n], x, scale)
	quantizeGeneric(want[:n], x, scale)
	for i := range want {
		if got[i] != want[i] {
			c.Wrong("element %d of %d is %d, generic %d", i, n, got[i], want[i])
		}
	}
	c.Outputs = c.Outputs[:0]
}

func FuzzLargest(f *testing.F) { fuzzKernel(f, "largest") }

func FuzzQuantize(f *testing.F) { fuzzKernel(f, "quantize") }

func FuzzRotate(f *testing.F) { fuzzKernel(f, "rotate") }

func FuzzRotateInto(f *testing.F) { fuzzKernel(f, "rotateInto") }

// spreadGroups writes groups of four of a row to where packed keys have them.
func spreadGroups(dst, row []byte) {
	for x, e := range row {
		dst[x/4*4*kernel.Panel+x%4] = e
	}
}

// startOf takes bytes by the word, and is −128 times their sum.
func TestStartOf(t *testing.T) {
	for _, value := range []int8{-128, -1, 0, 127} {
		for _, n := range []int{0, 1, 7, 8, 9, 1023, 1024, 1032, 4096} {
			row := make([]int8, n)
			var sum int32
			for i := range row {
				row[i] = value - int8(i%5) // which wraps around
				sum += int32(row[i])
			}
			if got := startOf(row); got != -128*sum {
				t.Errorf("%d bytes from %d on: %d, want %d", n, value, got, -128*sum)
			}
		}
	}
}
