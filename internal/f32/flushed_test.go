package f32

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// flushedModel is a·b + c by exact numbers: rounded to 24 bits without an end of exponents, and
// then a zero of its sign below 2⁻¹²⁶.
func flushedModel(a, b, c float32) float32 {
	for _, x := range []*float32{&a, &b, &c} {
		if math.Abs(float64(*x)) < 0x1p-126 {
			*x = float32(math.Copysign(0, float64(*x)))
		}
	}
	product, wide := float64(a)*float64(b), float64(c)
	sum := product + wide
	if sum != sum || math.IsInf(sum, 0) || product == 0 && wide == 0 {
		return float32(sum) // not finite, or a zero whose sign float64 knows
	}
	exact := new(big.Float).SetPrec(1000).SetFloat64(product)
	exact.Add(exact, new(big.Float).SetFloat64(wide))
	if exact.Sign() == 0 {
		return 0
	}
	rounded := new(big.Float).SetPrec(24).SetMode(big.ToNearestEven).Set(exact)
	if new(big.Float).Abs(rounded).Cmp(big.NewFloat(0x1p-126)) < 0 {
		return float32(math.Copysign(0, float64(exact.Sign())))
	}
	result, _ := rounded.Float32()
	return result
}

// nearTheLeast are numbers with exponents whose products and sums lie about 2⁻¹²⁶.
func nearTheLeast(r *rand.Rand) float32 {
	mantissa := []uint32{0, 0x7fffff, 0x7ffffe, 1, 0x400000, 0x7f0000}[r.IntN(6)]
	if r.IntN(2) == 0 {
		mantissa = r.Uint32() >> 9
	}
	exponent := []uint32{0, 1, 2, 3, 24, 25, 26, 40, 62, 63, 64, 65, 100, 126, 127, 128, 150, 254,
		255}[r.IntN(19)]
	return math.Float32frombits(r.Uint32()&(1<<31) | exponent<<23 | mantissa)
}

func sameFloat(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

func TestFlushedFMA(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	n := 300_000
	if testing.Short() {
		n /= 10
	}
	for i := range n {
		a, b, c := nearTheLeast(r), nearTheLeast(r), nearTheLeast(r)
		switch i % 4 {
		case 0: // the product nearly cancels c
			c = -float32(a*b) + 0
			c = math.Float32frombits(math.Float32bits(c) + r.Uint32N(3) - 1)
		case 1: // both are bfloat16
			a, b = FromBF16(ToBF16(a)), FromBF16(ToBF16(b))
		}
		if got, want := FlushedFMA(a, b, c), flushedModel(a, b, c); !sameFloat(got, want) {
			t.Fatalf("%g·%g + %g is %g, want %g", a, b, c, got, want)
		}
		if got, want := FlushedAdd(a, c), flushedModel(a, 1, c); !sameFloat(got, want) {
			t.Fatalf("%g + %g is %g, want %g", a, c, got, want)
		}
	}
}

// Between what IEEE 754 rounds to 2⁻¹²⁶ and what 24 bits round to it, a result is 0.
func TestFlushedAtTheLeastNormal(t *testing.T) {
	for _, c := range []struct{ a, b, c, want float32 }{
		{1 - 0x1p-24, 0x1p-126, 0, 0}, // IEEE 754 has 2⁻¹²⁶: a tie
		{-1 + 0x1p-24, 0x1p-126, 0, float32(negativeZero)},
		{1 - 0x1p-24, 1 - 0x1p-24, 0, 1 - 0x1p-23},
		{1 - 0x1p-23, -0x1p-126, 0, float32(math.Copysign(0, -1))},
		{0x1p-75, 0x1p-76, 0x1p-126, 0x1p-126},
		{-0x1.8p-75, 0x1p-76, 0x1p-126, 0},                // 2⁻¹²⁶ − 1.5·2⁻¹⁵¹
		{-0x1p-75, 0x1p-76, 0x1p-126, 0x1p-126},           // the tie
		{0x1p-127, 0x1p127, 1, 1},                         // an operand that is subnormal
		{0x1p-100, 0x1p-100, -0x1p-140, 0},                // a product that vanishes
		{1, 0x1p-126, -0x1.8p-126, float32(negativeZero)}, // an exact difference
		{float32(math.Inf(1)), 0x1p-127, 0, float32(nan)}, // infinity times what counts as zero
		{float32(math.Inf(1)), 1, -1, float32(math.Inf(1))},
		{0x1p127, 2, float32(math.Inf(-1)), float32(minusInf)}, // finite, but for float32
	} {
		if got := FlushedFMA(c.a, c.b, c.c); !sameFloat(got, c.want) {
			t.Errorf("%x·%x + %x is %x, want %x", c.a, c.b, c.c, got, c.want)
		}
		if got := flushedModel(c.a, c.b, c.c); !sameFloat(got, c.want) {
			t.Errorf("the model says %x·%x + %x is %x, want %x", c.a, c.b, c.c, got, c.want)
		}
	}
}

var nan, negativeZero, minusInf = math.NaN(), math.Copysign(0, -1), math.Inf(-1)

func TestFlushedBF16(t *testing.T) {
	for _, c := range []struct {
		x    float32
		want uint16
	}{
		{0x1p-126, 0x0080}, {0x1.fffffcp-127, 0}, {-0x1.fffffcp-127, 0x8000}, {0x1p-149, 0},
		{1, 0x3f80}, {1 + 0x1p-8, 0x3f80}, {1 + 0x1.8p-7, 0x3f82}, {-1 - 0x1.0002p-8, 0xbf81},
		{math.MaxFloat32, 0x7f80}, {0x1.fefffep127, 0x7f7f}, {0x1.ffp127, 0x7f80},
		{float32(minusInf), 0xff80},
	} {
		if got := FlushedBF16(c.x); got != c.want {
			t.Errorf("%x becomes %#04x, want %#04x", c.x, got, c.want)
		}
	}
	for _, bits := range []uint32{0x7f800001, 0xff800001, 0x7fffffff, 0x7fc00000} {
		if got := FlushedBF16(math.Float32frombits(bits)); FromBF16(got) == FromBF16(got) {
			t.Errorf("NaN %#x becomes %#04x", bits, got)
		}
	}
}
