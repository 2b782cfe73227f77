package attn

import (
	"testing"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel"
)

// blockKernelTests has every kernel of kernel_blocks.go.
var blockKernelTests = []kernelTest{
	compare("multiplyBlocks", []dim{size("rows", 1, 30, 200), size("blocks", 1, 5, 40),
		size("type", 0, len(integerBlockTypes)-1, len(integerBlockTypes)-1)},
		func(c *trial, n []int) { tryMultiplyBlocks(c, integerBlockTypes[n[2]], n[0], n[1]) }),
	compare("decodeBlocks", []dim{size("blocks", 1, 20, 80),
		size("type", 0, len(integerBlockTypes)-1, len(integerBlockTypes)-1)},
		func(c *trial, n []int) { tryDecodeBlocks(c, integerBlockTypes[n[1]], n[0]) }),
	compare("sumBlocks", []dim{size("blocks", 1, 70, 300)}, func(c *trial, n []int) {
		trySumBlocks(c,
			n[0])
	}),
}

// drawBlockRows is n blockRows in guarded memory, of which all but the integers and scales is left
// to set.
func drawBlockRows(c *trial, n int) (write, read []blockRow) {
	of := func(x []float32) []blockRow {
		return unsafe.Slice((*blockRow)(unsafe.Pointer(unsafe.SliceData(x))), n)
	}
	x, y := c.Place(n * blockRowSize / 4)
	write, read = of(x), of(y)
	for i := range write {
		for k := range write[i].integers {
			write[i].integers[k] = int8(c.IntN(255) - 127)
		}
		write[i].scale = float32(c.NormFloat64())
	}
	return write, read
}

// multiplyBlocks takes blocks of any bits, whose scales may be no numbers.
func tryMultiplyBlocks(c *trial, t BlockType, rows, n int) {
	c.AnyIntegers()
	of := t.traits()
	n *= of.inputs / blockInputs
	aStride, oStride := n+c.IntN(3), panel+c.IntN(9)
	write, a := drawBlockRows(c, (rows-1)*aStride+n)
	for i := range write {
		sumBlocksGeneric(write[i:i+1], []float32{write[i].scale})
	}
	panels := 1 + c.IntN(blockPanels)
	oStride += (panels - 1) * panel
	size := n * blockInputs / of.inputs * of.packed
	packed := c.TypedInput(kernel.I8, panels*size)
	got, want := c.Results((rows-1)*oStride + panels*panel)
	multiplyBlocks(t, got, a, packed, panels, rows, n, oStride, aStride, new(blockMemory))
	for p := range panels {
		multiplyBlocksGeneric(t, want[p*panel:], a, packed[p*size:], rows, n, oStride, aStride)
	}
}

// decodeBlocks takes blocks of any bits, whose scales may be no numbers.
func tryDecodeBlocks(c *trial, t BlockType, n int) {
	of := t.traits()
	packed := c.TypedInput(kernel.I8, n*of.packed)
	got, want := c.Results(n * of.inputs * panel)
	n *= of.inputs / blockInputs
	decodeBlocks(t, got, packed, n, new(blockMemory))
	decodeBlocksGeneric(t, want, packed, n)
}

func trySumBlocks(c *trial, n int) {
	dst, _ := drawBlockRows(c, n)
	want := append([]blockRow(nil), dst...)
	scales := c.Factors(n)
	sumBlocks(dst, scales)
	sumBlocksGeneric(want, scales)
	for i := range dst {
		if got := dst[i]; got.integers != want[i].integers || got.start != want[i].start ||
			got.halves != want[i].halves || got.sum != want[i].sum || got.below != want[i].below ||
			got.eighths != want[i].eighths || !sameBits(got.scale, want[i].scale) {
			c.Wrong("row %d is %+v, generic %+v", i, got, want[i])
		}
	}
}

// Kernels over blocks give the bits of the generic code, and touch nothing outside their operands.
func TestBlockKernelsEqualGeneric(t *testing.T) { equalGeneric(t, blockKernelTests, false) }

func FuzzMultiplyBlocks(f *testing.F) { fuzzKernel(f, "multiplyBlocks") }
func FuzzDecodeBlocks(f *testing.F)   { fuzzKernel(f, "decodeBlocks") }
func FuzzSumBlocks(f *testing.F)      { fuzzKernel(f, "sumBlocks") }

// Integers at their bounds: no sum of a kernel overflows.
func TestBlockKernelsAtBounds(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, typ := range integerBlockTypes {
			of := typ.traits()
			packed := make([]byte, of.packed)
			n := of.inputs / blockInputs
			for _, fill := range []byte{0, 0x7f, 0x80, 0xff} {
				for i := range packed {
					packed[i] = fill
				}
				a := make([]blockRow, n)
				for _, e := range []int8{-127, 127} {
					for i := range a {
						for k := range a[i].integers {
							a[i].integers[k] = e
						}
						sumBlocksGeneric(a[i:i+1], []float32{1})
					}
					var got, want [panel]float32
					multiplyBlocks(typ, got[:], a, packed, 1, 1, n, panel, n, new(blockMemory))
					multiplyBlocksGeneric(typ, want[:], a, packed, 1, n, panel, n)
					mustEqualBits(t, typ.String(), got[:], want[:])
				}
			}
		}
	})
}
