package attn

import (
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
)

// FuzzAttend composes all options: strides, implementation and the way it is
// computed must not change a bit, and a row must not depend on its neighbours.
func FuzzAttend(f *testing.F) {
	seedInputs(f)
	operands := new(kerneltest.Arena)
	f.Cleanup(operands.Free)
	f.Fuzz(func(t *testing.T, data []byte) {
		t.Cleanup(func() { tuned = chosen })
		r := randomFrom(data)
		p := problemOf(r, distribution(r.IntN(int(distributions))), fewRowsAndKeys(r))
		got := p.solve(t, Attend)
		one := selection{[]int{r.IntN(p.q.B)}, []int{r.IntN(p.q.H)}, r.IntN(p.q.L), 1}
		part := p.part(one)
		part.same(t, "one row", part.solve(t, Attend), one.of(p, got))
		anyTuning(t, r)
		for _, way := range ways {
			p.same(t, way.name, p.solveStrided(t, r, operands, way.attend), got)
		}
		for _, i := range implementations()[1:] {
			switchTo(i)
			p.same(t, chosen.ISA.String(), got, p.solve(t, Attend))
		}
	})
}

// Passes over slices: assembly against the generic code.

// fuzzKernel compares one kernel of kernel_test.go with its generic twin.
func fuzzKernel(f *testing.F, name string) {
	kerneltest.FuzzOneOf(f, passTests, name)
}

func FuzzDot(f *testing.F)         { fuzzKernel(f, "dot") }
func FuzzAddProducts(f *testing.F) { fuzzKernel(f, "addProducts") }
func FuzzMaxOf(f *testing.F)       { fuzzKernel(f, "maxOf") }
func FuzzExp(f *testing.F)         { fuzzKernel(f, "exp") }
func FuzzExpSum(f *testing.F)      { fuzzKernel(f, "expSum") }
func FuzzSumExp(f *testing.F)      { fuzzKernel(f, "sumExp") }
