package attn

import (
	"math"
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

// TopK selects as many as there are, and leaves what is behind them in dst. Their order is tested
// in internal/topk.
func TestTopK(t *testing.T) {
	scores := []float32{1, nan32(), 3, 3, negInf, 2}
	order := []int32{2, 3, 5, 0, 4, 1}
	for n := range len(scores) + 3 {
		for most := range len(order) + 1 {
			dst, some := slices.Repeat([]int32{-7}, n), scores[:most]
			want := slices.DeleteFunc(slices.Clone(order), func(i int32) bool { return int(i) >= most })
			want = want[:min(n, most)]
			got := TopK(dst, some)
			if got != len(want) || !slices.Equal(dst[:got], want) {
				t.Errorf("TopK of %d of %v is %d: %v, want %v", n, some, got, dst, want)
			}
			if i := slices.IndexFunc(dst[got:], func(e int32) bool { return e != -7 }); i >= 0 {
				t.Errorf("TopK of %d of %v writes dst[%d], behind the %d it returns", n, some, got+i, got)
			}
		}
	}
}
