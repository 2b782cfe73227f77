package f32

import (
	"math"
	"testing"
)

// units are values of c: powers of 2, for which x·c is often halfway between integers, units of
// usual dimensions, extremes.
var units = []float32{1, 0.75, 0x1p-10, Log2E, 0.125 * Log2E, 0x1.4a56b6p-3, 0x1p-121, 0x1p-126,
	0x1p-149, 1e38}

// 2^(x·c) is within its bound, never above 1, and +0 exactly where x·c rounds to −126 or less.
func TestExp2(t *testing.T) {
	step := uint32(1999)
	if testing.Short() {
		step = 99991
	}
	for _, c := range units {
		for bits := uint32(1 << 31); bits <= 0xff800000; bits += step {
			checkExp2(t, math.Float32frombits(bits), c)
		}
		for n := 0.5; n < 130; n += 0.5 { // around integers and halves
			x := float32(-n / float64(c))
			for d := range uint32(5) {
				checkExp2(t, math.Float32frombits(math.Float32bits(x)+d-2), c)
			}
		}
	}
}

func checkExp2(t *testing.T, x, c float32) {
	if !(x <= 0) {
		return
	}
	product := float64(x) * float64(c) // exact
	got, want := Exp2(x, c), math.Exp2(product)
	if math.RoundToEven(product) <= -126 {
		if math.Float32bits(got) != 0 {
			t.Fatalf("2^(%x·%x) is %x, want +0", x, c, got)
		}
		return
	}
	if !(math.Abs(float64(got)-want) <= 2.75*0x1p-24*want) || got > 1 {
		t.Fatalf("2^(%x·%x) is %x, want %x", x, c, got, want)
	}
}

func TestExp2ExactValues(t *testing.T) {
	for _, c := range units {
		for _, zero := range []float32{0, float32(math.Copysign(0, -1))} {
			if got := Exp2(zero, c); got != 1 {
				t.Errorf("2^(%v·%v) is %v, want 1", zero, c, got)
			}
		}
		if got := Exp2(float32(math.Inf(-1)), c); math.Float32bits(got) != 0 {
			t.Errorf("2^(−Inf·%v) is %v, want +0", c, got)
		}
		for _, bits := range []uint32{0x7fc00000, 0xffc00000, 0x7fc00001, 0x7f800001, 0xffffffff} {
			if got := Exp2(math.Float32frombits(bits), c); got == got {
				t.Errorf("2^(NaN %#x·%v) is %v, want NaN", bits, c, got)
			}
		}
	}
}
