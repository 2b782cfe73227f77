package attn

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/f32/f32test"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
)

// The functions on slices compute what they say, against float64.
func TestPrimitivesAgainstFloat64(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("primitives")
		near := func(what string, got float32, want, scale float64) {
			t.Helper()
			if !(math.Abs(float64(got)-want) <= 4e-6*scale) {
				t.Errorf("%s is %v, want %v", what, got, want)
			}
		}
		for range budget(400) {
			a := tensor(r, normal, 1, 1, 1, 1+r.IntN(300)).Data
			b := tensor(r, normal, 1, 1, 1, len(a)).Data
			top, dot, size, sum := math.Inf(-1), 0.0, 0.0, 0.0
			for i, e := range a {
				x, y := float64(e), float64(b[i])
				top = max(top, x)
				dot, size = dot+x*y, size+math.Abs(x*y)
				sum += math.Exp(x)
			}
			near("Dot", Dot(a, b), dot, size)
			near("Max", Max(a), top, 0)
			near("LogSumExp", LogSumExp(a), math.Log(sum), 1+math.Abs(math.Log(sum)))
			exps, soft := make([]float32, len(a)), make([]float32, len(a))
			near("ExpSum", ExpSum(exps, a, float32(top)), sum/math.Exp(top), sum/math.Exp(top))
			Softmax(soft, a)
			for i, e := range a {
				near("an exp", exps[i], math.Exp(float64(e)-top), 1)
				near("a softmax", soft[i], math.Exp(float64(e))/sum, 1)
			}
			Exp(exps, a)
			for i, e := range a {
				near("Exp", exps[i], math.Exp(float64(e)), math.Exp(float64(e)))
			}
		}
		none := []float32{negInf, negInf, negInf}
		Softmax(none, none)
		for _, e := range none {
			if math.Float32bits(e) != 0 {
				t.Errorf("Softmax of nothing above −Inf has %v, want +0", e)
			}
		}
	})
}

func TestLogSumExpExactValues(t *testing.T) {
	inf, nan := float32(math.Inf(1)), nan32()
	forEach(t, func(t *testing.T) {
		for _, c := range []struct {
			x    []float32
			want float32
		}{
			{nil, negInf}, {[]float32{negInf, negInf}, negInf}, {[]float32{3}, 3},
			{[]float32{200, negInf}, 200}, {[]float32{0, 0}, math.Ln2},
			{[]float32{1, inf}, inf}, {[]float32{inf, inf, negInf}, inf}, {[]float32{inf, nan}, nan},
			{[]float32{nan, negInf}, nan},
		} {
			if got := LogSumExp(c.x); !sameBits(got, c.want) {
				t.Errorf("LogSumExp(%v) = %v, want %v", c.x, got, c.want)
			}
		}
	})
}

// Every number of 16 bits is widened exactly and comes back; numbers between are rounded to the
// nearest one.
func TestWidenAndNarrow(t *testing.T) {
	forEach(t, func(t *testing.T) {
		src, back := make([]uint16, 1<<16), make([]uint16, 1<<16)
		for i := range src {
			src[i] = uint16(i)
		}
		for _, f := range []Format{F16, BF16} {
			for _, n := range []int{0, 1, 15, 33, len(src)} {
				wide := make([]float32, n)
				Widen(wide, src[:n], f)
				Narrow(back[:n], wide, f)
				for i, e := range wide {
					want := f32.FromBF16(src[i])
					if f == F16 {
						want = f32.FromF16(src[i])
					}
					if !sameBits(e, want) || e == e && back[i] != src[i] {
						t.Fatalf("%v %#04x is %v and then %#04x, want %v", f, src[i], e, back[i], want)
					}
				}
			}
		}
		x := []float32{1 + 0x1p-11, 1 + 0x3p-11, 65520, -0x1p-25, 1 + 0x1p-8, 1 + 0x3p-8}
		got := make([]uint16, 2*len(x))
		Narrow(got[:len(x)], x, F16)
		Narrow(got[len(x):], x, BF16)
		if want := []uint16{0x3c00, 0x3c02, 0x7c00, 0x8000, 0x3c04, 0x3c0c, 0x3f80, 0x3f80, 0x4780,
			0xb300, 0x3f80, 0x3f82}; !slices.Equal(got, want) {
			t.Errorf("%v are %#04x, want %#04x", x, got, want)
		}
	})
	defer func() {
		if text := fmt.Sprint(recover()); text != "attn: Narrow: f is I8, want F16 or BF16" {
			t.Errorf("the panic is %q", text)
		}
	}()
	Narrow(nil, nil, I8)
}

// TopK selects as many as there are, and leaves what is behind them in dst. Their order is tested
// in internal/topk.
func TestTopK(t *testing.T) {
	scores := []float32{1, nan32(), 3, 3, negInf, 2}
	order := []int32{2, 3, 5, 0, 4, 1}
	for n := range len(scores) + 3 {
		for most := range len(order) + 1 {
			dst, some := slices.Repeat([]int32{-7}, n), scores[:most]
			want := slices.DeleteFunc(slices.Clone(order), func(i int32) bool { return int(i) >= most })
			want = want[:min(n, most)]
			got := TopK(dst, some)
			if got != len(want) || !slices.Equal(dst[:got], want) {
				t.Errorf("TopK of %d of %v is %d: %v, want %v", n, some, got, dst, want)
			}
			if i := slices.IndexFunc(dst[got:], func(e int32) bool { return e != -7 }); i >= 0 {
				t.Errorf("TopK of %d of %v writes dst[%d], behind the %d it returns", n, some, got+i, got)
			}
		}
	}
}

var (
	exhaustive = flag.Bool("exhaustive", false, "try all 2³² arguments of the elementary functions "+
		"and of conversions, in minutes")
	triples = flag.Int("fma-triples", 2_000_000,
		"number of triples to compare FMA with the hardware's on")
)

// elementary is a function of the numeric contract, applied to a slice by a kernel.
type elementary struct {
	name    string
	kernel  func(dst, x []float32)
	generic func(dst, x []float32)
	exact   func(x float64) float64
	ulps    float64 // bound of the error
	flush   bool    // made for x ≤ 0: subnormal results are +0, and +Inf comes early
}

var elementaries = []elementary{
	{"exp", exp, expGeneric, math.Exp, 1, false},
	{"exp of attention", func(dst, x []float32) {
		expSum(dst, x, 0)
	}, func(dst, x []float32) { expSumGeneric(dst, x, 0) }, math.Exp, 1, true},
	{"tanh", func(dst, x []float32) {
		copy(dst, x)
		floats.Softcap(tuned.ISA, dst, 1, 1)
	}, tanhs, math.Tanh, 1, false},
	{"log", logs, logs, math.Log, 1, false},
}

func tanhs(dst, x []float32) {
	for i, e := range x {
		dst[i] = f32.Tanh(e)
	}
}

func logs(dst, x []float32) {
	for i, e := range x {
		dst[i] = f32.Log(e)
	}
}

// ulp is the distance of neighbouring float32 numbers around y.
func ulp(y float64) float64 {
	_, e := math.Frexp(y)
	return math.Ldexp(1, max(e-24, -149))
}

// acceptable reports whether y is f(x) within the bound. 0, ±Inf and NaN are exact.
func (f *elementary) acceptable(x, y float32) bool {
	want := f.exact(float64(x))
	switch {
	case want != want:
		return y != y
	case want-want != 0 || want == 0:
		return float64(y) == want
	case f.flush && want < 0x1p-126:
		return math.Float32bits(y) == 0
	case want > math.MaxFloat32+0x1p103: // beyond the last rounding interval
		return math.IsInf(float64(y), 1)
	}
	if math.IsInf(float64(y), 1) {
		return f.flush && x > 88.37 || want > math.MaxFloat32-ulp(math.MaxFloat32)
	}
	return math.Abs(float64(y)-want) <= f.ulps*ulp(want)
}

// Elementary functions are within their bounds and have the same bits on every
// implementation, over all of float32. The full sweep, with -exhaustive, is
// the same test with a step of 1.
func TestElementaryFunctions(t *testing.T) {
	step := uint64(4999)
	if few() {
		step = 199999
	}
	if *exhaustive {
		step = 1
	}
	forEach(t, func(t *testing.T) {
		for i := range elementaries {
			f := &elementaries[i]
			t.Run(f.name, func(t *testing.T) { f.sweep(t, step) })
		}
	})
}

// sweep tries every step-th bit pattern, and the neighbourhood of special ones.
func (f *elementary) sweep(t *testing.T, step uint64) {
	for _, e := range specials {
		near := make([]float32, 0, 64)
		for d := range uint32(64) {
			near = append(near, math.Float32frombits(math.Float32bits(e)+d-32))
		}
		f.check(t, near)
	}
	workers := uint64(runtime.GOMAXPROCS(0))
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			x := make([]float32, 0, 4096)
			for bits := w * step; bits < 1<<32; bits += workers * step {
				if x = append(x, math.Float32frombits(uint32(bits))); len(x) == cap(x) {
					f.check(t, x)
					x = x[:0]
				}
			}
			f.check(t, x)
		})
	}
	wait.Wait()
}

func (f *elementary) check(t *testing.T, x []float32) {
	got, want := make([]float32, len(x)), make([]float32, len(x))
	f.kernel(got, x)
	f.generic(want, x)
	if i := firstDifference(got, want); i >= 0 {
		t.Errorf("%s(%x) = %x, generic %x", f.name, x[i], got[i], want[i])
		return
	}
	for i, e := range x {
		if !f.acceptable(e, got[i]) {
			t.Errorf("%s(%x) = %x, exact %x: more than %v ULP", f.name, e, got[i], f.exact(float64(e)),
				f.ulps)
			return
		}
	}
}

// Exact where the result is.
func TestElementaryExactValues(t *testing.T) {
	inf := float32(math.Inf(1))
	forEach(t, func(t *testing.T) {
		for _, c := range []struct {
			f       int
			x, want float32
		}{
			{0, 0, 1}, {0, specials[1], 1}, {0, inf, inf}, {0, negInf, 0}, {0, 1e-45, 1}, {0, 200, inf},
			{0, -200, 0},
			{1, 0, 1}, {1, negInf, 0}, {1, -88, 0},
			{2, 0, 0}, {2, specials[1], specials[1]}, {2, inf, 1}, {2, negInf, -1}, {2, 50, 1},
			{2, 1e-45, 1e-45},
			{3, 1, 0}, {3, 0, negInf}, {3, specials[1], negInf}, {3, inf, inf}, {3, -1, float32(math.NaN())},
		} {
			f, got := elementaries[c.f], []float32{0}
			if f.kernel(got, []float32{c.x}); !sameBits(got[0], c.want) {
				t.Errorf("%s(%v) = %v, want %v", f.name, c.x, got[0], c.want)
			}
		}
	})
}

// The FMA of the generic code is the hardware's, on operands made to be hard
// to round. A kernel that multiplies and adds stands for the hardware.
func TestFMAEqualsHardware(t *testing.T) {
	count := *triples
	if few() {
		count = min(count, 50_000)
	}
	forEach(t, func(t *testing.T) {
		workers := runtime.GOMAXPROCS(0)
		var wait sync.WaitGroup
		for w := range workers {
			wait.Go(func() { compareFMA(t, count/workers, uint64(w)) })
		}
		wait.Wait()
	})
}

// compareFMA compares in groups of triples that share one factor, because
// accumulate multiplies a row of values by one weight.
func compareFMA(t *testing.T, count int, seed uint64) {
	const group = 16
	r := random("fma")
	for range seed {
		r = randomFrom([]byte{byte(r.Uint64())})
	}
	layout := kernel.PanelLayout{Keys: 1, Cols: group, Stride: group, PanelStride: group}
	var a [1]float32
	var b, c, sum [group]float32
	for ; count > 0; count -= group {
		for i := range group {
			a[0], b[i], c[i] = f32test.Triple(r)
		}
		if r.IntN(2) == 0 { // the factors of one triple, and addends around their product
			for i := range group {
				b[i] = b[group-1]
				c[i] = math.Float32frombits(math.Float32bits(c[group-1]) + uint32(i) - group/2)
			}
		}
		sum = c
		floats.Accumulate(&tuned, &kernel.Sums{O: sum[:], P: a[:], Rows: 1, OStride: group, PStride: 1},
			b[:], &layout)
		for i := range group {
			if want := f32.FMA(a[0], b[i], c[i]); !sameBits(sum[i], want) {
				t.Errorf("FMA(%x, %x, %x) is %x in hardware, %x here", a[0], b[i], c[i], sum[i], want)
				return
			}
		}
	}
}

// halfFormat is a format of 16 bits in the words of IEEE 754: its numbers that are not negative, in
// ascending order of their bits, with the power of two that would follow the largest one in the
// place of infinity. float64 has all of these, and what is halfway between them.
type halfFormat struct {
	typ      Format
	fraction int // bits
	values   []float64
}

func newHalfFormat(typ Format, fraction, exponent int) *halfFormat {
	f := &halfFormat{typ: typ, fraction: fraction}
	bias := 1<<(exponent-1) - 1
	for bits := range (1<<exponent-1)<<fraction + 1 {
		e, m := bits>>fraction, bits&(1<<fraction-1)
		if e > 0 {
			m, e = m|1<<fraction, e-1
		}
		f.values = append(f.values, math.Ldexp(float64(m), e+1-bias-fraction))
	}
	return f
}

var halfFormats = sync.OnceValue(func() []*halfFormat {
	return []*halfFormat{newHalfFormat(F16, 10, 5), newHalfFormat(BF16, 7, 8)}
})

// infinity is the bits of +Inf.
func (f *halfFormat) infinity() uint16 { return uint16(len(f.values) - 1) }

// round is the bits of the number nearest to the one with these bits, ties to even. near is a
// result for a number that is not larger in magnitude.
func (f *halfFormat) round(bits uint32, near uint16) uint16 {
	x := float64(math.Float32frombits(bits &^ (1 << 31)))
	if x != x { // the upper bits of the payload, quiet
		return f.infinity() | uint16(bits>>(23-f.fraction))&(1<<f.fraction-1) | 1<<(f.fraction-1)
	}
	for near < f.infinity() {
		middle := (f.values[near] + f.values[near+1]) / 2 // exact
		if x < middle || x == middle && near&1 == 0 {
			break
		}
		near++
	}
	return near
}

// below is the largest number that is not above x.
func (f *halfFormat) below(x float32) uint16 {
	i, exact := slices.BinarySearch(f.values, math.Abs(float64(x)))
	if !exact && i > 0 {
		i--
	}
	return uint16(min(i, len(f.values)-1))
}

// check compares the kernel with the definition for numbers whose bits ascend, and their negatives.
func (f *halfFormat) check(t *testing.T, magnitudes []uint32) {
	x, got := make([]float32, len(magnitudes)), make([]uint16, len(magnitudes))
	for _, sign := range []uint32{0, 1 << 31} {
		for i, bits := range magnitudes {
			x[i] = math.Float32frombits(bits | sign)
		}
		narrow.Narrow(tuned.ISA, kernel.Format(f.typ), got, x)
		near := f.below(x[0])
		for i, bits := range magnitudes {
			want := f.round(bits, near)
			if bits <= 0x7f800000 {
				near = want
			}
			if want |= uint16(sign >> 16); got[i] != want {
				t.Errorf("%v of %v (%#08x) is %#04x, want %#04x", f.typ, x[i], bits|sign, got[i], want)
				return
			}
		}
	}
}

// Every float32 becomes the nearest number of 16 bits, ties to even, on every implementation. With
// -exhaustive these are all 2³², otherwise some of them and the neighbourhood of all numbers of 16
// bits and of what is halfway between two.
func TestNarrowingPicksTheNearest(t *testing.T) {
	step := uint32(4999)
	if *exhaustive {
		step = 1
	}
	forEach(t, func(t *testing.T) {
		for _, f := range halfFormats() {
			f.checkNeighbours(t)
			var wait sync.WaitGroup
			workers := uint32(runtime.GOMAXPROCS(0))
			for w := range workers {
				wait.Go(func() { f.sweep(t, w, workers, step) })
			}
			wait.Wait()
		}
	})
}

// sweep tries every step-th magnitude of each workers-th run of them.
func (f *halfFormat) sweep(t *testing.T, first, workers, step uint32) {
	const run = 1 << 20
	magnitudes := make([]uint32, 0, run)
	for at := uint64(first) * run; at < 1<<31 && !t.Failed(); at += uint64(workers) * run {
		magnitudes = magnitudes[:0]
		for bits := at; bits < at+run; bits += uint64(step) {
			magnitudes = append(magnitudes, uint32(bits))
		}
		f.check(t, magnitudes)
	}
}

// checkNeighbours tries what is within two steps of numbers of 16 bits and of middles between them.
func (f *halfFormat) checkNeighbours(t *testing.T) {
	var magnitudes []uint32
	for i, x := range f.values[:len(f.values)-1] {
		for _, y := range []float64{x, (x + f.values[i+1]) / 2} {
			bits := math.Float32bits(float32(y))
			for d := range uint32(5) {
				magnitudes = append(magnitudes, max(bits+d, 2)-2)
			}
		}
	}
	magnitudes = append(magnitudes, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fbfffff, 0x7fc00000,
		0x7fffffff)
	slices.Sort(magnitudes)
	f.check(t, magnitudes)
}

// Every number of 16 bits is widened to itself, on every implementation, and a NaN to a quiet NaN
// of the same payload.
func TestWideningIsExact(t *testing.T) {
	forEach(t, func(t *testing.T) {
		packed := make([]byte, 2<<16)
		for h := range 1 << 16 {
			binary.NativeEndian.PutUint16(packed[2*h:], uint16(h))
		}
		for _, f := range halfFormats() {
			got := make([]float32, 1<<16)
			layout := kernel.PanelLayout{Keys: 1 << 16 / panel, Cols: panel, Stride: panel}
			narrow.Widen(tuned.ISA, kernel.Format(f.typ), got, packed, 0, &layout)
			for h, x := range got {
				if !f.is(x, uint16(h)) {
					t.Fatalf("%v %#04x becomes %v (%#08x)", f.typ, h, x, math.Float32bits(x))
				}
			}
		}
	})
}

// is reports whether x is the number with these bits.
func (f *halfFormat) is(x float32, h uint16) bool {
	bits := math.Float32bits(x)
	if bits>>31 != uint32(h>>15) {
		return false
	}
	switch h &= 1<<15 - 1; {
	case h < f.infinity():
		return math.Abs(float64(x)) == f.values[h]
	case h == f.infinity():
		return math.IsInf(float64(x), 0)
	}
	payload := uint32(h-f.infinity()) << (23 - f.fraction)
	return x != x && (bits&(1<<22-1) == payload&(1<<22-1))
}
