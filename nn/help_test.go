package nn

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/tuning"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mustFail wants an error of a kind whose text has a part.
func mustFail(t testing.TB, err, kind error, text string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), text) ||
		!strings.Contains(err.Error(), "nn.") {
		t.Errorf("the error is %q, want %q: … %s", err, kind, text)
	}
}

// forEachISA runs a subtest for each implementation of this machine.
func forEachISA(t *testing.T, test func(t *testing.T)) {
	defer func(before tuning.ISA) { isa = before }(isa)
	for _, isa = range kerneltest.Implementations() {
		t.Run(isa.String(), test)
	}
}

func zeros(b, h, l, d int) attn.Tensor {
	return attn.BHLD(make([]float32, b*h*l*d), b, h, l, d)
}

func randomTensor(r *rand.Rand, b, h, l, d int) attn.Tensor {
	x := zeros(b, h, l, d)
	for i := range x.Data {
		x.Data[i] = float32(r.NormFloat64())
	}
	return x
}

// sameBits compares with == on bits, any NaN equal to any other.
func sameBits(t testing.TB, what string, got, want []float32) {
	t.Helper()
	if i := kerneltest.FirstDifference(got, want); i >= 0 {
		t.Fatalf("%s: element %d is %v (%#08x), want %v (%#08x)", what, i, got[i],
			math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
	}
}
