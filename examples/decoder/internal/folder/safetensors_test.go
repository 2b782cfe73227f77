package folder

import (
	"math"
	"testing"
)

// TestHalf compares all halves with what IEEE 754 says of them.
func TestHalf(t *testing.T) {
	for bits := range uint32(1 << 16) {
		exponent, fraction := int(bits>>10&31), float64(bits&1023)
		want := math.Ldexp(1+fraction/1024, exponent-15)
		switch {
		case exponent == 0:
			want = math.Ldexp(fraction, -24)
		case exponent == 31 && fraction == 0:
			want = math.Inf(1)
		case exponent == 31:
			want = math.NaN()
		}
		want = math.Copysign(want, 1-2*float64(bits>>15))
		got := float64(half(bits))
		if math.IsNaN(want) && math.IsNaN(got) {
			continue
		}
		if math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("half %#04x is %v, want %v", bits, got, want)
		}
	}
}
