package attn

import (
	"fmt"
	"math"
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

// FuzzFormula compares attention with its formula in float64, softmax(QKᵀ/√D)V with any options:
// each output, log-sum-exp and weight differs by at most what its roundings can add up to.
func FuzzFormula(f *testing.F) {
	seedInputs(f)
	r := random(f.Name() + ", problems")
	for range 200 { // so that the normal test run tries all options
		f.Add(kerneltest.AnyBytes(r, 64))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		t.Cleanup(func() { tuned = chosen })
		r := randomFrom(data)
		p := problemOf(r, []distribution{normal, coarse, zeroes}[r.IntN(3)], fewRowsAndKeys(r))
		for _, i := range implementations() {
			switchTo(i)
			p.mustBeTheFormula(t, p.solve(t, Attend))
		}
	})
}

// mustBeTheFormula fails the test unless a result is that of the definition in float64, but for
// roundings.
func (p *problem) mustBeTheFormula(t *testing.T, got *result) {
	c := p.reference()
	want := c.Float64()
	within := func(what string, got float32, want, bound float64) {
		if d := math.Abs(float64(got) - want); d > bound || (d != d && float64(got) != want) {
			t.Helper()
			t.Fatalf("%s is %v, want %v ± %v: %s", what, got, want, bound, p.describe())
		}
	}
	for row := range c.B * c.H * c.Lq {
		b, h, i := row/c.Lq/c.H, row/c.Lq%c.H, row%c.Lq
		scores, relative := c.RoundingsOf(b, h, i)
		at := fmt.Sprintf(" of batch entry %d, head %d, query %d", b, h, i)
		within("LSE"+at, got.lse[row], want.LSE[row], scores)
		weights := want.Weights[row*c.Lk:][:c.Lk]
		for j, w := range weights {
			within(fmt.Sprint("weight ", j, at), got.weights[row*c.Lk+j], w, relative*w+flushed)
		}
		for x := range c.Dv {
			var size float64
			for j, w := range weights {
				size += (w + flushed) * math.Abs(float64(p.v.row(b, h*c.KVH/c.H, j)[x]))
			}
			within(fmt.Sprint("element ", x, at), got.o[row*c.Dv+x], want.O[row*c.Dv+x],
				relative*size+flushed)
		}
	}
}

// flushed is more than what is lost where weights below 2⁻¹²⁶ become zero.
const flushed = 0x1p-120

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
