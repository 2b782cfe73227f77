package attn

import (
	"errors"
	"math"
	"strings"
	"testing"
)

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

// must ends the test if something failed that has to work.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// mustFail checks the kind of an error and, where it is given, the text that follows the kind.
func mustFail(t testing.TB, what string, err, kind error, text ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: error is %v, want %v", what, err, kind)
		return
	}
	got := strings.TrimPrefix(strings.TrimPrefix(err.Error(), kind.Error()), ": ")
	if len(text) > 0 && text[0] != "" && got != text[0] {
		t.Errorf("%s: error says %q, want %q", what, got, text[0])
	}
}

// fillWith makes all elements the same.
func fillWith[T any](x []T, e T) {
	for n := copy(x, []T{e}); n > 0 && n < len(x); n *= 2 {
		copy(x[n:], x[:n])
	}
}

// zeros is a contiguous tensor of zeros.
func zeros(b, h, l, d int) Tensor { return BHLD(make([]float32, b*h*l*d), b, h, l, d) }
