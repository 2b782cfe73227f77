package pairs

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// kernelTests has every kernel of the package.
var kernelTests = []kerneltest.KernelTest{
	kerneltest.Compare("accumulatePairs", []kerneltest.Dim{kerneltest.Size("rows", 1, 14, 99),
		kerneltest.Size("keys", 1, 70, 300),
		kerneltest.Multiples("cols", kernel.Panel, 9*kernel.Panel, 20*kernel.Panel, kernel.Panel)},
		tryAccumulate),
	kerneltest.Compare("accumulateLines", []kerneltest.Dim{kerneltest.Size("rows", 1, 9, 20),
		kerneltest.Multiples("keys", Group, 4*Group, 9*Group, Group),
		kerneltest.Multiples("cols", kernel.Panel, 9*kernel.Panel, 20*kernel.Panel, kernel.Panel)},
		tryAccumulateLines),
	kerneltest.Compare("roundPairs", kerneltest.VectorDims, func(c *kerneltest.Trial, n []int) {
		x := c.InputOf(n[0], c.Exponents())
		got, want := c.Results(n[0])
		Round(kerneltest.Tuned.ISA, got, x)
		roundGeneric(want, x)
	}),
	kerneltest.Compare("ofPanel", []kerneltest.Dim{kerneltest.Size("pairs", 1, 20, 999)},
		func(c *kerneltest.Trial, n []int) {
			numbers := 2 * n[0] * kernel.Panel
			x := c.InputOf(numbers, c.Exponents())
			dst, _ := c.Place(numbers / 2)
			got, want := kernel.Elements[uint16](kernel.RawBytes(dst)), make([]uint16, numbers)
			OfPanel(kerneltest.Tuned.ISA, got, x)
			ofPanelGeneric(want, x)
			for i, e := range want {
				if a, b := f32.FromBF16(got[i]), f32.FromBF16(e); !kerneltest.SameBits(a, b) {
					c.Wrong("number %d is %x, generic %x", i, a, b)
					break
				}
			}
		}),
	kerneltest.Compare("packPairs", []kerneltest.Dim{kerneltest.Size("inputs", 1, 300, 400)},
		tryPackPanel),
	kerneltest.Compare("weighPairs", []kerneltest.Dim{kerneltest.Size("rows", 1, 100, 200)}, tryWeigh),
}

func tryPackPanel(c *kerneltest.Trial, n []int) {
	x := c.InputOf(n[0]*kernel.Panel, c.Exponents())
	got, _ := c.ResultsOf(kernel.RoundUp(n[0], Group)*kernel.Panel/2, kerneltest.Normal)
	PackPanel(kerneltest.Tuned.ISA, kernel.RawBytes(got), x, n[0])
	for i, e := range kernel.Elements[uint16](kernel.RawBytes(got)) {
		want, k := uint16(0), i/(2*kernel.Panel)*2+i%2
		if k < n[0] {
			want = f32.FlushedBF16(x[k*kernel.Panel+i/2%kernel.Panel])
		}
		if e != want {
			c.Wrong("element %d is %#04x, want %#04x", i, e, want)
		}
	}
	c.Outputs = c.Outputs[:0] // halves in pairs may look like a NaN
}

func tryWeigh(c *kerneltest.Trial, n []int) {
	p := func(x []float32) []float32 {
		for i := range x {
			if x[i] = float32(math.Abs(float64(x[i]))); c.IntN(4) == 0 {
				x[i] = math.Float32frombits(math.Float32bits(0x1p-60) - 0x10000 + uint32(c.IntN(0x20000)))
			}
			if c.IntN(9) == 0 { // of a hidden key
				x[i] = math.Float32frombits(kernel.NegZero)
			}
		}
		return x
	}
	got, want := c.Results(n[0] * kernel.Block)
	if p(got); c.IntN(9) == 0 {
		got[c.IntN(len(got))] = math.Float32frombits(math.MaxUint32)
	}
	copy(want, got)
	l, lWant := c.Results(n[0])
	before, alpha := c.Factors(n[0]), c.Factors(n[0])
	Weigh(kerneltest.Tuned.ISA, got, l, before, alpha, n[0])
	weighPairsGeneric(want, lWant, before, alpha, n[0])
}

func FuzzPackPairs(f *testing.F) { kerneltest.FuzzOneOf(f, kernelTests, "packPairs") }

func FuzzWeighPairs(f *testing.F) { kerneltest.FuzzOneOf(f, kernelTests, "weighPairs") }

// A panel is finite if no number is NaN or infinite, wherever one would be.
func TestFinitePanels(t *testing.T) {
	x := make([]uint16, 32)
	for i := range x {
		for _, c := range []struct {
			e      uint16
			finite bool
		}{{0x7f7f, true}, {0xff7f, true}, {0x7f80, false}, {0xff80, false}, {0x7fc0, false},
			{0xffff, false}, {0x8000, true}, {0x007f, true}} {
			x[i] = c.e
			if got := FinitePanels(kernel.RawBytes(x)); got != c.finite {
				t.Errorf("with %#04x as element %d: %t", c.e, i, got)
			}
			x[i] = uint16(i) << 9 & 0x7eff
		}
	}
}

func tryAccumulate(c *kerneltest.Trial, n []int) {
	rows, keys, cols := n[0], n[1], n[2]
	b := kernel.ScoreLayout(kernel.Pairs, keys, cols)
	b.PrefetchOne, b.PrefetchFew = c.IntN(1<<14), c.IntN(1<<14)
	v := c.TypedInput(kernel.Pairs, cols/kernel.Panel*b.PanelStride)
	inputs := kernel.RoundUp(keys, Group)
	oStride, pStride := cols+c.IntN(9), inputs+c.IntN(9)
	got, want := c.Results((rows-1)*oStride + cols)
	p := make([]float32, (rows-1)*pStride+inputs)
	roundGeneric(p, c.Input(len(p)))
	p = kerneltest.Guarded(c, p)
	normal := Normal(leastOf(p), LeastOf(kernel.Elements[uint16](v)))
	for _, b.Overwrite = range []bool{true, false} {
		Accumulate(kerneltest.Tuned, kerneltest.Sums(got, p, nil, rows, oStride, pStride), v, &b, normal)
		accumulateGeneric(kernel.Pairs, kerneltest.Sums(want, p, nil, rows, oStride, pStride), v, &b)
	}
}

func tryAccumulateLines(c *kerneltest.Trial, n []int) {
	rows, keys, cols := n[0], n[1], n[2]
	t := [...]kernel.Format{kernel.F32, kernel.BF16}[c.IntN(2)]
	b := kernel.ScoreLayout(t, keys, cols)
	b.PrefetchOne, b.PrefetchFew = c.IntN(1<<14), c.IntN(1<<14)
	size := cols / kernel.Panel * b.PanelStride
	if t == kernel.F32 && c.IntN(2) == 0 { // rows of the caller
		b.Stride, b.PanelStride = cols+kernel.Panel+c.IntN(9), kernel.Panel
		size = (keys-1)*b.Stride + cols
	}
	var v []byte
	if t == kernel.F32 {
		v = kernel.RawBytes(c.InputOf(size, []kerneltest.Distribution{c.Exponents(),
			kerneltest.AnyBits}[c.IntN(2)]))
	} else {
		v = c.TypedInput(t, size)
	}
	oStride, pStride := cols+c.IntN(9), keys+c.IntN(9)
	got, want := c.Results((rows-1)*oStride + cols)
	p := make([]float32, (rows-1)*pStride+keys)
	roundGeneric(p, c.Input(len(p)))
	p = kerneltest.Guarded(c, p)
	for _, b.Overwrite = range []bool{true, false} {
		to := kerneltest.Sums(got, p, nil, rows, oStride, pStride)
		AccumulateLines(kerneltest.Tuned, t, to, v, &b)
		accumulateGeneric(t, kerneltest.Sums(want, p, nil, rows, oStride, pStride), v, &b)
	}
}

// Kernels give the bits of the generic code, and touch nothing outside their operands.
func TestKernelsEqualGeneric(t *testing.T) { kerneltest.EqualGeneric(t, kernelTests, false) }

func FuzzAccumulateLines(f *testing.F) { kerneltest.FuzzOneOf(f, kernelTests, "accumulateLines") }

func FuzzAccumulatePairs(f *testing.F) { kerneltest.FuzzOneOf(f, kernelTests, "accumulatePairs") }

var millions = flag.Int("millions", 0, "compare that many million sums in TestSumsAboutTheLeast")

// aboutTheLeast is a number in bfloat16 whose products with others lie about 2⁻¹²⁶, from 2⁻¹⁵⁶ on,
// often 0, and rarely one that is not finite or has any exponent.
func aboutTheLeast(r *rand.Rand) float32 {
	bits := r.Uint32()
	exponent := 61 + bits>>8&3
	switch bits & 255 {
	case 0:
		exponent = 127 + 128*(bits>>9&1)
	case 1:
		exponent = bits >> 8 & 255
	case 2, 3, 4, 5:
		exponent = 0
	case 6, 7, 8, 9, 10, 11, 12, 13:
		exponent = 49 + bits>>8&15
	}
	if bits&128 != 0 {
		return 0
	}
	mantissa := bits >> 16 & 127
	if bits>>12&3 == 0 {
		mantissa = 127 * (bits >> 16 & 1)
	}
	return math.Float32frombits(bits&(1<<31) | exponent<<23 | mantissa<<16)
}

// justBelow is input k of numbers of which some products are 2⁻¹²⁶ and others 2⁻¹⁵² to 2⁻¹⁴⁹: IEEE
// 754 rounds many of their sums to 2⁻¹²⁶ that 24 bits round to less.
func justBelow(r *rand.Rand, k int) float32 {
	bits := r.Uint32()
	switch {
	case bits&3 == 0:
		return 0
	case k%8 < 2:
		return math.Float32frombits(bits&(1<<31) | 64<<23)
	case bits&12 != 0:
		return 0
	}
	return math.Float32frombits(bits&(1<<31) | (51+bits>>8&1)<<23 | bits>>16&127<<16)
}

// Sums of numbers near the least normal one, infinities and NaN have the bits of the generic code:
// there operations flush what IEEE 754 does not, and round what it rounds otherwise.
func TestSumsAboutTheLeast(t *testing.T) {
	const rows, inputs, cols = 16, 2 * Group, 4 * kernel.Panel
	kerneltest.ForEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, uint64(*millions)))
		b := kernel.ScoreLayout(kernel.Pairs, inputs, cols)
		b.Overwrite = true
		trials := max(kerneltest.Budget(200), *millions*1e6/(rows*cols))
		p, v := make([]float32, rows*inputs), make([]uint16, inputs*cols)
		got, want := make([]float32, rows*cols), make([]float32, rows*cols)
		zeros := 0
		for trial := range trials {
			draw := func(int) float32 { return aboutTheLeast(r) }
			if trial%3 == 0 {
				draw = func(k int) float32 { return justBelow(r, k) }
			}
			for i := range p {
				p[i] = draw(i % inputs)
			}
			for i := range v { // pairs of 16 columns
				v[i] = f32.ToBF16(draw(i / (2 * kernel.Panel) * 2 % inputs))
			}
			if trial%2 == 0 { // half of all inputs cancel but for some bits
				for i := 0; i+2 < len(p); i += 4 {
					p[i+2] = -p[i]
				}
			}
			Accumulate(kerneltest.Tuned, kerneltest.Sums(got, p, nil, rows, cols, inputs),
				kernel.RawBytes(v), &b, Normal(leastOf(p), LeastOf(v)))
			accumulateGeneric(kernel.Pairs, kerneltest.Sums(want, p, nil, rows, cols, inputs),
				kernel.RawBytes(v), &b)
			if i := kerneltest.FirstDifference(got, want); i >= 0 {
				t.Fatalf("trial %d: sum %d is %x, generic %x", trial, i, got[i], want[i])
			}
			for _, e := range got {
				if e == 0 {
					zeros++
				}
			}
		}
		if zeros == 0 || zeros == trials*rows*cols {
			t.Errorf("%d of %d sums are 0", zeros, trials*rows*cols)
		}
	})
}

// Sums by tiles are those of the generic code, for any number of rows, one panel or two, from any
// row on, and in parts.
func TestKernelsByTilesEqualGeneric(t *testing.T) {
	if !kerneltest.Tuned.AMXBFloat16 {
		t.Skip("no tiles here: " + tuning.HostTiles().Why)
	}
	r := kerneltest.Random(t.Name())
	for trial := range kerneltest.Budget(80) {
		first, rows, inputs, cols := r.IntN(5), 1+r.IntN(70), 1+r.IntN(140), 1+r.IntN(TileCols)
		a := make([]float32, (first+rows)*inputs)
		layout := kernel.ScoreLayout(kernel.Pairs, inputs, kernel.RoundUp(cols, kernel.Panel))
		layout.Overwrite = true
		v := make([]uint16, layout.Cols/kernel.Panel*layout.PanelStride)
		draw := func() float32 { return float32(r.NormFloat64()) }
		if trial%2 == 0 {
			draw = func() float32 { return aboutTheLeast(r) }
		}
		for i := range a {
			a[i] = draw()
		}
		for i := range v {
			v[i] = f32.ToBF16(draw())
		}
		var tiles, floats Rows
		plain := *kerneltest.Tuned
		plain.AMXBFloat16 = false
		kerneltest.Tuned.MinAMXPairRows = 1
		tiles.Fit(kerneltest.Tuned, first+rows, inputs)
		floats.Fit(&plain, first+rows, inputs)
		for i := range first + rows {
			tiles.Put(kerneltest.Tuned.ISA, i, a[i*inputs:][:inputs])
			floats.Put(kerneltest.Tuned.ISA, i, a[i*inputs:][:inputs])
		}
		want := make([]float32, rows*layout.Cols)
		accumulateGeneric(kernel.Pairs, kerneltest.Sums(want, floats.From(first, 0), nil, rows,
			layout.Cols, floats.Pitch), kernel.RawBytes(v), &layout)

		sums := make([]float32, kernel.RoundUp(rows, 2*TileRows)*TileCols)
		call := TileCall{V: &kernel.RawBytes(v)[0], Sums: &sums[0], AStep: 2 * Group * tiles.Count,
			Parts: 1, Rows: rows, Begin: true}
		if cols > kernel.Panel {
			call.Second = 2 * layout.PanelStride
		}
		groups := tiles.Pitch / Group
		for g := 0; g < groups; g += call.Groups {
			call.Groups = 1 + r.IntN(groups-g)
			call.A = &tiles.Halves[(g*tiles.Count+first)*Group]
			call.V = &kernel.RawBytes(v)[g*Group*2*kernel.Panel]
			MultiplyTiles(&call)
			call.Begin = false
		}
		got := make([]float32, rows*cols)
		FinishTiles(got, sums, rows, cols, cols)
		for i := range got {
			if w := want[i/cols*layout.Cols+i%cols]; !kerneltest.SameBits(got[i], w) {
				t.Fatalf("%d rows from %d on, %d inputs, %d columns: sum %d is %x, generic %x", rows, first,
					inputs, cols, i, got[i], w)
			}
		}
	}
}

// Kernels that flush leave arithmetic as it was.
func TestModeComesBack(t *testing.T) {
	b := kernel.ScoreLayout(kernel.Pairs, Group, kernel.Panel)
	b.Overwrite = true
	p, o := make([]float32, Group), make([]float32, kernel.Panel)
	v := make([]byte, 2*Group*kernel.Panel)
	kerneltest.ForEach(t, func(t *testing.T) {
		Accumulate(kerneltest.Tuned, kerneltest.Sums(o, p, nil, 1, kernel.Panel, Group), v, &b, true)
		// As bits: a comparison would not see it either.
		if got := math.Float32bits(float32(0x1p-126) * (o[0] + 0.5)); got != 1<<22 {
			t.Error("subnormal numbers are flushed after a call")
		}
	})
}
