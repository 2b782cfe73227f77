package linear

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

// errorsOf are the root mean squares of what outputs differ by from those in float64: those of this
// package, and those of the plain recurrence in float32.
func errorsOf(t testing.TB, x *tokens) (chunks, recurrence float64) {
	t.Helper()
	want := x.exact()
	got := x.whole(t, newState(t, x.Config))
	plain := x.plain()
	for i, w := range want {
		chunks += square(float64(got.Data[i]) - w)
		recurrence += square(float64(plain[i]) - w)
	}
	n := float64(len(want))
	return math.Sqrt(chunks / n), math.Sqrt(recurrence / n)
}

func square(x float64) float64 { return x * x }

// Errors are those of the plain recurrence in float32, for random keys of 64 dimensions and more at
// most 1.3 times, for keys that are all alike with β of nearly 2 at most 4 times.
func TestAccuracy(t *testing.T) {
	full := os.Getenv("ATTN_TEST_FULL") != ""
	n, dims := 1000, []int{64}
	if testing.Short() {
		n = 300
	}
	if full {
		n, dims = 20000, []int{64, 128}
	}
	r := rand.New(rand.NewPCG(1, 1))
	check := func(what string, x *tokens, most float64) {
		t.Helper()
		chunks, recurrence := errorsOf(t, x)
		t.Logf("%s: %d tokens of %v, %d channels: %.3g, recurrence %.3g, %.2f times", what, x.q.L, x.Rule,
			x.KeyDim, chunks, recurrence, chunks/recurrence)
		if !(chunks <= most*recurrence) {
			t.Errorf("%s: the error is %.3g, want at most %v times that of the recurrence, %.3g", what,
				chunks, most, recurrence)
		}
	}
	for _, d := range dims {
		for rule := Linear; rule <= GatedDelta; rule++ {
			for _, decay := range []float64{0.01, 1, 80} {
				if !rule.decays() && decay != 1 {
					continue
				}
				for _, channel := range []bool{false, true} {
					if channel && !rule.decays() {
						continue
					}
					c := Config{Heads: 1, KeyDim: d, ValueDim: 32, Rule: rule, ChannelDecay: channel}
					x := randomTokens(t, r, c, n, decay)
					check("random keys", &x, 1.3)
				}
			}
		}
		c := Config{Heads: 1, KeyDim: d, ValueDim: 32, Rule: Delta}
		for _, beta := range []float32{1, 1.99} {
			x := randomTokens(t, r, c, n, 0)
			for i := range n {
				copy(x.k.Row(0, 0, i), x.k.Row(0, 0, 0))
				x.beta.Row(0, 0, i)[0] = beta
			}
			check("equal keys", &x, 4)
		}
	}
}
