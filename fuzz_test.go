package attn

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// The fuzzer's bytes are spent as random numbers: first on sizes, strides and
// kinds of values, then on the values themselves.

// seedInputs makes the normal test run try some cases of every target.
func seedInputs(f *testing.F) {
	r := random(f.Name())
	f.Add([]byte{})
	for _, n := range []int{8, 32, 64, 256} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(data)
	}
	f.Add(make([]byte, 64))
}

// fuzzKernel compares one kernel of kernel_test.go with its generic twin.
func fuzzKernel(f *testing.F, name string) {
	var k *kernelTest
	for i := range kernelTests {
		if kernelTests[i].name == name {
			k = &kernelTests[i]
		}
	}
	n := make([]int, len(k.dims))
	fuzzTrials(f, func(t *testing.T, c *trial) {
		k.pickFew(c, n)
		k.check(t, c, n)
	})
}

// fuzzTrials runs f on trials that spend the fuzzer's bytes, the same with each
// implementation that is compared with the generic one.
func fuzzTrials(f *testing.F, run func(t *testing.T, c *trial)) {
	seedInputs(f)
	c := newTrial(f, nil)
	c.stock = newStock()
	compared := slices.DeleteFunc(implementations(), func(i isa) bool { return i == generic && chosen.isa != generic })
	f.Fuzz(func(t *testing.T, data []byte) {
		defer func() { tuned = chosen }()
		useTuning(t, with16Lanes(tuned))
		for _, tuned.isa = range compared {
			c.Rand = randomFrom(data)
			run(t, c)
		}
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
func FuzzSoftmaxValues(f *testing.F)    { fuzzKernel(f, "softmaxValues") }
func FuzzAccumulate(f *testing.F)       { fuzzKernel(f, "accumulate") }
func FuzzAccumulateMasked(f *testing.F) { fuzzKernel(f, "accumulateMasked") }
func FuzzScale(f *testing.F)            { fuzzKernel(f, "scale") }
func FuzzNormalize(f *testing.F)        { fuzzKernel(f, "normalize") }
func FuzzMerge(f *testing.F)            { fuzzKernel(f, "merge") }
func FuzzMergeSums(f *testing.F)        { fuzzKernel(f, "mergeSums") }
func FuzzSoftcap(f *testing.F)          { fuzzKernel(f, "softcap") }
func FuzzAlibi(f *testing.F)            { fuzzKernel(f, "alibi") }
func FuzzAddBias(f *testing.F)          { fuzzKernel(f, "addBias") }
func FuzzMaskKeys(f *testing.F)         { fuzzKernel(f, "maskKeys") }
func FuzzWeights(f *testing.F)          { fuzzKernel(f, "weights") }
func FuzzAllFinite(f *testing.F)        { fuzzKernel(f, "allFinite") }
func FuzzDot(f *testing.F)              { fuzzKernel(f, "dot") }
func FuzzAddProducts(f *testing.F)      { fuzzKernel(f, "addProducts") }
func FuzzMaxOf(f *testing.F)            { fuzzKernel(f, "maxOf") }
func FuzzExp(f *testing.F)              { fuzzKernel(f, "exp") }
func FuzzExpSum(f *testing.F)           { fuzzKernel(f, "expSum") }
func FuzzSumExp(f *testing.F)           { fuzzKernel(f, "sumExp") }

// FuzzAttend composes all options: strides, implementation and the way it is
// computed must not change a bit, and a row must not depend on its neighbours.
func FuzzAttend(f *testing.F) {
	seedInputs(f)
	operands := new(arena)
	f.Cleanup(operands.free)
	f.Fuzz(func(t *testing.T, data []byte) {
		defer func() { tuned = chosen }()
		r := randomFrom(data)
		p := problemOf(r, distribution(r.IntN(int(distributions))), fewRowsAndKeys(r))
		got := p.solve(t, Attend)
		one := selection{[]int{r.IntN(p.q.B)}, []int{r.IntN(p.q.H)}, r.IntN(p.q.L), 1}
		part := p.part(one)
		part.same(t, "one row", part.solve(t, Attend), one.of(p, got))
		anyTuning(t, r)
		for _, way := range ways {
			p.same(t, way.name, p.solveScattered(t, r, operands, way.attend), got)
		}
		for _, tuned.isa = range implementations()[1:] {
			p.same(t, chosen.isa.String(), got, p.solve(t, Attend))
		}
	})
}

// fewRowsAndKeys draws a shape, tiny in most cases, so that the fuzzer tries
// many compositions of options.
func fewRowsAndKeys(r *rand.Rand) shape {
	s := shape{1 + r.IntN(2), 1 + r.IntN(2), 1 + r.IntN(2), 1 + r.IntN(4), 1 + r.IntN(8), 1 + r.IntN(6), 1 + r.IntN(10)}
	switch draw := r.IntN(1024); {
	case draw == 0: // larger in all dimensions
		s = randomShape(r, moderate/30)
	case draw < 4: // several segments
		s.lk = Segment - 70 + r.IntN(Segment+200)
		s.b, s.kvh = 1, 1
	case draw < 50: // several blocks
		s.lk = length(r, 300)
	case draw < 100: // several tiles
		s.lq = length(r, 40)
	case draw < 150: // the dimensions of models
		s.d, s.dv = length(r, 99), length(r, 99)
	case draw < 160: // a whole block for rows and columns enough for the fused kernel
		s.lq, s.lk, s.dv = fusedRows+r.IntN(20), Block+r.IntN(2*Block), fusedCols+r.IntN(20)
	}
	return s
}
