package attn

import "testing"

// transposeKernelTests has every kernel of kernel_transpose.go.
var transposeKernelTests = []kernelTest{
	{"transposeFloats", transposeDims, func(c *trial, n []int) {
		d := n[0] + n[1]
		k := c.input(roundUp(n[2], panel) * d)
		got, want := c.output(Block * roundUp(n[0], panel))
		transposeFloats(got, k, d, n[0], n[2])
		transposeGeneric(want, k, d, n[0], n[2])
	}},
	{"transposeHalves", transposeDims, func(c *trial, n []int) {
		d := n[0] + n[1]
		k := elements[uint16](c.typedInput(F16, roundUp(n[2], panel)*d))
		got, want := c.output(Block / 2 * roundUp(n[0], panel))
		transposeHalves(elements[uint16](bytesIn(got)), k, d, n[0], n[2])
		transposeGeneric(elements[uint16](bytesIn(want)), k, d, n[0], n[2])
	}},
	{"transposeGroups", transposeDims, func(c *trial, n []int) {
		d, width := n[0]+n[1], roundUp(n[0], panel)
		row := roundUp(d, 4) * panel
		k := c.typedInput(I8, roundUp(n[2], panel)/panel*row)
		got, want := c.output(Block / 4 * width)
		transposeGroups(bytesIn(got), k, d, n[0], width, n[2])
		for j := 0; j < n[2]; j += panel {
			transposeGroupsGeneric(bytesIn(want)[j*width:], k[j/panel*row:], 0, n[0], width)
		}
	}},
}

var transposeDims = []dim{size("cols", 1, 5*panel, 600), size("more", 0, 20, 100),
	size("keys", 1, Block, Block)}

// Kernels that transpose keys to values give the bits of the generic code, and touch nothing
// outside their operands.
func TestTransposeKernelsEqualGeneric(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for i := range transposeKernelTests {
			k := &transposeKernelTests[i]
			t.Run(k.name, func(t *testing.T) {
				c := newTrial(t, random(k.name))
				k.sweep(t, c)
				k.large(t, c)
			})
		}
	})
}
