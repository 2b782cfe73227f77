package attn

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/guard"
	"github.com/seed-1415985d/attn/internal/memory"
)

// typedBytes is n elements of a type, in memory that ends, or begins, where a page does that may not be touched.
func typedBytes(t *testing.T, c *trial, typ CacheType, n int) []byte {
	words := (n*typ.bytes() + 3) / 4
	buffer, err := guard.New[float32](words)
	must(t, err)
	t.Cleanup(buffer.Free)
	x, read := buffer.Back(words)
	for i := range x {
		x[i] = math.Float32frombits(uint32(c.Uint64()))
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*words)
	b = b[len(b)-n*typ.bytes():]
	if typ != I8 && c.IntN(4) != 0 { // mostly ordinary numbers
		for i := range n {
			h := f32.ToBF16(float32(c.NormFloat64()))
			if typ == F16 {
				h = f32.ToF16(float32(c.NormFloat64()))
			}
			binary.NativeEndian.PutUint16(b[2*i:], h)
		}
	}
	all := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(read))), 4*words)
	return all[4*words-n*typ.bytes():]
}

// anyTypedLayout draws the layout of packed keys, packed values of a cache, or a matrix, and how many elements it has.
func (c *trial) anyTypedLayout(typ CacheType, keys, cols int) (panelLayout, int) {
	b := panelLayout{keys: keys, cols: cols, stride: panel, panelStride: keys * panel, overwrite: c.IntN(3) == 0, access: c.anyAccess()}
	b.pointer = 0
	panels := cols / panel
	if typ != I8 {
		return b, panels * keys * panel
	}
	groups := (keys + 3) / 4
	b.stride, b.panelStride = 4*panel, groups*4*panel
	if c.IntN(2) == 0 { // values: columns beside each other in each group
		b.stride, b.panelStride = 4*cols, 4*panel
		return b, groups * 4 * cols
	}
	return b, panels * groups * 4 * panel
}

// Kernels over fewer bits give the bits of the generic code, and touch nothing outside their operands.
func TestTypedKernelsEqualGeneric(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, typ := range []CacheType{F16, BF16, I8} {
			c := newTrial(t, random("typed "+typ.String()))
			for range budget(1500) {
				c.reset()
				tuned.leastRows16 = []int{2, never}[c.IntN(2)]
				rows, keys, cols := 1+c.IntN(12), 1+c.IntN(70), panel*(1+c.IntN(9))
				if c.IntN(3) == 0 {
					keys = []int{Block, 128, 96}[c.IntN(3)]
				}
				b, n := c.anyTypedLayout(typ, keys, cols)
				v := typedBytes(t, c, typ, n)
				oStride, pStride := cols+c.IntN(9), keys+c.IntN(9)
				got, want := c.output((rows-1)*oStride + cols)
				p := c.input((rows-1)*pStride + keys)
				var alpha []float32
				if c.IntN(3) > 0 {
					alpha = c.factors(rows)
				}
				accumulateTyped(typ, got, p, v, alpha, rows, oStride, pStride, &b)
				accumulateTypedGeneric(typ, want, p, v, alpha, rows, oStride, pStride, &b)
				what := fmt.Sprintf("%v, %d rows, %d keys, %d columns, %+v", typ, rows, keys, cols, b)
				if c.compare(); c.text != "" {
					t.Fatalf("%s: accumulate: %s", what, c.text)
				}
				wide, wideWant := c.output((cols/panel-1)*keys*panel + keys*panel)
				widen(typ, wide, v, keys*panel, &b)
				for x := 0; x < cols; x += panel {
					widenGeneric(typ, wideWant[x/panel*keys*panel:], v[x/panel*b.panelStride*typ.bytes():], keys, b.stride)
				}
				if c.compare(); c.text != "" {
					t.Fatalf("%s: widen: %s", what, c.text)
				}
			}
		}
	})
}

// lookedAfter is how many elements after a result are looked at.
const lookedAfter = 32

// firstOther returns the first index at which two slices differ, −1 if none.
func firstOther[T comparable](a, b []T) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// So do the kernels that make fewer bits.
func TestNarrowingKernelsEqualGeneric(t *testing.T) {
	forEach(t, func(t *testing.T) {
		c := newTrial(t, random("narrow"))
		for range budget(2000) {
			c.reset()
			n := 1 + c.IntN(300)
			x := c.input(n)
			for _, typ := range []CacheType{F16, BF16} {
				got, want := make([]uint16, n+lookedAfter), make([]uint16, n+lookedAfter)
				narrow(typ, got[:n], x)
				narrowGeneric(typ, want[:n], x)
				if i := firstOther(got, want); i >= n {
					t.Fatalf("%v of %d elements: something after them is written", typ, n)
				} else if i >= 0 {
					t.Fatalf("%v of %v (%#08x): %#04x, want %#04x", typ, x[i], math.Float32bits(x[i]), got[i], want[i])
				}
			}
			most := largest(x)
			if want := largestGeneric(x); !sameBits(most, want) {
				t.Fatalf("largest of %d is %v, want %v", n, most, want)
			}
			if most-most == 0 {
				scale := most / 127
				got, want := make([]int8, n+lookedAfter), make([]int8, n+lookedAfter)
				quantize(got[:n], x, scale)
				quantizeGeneric(want[:n], x, scale)
				if i := firstOther(got, want); i >= n {
					t.Fatalf("%d elements: something after them is written", n)
				} else if i >= 0 {
					t.Fatalf("%v / %v: %d, want %d", x[i], scale, got[i], want[i])
				}
			}
			rows, cols := 1+c.IntN(5), 1+c.IntN(Block)
			stride := cols + c.IntN(9)
			s, sWant := c.output((rows-1)*stride + cols)
			f := c.factors(cols)
			scaleColumns(s, f, rows, stride, cols)
			scaleColumnsGeneric(sWant, f, rows, stride, cols)
			block := 1 << c.IntN(9)
			if c.IntN(300) == 0 {
				block = callElements * (1 + c.IntN(2))
			}
			d := block * (1 + c.IntN(3))
			y, yWant := c.output((rows-1)*(d+3) + d)
			rotate(y, rows, d+3, d, block)
			rotateGeneric(yWant, rows, d+3, d, block)
			if c.compare(); c.text != "" {
				t.Fatalf("%d rows, %d columns; blocks of %d in %d: %s", rows, cols, block, d, c.text)
			}
		}
	})
}

// Widening and narrowing are each other's inverses for all numbers of 16 bits, and narrowing picks the nearest one, ties to even.
func TestHalfConversionsAreIEEE(t *testing.T) {
	forms := []struct {
		typ    CacheType
		widen  func(uint16) float32
		narrow func(float32) uint16
	}{{F16, f32.FromF16, f32.ToF16}, {BF16, f32.FromBF16, f32.ToBF16}}
	for _, f := range forms {
		for h := range 1 << 16 {
			x := f.widen(uint16(h))
			if got := f.narrow(x); x == x && got != uint16(h) || x != x && f.widen(got) == f.widen(got) {
				t.Fatalf("%v: %#04x becomes %v and then %#04x", f.typ, h, x, got)
			}
		}
		// Between neighbours: below, at and above the midpoint.
		for h := range 0x7c00 - 1 {
			lo, hi := float64(f.widen(uint16(h))), float64(f.widen(uint16(h+1)))
			middle := float32((lo + hi) / 2)
			even := uint16(h + h&1)
			for _, c := range []struct {
				x    float32
				want uint16
			}{{middle, even}, {math.Nextafter32(middle, 0), uint16(h)}, {math.Nextafter32(middle, math.MaxFloat32), uint16(h + 1)}} {
				if float64(middle) == (lo+hi)/2 && f.narrow(c.x) != c.want {
					t.Fatalf("%v: %v becomes %#04x, want %#04x", f.typ, c.x, f.narrow(c.x), c.want)
				}
			}
		}
	}
}

// BenchmarkTyped reads keys and values as decoding does: for each block the products of some rows and its keys, then sums of
// its values. Each round goes through a buffer once, in order, and the rate is that of its bytes.
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
		pass(b, 1<<14, func(at int) { allFinite(buffer[at/4:][:1<<13]) })
	})
	const d = 128
	for _, rows := range []int{1, 2, 4, 8} {
		q, o, p, scores := make([]float32, rows*d), make([]float32, rows*d), make([]float32, rows*Block), make([]float32, rows*Block)
		var a access
		a.set(&tuned, 0, true)
		b.Run(fmt.Sprintf("rows=%d/F32", rows), func(b *testing.B) {
			l := panelLayout{keys: Block, cols: d, stride: panel, panelStride: Block * panel, access: a}
			var queue prefetchQueue
			queue.clear()
			queue.access = a
			pass(b, 4*Block*d, func(at int) {
				scorePrefetch(scores, q, buffer[at/4:], rows, d, Block/panel, &queue)
				accumulate(o, p, buffer[at/4+Block*d:], nil, rows, d, Block, &l)
			})
		})
		for _, typ := range []CacheType{F16, BF16, I8} {
			b.Run(fmt.Sprintf("rows=%d/%v", rows, typ), func(b *testing.B) {
				keys := scoreLayout(typ, d, Block)
				values := panelLayout{keys: Block, cols: d, stride: panel, panelStride: Block * panel}
				if typ == I8 {
					values.stride, values.panelStride = 4*d, 4*panel
				}
				keys.access.setTyped(&tuned)
				values.access = keys.access
				block := Block * d * typ.bytes()
				pass(b, block, func(at int) {
					accumulateTyped(typ, scores, q, v[at:], nil, rows, Block, d, &keys)
					accumulateTyped(typ, o, p, v[at+block:], nil, rows, d, Block, &values)
				})
			})
		}
	}
}
