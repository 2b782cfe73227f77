package linattn

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/sanitize"
)

// decays is the definition.
func decays(x attn.Tensor, a, dt []float32) attn.Tensor {
	d := attn.BHLD(make([]float32, x.B*x.H*x.L*x.D), x.B, x.H, x.L, x.D)
	for b := range x.B {
		for h := range x.H {
			for l := range x.L {
				for i, e := range x.Row(b, h, l) {
					switch len(dt) {
					case 0:
					case x.H:
						e += dt[h]
					default:
						e += dt[h*x.D+i]
					}
					d.Row(b, h, l)[i] = float32(-f32.Exp(a[h])*f32.Softplus(e)) + 0
				}
			}
		}
	}
	return d
}

// Decays equal the definition, for heads and channels, in views of any strides, in place, on
// any number of workers.
func TestDecay(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(8, 8))
		pool := attn.NewPool(3)
		for _, s := range [][4]int{{1, 3, 70, 1}, {2, 2, 130, 40}, {1, 1, 2, 2100}, {1, 2, 0, 4},
			{1, 5, 1, 1}} {
			b, h, n, d := s[0], s[1], s[2], s[3]
			pitch := h*d + 3
			data, a := make([]float32, b*n*pitch), make([]float32, h)
			for i := range data {
				data[i] = float32(20 * r.NormFloat64())
			}
			for i := range a {
				a[i] = float32(2 * r.NormFloat64())
			}
			x := attn.Rows(data, b, n, h, d, pitch)
			for _, dt := range [][]float32{nil, make([]float32, h), make([]float32, h*d)} {
				for i := range dt {
					dt[i] = float32(r.NormFloat64())
				}
				want := decays(x, a, dt)
				got := attn.BHLD(make([]float32, b*h*n*d), b, h, n, d)
				must(t, Decay(nil, got, x, a, dt))
				sameBits(t, "Decay", got.Data, want.Data)
				clear(got.Data)
				must(t, Decay(pool, got, x, a, dt))
				sameBits(t, "on a pool", got.Data, want.Data)
				copy(got.Data, decays(x, make([]float32, h), nil).Data)
				want = decays(got, a, dt)
				must(t, Decay(pool, got, got, a, dt))
				sameBits(t, "in place", got.Data, want.Data)
			}
		}
		must(t, pool.Close())
	})
}

// Extremes: no decay is −0, infinite ones are allowed, NaN stays where it is.
func TestDecayExtremes(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	x := attn.BHLD([]float32{inf, -inf, -200, nan}, 1, 2, 2, 1)
	must(t, Decay(nil, x, x, []float32{0, -inf}, nil))
	if y := x.Data; y[0] != -inf || y[1] != 0 || math.Signbit(float64(y[1])) || y[2] != 0 ||
		math.Signbit(float64(y[2])) || y[3] == y[3] {
		t.Errorf("decays are %v, want −Inf, 0, 0, NaN", y)
	}
}

func TestDecayMisuse(t *testing.T) {
	buffer := make([]float32, 40)
	x, dst := attn.BHLD(buffer[:12], 1, 2, 3, 2), attn.BHLD(buffer[12:24], 1, 2, 3, 2)
	a, dt := buffer[24:26], buffer[26:30]
	for _, c := range []struct {
		err, kind error
		text      string
	}{
		{Decay(nil, dst, attn.BHLD(buffer[:12], 1, 3, 2, 2), a, dt), attn.ErrShape,
			"dst is [1 2 3 2], want [1 3 2 2] as x is"},
		{Decay(nil, dst, attn.Tensor{Data: buffer[:3], B: 1, H: 2, L: 3, D: 2}, a, dt), attn.ErrLength,
			"len(x.Data) is 3"},
		{Decay(nil, attn.Tensor{Data: buffer, B: 1, H: 2, L: 3, D: 2, SB: 1, SH: 1,
			SL: attn.Broadcast}, x, a, dt),
			attn.ErrStride, "dst has a stride of Broadcast"},
		{Decay(nil, dst, x, a[:1], dt), attn.ErrLength, "len(a) is 1, want one for each head, 2"},
		{Decay(nil, dst, x, a, dt[:3]), attn.ErrLength, "len(dt) is 3, want 0, one for each head, 2"},
		{Decay(nil, dst, x, []float32{0, 89}, dt), attn.ErrOption, "a[1] is 89, want a number whose"},
		{Decay(nil, dst, x, []float32{float32(math.NaN()), 0}, dt), attn.ErrOption, "a[0] is NaN"},
		{Decay(nil, attn.BHLD(buffer[11:], 1, 2, 3, 2), x, a, dt), attn.ErrOverlap, "dst overlaps x"},
		{Decay(nil, attn.BHLD(buffer[13:], 1, 2, 3, 2), x, a, dt), attn.ErrOverlap, "dst overlaps a"},
		{Decay(nil, attn.BHLD(buffer[26:], 1, 2, 3, 2), x, a, dt), attn.ErrOverlap, "dst overlaps dt"},
	} {
		mustFail(t, c.err, c.kind, c.text)
	}
	for _, e := range buffer {
		if e != 0 {
			t.Fatal("a call that failed has written")
		}
	}
}

func TestDecayAllocatesNothing(t *testing.T) {
	if sanitize.Enabled {
		t.Skip("a sanitizer allocates")
	}
	x := attn.BHLD(make([]float32, 400), 1, 4, 100, 1)
	a := make([]float32, 4)
	if n := testing.AllocsPerRun(50, func() { must(t, Decay(nil, x, x, a, a)) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func BenchmarkDecay(b *testing.B) {
	for _, d := range []int{1, 128} {
		x := attn.Rows(make([]float32, 2048*32*d), 1, 2048, 32, d, 32*d)
		a := make([]float32, 32)
		for b.Loop() {
			must(b, Decay(nil, x, x, a, a))
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*2048*32*d), "ns/element")
	}
}
