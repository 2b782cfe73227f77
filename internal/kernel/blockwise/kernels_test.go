package blockwise

import (
	"math"
	"testing"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/blocks/blockstest"
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/kernel/pairs"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// kernelTests has every kernel.
var kernelTests = []kerneltest.KernelTest{
	kerneltest.Compare("multiplyBlocks", []kerneltest.Dim{kerneltest.Size("rows", 1, 30, 200),
		kerneltest.Size("blocks", 1, 5, 40), typeDim},
		func(c *kerneltest.Trial, n []int) { tryMultiplyBlocks(c, blockstest.Types[n[2]], n[0], n[1]) }),
	kerneltest.Compare("multiplyFew", fewDims,
		func(c *kerneltest.Trial, n []int) { tryMultiplyFew(c, blockstest.Types[n[2]], n[0], n[1]) }),
	kerneltest.Compare("decodeBlocks", []kerneltest.Dim{kerneltest.Size("blocks", 1, 20, 80), typeDim},
		func(c *kerneltest.Trial, n []int) { tryDecodeBlocks(c, blockstest.Types[n[1]], n[0]) }),
	kerneltest.Compare("decodePairs", []kerneltest.Dim{kerneltest.Size("blocks", 1, 20, 80), typeDim},
		func(c *kerneltest.Trial, n []int) { tryDecodePairs(c, blockstest.Types[n[1]], n[0]) }),
	kerneltest.Compare("multiplyRounded", roundedDims,
		func(c *kerneltest.Trial, n []int) { tryMultiplyRounded(c, blockstest.Types[n[2]], n[0], n[1]) }),
	kerneltest.Compare("sumBlocks", []kerneltest.Dim{kerneltest.Size("blocks", 1, 70, 300)},
		func(c *kerneltest.Trial, n []int) { trySumBlocks(c, n[0]) }),
}

var fewDims = []kerneltest.Dim{kerneltest.Size("rows", 1, fewRows, fewRows),
	kerneltest.Size("blocks", 1, 5, 40), typeDim}

var roundedDims = []kerneltest.Dim{kerneltest.Size("rows", 1, 9, 9),
	kerneltest.Size("blocks", 1, 5, 40), typeDim}

var typeDim = kerneltest.Size("type", 0, len(blockstest.Types)-1, len(blockstest.Types)-1)

// drawRows is n rows in guarded memory, of which all but the integers and scales is left to set.
func drawRows(c *kerneltest.Trial, n int) (write, read []Row) {
	of := func(x []float32) []Row {
		return unsafe.Slice((*Row)(unsafe.Pointer(unsafe.SliceData(x))), n)
	}
	x, y := c.Place(n * rowSize / 4)
	write, read = of(x), of(y)
	for i := range write {
		for k := range write[i].integers {
			write[i].integers[k] = int8(c.IntN(255) - 127)
		}
		write[i].scale = float32(c.NormFloat64())
	}
	return write, read
}

// tryMultiplyBlocks takes blocks of any bits, whose scales may be no numbers.
func tryMultiplyBlocks(c *kerneltest.Trial, t blocks.Type, rows, n int) {
	c.AnyIntegers()
	of := t.Traits()
	n *= of.Inputs / blocks.Inputs
	aStride, oStride := n+c.IntN(3), panel+c.IntN(9)
	write, a := drawRows(c, (rows-1)*aStride+n)
	for i := range write {
		sumBlocksGeneric(write[i:i+1], []float32{write[i].scale})
	}
	panels := 1 + c.IntN(max(2, PanelsFor(kerneltest.Tuned, t, rows)))
	oStride += (panels - 1) * panel
	size := n * blocks.Inputs / of.Inputs * of.Packed
	packed := c.TypedInput(kernel.I8, panels*size)
	got, want := c.Results((rows-1)*oStride + panels*panel)
	x := Product{t, got, a, packed, rows, panels, n, oStride, aStride}
	Multiply(kerneltest.Tuned, &x, new(Memory))
	x.O = want
	multiplyBlocksGeneric(&x)
}

// tryMultiplyFew likewise.
func tryMultiplyFew(c *kerneltest.Trial, t blocks.Type, rows, n int) {
	c.AnyIntegers()
	checkMultiplyFew(c, t, rows, n)
}

func checkMultiplyFew(c *kerneltest.Trial, t blocks.Type, rows, n int) {
	if !Few(kerneltest.Tuned, t, rows) {
		return
	}
	of := t.Traits()
	n *= of.Inputs / blocks.Inputs
	aStride := n + c.IntN(3)
	write, a := drawRows(c, (rows-1)*aStride+n)
	for i := range write {
		sumBlocksGeneric(write[i:i+1], []float32{write[i].scale})
	}
	panels := 1 + c.IntN(5)
	oStride := panels*panel + c.IntN(9)
	size := n * blocks.Inputs / of.Inputs * of.Packed
	packed := c.TypedInput(kernel.I8, panels*size)
	got, want := c.Results((rows-1)*oStride + panels*panel)
	x := Product{t, got, a, packed, rows, panels, n, oStride, aStride}
	MultiplyFew(kerneltest.Tuned, &x, packed[:c.IntN(2)])
	x.O = want
	multiplyBlocksGeneric(&x)
}

// tryMultiplyRounded draws blocks as they are in files, whose scales are finite.
func tryMultiplyRounded(c *kerneltest.Trial, t blocks.Type, rows, n int) {
	if !HasRounded(kerneltest.Tuned.ISA, t) {
		return
	}
	panels := 1 + c.IntN(5)
	packed := placeBlocks(c, t, panels, n)
	n *= t.Traits().Inputs / blocks.Inputs
	aStride, oStride := n*blocks.Inputs+c.IntN(3), panels*panel+c.IntN(9)
	write, a := c.Place((rows-1)*aStride + n*blocks.Inputs)
	c.Fill(c.Kind, write)
	pairs.Round(tuning.Generic, write, write)
	got, want := c.Results((rows-1)*oStride + panels*panel)
	x := Rounded{t, got, a, packed, rows, panels, n, oStride, aStride}
	MultiplyRounded(kerneltest.Tuned, &x)
	x.O = want
	multiplyRoundedGeneric(&x)
}

// tryDecodeBlocks takes blocks of any bits, whose scales may be no numbers.
func tryDecodeBlocks(c *kerneltest.Trial, t blocks.Type, n int) {
	of := t.Traits()
	packed := c.TypedInput(kernel.I8, n*of.Packed)
	got, want := c.Results(n * of.Inputs * panel)
	n *= of.Inputs / blocks.Inputs
	Decode(kerneltest.Tuned.ISA, t, got, packed, n, new(Memory))
	decodeBlocksGeneric(t, want, packed, n)
}

// placeBlocks is panels of n blocks in guarded memory, as they are in files, with finite scales.
func placeBlocks(c *kerneltest.Trial, t blocks.Type, panels, n int) []byte {
	of := t.Traits()
	write, read := c.Place(panels * n * of.Packed / 4)
	packed, size := kernel.RawBytes(write), n*of.Packed
	for p := range panels {
		file := blockstest.File(c.Rand, t, panel, n*of.Inputs)
		blocks.Pack(t, packed[p*size:][:size], file, panel)
	}
	return kernel.RawBytes(read)
}

// tryDecodePairs compares numbers: zeros have any sign, which no sum shows.
func tryDecodePairs(c *kerneltest.Trial, t blocks.Type, n int) {
	of := t.Traits()
	packed := placeBlocks(c, t, 1, n)
	size := n * of.Inputs * panel
	dst, _ := c.Place(size / 2)
	n *= of.Inputs / blocks.Inputs
	got, want := kernel.Elements[uint16](kernel.RawBytes(dst)), make([]uint16, size)
	DecodePairs(kerneltest.Tuned.ISA, t, got, packed, n, new(Memory))
	decodePairsGeneric(t, want, packed, n, make([]float32, size))
	for i, e := range want {
		if x, y := f32.FromBF16(got[i]), f32.FromBF16(e); x != y {
			c.Wrong("%v: number %d is %x, generic %x", t, i, x, y)
			break
		}
	}
}

func trySumBlocks(c *kerneltest.Trial, n int) {
	dst, _ := drawRows(c, n)
	want := append([]Row(nil), dst...)
	scales := c.Factors(n)
	sumRows(kerneltest.Tuned, dst, scales)
	sumBlocksGeneric(want, scales)
	for i := range dst {
		if got := dst[i]; got.integers != want[i].integers || got.start != want[i].start ||
			got.halves != want[i].halves || got.sum != want[i].sum ||
			got.eighths != want[i].eighths || !kerneltest.SameBits(got.scale, want[i].scale) {
			c.Wrong("row %d is %+v, generic %+v", i, got, want[i])
		}
	}
}

// Kernels over blocks give the bits of the generic code, and touch nothing outside their operands.
func TestKernelsEqualGeneric(t *testing.T) { kerneltest.EqualGeneric(t, kernelTests, false) }

func FuzzMultiplyBlocks(f *testing.F) { kerneltest.FuzzOneOf(f, kernelTests, "multiplyBlocks") }
func FuzzMultiplyFew(f *testing.F)    { kerneltest.FuzzOneOf(f, kernelTests, "multiplyFew") }
func FuzzDecodeBlocks(f *testing.F)   { kerneltest.FuzzOneOf(f, kernelTests, "decodeBlocks") }
func FuzzDecodePairs(f *testing.F)    { kerneltest.FuzzOneOf(f, kernelTests, "decodePairs") }
func FuzzMultiplyRounded(f *testing.F) {
	kerneltest.FuzzOneOf(f, kernelTests, "multiplyRounded")
}
func FuzzSumBlocks(f *testing.F) { kerneltest.FuzzOneOf(f, kernelTests, "sumBlocks") }

// Each type has kernels of its own, for some rows at a time. They go on where more inputs follow
// than a call takes.
func TestMultiplyFewOfEachType(t *testing.T) {
	few := kerneltest.Compare("multiplyFew", fewDims, func(c *kerneltest.Trial, n []int) {
		kerneltest.Tuned.DotProduct = tuning.HasDotProduct(kerneltest.Tuned.ISA)
		checkMultiplyFew(c, blockstest.Types[n[2]], n[0], n[1])
	})
	kerneltest.ForEach(t, func(t *testing.T) {
		c := kerneltest.NewTrial(t, kerneltest.Random(t.Name()))
		for i, typ := range blockstest.Types {
			for rows := 1; rows <= 8; rows++ {
				few.Check(t, c, []int{rows, 2, i})
			}
			more := fewBlocks/(typ.Traits().Inputs/blocks.Inputs) + 1
			for _, rows := range []int{1, 2, 4} {
				few.Check(t, c, []int{rows, more, i})
			}
		}
	})
}

// So do products in bfloat16.
func TestMultiplyRoundedOfEachType(t *testing.T) {
	rounded := kerneltest.Compare("multiplyRounded", roundedDims, func(c *kerneltest.Trial, n []int) {
		tryMultiplyRounded(c, blockstest.Types[n[2]], n[0], n[1])
	})
	kerneltest.ForEach(t, func(t *testing.T) {
		c := kerneltest.NewTrial(t, kerneltest.Random(t.Name()))
		for i, typ := range blockstest.Types {
			for rows := 1; rows <= 9; rows++ {
				rounded.Check(t, c, []int{rows, 2, i})
			}
			more := 256/(typ.Traits().Inputs/blocks.Inputs) + 1
			for _, rows := range []int{1, 4} {
				rounded.Check(t, c, []int{rows, more, i})
			}
		}
	})
}

// Kernels round to bfloat16 by two operations. They are right for every fraction.
func TestRoundingByTwoOperations(t *testing.T) {
	step := uint32(1)
	if testing.Short() {
		step = 13
	}
	for bits := math.Float32bits(1); bits < math.Float32bits(2); bits += step {
		x := math.Float32frombits(bits)
		p := x * 0x1p16
		if got := p - float32(p*(1-0x1p-16)); got != f32.FromBF16(f32.FlushedBF16(x)) {
			t.Fatalf("%x becomes %x", x, got)
		}
	}
}

// Types of most files have kernels of few rows wherever there are products in integers.
func TestFew(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		cpu := kerneltest.Tuned
		cpu.DotProduct = tuning.HasDotProduct(cpu.ISA)
		has := cpu.ISA.Integers() || cpu.ISA == tuning.NEON && cpu.DotProduct
		for _, typ := range []blocks.Type{blocks.Q8_0, blocks.Q4_0, blocks.IQ4_NL, blocks.Q4_K,
			blocks.Q5_K, blocks.Q6_K, blocks.MXFP4, blocks.Q4_1, blocks.Q5_0, blocks.Q5_1,
			blocks.Q3_K, blocks.IQ4_XS} {
			for _, rows := range []int{1, fewRows, fewRows + 1} {
				if got, want := Few(cpu, typ, rows), has && rows <= fewRows; got != want {
					t.Errorf("%v, %d rows: %v, want %v", typ, rows, got, want)
				}
			}
		}
		if !Few(cpu, blocks.IQ2_XS, 1) && cpu.ISA.Integers() {
			t.Error("one row by IQ2_XS has no kernel")
		}
	})
}

// Integers at their bounds: no sum of a kernel overflows.
func TestKernelsAtBounds(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		for _, typ := range blockstest.Types {
			of := typ.Traits()
			packed := make([]byte, of.Packed)
			n := of.Inputs / blocks.Inputs
			for _, fill := range []byte{0, 0x7f, 0x80, 0xff} {
				for i := range packed {
					packed[i] = fill
				}
				a := make([]Row, n)
				for _, e := range []int8{-127, 127} {
					for i := range a {
						for k := range a[i].integers {
							a[i].integers[k] = e
						}
						sumBlocksGeneric(a[i:i+1], []float32{1})
					}
					var got, want [panel]float32
					x := Product{typ, got[:], a, packed, 1, 1, n, panel, n}
					Multiply(kerneltest.Tuned, &x, new(Memory))
					x.O = want[:]
					multiplyBlocksGeneric(&x)
					kerneltest.MustEqualBits(t, typ.String(), got[:], want[:])
				}
			}
		}
	})
}

// Packed blocks decode as ggml decodes the blocks that they were made of.
func checkDecoding(t testing.TB, typ blocks.Type, block []byte, output int) {
	of := typ.Traits()
	packed, file := make([]byte, of.Packed), make([]byte, panel*of.Bytes)
	copy(file[output*of.Bytes:], block)
	if !blocks.Pack(typ, packed, file[:(output+1)*of.Bytes], output+1) {
		return
	}
	floats := make([]float32, of.Inputs*panel)
	Decode(kerneltest.Tuned.ISA, typ, floats, packed, of.Inputs/blocks.Inputs, new(Memory))
	for i, e := range blockstest.WeightsOf(typ, block) {
		if got := floats[i*panel+output]; !kerneltest.SameBits(got, float32(e.Value())) {
			t.Fatalf("%v: weight %d of block %x is %v, want %v", typ, i, block, got, e.Value())
		}
	}
}

func TestDecoding(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		blockstest.AnyBlocks(kerneltest.Random(t.Name()), kerneltest.Budget(2000),
			func(typ blocks.Type, block []byte, output int) { checkDecoding(t, typ, block, output) })
	})
}

func FuzzDecoding(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte, which, output uint8) {
		typ := blockstest.Types[int(which)%len(blockstest.Types)]
		block := make([]byte, typ.Traits().Bytes)
		copy(block, data)
		checkDecoding(t, typ, block, int(output)%panel)
	})
}
