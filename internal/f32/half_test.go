package f32

import (
	"math"
	"testing"
)

// Each number of half precision is a sign, a power of 2 and a fraction, as IEEE 754 has them.
func TestFromF16(t *testing.T) {
	for h := range 1 << 16 {
		sign, e, f := 1-2*float64(h>>15), h>>10&31, float64(h&1023)
		want := sign * math.Ldexp(1+f/1024, e-15)
		switch {
		case e == 0:
			want = math.Copysign(f*0x1p-24, sign)
		case e == 31 && f == 0:
			want = math.Inf(int(sign))
		}
		bits := math.Float32bits(float32(want))
		if e == 31 && f != 0 { // its sign and fraction stay, and it is quiet
			bits = uint32(h&0x8000)<<16 | 0x7fc00000 | uint32(h&1023)<<13
		}
		if got := math.Float32bits(FromF16(uint16(h))); got != bits {
			t.Fatalf("%#04x is %#08x, want %#08x", h, got, bits)
		}
	}
}
