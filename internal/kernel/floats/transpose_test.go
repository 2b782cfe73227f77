package floats

import (
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
)

func FuzzTransposeFloats(f *testing.F) { fuzzKernel(f, "transposeFloats") }

func FuzzTransposeHalves(f *testing.F) { fuzzKernel(f, "transposeHalves") }

func FuzzTransposeGroups(f *testing.F) { fuzzKernel(f, "transposeGroups") }

// transposeKernelTests has every kernel that transposes.
var transposeKernelTests = []kerneltest.KernelTest{
	kerneltest.Compare("transposeFloats", transposeDims, func(c *kerneltest.Trial, n []int) {
		d := n[0] + n[1]
		k := c.Input(kernel.RoundUp(n[2], kernel.Panel) * d)
		got, want := c.Results(kernel.Block * kernel.RoundUp(n[0], kernel.Panel))
		TransposeFloats(kerneltest.Tuned.ISA, got, k, d, n[0], n[2])
		transposeGeneric(want, k, d, n[0], n[2])
	}),
	kerneltest.Compare("transposeHalves", transposeDims, func(c *kerneltest.Trial, n []int) {
		d := n[0] + n[1]
		k := kernel.Elements[uint16](c.TypedInput(kernel.F16, kernel.RoundUp(n[2], kernel.Panel)*d))
		got, want := c.Results(kernel.Block / 2 * kernel.RoundUp(n[0], kernel.Panel))
		TransposeHalves(kerneltest.Tuned.ISA, kernel.Elements[uint16](kerneltest.BytesIn(got)), k, d,
			n[0], n[2])
		transposeGeneric(kernel.Elements[uint16](kerneltest.BytesIn(want)), k, d, n[0], n[2])
	}),
	kerneltest.Compare("transposeGroups", transposeDims, func(c *kerneltest.Trial, n []int) {
		d, width := n[0]+n[1], kernel.RoundUp(n[0], kernel.Panel)
		row := kernel.RoundUp(d, 4) * kernel.Panel
		k := c.TypedInput(kernel.I8, kernel.RoundUp(n[2], kernel.Panel)/kernel.Panel*row)
		got, want := c.Results(kernel.Block / 4 * width)
		TransposeGroups(kerneltest.Tuned.ISA, kerneltest.BytesIn(got), k, d, n[0], width, n[2])
		for j := 0; j < n[2]; j += kernel.Panel {
			transposeGroupsGeneric(kerneltest.BytesIn(want)[j*width:], k[j/kernel.Panel*row:], 0, n[0],
				width)
		}
	}),
}

var transposeDims = []kerneltest.Dim{kerneltest.Size("cols", 1, 5*kernel.Panel, 600),
	kerneltest.Size("more", 0, 20, 100),
	kerneltest.Size("keys", 1, kernel.Block, kernel.Block)}

// Kernels that transpose keys to values give the bits of the generic code, and touch nothing
// outside their operands.
func TestTransposeKernelsEqualGeneric(t *testing.T) {
	kerneltest.EqualGeneric(t, transposeKernelTests, false)
}
