package attn

import (
	"fmt"
	"testing"
)

// The fuzzer's bytes are spent as random numbers: first on sizes, strides and
// kinds of values, then on the values themselves.

// seedInputs makes the normal test run try some cases of every target.
func seedInputs(f *testing.F) {
	r := random(f.Name())
	f.Add([]byte{})
	for _, n := range []int{8, 64, 1000, 4000} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(data)
	}
	f.Add(make([]byte, 1000))
}

// fuzzKernel compares one kernel of kernel_test.go with its generic twin.
func fuzzKernel(f *testing.F, name string) {
	var k *kernelTest
	for i := range kernels {
		if kernels[i].name == name {
			k = &kernels[i]
		}
	}
	seedInputs(f)
	operands := new(arena)
	f.Cleanup(operands.free)
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &trial{Rand: randomFrom(data), arena: operands}
		n := make([]int, len(k.dims))
		for i := range n {
			n[i] = k.dims[i].pick(c, k.dims[i].hi)
		}
		k.check(t, c, n)
	})
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
		r := randomFrom(data)
		p := randomProblemOf(r, distribution(r.IntN(int(distributions))), moderate/30)
		use(t, chosen)
		got := p.solve(t, Attend)
		one := selection{[]int{r.IntN(p.q.B)}, []int{r.IntN(p.q.H)}, r.IntN(p.q.L), 1}
		part := p.part(one)
		part.same(t, fmt.Sprintf("row %+v of %s", one, p.describe()), part.solve(t, Attend), one.of(p, got))
		for _, way := range ways {
			p.same(t, "scattered, "+way.name, p.solveScattered(t, r, operands, way.attend), got)
		}
		use(t, generic)
		p.same(t, chosen.String(), got, p.solve(t, Attend))
	})
}
