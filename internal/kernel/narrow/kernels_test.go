package narrow

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/int4"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/memory"
)

// kernelTests has every kernel of kernel_typed.go.
var kernelTests = []kerneltest.KernelTest{
	kerneltest.Compare("accumulateF16", typedDims, func(c *kerneltest.Trial,
		n []int) {
		tryAccumulateTyped(c, kernel.F16, n)
	}),
	kerneltest.Compare("accumulateBF16", typedDims, func(c *kerneltest.Trial,
		n []int) {
		tryAccumulateTyped(c, kernel.BF16, n)
	}),
	kerneltest.Compare("accumulateI8", typedDims, func(c *kerneltest.Trial,
		n []int) {
		tryAccumulateTyped(c, kernel.I8, n)
	}),
	kerneltest.Compare("widenF16", typedDims[1:], func(c *kerneltest.Trial, n []int) {
		tryWiden(c,
			kernel.F16, n)
	}),
	kerneltest.Compare("widenBF16", typedDims[1:], func(c *kerneltest.Trial, n []int) {
		tryWiden(c,
			kernel.BF16, n)
	}),
	kerneltest.Compare("widenI8", typedDims[1:], func(c *kerneltest.Trial, n []int) {
		tryWiden(c,
			kernel.I8, n)
	}),
	kerneltest.Compare("narrowF16", kerneltest.VectorDims, func(c *kerneltest.Trial,
		n []int) {
		tryNarrow(c, kernel.F16, n[0])
	}),
	kerneltest.Compare("narrowBF16", kerneltest.VectorDims, func(c *kerneltest.Trial,
		n []int) {
		tryNarrow(c, kernel.BF16, n[0])
	}),
	kerneltest.Compare("accumulateI4", []kerneltest.Dim{kerneltest.Size("rows", 1, int4.CodeRows,
		int4.CodeRows), kerneltest.Size("keys", 1, 70, 128),
		kerneltest.Multiples("cols", kernel.Panel, 19*kernel.Panel, 99*kernel.Panel, kernel.Panel)},
		func(c *kerneltest.Trial, n []int) { tryAccumulateI4(c, n[0], n[1], n[2]) }),
}

var typedDims = []kerneltest.Dim{kerneltest.Size("rows", 1, 12, 99), kerneltest.Size("keys", 1, 70,
	300),
	kerneltest.Multiples("cols", kernel.Panel, 9*kernel.Panel, 20*kernel.Panel, kernel.Panel)}

func tryAccumulateTyped(c *kerneltest.Trial, typ kernel.Format, n []int) {
	least := []int{2, math.MaxInt}[c.IntN(2)]
	kerneltest.Tuned.MinTypedRows16, kerneltest.Tuned.MinHalfRows16 = least, least
	rows, keys, cols := n[0], n[1], n[2]
	if c.IntN(16) == 0 {
		keys = []int{kernel.Block, 128, 96}[c.IntN(3)]
	}
	b, elements := c.AnyTypedLayout(kernel.Format(typ), keys, cols)
	v := c.TypedInput(kernel.Format(typ), elements)
	oStride, pStride := cols+c.IntN(9), keys+c.IntN(9)
	got, want := c.Results((rows-1)*oStride + cols)
	p := c.Input((rows-1)*pStride + keys)
	var alpha []float32
	if c.IntN(3) > 0 {
		alpha = c.Factors(rows)
	}
	Accumulate(kerneltest.Tuned, typ, kerneltest.Sums(got, p, alpha, rows, oStride, pStride), v, &b)
	accumulateTypedGeneric(typ, kerneltest.Sums(want, p, alpha, rows, oStride, pStride), v, &b)
}

func tryWiden(c *kerneltest.Trial, typ kernel.Format, n []int) {
	keys, cols := n[0], n[1]
	b, elements := c.AnyTypedLayout(kernel.Format(typ), keys, cols)
	v := c.TypedInput(kernel.Format(typ), elements)
	stride := (keys + c.IntN(3)) * kernel.Panel
	got, want := c.Results((cols/kernel.Panel-1)*stride + keys*kernel.Panel)
	Widen(kerneltest.Tuned.ISA, typ, got, v, stride, &b)
	for x := 0; x < cols; x += kernel.Panel {
		from := v[x/kernel.Panel*b.PanelStride*typ.Bytes():]
		widenGeneric(typ, want[x/kernel.Panel*stride:], from, keys, b.Stride)
	}
}

// narrow compares the bits of what is written, and of what must not be.
func tryNarrow(c *kerneltest.Trial, typ kernel.Format, n int) {
	x := c.Input(n)
	out, wantOut := c.ResultsOf((n+1)/2+c.IntN(9), kerneltest.Normal)
	got, want := kernel.Elements[uint16](kerneltest.BytesIn(out)),
		kernel.Elements[uint16](kerneltest.BytesIn(wantOut))
	Narrow(kerneltest.Tuned.ISA, typ, got[:n], x)
	narrowGeneric(typ, want[:n], x)
	for i := range want {
		if got[i] != want[i] {
			c.Wrong("element %d of %d is %#04x, generic %#04x", i, n, got[i], want[i])
		}
	}
	c.Outputs = c.Outputs[:0] // halves in pairs may look like a NaN
}

// Kernels over fewer bits, and those that make them, give the bits of the generic code, and touch
// nothing outside their operands.
func TestKernelsEqualGeneric(t *testing.T) { kerneltest.EqualGeneric(t, kernelTests, false) }

// Kernels of one row and two may take numbers of 8 bits 2²⁴ times as large as they are: sums that
// overflow only so, or on the way, that are subnormal, infinite or NaN have the bits of the generic
// code as well.
func TestSumsOfI8AtTheEndsOfFloat32(t *testing.T) {
	var special []float32
	for _, e := range []int{-149, -140, -127, -126, -110, -50, 0, 96, 100, 103, 104, 110, 120, 127} {
		special = append(special, float32(math.Ldexp(1, e)), -float32(math.Ldexp(1.25, e)))
	}
	special = append(special, 0, math.MaxFloat32, kernel.NegInf, -kernel.NegInf, float32(math.NaN()))
	const keys, cols, most = 61, 6 * kernel.Panel, 3
	b := kernel.PanelLayout{Keys: keys, Cols: cols, Stride: 4 * cols, PanelStride: 4 * kernel.Panel}
	kerneltest.ForEach(t, func(t *testing.T) {
		r := kerneltest.Random(t.Name())
		p, alpha := make([]float32, most*kernel.Block), make([]float32, most)
		got, want := make([]float32, most*cols), make([]float32, most*cols)
		v := make([]byte, kernel.RoundUp(keys, 4)*cols)
		for _, x := range special {
			for _, y := range special {
				rows := 1 + r.IntN(most)
				for i := range v {
					v[i] = byte(r.Uint32())
				}
				for i := range p {
					p[i] = []float32{x, x, x, y}[r.IntN(4)]
				}
				for i := range want {
					want[i] = []float32{0, 1, x, y}[r.IntN(4)]
				}
				for i := range alpha {
					alpha[i] = []float32{0, 1, 1. / 3, 1 << 24, y}[r.IntN(5)]
				}
				copy(got, want)
				b.Overwrite = r.IntN(3) == 0
				Accumulate(kerneltest.Tuned, kernel.I8,
					kerneltest.Sums(got, p, alpha, rows, cols, kernel.Block),
					v, &b)
				accumulateTypedGeneric(kernel.I8, kerneltest.Sums(want, p, alpha, rows, cols, kernel.Block),
					v, &b)
				if i := kerneltest.FirstDifference(got, want); i >= 0 {
					t.Fatalf("%d rows of %v and %v: output %d is %v, generic %v", rows, x, y, i, got[i],
						want[i])
				}
			}
		}
	})
}

// BenchmarkTyped reads keys and values as decoding does: for each block the products of some rows
// and its keys, then sums of its values. Each round goes through a buffer once, in order, and the
// rate is that of its bytes.
func BenchmarkTyped(b *testing.B) {
	for _, level := range []struct {
		name  string
		bytes int
	}{{"memory", 256 << 20}, {"L2", 256 << 10}} {
		b.Run(level.name, func(b *testing.B) { benchmarkTyped(b, level.bytes) })
	}
}

func benchmarkTyped(b *testing.B, size int) {
	memory, err := memory.Allocate(size)
	kerneltest.Must(b, err)
	buffer := memory.Floats()
	defer memory.Close()
	kerneltest.FillWith(buffer, 1)
	v := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(buffer))), size)
	pass := func(b *testing.B, block int, use func(at int)) {
		b.SetBytes(int64(size))
		for b.Loop() {
			for at := 0; at+2*block <= size; at += 2 * block {
				use(at)
			}
		}
	}
	b.Run("read", func(b *testing.B) {
		pass(b, 1<<14, func(at int) { floats.AllFinite(kerneltest.Tuned.ISA, buffer[at/4:][:1<<13]) })
	})
	const d = 128
	for _, rows := range []int{1, 2, 4, 8} {
		q, o, p, scores := make([]float32, rows*d), make([]float32, rows*d), make([]float32,
			rows*kernel.Block), make([]float32, rows*kernel.Block)
		var a kernel.PrefetchHint
		a.Set(kerneltest.Tuned, kerneltest.Tuned.PrefetchOne, kerneltest.Tuned.PrefetchFew, true)
		b.Run(fmt.Sprintf("rows=%d/F32", rows), func(b *testing.B) {
			l := kernel.PanelLayout{Keys: kernel.Block, Cols: d, Stride: kernel.Panel,
				PanelStride:  kernel.Block * kernel.Panel,
				PrefetchHint: a}
			var queue kernel.PrefetchQueue
			queue.Clear()
			queue.PrefetchHint = a
			pass(b, 4*kernel.Block*d, func(at int) {
				floats.Score(kerneltest.Tuned, scores, q, buffer[at/4:], rows, d, kernel.Block/kernel.Panel,
					&queue)
				floats.Accumulate(kerneltest.Tuned, kerneltest.Sums(o, p, nil, rows, d, kernel.Block),
					buffer[at/4+kernel.Block*d:], &l)
			})
		})
		for _, typ := range []kernel.Format{kernel.F16, kernel.BF16, kernel.I8} {
			b.Run(fmt.Sprintf("rows=%d/%v", rows, typ), func(b *testing.B) {
				keys := kernel.ScoreLayout(kernel.Format(typ), d, kernel.Block)
				values := kernel.PanelLayout{Keys: kernel.Block, Cols: d, Stride: kernel.Panel,
					PanelStride: kernel.Block * kernel.Panel}
				if typ == kernel.I8 {
					values.Stride, values.PanelStride = 4*d, 4*kernel.Panel
				}
				keys.PrefetchHint.SetTyped(kerneltest.Tuned, kernel.Format(typ), rows,
					d*kernel.Panel*typ.Bytes(), false)
				values.PrefetchHint = keys.PrefetchHint
				block := kernel.Block * d * typ.Bytes()
				pass(b, block, func(at int) {
					Accumulate(kerneltest.Tuned, typ, kerneltest.Sums(scores, q, nil, rows, kernel.Block, d),
						v[at:], &keys)
					Accumulate(kerneltest.Tuned, typ, kerneltest.Sums(o, p, nil, rows, d, kernel.Block),
						v[at+block:], &values)
				})
			})
		}
	}
}

func FuzzAccumulateF16(f *testing.F) { fuzzKernel(f, "accumulateF16") }

func FuzzAccumulateBF16(f *testing.F) { fuzzKernel(f, "accumulateBF16") }

func FuzzAccumulateI8(f *testing.F) { fuzzKernel(f, "accumulateI8") }

func FuzzWidenF16(f *testing.F) { fuzzKernel(f, "widenF16") }

func FuzzWidenBF16(f *testing.F) { fuzzKernel(f, "widenBF16") }

func FuzzWidenI8(f *testing.F) { fuzzKernel(f, "widenI8") }

func FuzzNarrowF16(f *testing.F) { fuzzKernel(f, "narrowF16") }

func FuzzNarrowBF16(f *testing.F) { fuzzKernel(f, "narrowBF16") }

func tryAccumulateI4(c *kerneltest.Trial, rows, keys, cols int) {
	if int4.RowsOfCodes(kerneltest.Tuned.ISA, false) == 0 {
		return // nobody calls it
	}
	b := kernel.PanelLayout{Keys: keys, Cols: cols, Stride: 4 * cols, PanelStride: 4 * kernel.Panel,
		Overwrite: c.IntN(2) == 0}
	v := c.TypedInput(kernel.I8, kernel.RoundUp(keys, 8)/2*cols)
	oStride, pStride := cols+c.IntN(9), keys+c.IntN(9)
	got, want := c.Results((rows-1)*oStride + cols)
	p := c.Factors((rows-1)*pStride + keys)
	var alpha []float32
	if c.IntN(2) == 0 {
		alpha = c.Factors(rows)
	}
	Accumulate(kerneltest.Tuned, kernel.I4, kerneltest.Sums(got, p, alpha, rows, oStride, pStride),
		v, &b)
	accumulateTypedGeneric(kernel.I4, kerneltest.Sums(want, p, alpha, rows, oStride, pStride), v, &b)
}

func FuzzAccumulateI4(f *testing.F) { fuzzKernel(f, "accumulateI4") }
