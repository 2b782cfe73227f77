package attn

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// newRand returns a generator that is the same in every run.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x61747465)) }

// normals returns n normally distributed numbers.
func normals(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func nan32() float32 { return float32(math.NaN()) }

// nans returns n NaNs: memory that must be overwritten or never looked at.
func nans(n int) []float32 {
	x := make([]float32, n)
	fillWith(x, nan32())
	return x
}

// mustEqualBits compares bit for bit; all NaNs are the same.
func mustEqualBits(t testing.TB, what string, got, want []float32) {
	if len(got) != len(want) {
		t.Helper()
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	if i := firstDifference(got, want); i >= 0 {
		t.Helper() // here, because it is slow
		t.Fatalf("%s[%d] = %x (%v), want %x (%v)", what, i,
			math.Float32bits(got[i]), got[i], math.Float32bits(want[i]), want[i])
	}
}

func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// mustFail checks the kind of an error.
// mustFail judges an error's kind, and where it is given what it says beside that.
func mustFail(t testing.TB, what string, err, kind error, text ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: error is %v, want %v", what, err, kind)
		return
	}
	got := strings.TrimPrefix(strings.TrimPrefix(err.Error(), kind.Error()), ": ")
	if len(text) > 0 && got != text[0] {
		t.Errorf("%s: error says %q, want %q", what, got, text[0])
	}
}

func fillWith[T any](x []T, e T) {
	for n := copy(x, []T{e}); n > 0 && n < len(x); n *= 2 {
		copy(x[n:], x[:n])
	}
}

func zeros(b, h, l, d int) Tensor { return BHLD(make([]float32, b*h*l*d), b, h, l, d) }
