package attn

import (
	"testing"
)

// passTests has every pass over slices.
var passTests = []kernelTest{
	compare("dot", vectorDims, func(c *trial, n []int) {
		a, b := c.Input(n[0]), c.Input(n[0])
		c.Equal("dot", dot(a, b), dotGeneric(a, b))
	}),
	compare("addProducts", vectorDims, func(c *trial, n []int) {
		a, b := c.Input(n[0]), c.Input(n[0])
		s, sWant := c.Results(64)
		addProducts((*[64]float32)(s), a, b)
		addProductsGeneric((*[64]float32)(sWant), a, b)
	}),
	compare("maxOf", vectorDims, func(c *trial, n []int) {
		x := c.Input(n[0])
		c.Equal("max", maxOf(x), maxOfGeneric(x))
	}),
	compare("exp", vectorDims, func(c *trial, n []int) {
		got, want := c.Results(n[0])
		if c.IntN(2) == 0 { // in place
			exp(got, got)
			expGeneric(want, want)
			return
		}
		x := c.InputOf(n[0], c.Exponents())
		exp(got, x)
		expGeneric(want, x)
	}),
	compare("expSum", vectorDims, func(c *trial, n []int) {
		got, want := c.Results(n[0])
		top := c.Kind.Draw(c.Rand)
		if c.IntN(2) == 0 { // in place
			sum := expSum(got, got, top)
			c.Equal("sum", sum, expSumGeneric(want, want, top))
			return
		}
		x := c.InputOf(n[0], c.Exponents())
		sum := expSum(got, x, top)
		c.Equal("sum", sum, expSumGeneric(want, x, top))
	}),
	compare("sumExp", vectorDims, func(c *trial, n []int) {
		x, top := c.InputOf(n[0], c.Exponents()), c.Kind.Draw(c.Rand)
		c.Equal("sum", sumExp(x, top), sumExpGeneric(x, top))
	}),
}

// Passes over slices give the bits of the generic code, and touch nothing outside their operands.
func TestPassesEqualGeneric(t *testing.T) {
	equalGeneric(t, passTests, true)
}
