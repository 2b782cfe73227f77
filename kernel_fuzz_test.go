package attn

import (
	"math/bits"
	"slices"
	"testing"
)

// fuzzKernel compares one kernel of kernel_test.go with its generic twin.
func fuzzKernel(f *testing.F, name string) {
	all := slices.Concat(kernelTests, typedKernelTests, transposeKernelTests, int8KernelTests,
		int4KernelTests)
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

func FuzzAccumulateF16(f *testing.F)   { fuzzKernel(f, "accumulateF16") }
func FuzzAccumulateBF16(f *testing.F)  { fuzzKernel(f, "accumulateBF16") }
func FuzzAccumulateI8(f *testing.F)    { fuzzKernel(f, "accumulateI8") }
func FuzzWidenF16(f *testing.F)        { fuzzKernel(f, "widenF16") }
func FuzzWidenBF16(f *testing.F)       { fuzzKernel(f, "widenBF16") }
func FuzzWidenI8(f *testing.F)         { fuzzKernel(f, "widenI8") }
func FuzzNarrowF16(f *testing.F)       { fuzzKernel(f, "narrowF16") }
func FuzzNarrowBF16(f *testing.F)      { fuzzKernel(f, "narrowBF16") }
func FuzzLargest(f *testing.F)         { fuzzKernel(f, "largest") }
func FuzzQuantize(f *testing.F)        { fuzzKernel(f, "quantize") }
func FuzzScaleColumns(f *testing.F)    { fuzzKernel(f, "scaleColumns") }
func FuzzRotate(f *testing.F)          { fuzzKernel(f, "rotate") }
func FuzzTransposeFloats(f *testing.F) { fuzzKernel(f, "transposeFloats") }
func FuzzTransposeHalves(f *testing.F) { fuzzKernel(f, "transposeHalves") }
func FuzzTransposeGroups(f *testing.F) { fuzzKernel(f, "transposeGroups") }
