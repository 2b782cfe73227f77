package attn

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The functions on slices compute what they say, against float64.
func TestPrimitivesAgainstFloat64(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("primitives")
		near := func(what string, got float32, want, scale float64) {
			t.Helper()
			if !(math.Abs(float64(got)-want) <= 4e-6*scale) {
				t.Errorf("%s is %v, want %v", what, got, want)
			}
		}
		for range budget(400) {
			a := tensor(r, normal, 1, 1, 1, 1+r.IntN(300)).Data
			b := tensor(r, normal, 1, 1, 1, len(a)).Data
			top, dot, size, sum := math.Inf(-1), 0.0, 0.0, 0.0
			for i, e := range a {
				x, y := float64(e), float64(b[i])
				top = max(top, x)
				dot, size = dot+x*y, size+math.Abs(x*y)
				sum += math.Exp(x)
			}
			near("Dot", Dot(a, b), dot, size)
			near("Max", Max(a), top, 0)
			near("LogSumExp", LogSumExp(a), math.Log(sum), 1+math.Abs(math.Log(sum)))
			exps, soft := make([]float32, len(a)), make([]float32, len(a))
			near("ExpSum", ExpSum(exps, a, float32(top)), sum/math.Exp(top), sum/math.Exp(top))
			Softmax(soft, a)
			for i, e := range a {
				near("an exp", exps[i], math.Exp(float64(e)-top), 1)
				near("a softmax", soft[i], math.Exp(float64(e))/sum, 1)
			}
			Exp(exps, a)
			for i, e := range a {
				near("Exp", exps[i], math.Exp(float64(e)), math.Exp(float64(e)))
			}
		}
		none := []float32{negInf, negInf, negInf}
		Softmax(none, none)
		for _, e := range none {
			if math.Float32bits(e) != 0 {
				t.Errorf("Softmax of nothing above −Inf has %v, want +0", e)
			}
		}
	})
}

func TestLogSumExpExactValues(t *testing.T) {
	inf, nan := float32(math.Inf(1)), nan32()
	forEach(t, func(t *testing.T) {
		for _, c := range []struct {
			x    []float32
			want float32
		}{
			{nil, negInf}, {[]float32{negInf, negInf}, negInf}, {[]float32{3}, 3},
			{[]float32{200, negInf}, 200}, {[]float32{0, 0}, math.Ln2},
			{[]float32{1, inf}, inf}, {[]float32{inf, inf, negInf}, inf}, {[]float32{inf, nan}, nan},
			{[]float32{nan, negInf}, nan},
		} {
			if got := LogSumExp(c.x); !sameBits(got, c.want) {
				t.Errorf("LogSumExp(%v) = %v, want %v", c.x, got, c.want)
			}
		}
	})
}

// topKBySorting is TopK by its definition: all indices in its order, and the first of them.
func topKBySorting(n int, scores []float32) []int32 {
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
	return all[:min(n, len(all))]
}

func mustBeTopK(t *testing.T, n int, scores []float32) {
	t.Helper()
	dst := slices.Repeat([]int32{-7}, n)
	got, want := TopK(dst, scores), topKBySorting(n, scores)
	if got != len(want) || !slices.Equal(dst[:got], want) {
		t.Fatalf("TopK of %d of %d scores is %d: %v, want %d: %v", n, len(scores), got, dst[:got],
			len(want), want)
	}
	for i, e := range dst[got:] {
		if e != -7 {
			t.Fatalf("dst[%d] is %d, want it untouched", got+i, e)
		}
	}
}

func TestTopK(t *testing.T) {
	r := random(t.Name())
	inf, nan, negZero := float32(math.Inf(1)), nan32(), float32(math.Copysign(0, -1))
	small := math.Float32frombits(1)
	some := []float32{inf, negInf, nan, -nan, 0, negZero, 1, -1, small, -small, math.MaxFloat32,
		-math.MaxFloat32, math.Float32frombits(0xffffffff), math.Float32frombits(0x7f800001)}
	for n := range len(some) + 2 {
		mustBeTopK(t, n, some)
	}
	mustBeTopK(t, 3, nil)
	for range budget(2000) {
		scores := make([]float32, r.IntN(200))
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
		mustBeTopK(t, r.IntN(len(scores)+10), scores)
	}
	mustBeTopK(t, 2048, tensor(r, normal, 1, 1, 1, 131072).Data)
}

// FuzzTopK: the first byte is how many, each four after it a score.
func FuzzTopK(f *testing.F) {
	seedInputs(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		var scores []float32
		for rest := data[1:]; len(rest) >= 4; rest = rest[4:] {
			scores = append(scores, math.Float32frombits(binary.LittleEndian.Uint32(rest)))
		}
		mustBeTopK(t, int(data[0]), scores)
	})
}

// BenchmarkTopK selects 2048 of 131072 scores, in several orders.
func BenchmarkTopK(b *testing.B) {
	scores := tensor(rand.New(rand.NewPCG(1, 2)), normal, 1, 1, 1, 131072).Data
	dst := make([]int32, 2048)
	for _, order := range []string{"random", "ascending", "equal"} {
		switch order {
		case "ascending":
			slices.Sort(scores)
		case "equal":
			clear(scores)
		}
		b.Run(fmt.Sprint("order=", order), func(b *testing.B) {
			for b.Loop() {
				TopK(dst, scores)
			}
		})
	}
}
