package attn

import (
	"math"
	"math/bits"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// A kernelTest compares a kernel with its generic twin.
type kernelTest struct {
	name string
	dims []dim
	run  func(c *trial, n []int)
}

// dim is one size of a kernel's operands.
type dim struct {
	name     string
	lo, hi   int // every size from lo to hi is tried
	larger   int // random sizes up to this one are tried, too
	multiple int // sizes are multiples of this; 0 means 1
}

// compare is the test of a kernel.
func compare(name string, dims []dim, run func(c *trial, n []int)) kernelTest {
	return kernelTest{name, dims, run}
}

func size(name string, lo, hi, larger int) dim { return dim{name, lo, hi, larger, 1} }

// multiples is a size that is a multiple of some number.
func multiples(name string, lo, hi, larger, of int) dim { return dim{name, lo, hi, larger, of} }

// kernels has every kernel of kernel.go.
var kernelTests = []kernelTest{
	compare("packKeys", []dim{size("keys", 1, Block, Block), size("d", 1, 99, 600), size("gap", 0, 20,
		200)},
		func(c *trial, n []int) {
			keys, d := n[0], n[1]
			stride := c.stride(d, n[2])
			k := c.input((keys-1)*stride + d)
			got, want := c.output(roundUp(keys, panel)*d + c.IntN(20))
			packKeys(got, k, stride, keys, d)
			packKeysGeneric(want, k, stride, keys, d)
		}),
	compare("packValues", []dim{size("keys", 1, Block, Block), size("d", 1, 99, 600),
		size("gap", 0, 20, 200)}, func(c *trial, n []int) {
		keys, d := n[0], n[1]
		stride := c.stride(d, n[2])
		v := c.input((keys-1)*stride + d)
		got, want := c.output((roundUp(d, panel)/panel-1)*Block*panel + keys*panel + c.IntN(20))
		packValues(got, v, stride, keys, d)
		packValuesGeneric(want, v, stride, keys, d)
	}),
	compare("score", []dim{size("rows", 1, 99, 99), size("d", 1, 99, 600), size("panels", 1, 4, 4)},
		func(c *trial, n []int) {
			rows, d, panels := n[0], n[1], n[2]
			q, k := c.input(rows*d), c.input(panels*d*panel)
			got, want := c.output((rows-1)*Block + panels*panel)
			scorePrefetch(got, q, k, rows, d, panels, c.anywhere())
			scoreGeneric(want, q, k, rows, d, panels)
		}),
	compare("scoreMaxima", []dim{multiples("rows", maximaRows, 96, maxTileRows, maximaRows),
		size("d", maximaDim, 99, 300), size("panels", 1, 4, 4)}, func(c *trial, n []int) {
		rows, d, panels := n[0], n[1], n[2]
		q, k := c.input(rows*d), c.input(panels*d*panel)
		got, want := c.output((rows-1)*Block + panels*panel)
		maxima, maximaWant := c.output(rows * maximaLanes)
		scoreMaxima(got, q, k, maxima, rows, d, panels, c.anywhere())
		scoreMaximaGeneric(want, q, k, maximaWant, rows, d, panels)
	}),
	compare("scoreRows", []dim{size("rows", 1, 99, 99), size("d", 1, 99, 600), size("keys", 1, Block,
		Block),
		size("gap", 0, 20, 200)}, func(c *trial, n []int) {
		rows, d, keys := n[0], n[1], n[2]
		stride := c.stride(d, n[3])
		next, after := c.anywhere(), 0
		if next != nil {
			after = c.IntN(20)
			next.after = after
		}
		q, k := c.input(rows*d), c.input((keys-1+after)*stride+d)
		got, want := c.output((rows-1)*Block + keys)
		scoreRows(got, q, k, rows, d, stride, keys, next)
		scoreRowsGeneric(want, q, k, rows, d, stride, keys)
	}),
	compare("softmax", []dim{size("rows", 1, 2*softmaxRows+1, 600)}, func(c *trial, n []int) {
		s, sWant := c.scores(n[0])
		m, mWant, l, lWant := c.runningState(n[0])
		alpha, alphaWant := c.output(n[0])
		unit := c.unit()
		masked := softmax(s, m, l, alpha, nil, n[0], unit)
		c.equal("masked", masked, softmaxGeneric(sWant, mWant, lWant, alphaWant, n[0], unit))
	}),
	compare("softmaxMaxima", []dim{size("rows", 1, maxTileRows, maxTileRows)}, func(c *trial,
		n []int) {
		s, sWant := c.scores(n[0])
		write, maxima := c.place(n[0] * maximaLanes)
		maximaOf(write, s, n[0], Block)
		m, mWant, l, lWant := c.runningState(n[0])
		alpha, alphaWant := c.output(n[0])
		unit := c.unit()
		masked := softmaxMaxima(s, m, l, alpha, maxima, n[0], unit)
		c.equal("masked", masked, softmaxMaximaGeneric(sWant, mWant, lWant, alphaWant, maxima, n[0],
			unit))
	}),
	compare("softmaxMasked", []dim{size("rows", 1, 2*softmaxRows+1, 600)}, func(c *trial, n []int) {
		visible := c.visibleBits(n[0])
		s, sWant := c.scores(n[0])
		m, mWant, l, lWant := c.runningState(n[0])
		alpha, alphaWant := c.output(n[0])
		unit := c.unit()
		masked := softmax(s, m, l, alpha, visible, n[0], unit)
		c.equal("masked", masked, softmaxMaskedGeneric(sWant, mWant, lWant, alphaWant, visible, n[0],
			unit))
	}),
	compare("accumulate", accumulateDims, func(c *trial, n []int) {
		a := c.newAccumulation(n)
		alpha := a.alpha
		if c.IntN(3) == 0 {
			alpha = nil // a matrix product
		}
		accumulate(a.got, a.p, a.v, alpha, a.rows, a.oStride, a.pStride, &a.layout)
		accumulateGeneric(a.want, a.p, a.v, alpha, a.rows, a.oStride, a.pStride, &a.layout)
	}),
	compare("accumulateMasked", accumulateDims, func(c *trial, n []int) {
		a := c.newAccumulation(n)
		accumulateMasked(a.got, a.p, a.v, a.alpha, a.rows, a.oStride, a.pStride, &a.layout)
		accumulateMaskedGeneric(a.want, a.p, a.v, a.alpha, a.rows, a.oStride, a.pStride, &a.layout)
	}),
	compare("scale", vectorDims, func(c *trial, n []int) {
		got, want := c.output(n[0] + c.IntN(9))
		f := c.kind.draw(c.Rand)
		if c.IntN(2) == 0 { // in place
			scale(got, got[:n[0]], f)
			scaleGeneric(want, want[:n[0]], f)
			return
		}
		x := c.input(n[0])
		scale(got, x, f)
		scaleGeneric(want, x, f)
	}),
	compare("normalize", []dim{size("rows", 1, 99, 99), size("n", 1, 99, 300), size("gap", 0, 20, 200),
		size("pad", 0, 20, 200)}, func(c *trial, n []int) {
		rows, d := n[0], n[1]
		dstStride, oStride := c.stride(d, n[2]), c.stride(d, n[3])
		l, o := c.input(rows), c.input((rows-1)*oStride+d)
		got, want := c.output((rows-1)*dstStride + d)
		normalize(got, o, l, rows, d, dstStride, oStride)
		normalizeGeneric(want, o, l, rows, d, dstStride, oStride)
	}),
	compare("merge", vectorDims, func(c *trial, n []int) {
		b := c.input(n[0])
		got, want := c.output(n[0] + c.IntN(9))
		x, y := c.factor(), c.factor()
		merge(got, b, x, y)
		mergeGeneric(want, b, x, y)
	}),
	compare("mergeSums", vectorDims, func(c *trial, n []int) {
		m, mWant, l, lWant := c.runningState(n[0])
		m2, _, l2, _ := c.runningState(n[0])
		x, xWant := c.output(n[0])
		y, yWant := c.output(n[0])
		unit := c.unit()
		mergeSums(m, l, m2, l2, x, y, unit)
		mergeSumsGeneric(mWant, lWant, m2, l2, xWant, yWant, unit)
	}),
	compare("softcap", vectorDims, func(c *trial, n []int) {
		got, want := c.output(n[0])
		most, factor := c.kind.draw(c.Rand), c.factor()
		softcap(got, most, factor)
		softcapGeneric(want, most, factor)
	}),
	compare("alibi", vectorDims, func(c *trial, n []int) {
		got, want := c.output(n[0])
		slope := c.kind.draw(c.Rand)
		first := c.IntN(400) - 200
		if c.IntN(2) == 0 {
			first = c.IntN(4*maxLength) - 2*maxLength
		}
		alibi(got, slope, first)
		alibiGeneric(want, slope, first)
	}),
	compare("addBias", pairDims, func(c *trial, n []int) {
		rows, keys, step := n[0], n[1], 1+c.IntN(3)
		stride := c.stride(keys, c.IntN(9))
		bias := c.input((rows-1)*stride + keys)
		s, sWant := c.output((rows-1)*step*Block + keys)
		unit := c.factor()
		addBias(s, bias, rows, step, stride, keys, unit)
		addBiasGeneric(sWant, bias, rows, step, stride, keys, unit)
	}),
	compare("maskBias", pairDims, func(c *trial, n []int) {
		rows, keys, step := n[0], n[1], 1+c.IntN(3)
		stride := c.stride(keys, c.IntN(9))
		bias := c.inputBias((rows-1)*stride + keys)
		visible := c.visibleBits((rows-1)*step + 1)
		got, want := slices.Clone(visible), slices.Clone(visible)
		lo := c.IntN(Block - keys + 1)
		hides, adds := maskBias(bias, got, rows, step, stride, lo, keys)
		hidesWant, addsWant := maskBiasGeneric(bias, want, rows, step, stride, lo, keys)
		if hides != hidesWant || adds != addsWant {
			c.fail("hides %t, adds %t, want %t, %t", hides, adds, hidesWant, addsWant)
		}
		for r := range want {
			c.equal("visible", got[r], want[r])
		}
	}),
	compare("maskKeys", pairDims, func(c *trial, n []int) {
		rows, keys, step := n[0], n[1], 1+c.IntN(3)
		stride := c.stride(keys, c.IntN(9))
		mask := c.inputBools((rows-1)*stride + keys)
		visible := c.visibleBits((rows-1)*step + 1)
		got, want := slices.Clone(visible), slices.Clone(visible)
		lo := c.IntN(Block - keys + 1)
		every := maskKeys(mask, got, rows, step, stride, lo, keys)
		c.equal("every", every, maskKeysGeneric(mask, want, rows, step, stride, lo, keys))
		for r := range want {
			c.equal("visible", got[r], want[r])
		}
	}),
	compare("weights", vectorDims, func(c *trial, n []int) {
		s := c.input(n[0])
		got, want := c.output(n[0])
		visible, r := c.visible(), c.factor()
		m := negInf
		for j, e := range s {
			if visible>>j&1 != 0 && e > m {
				m = e // the final maximum is no less than any visible score
			}
		}
		if m == negInf {
			m = c.Float32()
		}
		unit := c.unit()
		weights(got, s, m, r, unit, visible)
		weightsGeneric(want, s, m, r, unit, visible)
	}),
	compare("allFinite", vectorDims, func(c *trial, n []int) {
		if c.IntN(2) == 0 {
			c.kind = normal
		}
		x := c.input(n[0])
		c.equal("finite", allFinite(x), allFiniteGeneric(x))
	}),
	compare("dot", vectorDims, func(c *trial, n []int) {
		a, b := c.input(n[0]), c.input(n[0])
		c.equal("dot", dot(a, b), dotGeneric(a, b))
	}),
	compare("addProducts", vectorDims, func(c *trial, n []int) {
		a, b := c.input(n[0]), c.input(n[0])
		s, sWant := c.output(64)
		addProducts((*[64]float32)(s), a, b)
		addProductsGeneric((*[64]float32)(sWant), a, b)
	}),
	compare("maxOf", vectorDims, func(c *trial, n []int) {
		x := c.input(n[0])
		c.equal("max", maxOf(x), maxOfGeneric(x))
	}),
	compare("exp", vectorDims, func(c *trial, n []int) {
		got, want := c.output(n[0])
		if c.IntN(2) == 0 { // in place
			exp(got, got)
			expGeneric(want, want)
			return
		}
		x := c.inputOf(n[0], c.exponents())
		exp(got, x)
		expGeneric(want, x)
	}),
	compare("expSum", vectorDims, func(c *trial, n []int) {
		got, want := c.output(n[0])
		top := c.kind.draw(c.Rand)
		if c.IntN(2) == 0 { // in place
			sum := expSum(got, got, top)
			c.equal("sum", sum, expSumGeneric(want, want, top))
			return
		}
		x := c.inputOf(n[0], c.exponents())
		sum := expSum(got, x, top)
		c.equal("sum", sum, expSumGeneric(want, x, top))
	}),
	compare("sumExp", vectorDims, func(c *trial, n []int) {
		x, top := c.inputOf(n[0], c.exponents()), c.kind.draw(c.Rand)
		c.equal("sum", sumExp(x, top), sumExpGeneric(x, top))
	}),
}

// Four of the largest tiles, the 64 lanes of a dot product, and one.
var vectorDims = []dim{size("n", 0, 257, 3000)}

var pairDims = []dim{size("rows", 1, 20, 50), size("keys", 1, Block, Block)}

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
				switch k := &kernelTests[i]; k.name {
				case "score", "scoreRows", "accumulate", "packKeys", "packValues":
					k.fewRows(t)
				}
			}
		}
	})
}

// fewRows tries random sizes with 1 to 5 rows of queries and, as often, with 6 to 35.
func (k *kernelTest) fewRows(t *testing.T) {
	c := newTrial(t, random(k.name))
	n := make([]int, len(k.dims))
	for i := range budget(1200) {
		for j := range n {
			most := k.dims[j].hi
			if k.dims[j].name == "cols" && c.IntN(3) == 0 {
				most = k.dims[j].larger // more than eight panels
			}
			n[j] = k.dims[j].pick(c, most)
			if k.dims[j].name == "gap" && i%2 == 0 {
				n[j] = 0 // rows without gaps
			}
		}
		n[0] = 1 + i/2%5
		if i%4 > 1 {
			n[0] = 6 + i/4%30
		}
		k.check(t, c, n)
	}
}

// once runs one case and returns what is wrong with it. A fault in guarded
// memory becomes a panic and is reported with the case.
func (k *kernelTest) once(c *trial, n []int) (wrong string) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if err := recover(); err != nil {
			wrong = "panic: " + toText(err) + "\n" + string(debug.Stack())
		}
	}()
	c.reset()
	k.run(c, n)
	c.compare()
	return c.text
}

func toText(x any) string {
	if err, ok := x.(error); ok {
		return err.Error()
	}
	s, _ := x.(string)
	return s
}

// pick draws a size; small ones are where kernels have their tails.
func (d *dim) pick(c *trial, most int) int {
	if c.IntN(2) == 0 {
		most = min(most, d.lo+20)
	}
	return d.round(d.lo + c.IntN(most-d.lo+1))
}

func (d *dim) round(n int) int { return n / d.multiple * d.multiple }

func TestKernelsEqualGeneric(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for i := range kernelTests {
			k := &kernelTests[i]
			t.Run(k.name, func(t *testing.T) {
				c := newTrial(t, random(k.name))
				k.sweep(t, c)
				k.grid(t, c)
				k.large(t, c)
			})
		}
	})
}

func (k *kernelTest) check(t *testing.T, c *trial, n []int) {
	if wrong := k.once(c, n); wrong != "" {
		t.Fatalf("%s, sizes %v, distribution %d: %s", k.describe(), n, c.kind, wrong)
	}
}

func (k *kernelTest) describe() (names []string) {
	for _, d := range k.dims {
		names = append(names, d.name)
	}
	return names
}

// sweep tries every size of every dimension, the others at random.
func (k *kernelTest) sweep(t *testing.T, c *trial) {
	n := make([]int, len(k.dims))
	step := 1
	switch {
	case testing.Short() && tuned.ISA == tuning.Generic:
		step = 7 // an emulator that compares generic code with itself
	case few():
		step = 3
	}
	for i, swept := range k.dims {
		for at := swept.lo; at <= swept.hi; at += step * swept.multiple {
			for range budget(12) {
				for j := range n {
					n[j] = k.dims[j].pick(c, k.dims[j].hi)
				}
				n[i] = at
				k.check(t, c, n)
			}
		}
	}
}

// grid tries every combination of small sizes of the first two dimensions.
func (k *kernelTest) grid(t *testing.T, c *trial) {
	if len(k.dims) < 2 {
		return
	}
	const small = 18
	a, b := k.dims[0], k.dims[1]
	n := make([]int, len(k.dims))
	for x := a.lo; x <= small; x++ {
		for y := b.lo; y <= small; y++ {
			if few := budget(16); few < 16 && (x+y)%(16/few) != 0 {
				continue
			}
			for j := range n {
				n[j] = k.dims[j].pick(c, k.dims[j].hi)
			}
			n[0], n[1] = x, y
			k.check(t, c, n)
		}
	}
}

// large tries random sizes beyond those of the sweep.
func (k *kernelTest) large(t *testing.T, c *trial) {
	n := make([]int, len(k.dims))
	for range budget(60) {
		for j := range n {
			n[j] = k.dims[j].pick(c, k.dims[j].larger)
		}
		k.check(t, c, n)
	}
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
	fuzzOneOf(f, slices.Concat(kernelTests, typedKernelTests, transposeKernelTests, int8KernelTests,
		int4KernelTests, blockKernelTests), name)
}

// fuzzOneOf compares the kernel of a name with its generic twin.
func fuzzOneOf(f *testing.F, all []kernelTest, name string) {
	k := &all[slices.IndexFunc(all, func(k kernelTest) bool { return k.name == name })]
	n := make([]int, len(k.dims))
	fuzzTrials(f, func(t *testing.T, c *trial) {
		k.pickFew(c, n)
		k.check(t, c, n)
	})
}

// pickFew draws sizes of which most are tiny, so that the fuzzer tries many
// calls: of four calls one may have a size that spans several tiles, and of some
// hundreds one has nothing but such sizes.
func (k *kernelTest) pickFew(c *trial, n []int) {
	for i := range n {
		d := &k.dims[i]
		n[i] = d.round(d.lo + c.IntN(min(d.hi-d.lo+1, 6*d.multiple)))
	}
	switch draw := c.IntN(2048); {
	case draw == 0:
		for i := range n {
			n[i] = k.dims[i].pick(c, k.dims[i].larger)
		}
	case draw < 8:
		for i := range n {
			n[i] = k.dims[i].pick(c, k.dims[i].hi)
		}
	case draw < 64:
		i := c.IntN(len(n))
		n[i] = k.dims[i].stretch(c, k.dims[i].larger)
	case draw < 512:
		i := c.IntN(len(n))
		n[i] = k.dims[i].stretch(c, k.dims[i].hi)
	}
}

// stretch draws a size from each power of two equally often.
func (d *dim) stretch(c *trial, most int) int {
	most -= d.lo
	return d.round(d.lo + c.IntN(1+min(most, 1<<c.IntN(bits.Len(uint(most))+1))))
}

func FuzzPackKeys(f *testing.F)         { fuzzKernel(f, "packKeys") }
func FuzzPackValues(f *testing.F)       { fuzzKernel(f, "packValues") }
func FuzzScore(f *testing.F)            { fuzzKernel(f, "score") }
func FuzzScoreMaxima(f *testing.F)      { fuzzKernel(f, "scoreMaxima") }
func FuzzScoreRows(f *testing.F)        { fuzzKernel(f, "scoreRows") }
func FuzzSoftmax(f *testing.F)          { fuzzKernel(f, "softmax") }
func FuzzSoftmaxMaxima(f *testing.F)    { fuzzKernel(f, "softmaxMaxima") }
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
