package attn

import (
	"flag"
	"math"
	"runtime"
	"sync"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/f32/f32test"
)

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
		softcap(dst, 1, 1)
	}, func(dst, x []float32) { copy(dst, x); softcapGeneric(dst, 1, 1) }, math.Tanh, 1, false},
	{"log", logs, logs, math.Log, 1, false},
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
	layout := panelLayout{keys: 1, cols: group, stride: group, panelStride: group}
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
		accumulate(sum[:], a[:], b[:], nil, 1, group, 1, &layout)
		for i := range group {
			if want := f32.FMA(a[0], b[i], c[i]); !sameBits(sum[i], want) {
				t.Errorf("FMA(%x, %x, %x) is %x in hardware, %x here", a[0], b[i], c[i], sum[i], want)
				return
			}
		}
	}
}
