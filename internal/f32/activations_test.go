package f32

import (
	"math"
	"os"
	"sync"
	"testing"
)

// smooth is an activation, its reference in float64, and what is promised of it.
type smooth struct {
	name    string
	f       func(float32) float32
	want    func(float64) float64
	ulps    float64
	minimum float64 // it falls up to here and rises from here on
	domain  float64 // from here on the bound holds
}

var smooths = []smooth{
	{"Sigmoid", Sigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, 2.5, math.NaN(),
		-88.7},
	{"SiLU", SiLU, func(x float64) float64 { return x / (1 + math.Exp(-x)) }, 2.5, math.NaN(), -88.7},
	{"QuickGELU", QuickGELU, func(x float64) float64 {
		return x / (1 + math.Exp(-float64(float32(QuickAlpha*float32(x)))))
	}, 3, math.NaN(), -52},
	{"GELU", GELU, func(x float64) float64 { return x * math.Erfc(-x/math.Sqrt2) / 2 }, 2,
		-0.7517915246935645, -200},
	{"GELUTanh", GELUTanh, func(x float64) float64 {
		return x / (1 + math.Exp(-2*math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}, 2, -0.7524614220710162, -200},
	{"Tanh", Tanh, math.Tanh, 1, -200, -200},
	{"Softplus", Softplus, func(x float64) float64 {
		return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))
	}, 0.55, -200, -200},
}

// Activations are within their bounds where results are normal, and those that fall or rise do so
// from each number to the next. ATTN_TEST_FULL=exhaustive looks at all of float32.
func TestActivations(t *testing.T) {
	step := uint32(1 << 22)
	run := uint32(256)
	switch {
	case testing.Short():
		step, run = 1<<24, 64
	case os.Getenv("ATTN_TEST_FULL") == "exhaustive":
		step, run = 1<<22, 1<<22
	}
	for _, c := range smooths {
		t.Run(c.name, func(t *testing.T) {
			var worst [2]float64
			var all sync.WaitGroup
			for part := range uint32(2) {
				all.Go(func() {
					for from := part << 31; from>>31 == part && from&(1<<31-1) < 0x7f800000; from += step {
						worst[part] = max(worst[part], c.check(t, from, min(run, 0x7f800000-from&(1<<31-1))))
					}
				})
			}
			all.Wait()
			t.Logf("at most %.3f ULP", max(worst[0], worst[1]))
		})
	}
}

// check looks at numbers of consecutive bits and one more, and returns the largest error.
func (c *smooth) check(t *testing.T, from, n uint32) (worst float64) {
	x := math.Float32frombits(from)
	y := c.f(x)
	for i := range n {
		if e := c.ulpsAt(x, y); e > worst {
			worst = e
			if !(e <= c.ulps) {
				t.Errorf("%s(%x) is %x, %.3f ULP from %x", c.name, x, y, e, c.want(float64(x)))
				return worst
			}
		}
		nextX := math.Float32frombits(from + i + 1)
		nextY := c.f(nextX)
		rises := nextY >= y
		if nextX < 0 {
			rises = y >= nextY
		}
		falls := nextY == y || !rises
		at := math.Min(float64(x), float64(nextX))
		switch {
		case at >= c.minimum && !rises, math.Max(float64(x), float64(nextX)) <= c.minimum && !falls:
			t.Errorf("%s(%x) is %x, %s(%x) %x", c.name, x, y, c.name, nextX, nextY)
			return worst
		}
		x, y = nextX, nextY
	}
	return worst
}

// ulpsAt is the error in units of the result's last place; 0 where nothing is promised.
func (c *smooth) ulpsAt(x, y float32) float64 {
	want := c.want(float64(x))
	if !(math.Abs(want) >= 0x1p-126) || float64(x) < c.domain || math.Abs(want) > math.MaxFloat32 {
		return 0
	}
	_, e := math.Frexp(want)
	return math.Abs(float64(y)-want) / math.Ldexp(1, e-24)
}

// NaN comes only from NaN, no zero is negative except Tanh's, and infinities have their limits.
func TestActivationsOfInfinities(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range smooths {
		low, zero := float32(0), c.f(float32(math.Copysign(0, -1)))
		high := inf
		switch c.name {
		case "Sigmoid":
			high = 1
		case "Tanh":
			low, high = -1, 1
		}
		if y := c.f(-inf); y != low || y == 0 && math.Signbit(float64(y)) {
			t.Errorf("%s(−Inf) is %v, want %v", c.name, y, low)
		}
		if y := c.f(inf); y != high {
			t.Errorf("%s(Inf) is %v, want %v", c.name, y, high)
		}
		for _, e := range []float32{-1e30, -200, -120, -15, -11} {
			if y := c.f(e); y != y || y == 0 && math.Signbit(float64(y)) {
				t.Errorf("%s(%v) is %v", c.name, e, y)
			}
		}
		if y := c.f(float32(math.NaN())); y == y {
			t.Errorf("%s(NaN) is %v", c.name, y)
		}
		if c.name != "Tanh" && math.Signbit(float64(zero)) {
			t.Errorf("%s(−0) is −0", c.name)
		}
	}
}
