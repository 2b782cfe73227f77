package matmul

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/views"
)

// Rows that do not fit go in several parts, cut between matrices if one has not more.
func TestMulExpertsInParts(t *testing.T) {
	r := kerneltest.Random(t.Name())
	const tokens, n = 30, 3
	ms := someBodies(t, 256)
	a, outputs := anyView(r, 1, 1, tokens, 256), ms[0].cols
	chosen := views.Contiguous(make([]int32, tokens*n), 1, 1, tokens, n)
	for i := range chosen.Data {
		chosen.Data[i] = int32(r.IntN(len(ms)+1)) - 1
	}
	dst, want := zeroView(1, n, tokens, outputs), zeroView(1, n, tokens, outputs)
	kerneltest.Must(t, MulExperts(&tuned, want, a, ms, &chosen, nil))
	for _, most := range []int{1, 7, 40, 1000} {
		var r routes
		call := expertCall{t: &tuned, dst: *dst, a: *a, ms: ms, chosen: chosen}
		kerneltest.Must(t, call.check())
		call.route(&r)
		firsts := inParts(&targets{[]views.Tensor{call.dst}, ms, nil}, call.inputs(&r), most)
		for i, first := range firsts[1:] {
			if n := first - firsts[i]; n < 1 || n > most {
				t.Fatalf("parts of %d begin with places %v", most, firsts)
			}
			_, ends := slices.BinarySearch(r.ends, first)
			if !ends && first-firsts[i] < most {
				t.Fatalf("parts of %d begin with %v, those of matrices end with %v", most, firsts, r.ends)
			}
		}
		kerneltest.MustEqualBits(t, fmt.Sprint("parts of ", most), dst.Data, want.Data)
		clear(dst.Data)
	}
}
