package f32

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32/f32test"
)

// exact returns a·b + c rounded once, by arithmetic of unlimited precision.
func exact(a, b, c float32) float32 {
	p := float64(a) * float64(b) // exact
	if s := p + float64(c); s == 0 || s-s != 0 {
		return float32(s) // sign of zero, infinities and NaN as IEEE 754 has them
	}
	sum := new(big.Float).SetPrec(1000).SetFloat64(p)
	sum.Add(sum, new(big.Float).SetFloat64(float64(c)))
	f, _ := sum.Float32()
	return f
}

func check(t *testing.T, a, b, c float32) {
	t.Helper()
	got, want := FMA(a, b, c), exact(a, b, c)
	if math.Float32bits(got) != math.Float32bits(want) && (got == got || want == want) {
		t.Fatalf("FMA(%x, %x, %x) = %x, want %x", a, b, c, got, want)
	}
}

var edges = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1, 1 + 0x1p-23, 1 -
		0x1p-24, 3, 0x1p-126, 0x1p-149, -0x1p-149, 0x1.fffffcp-127,
	0x1p-75, 0x1p-74, 0x1.000002p-75, 0x1p12, 0x1.001p12, 0x1p24, 0x1.000002p24, 0x1p63, 0x1p64,
	math.MaxFloat32, -math.MaxFloat32, float32(math.Inf(1)), float32(math.Inf(-1)),
	float32(math.NaN()),
}

func TestFMAEdges(t *testing.T) {
	for _, a := range edges {
		for _, b := range edges {
			for _, c := range edges {
				check(t, a, b, c)
			}
		}
	}
}

func TestFMARandom(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	count := 300000
	if testing.Short() {
		count = 20000
	}
	for range count {
		a, b, c := f32test.Triple(r)
		check(t, a, b, c)
	}
}

// The slow path must matter: somewhere rounding twice gives another result.
func TestRoundingTwiceIsNotEnough(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	differ := 0
	for range 20000 {
		a, b, c := f32test.Triple(r)
		twice := float32(math.FMA(float64(a), float64(b), float64(c)))
		if twice != FMA(a, b, c) && twice == twice {
			differ++
		}
	}
	if differ < 100 {
		t.Errorf("rounding twice differs for %d of 20000 triples: the triples are too easy", differ)
	}
}
