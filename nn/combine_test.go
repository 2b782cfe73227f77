package nn

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/f32"
)

// combineShape is sums of n rows for m heads.
type combineShape struct{ b, m, n, l, d, wb, wl int }

var combineShapes = []combineShape{
	{1, 1, 1, 1, 1, 1, 1}, {1, 1, 8, 1, 4096 + 13, 1, 1}, {2, 1, 4, 5, 70, 1, 5},
	{2, 4, 4, 3, 24, 2, 1}, {1, 3, 600, 2, 19, 1, 2}, {1, 130, 2, 1, 33, 1, 1},
	{1, 1, 10, 40, 200, 1, 40}, {0, 2, 3, 4, 5, 1, 4}, {1, 2, 3, 0, 5, 1, 0}, {1, 0, 3, 2, 5, 1, 2},
}

// combined is sums by definition.
func combined(x, w attn.Tensor) attn.Tensor {
	dst := zeros(x.B, w.H, x.L, x.D)
	for b := range x.B {
		for m := range w.H {
			for l := range x.L {
				by, to := w.Row(min(b, w.B-1), m, min(l, w.L-1)), dst.Row(b, m, l)
				for n, e := range by {
					for i, v := range x.Row(b, n, l) {
						to[i] = f32.FMA(e, v, to[i])
					}
				}
			}
		}
	}
	return dst
}

// Sums are chains of FMAs, for views of any strides, with any number of workers.
func TestCombine(t *testing.T) {
	forEachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 9))
		pools := []*attn.Pool{nil, attn.NewPool(3)}
		for _, s := range combineShapes {
			x, w := randomTensor(r, s.b, s.n, s.l, s.d), randomTensor(r, s.wb, s.m, s.wl, s.n)
			if len(x.Data) > 3 {
				x.Data[2], x.Data[len(x.Data)/2] = inf, nan
			}
			for i := range w.Data {
				if i%5 == 0 {
					w.Data[i] = 0
				}
			}
			want := combined(x, w)
			pitch := s.m*s.d + 3
			apart := attn.BLHD(make([]float32, len(x.Data)), s.b, s.l, s.n, s.d)
			for at := range s.b * s.n * s.l {
				b, h, l := at/s.l/s.n, at/s.l%s.n, at%s.l
				copy(apart.Row(b, h, l), x.Row(b, h, l))
			}
			for _, p := range pools {
				got := zeros(s.b, s.m, s.l, s.d)
				must(t, Combine(p, got, x, w))
				sameBits(t, fmt.Sprint(s), got.Data, want.Data)
				rows := attn.Rows(make([]float32, s.b*s.l*pitch), s.b, s.l, s.m, s.d, pitch)
				must(t, Combine(p, rows, apart, w))
				for at := range s.b * s.m * s.l {
					b, h, l := at/s.l/s.m, at/s.l%s.m, at%s.l
					sameBits(t, fmt.Sprint(s, " with strides"), rows.Row(b, h, l), want.Row(b, h, l))
				}
				for i, e := range rows.Data {
					if i%pitch >= s.m*s.d && e != 0 {
						t.Fatalf("%v: element %d between rows was written", s, i)
					}
				}
			}
		}
		must(t, pools[1].Close())
	})
}

// goldenCombine is of sums of the same numbers on every CPU.
const goldenCombine = "073db35b395f713f27cfd3b46bf3f38c8b1970c2cdd64dcbb3a46959c144179e"

func TestGoldenCombine(t *testing.T) {
	forEachISA(t, func(t *testing.T) {
		hash := sha256.New()
		r := rand.New(rand.NewPCG(7, 8))
		for _, s := range combineShapes {
			dst := zeros(s.b, s.m, s.l, s.d)
			must(t, Combine(nil, dst, randomTensor(r, s.b, s.n, s.l, s.d),
				randomTensor(r, s.wb, s.m, s.wl, s.n)))
			for _, e := range dst.Data {
				_ = binary.Write(hash, binary.LittleEndian, math.Float32bits(e))
			}
		}
		if got := hex.EncodeToString(hash.Sum(nil)); got != goldenCombine {
			t.Errorf("the hash is %s, want %s", got, goldenCombine)
		}
	})
}

func TestCombineMisuse(t *testing.T) {
	x, w, dst := zeros(2, 3, 4, 5), zeros(1, 2, 4, 3), zeros(2, 2, 4, 5)
	for i := range dst.Data {
		dst.Data[i] = 7
	}
	buffer := make([]float32, 200)
	same := dst
	same.SB, same.SH, same.SL = 20, attn.Broadcast, 5
	closed := attn.NewPool(2)
	must(t, closed.Close())
	for _, c := range []struct {
		err, kind error
		text      string
	}{
		{Combine(nil, dst, x, zeros(3, 2, 4, 3)), attn.ErrShape,
			"weights is [3 2 4 3], want [2 or 1, M, 4 or 1, 3] for x, [2 3 4 5]"},
		{Combine(nil, dst, zeros(2, 0, 4, 5), zeros(2, 2, 4, 0)), attn.ErrShape,
			"x.H is 0, want 1 to 268435456"},
		{Combine(nil, dst, x, zeros(1, 2, 3, 3)), attn.ErrShape, "weights is [1 2 3 3]"},
		{Combine(nil, dst, x, zeros(1, 2, 4, 2)), attn.ErrShape, "weights is [1 2 4 2]"},
		{Combine(nil, zeros(2, 3, 4, 5), x, w), attn.ErrShape, "dst is [2 3 4 5], want [2 2 4 5]"},
		{Combine(nil, same, x, w), attn.ErrStride, "dst has a stride of Broadcast"},
		{Combine(nil, attn.BHLD(buffer, 2, 2, 4, 5), attn.BHLD(buffer[79:], 2, 3, 4, 5), w),
			attn.ErrOverlap, "dst overlaps x, want separate memory"},
		{Combine(nil, attn.BHLD(buffer, 2, 2, 4, 5), x, attn.BHLD(buffer[79:], 1, 2, 4, 3)),
			attn.ErrOverlap, "dst overlaps weights, want separate memory"},
		{Combine(nil, dst, attn.Tensor{Data: buffer[:3], B: 2, H: 3, L: 4, D: 5}, w), attn.ErrLength,
			"len(x.Data) is 3"},
		{Combine(closed, dst, x, w), attn.ErrClosed, "the pool was closed"},
	} {
		mustFail(t, c.err, c.kind, c.text)
	}
	for _, e := range dst.Data {
		if e != 7 {
			t.Fatal("a call that failed has written")
		}
	}
}

// BenchmarkCombine reports the time of reading x and writing dst, measured in the same run, as a
// fraction of the time of the sums.
func BenchmarkCombine(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct{ m, n, l int }{{1, 4, 4096}, {1, 8, 2048}, {1, 10, 2048}, {4, 4, 2048},
		{1, 4, 8}, {1, 8, 8}, {1, 10, 8}, {4, 4, 8}} {
		const d = 2048
		x, w := randomTensor(r, 1, c.n, c.l, d), randomTensor(r, 1, c.m, c.l, c.n)
		dst, from := zeros(1, c.m, c.l, d), randomTensor(r, 1, c.m, c.l, d)
		b.Run(fmt.Sprintf("M=%d/N=%d/KiB=%d", c.m, c.n, 4*(len(x.Data)+len(dst.Data))>>10),
			func(b *testing.B) {
				best := 0.
				for b.Loop() {
					reading := quickest(func() { attn.Max(x.Data) })
					writing := quickest(func() { copy(dst.Data, from.Data) }) -
						quickest(func() { attn.Max(from.Data) })
					took := quickest(func() { must(b, Combine(nil, dst, x, w)) })
					best = max(best, float64(reading+max(0, writing))/float64(took))
				}
				b.ReportMetric(best, "of-limit")
			})
	}
}
