package attn

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// typedKernelTests has every kernel of kernel_typed.go.
var typedKernelTests = []kernelTest{
	compare("accumulateF16", typedDims, func(c *trial, n []int) { tryAccumulateTyped(c, F16, n) }),
	compare("accumulateBF16", typedDims, func(c *trial, n []int) { tryAccumulateTyped(c, BF16, n) }),
	compare("accumulateI8", typedDims, func(c *trial, n []int) { tryAccumulateTyped(c, I8, n) }),
	compare("widenF16", typedDims[1:], func(c *trial, n []int) { tryWiden(c, F16, n) }),
	compare("widenBF16", typedDims[1:], func(c *trial, n []int) { tryWiden(c, BF16, n) }),
	compare("widenI8", typedDims[1:], func(c *trial, n []int) { tryWiden(c, I8, n) }),
	compare("narrowF16", vectorDims, func(c *trial, n []int) { tryNarrow(c, F16, n[0]) }),
	compare("narrowBF16", vectorDims, func(c *trial, n []int) { tryNarrow(c, BF16, n[0]) }),
	compare("accumulateI4", []dim{size("rows", 1, codeRows, codeRows), size("keys", 1, 70, 128),
		multiples("cols", panel, 19*panel, 99*panel, panel)},
		func(c *trial, n []int) { tryAccumulateI4(c, n[0], n[1], n[2]) }),
}

var typedDims = []dim{size("rows", 1, 12, 99), size("keys", 1, 70, 300),
	multiples("cols", panel, 9*panel, 20*panel, panel)}

func tryAccumulateTyped(c *trial, typ Format, n []int) {
	tuned.MinTypedRows16 = []int{2, math.MaxInt}[c.IntN(2)]
	rows, keys, cols := n[0], n[1], n[2]
	if c.IntN(16) == 0 {
		keys = []int{Block, 128, 96}[c.IntN(3)]
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
	accumulateTyped(typ, got, p, v, alpha, rows, oStride, pStride, &b)
	accumulateTypedGeneric(typ, want, p, v, alpha, rows, oStride, pStride, &b)
}

func tryWiden(c *trial, typ Format, n []int) {
	keys, cols := n[0], n[1]
	b, elements := c.AnyTypedLayout(kernel.Format(typ), keys, cols)
	v := c.TypedInput(kernel.Format(typ), elements)
	stride := (keys + c.IntN(3)) * panel
	got, want := c.Results((cols/panel-1)*stride + keys*panel)
	widen(typ, got, v, stride, &b)
	for x := 0; x < cols; x += panel {
		from := v[x/panel*b.PanelStride*formats[typ].bytes:]
		widenGeneric(typ, want[x/panel*stride:], from, keys, b.Stride)
	}
}

// narrow compares the bits of what is written, and of what must not be.
func tryNarrow(c *trial, typ Format, n int) {
	x := c.Input(n)
	out, wantOut := c.ResultsOf((n+1)/2+c.IntN(9), normal)
	got, want := elements[uint16](kerneltest.BytesIn(out)),
		elements[uint16](kerneltest.BytesIn(wantOut))
	narrow(typ, got[:n], x)
	narrowGeneric(typ, want[:n], x)
	for i := range want {
		if got[i] != want[i] {
			c.Wrong("element %d of %d is %#04x, generic %#04x", i, n, got[i], want[i])
		}
	}
	c.Outputs = c.Outputs[:0] // halves in pairs may look like a NaN
}

// quantize takes elements that a scale suits.
func tryQuantize(c *trial, n int) {
	write, x := c.Place(n)
	c.Fill([]distribution{normal, zeroes, huge, tiny, coarse}[c.IntN(5)], write)
	for i, e := range write {
		if e-e != 0 {
			write[i] = 1
		}
	}
	scale := scaleOf(largestGeneric(x))
	out, wantOut := c.ResultsOf((n+3)/4+c.IntN(9), normal)
	got, want := elements[int8](kerneltest.BytesIn(out)),
		elements[int8](kerneltest.BytesIn(wantOut))
	quantize(got[:n], x, scale)
	quantizeGeneric(want[:n], x, scale)
	for i := range want {
		if got[i] != want[i] {
			c.Wrong("element %d of %d is %d, generic %d", i, n, got[i], want[i])
		}
	}
	c.Outputs = c.Outputs[:0]
}

// Kernels over fewer bits, and those that make them, give the bits of the generic code, and touch
// nothing outside their operands.
func TestTypedKernelsEqualGeneric(t *testing.T) { equalGeneric(t, typedKernelTests, false) }

// Kernels of one row and two may take numbers of 8 bits 2²⁴ times as large as they are: sums that
// overflow only so, or on the way, that are subnormal, infinite or NaN have the bits of the generic
// code as well.
func TestSumsOfI8AtTheEndsOfFloat32(t *testing.T) {
	var special []float32
	for _, e := range []int{-149, -140, -127, -126, -110, -50, 0, 96, 100, 103, 104, 110, 120, 127} {
		special = append(special, float32(math.Ldexp(1, e)), -float32(math.Ldexp(1.25, e)))
	}
	special = append(special, 0, math.MaxFloat32, negInf, -negInf, float32(math.NaN()))
	const keys, cols, most = 61, 6 * panel, 3
	b := kernel.PanelLayout{Keys: keys, Cols: cols, Stride: 4 * cols, PanelStride: 4 * panel}
	forEach(t, func(t *testing.T) {
		r := random(t.Name())
		p, alpha := make([]float32, most*Block), make([]float32, most)
		got, want := make([]float32, most*cols), make([]float32, most*cols)
		v := make([]byte, roundUp(keys, 4)*cols)
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
				accumulateTyped(I8, got, p, v, alpha, rows, cols, Block, &b)
				accumulateTypedGeneric(I8, want, p, v, alpha, rows, cols, Block, &b)
				if i := firstDifference(got, want); i >= 0 {
					t.Fatalf("%d rows of %v and %v: output %d is %v, generic %v", rows, x, y, i, got[i],
						want[i])
				}
			}
		}
	})
}

// What rows over fewer bits read is prefetched so far ahead that the last of the panels side by
// side has been requested before it is read, and values as far ahead as keys.
func TestTypedAhead(t *testing.T) {
	row := tuned
	row.PrefetchTyped, row.PrefetchScaled, row.MinTypedRows16, row.FourPanels = 4096, 8192, 2, false
	for _, c := range []struct {
		isa              tuning.ISA
		format           Format
		rows, side, want int
	}{
		{tuning.AVX512, F16, 1, 2, 4096 + 4096},
		{tuning.AVX512, F16, 2, 4, 4096 + 3*4096},
		{tuning.AVX512, BF16, 5, 2, 4096 + 4096},
		{tuning.AVX512, I8, 1, 4, 8192 + 3*2048},
		{tuning.AVX512, I4, 1, 4, 8192 + 3*1024},
		{tuning.AVX2, F16, 3, 2, 4096 + 4096},
		{tuning.AVX2, F16, 4, 1, 4096 + 4096},
		{tuning.AVX2, I8, 1, 4, 8192 + 3*2048},
	} {
		row.ISA, row.DotProduct = c.isa, false
		useTuning(t, row)
		if _, got := kernel.TypedKernel(&tuned, kernel.Format(c.format), c.rows); got != c.side {
			t.Errorf("%+v: %d panels side by side", c, got)
		}
		s := newPackedKV(c.format, c.format, 1, 128, 128, false)
		var keys kernel.PrefetchHint
		keys.SetTyped(&tuned, kernel.Format(c.format), c.rows, s.d*panel*s.k.bits/8,
			formats[c.format].scaled)
		if keys.PrefetchOne != c.want {
			t.Errorf("%+v: %d bytes ahead", c, keys.PrefetchOne)
		}
		var w scratch
		w.layoutTyped(&plan{}, &s, c.rows)
		if got := w.layout.PrefetchOne; got != c.want {
			t.Errorf("%+v: values %d bytes ahead", c, got)
		}
	}
	var far kernel.PrefetchHint
	if far.SetTyped(&tuned, kernel.F16, 4, 1<<20, false); far.PrefetchFew != tuning.MostAhead {
		t.Errorf("panels of 1 MiB: %d bytes ahead, want %d", far.PrefetchFew, tuning.MostAhead)
	}
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
	must(b, err)
	buffer := memory.Floats()
	defer memory.Close()
	fillWith(buffer, 1)
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
		pass(b, 1<<14, func(at int) { floats.AllFinite(tuned.ISA, buffer[at/4:][:1<<13]) })
	})
	const d = 128
	for _, rows := range []int{1, 2, 4, 8} {
		q, o, p, scores := make([]float32, rows*d), make([]float32, rows*d), make([]float32,
			rows*Block), make([]float32, rows*Block)
		var a kernel.PrefetchHint
		a.Set(&tuned, tuned.PrefetchOne, tuned.PrefetchFew, true)
		b.Run(fmt.Sprintf("rows=%d/F32", rows), func(b *testing.B) {
			l := kernel.PanelLayout{Keys: Block, Cols: d, Stride: panel, PanelStride: Block * panel,
				PrefetchHint: a}
			var queue kernel.PrefetchQueue
			queue.Clear()
			queue.PrefetchHint = a
			pass(b, 4*Block*d, func(at int) {
				floats.Score(&tuned, scores, q, buffer[at/4:], rows, d, Block/panel, &queue)
				floats.Accumulate(&tuned, o, p, buffer[at/4+Block*d:], nil, rows, d, Block, &l)
			})
		})
		for _, typ := range []Format{F16, BF16, I8} {
			b.Run(fmt.Sprintf("rows=%d/%v", rows, typ), func(b *testing.B) {
				keys := kernel.ScoreLayout(kernel.Format(typ), d, Block)
				values := kernel.PanelLayout{Keys: Block, Cols: d, Stride: panel, PanelStride: Block * panel}
				if typ == I8 {
					values.Stride, values.PanelStride = 4*d, 4*panel
				}
				keys.PrefetchHint.SetTyped(&tuned, kernel.Format(typ), rows, d*panel*formats[typ].bytes, false)
				values.PrefetchHint = keys.PrefetchHint
				block := Block * d * formats[typ].bytes
				pass(b, block, func(at int) {
					accumulateTyped(typ, scores, q, v[at:], nil, rows, Block, d, &keys)
					accumulateTyped(typ, o, p, v[at+block:], nil, rows, d, Block, &values)
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

func FuzzLargest(f *testing.F) { fuzzKernel(f, "largest") }

func FuzzQuantize(f *testing.F) { fuzzKernel(f, "quantize") }

func FuzzRotate(f *testing.F) { fuzzKernel(f, "rotate") }

func FuzzRotateInto(f *testing.F) { fuzzKernel(f, "rotateInto") }

func tryAccumulateI4(c *trial, rows, keys, cols int) {
	if rowsOfCodes(false) == 0 {
		return // nobody calls it
	}
	b := kernel.PanelLayout{Keys: keys, Cols: cols, Stride: 4 * cols, PanelStride: 4 * panel,
		Overwrite: c.IntN(2) == 0}
	v := c.TypedInput(kernel.I8, roundUp(keys, 8)/2*cols)
	oStride, pStride := cols+c.IntN(9), keys+c.IntN(9)
	got, want := c.Results((rows-1)*oStride + cols)
	p := c.Factors((rows-1)*pStride + keys)
	var alpha []float32
	if c.IntN(2) == 0 {
		alpha = c.Factors(rows)
	}
	accumulateTyped(I4, got, p, v, alpha, rows, oStride, pStride, &b)
	accumulateTypedGeneric(I4, want, p, v, alpha, rows, oStride, pStride, &b)
}

func FuzzAccumulateI4(f *testing.F) { fuzzKernel(f, "accumulateI4") }
