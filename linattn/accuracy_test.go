package linattn

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

// errorsOf returns root mean square errors against outputs in float64: of this package, and of the
// plain recurrence in float32.
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

// Errors equal the plain recurrence's in float32, for random keys of 64 dimensions and more at
// most 1.3 times, for keys that are all alike and β of up to 1.9 at most 4 times.
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
			t.Errorf("%s: the error is %.3g, want at most %v times the recurrence's, %.3g", what,
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
					c := Config{Heads: 1, KeyDim: d, ValueDim: 8, Rule: rule, ChannelDecay: channel}
					x := randomTokens(t, r, c, n, decay)
					check("random keys", &x, 1.3)
				}
			}
		}
		// The rounding of a key's square comes back with each token, and β near 2 forgets little.
		c := Config{Heads: 8, KeyDim: d, ValueDim: 8, Rule: Delta}
		for _, beta := range []float32{1, 1.9} {
			x := randomTokens(t, r, c, min(n, 2000), 0)
			for h := range c.Heads {
				for i := range x.q.L {
					copy(x.k.Row(0, h, i), x.k.Row(0, h, 0))
					x.beta.Row(0, h, i)[0] = beta
				}
			}
			check("equal keys", &x, 4)
		}
	}
}

// TestAccuracyOfLongSequences has the table in docs/reliability.md: errors of outputs, relative to
// their root mean square, by decay and length.
func TestAccuracyOfLongSequences(t *testing.T) {
	if os.Getenv("ATTN_TEST_FULL") == "" {
		t.Skip("it computes 100 000 tokens in float64; TestAccuracy has fewer")
	}
	r := rand.New(rand.NewPCG(2, 2))
	for _, decay := range []float64{0, 0.001, 0.1, 3, 80} {
		c := Config{Heads: 1, KeyDim: 64, ValueDim: 4, Rule: GatedDelta}
		x := randomTokens(t, r, c, 100000, decay)
		want, got, plain := x.exact(), x.whole(t, newState(t, c)), x.plain()
		for n := 1000; n <= x.q.L; n *= 10 {
			var chunks, recurrence, size float64
			for i, w := range want[:n*c.ValueDim] {
				chunks += square(float64(got.Data[i]) - w)
				recurrence += square(float64(plain[i]) - w)
				size += square(w)
			}
			chunks, recurrence = math.Sqrt(chunks/size), math.Sqrt(recurrence/size)
			t.Logf("decays to %v, %d tokens: %.2g, %.2f times the recurrence's", decay, n, chunks,
				chunks/recurrence)
			if !(chunks <= 1.3*recurrence) {
				t.Errorf("decays to %v, %d tokens: the error is %.3g, want at most 1.3 times %.3g", decay, n,
					chunks, recurrence)
			}
		}
	}
}
