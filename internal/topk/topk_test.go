package topk

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// bySorting is the definition: all indices in their order, and the first of them.
func bySorting(n int, scores []float32) []int32 {
	all := make([]int32, len(scores))
	for i := range all {
		all[i] = int32(i)
	}
	slices.SortStableFunc(all, func(a, b int32) int {
		x, y := scores[a], scores[b]
		switch {
		case x > y || x == x && y != y:
			return -1
		case x < y || x != x && y == y:
			return 1
		}
		return 0
	})
	return all[:n]
}

func mustSelect(t *testing.T, n int, scores []float32) {
	t.Helper()
	got, want := make([]int32, n), bySorting(n, scores)
	if Indices(got, scores); !slices.Equal(got, want) {
		t.Fatalf("%d of %d scores are %v, want %v", n, len(scores), got, want)
	}
}

// special is scores whose order is easy to get wrong.
func special() []float32 {
	inf, nan, negZero := float32(math.Inf(1)), float32(math.NaN()), float32(math.Copysign(0, -1))
	small := math.Float32frombits(1)
	return []float32{inf, -inf, nan, -nan, 0, negZero, 1, -1, small, -small, math.MaxFloat32,
		-math.MaxFloat32, math.Float32frombits(0xffffffff), math.Float32frombits(0x7f800001)}
}

func normal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func TestIndices(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	some := special()
	for n := range len(some) {
		mustSelect(t, n+1, some)
	}
	for range 2000 {
		scores := make([]float32, 1+r.IntN(200))
		for i := range scores {
			switch scores[i] = some[r.IntN(len(some))]; r.IntN(3) {
			case 0:
				scores[i] = math.Float32frombits(r.Uint32())
			case 1:
				scores[i] = float32(r.IntN(5)) // many are equal
			}
		}
		if r.IntN(4) == 0 {
			slices.Sort(scores)
		}
		mustSelect(t, 1+r.IntN(len(scores)), scores)
	}
	mustSelect(t, 2048, normal(r, 131072))
}

// FuzzIndices: the first byte is how many, each four after it a score.
func FuzzIndices(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := 1; n < 300; n = 2*n + 5 {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		var scores []float32
		for rest := data[1:]; len(rest) >= 4; rest = rest[4:] {
			scores = append(scores, math.Float32frombits(binary.LittleEndian.Uint32(rest)))
		}
		if n := min(int(data[0]), len(scores)); n > 0 {
			mustSelect(t, n, scores)
		}
	})
}

// BenchmarkIndices selects 2048 of 131072 scores, in several orders.
func BenchmarkIndices(b *testing.B) {
	scores := normal(rand.New(rand.NewPCG(1, 2)), 131072)
	dst := make([]int32, 2048)
	for _, order := range []string{"random", "ascending", "equal"} {
		switch order {
		case "ascending":
			slices.Sort(scores)
		case "equal":
			clear(scores)
		}
		b.Run("order="+order, func(b *testing.B) {
			for b.Loop() {
				Indices(dst, scores)
			}
		})
	}
}
