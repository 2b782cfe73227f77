package attn

import (
	"math"
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
)

// int4KernelTests has every kernel of kernel_int4.go.
var int4KernelTests = []kernelTest{
	compare("encode", []dim{size("n", 1, 70, 3*kernel.CallElements)}, func(c *trial, n []int) {
		tryEncode(c,
			n[0])
	}),
	compare("lookUp", []dim{size("rows", 1, 9, 9), size("vectors", 1, 20, 2*kernel.CallElements)},
		func(c *trial, n []int) { tryLookUp(c, n[0], n[1]) }),
	compare("scoreInt4",
		[]dim{size("rows", 1, codeRows, codeRows), size("d", 1, 70, 20000),
			size("keys", 1, Block, Block)},
		func(c *trial, n []int) { tryScoreInt4(c, n[0], n[1], n[2]) }),
	compare("accumulateInt4", []dim{size("rows", 1, codeRows, codeRows), size("keys", 1, Block, Block),
		multiples("cols", panel, 19*panel, 99*panel, panel)},
		func(c *trial, n []int) { tryAccumulateInt4(c, n[0], n[1], n[2]) }),
}

func tryScoreInt4(c *trial, rows, d, keys int) {
	c.AnyIntegers()
	cols := roundUp(keys, panel)
	k := c.TypedInput(kernel.I8, cols*roundUp(d, 8)/2)
	b := kernel.ScoreLayout(kernel.I4, d, cols)
	scales := c.Factors(cols)
	q, words := drawQueries(c, rows, d)
	s, sWant := c.Results((rows-1)*Block + cols)
	scoreInt4(s, &q, 0, k, scales, rows, d, keys, 0, c.IntN(2) == 0)
	scoreInt4Generic(sWant, words, k, scales, rows, &b)
}

func tryAccumulateInt4(c *trial, rows, keys, cols int) {
	c.AnyIntegers()
	b := kernel.PanelLayout{Keys: keys, Cols: cols, Stride: 4 * cols, PanelStride: 4 * panel,
		Overwrite: c.IntN(2) == 0}
	v := c.TypedInput(kernel.I8, roundUp(keys, 8)/2*cols)
	oStride, wStride, fStride := cols+c.IntN(9), roundUp(keys, 4)+c.IntN(9), 1+c.IntN(3)
	got, want := c.Results((rows-1)*oStride + cols)
	words, f := drawWeights(c, rows, wStride, keys), c.Factors((rows-1)*fStride+1)
	alpha := c.Factors(rows)
	accumulateInt4(got, &integerRows{words: words}, v, alpha, f, rows, oStride, wStride, fStride, &b)
	accumulateInt4Generic(want, words, v, alpha, f, rows, oStride, wStride, fStride, &b)
}

// encode also has numbers at the bounds between levels.
func tryEncode(c *trial, n int) {
	scale := []float32{1, 0.37, 1e-40, 1e30, 0}[c.IntN(5)]
	write, x := c.Place(n)
	for i := range write {
		t := levelBounds[c.IntN(len(levelBounds))]
		switch c.IntN(4) {
		case 0:
			t = math.Nextafter32(t, 0)
		case 1:
			t = 127 * c.Float32()
		}
		write[i] = float32(math.Copysign(float64(float32(t*scale)), float64(c.IntN(2))-0.5))
	}
	dst, want := c.ResultsOf((n+3)/4, normal)
	encode(kerneltest.BytesIn(dst)[:n], x, scale)
	encodeGeneric(kerneltest.BytesIn(want)[:n], x, scale)
}

// lookUp has the layouts of keys and of values.
func tryLookUp(c *trial, rows, vectors int) {
	src := c.TypedInput(kernel.I8, 64*rows*vectors)
	l := levelLayout{rows: rows, vectors: vectors, row: 128 * vectors, step: 128, upper: 64}
	switch c.IntN(3) {
	case 0: // keys of an odd number of groups
		l.row -= 64
	case 1:
		l.step, l.upper = 64, 64*vectors
	}
	last := (rows-1)*l.row + (vectors-1)*l.step + l.upper + 64
	dst, want := c.ResultsOf(last/4, normal)
	lookUp(kerneltest.BytesIn(dst), src, &l, 0)
	lookUpGeneric(kerneltest.BytesIn(want), src, &l)
}

// Kernels of codes give the bits of the generic code, and touch nothing outside their operands.
func TestInt4KernelsEqualGeneric(t *testing.T) { equalGeneric(t, int4KernelTests, false) }

func FuzzEncode(f *testing.F) { fuzzKernel(f, "encode") }
func FuzzLookUp(f *testing.F) { fuzzKernel(f, "lookUp") }

func FuzzScoreInt4(f *testing.F)      { fuzzKernel(f, "scoreInt4") }
func FuzzAccumulateInt4(f *testing.F) { fuzzKernel(f, "accumulateInt4") }

// A code says the level whose bounds a number is between, of its sign.
func TestCodes(t *testing.T) {
	for i := range 4 * 127 * 64 {
		x := float32(i-2*127*64) / 128
		want := math.Copysign(nearestLevel(math.Abs(float64(x))), float64(x))
		if got := levels[codeOf(x)]; float64(got) != want {
			t.Fatalf("the level of %v is %v, want %v", x, got, want)
		}
	}
	if code := codeOf(float32(math.Copysign(0, -1))); levels[code] != -5 {
		t.Errorf("the level of -0 is %v, want -5", levels[code])
	}
}

// Groups of eight codes become four bytes, and one by one they are where they are looked up.
func TestCodesFold(t *testing.T) {
	r := random("codes")
	codes, folded := make([]byte, 48), make([]byte, 24)
	for i := range codes {
		codes[i] = byte(r.IntN(16))
	}
	foldCodes(folded, codes)
	b := kernel.PanelLayout{Stride: 4}
	for i, want := range codes {
		at := kernel.PlaceOf(kernel.I4, &b, i, 0)
		if got := codeAt(folded, at); got != want {
			t.Errorf("code %d is %d, want %d", i, got, want)
		}
		setCode(folded, at, 0)
	}
	for i, e := range folded {
		if e != 0 {
			t.Errorf("byte %d is %d, want 0", i, e)
		}
	}
	putCodes(folded, codes[:24], false)
	putCodes(folded, codes[24:], true)
	for i := range folded {
		got, want := [2]byte{codeAt(folded, 2*i), codeAt(folded, 2*i+1)}, [2]byte{codes[i], codes[24+i]}
		if got != want {
			t.Errorf("byte %d has codes %d, want %d", i, got, want)
		}
	}
}

// drawQueries is rows of d integers of 8 bits, as kernels and as the generic code take them.
func drawQueries(c *trial, rows, d int) (got integerRows, want []int16) {
	stride := roundUp(d, 4)
	got.fit(rows*stride, rows, rows)
	want = make([]int16, rows*stride)
	row := make([]int8, d)
	for r := range rows {
		for k := range row {
			row[k] = int8(c.IntN(255) - 127)
		}
		got.put(r*stride, r, row)
		inGroupOrder(want[r*stride:][:stride], row)
	}
	switch {
	case got.words != nil:
		got.words = kerneltest.Guarded(c, got.words)
		return got, want
	case got.magnitudes != nil:
		got.magnitudes = kerneltest.Guarded(c, got.magnitudes)
	default:
		got.bytes = kerneltest.Guarded(c, got.bytes)
	}
	got.starts = kerneltest.Guarded(c, got.starts)
	return got, want
}

// drawWeights is rows of n integers of 15 bits that are stride apart. What completes the last group
// of four is 0.
func drawWeights(c *trial, rows, stride, n int) []int16 {
	x := make([]int16, (rows-1)*stride+roundUp(n, 4))
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
