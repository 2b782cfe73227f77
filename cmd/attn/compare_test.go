package main

import (
	"math"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/cmd/attn/internal/npyfile"
)

// What differs is said with its size and place. NaN is like NaN, an infinity like itself, and 0
// like −0.
func TestCompare(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	f := newFolder(t)
	a := []float32{1, 2, nan, inf, 0, -0x1p-149}
	for _, c := range []struct {
		b    []float32
		want string
	}{
		{a, "0 of 6 elements of (2, 3) differ\n"},
		{[]float32{1, 2, nan, inf, float32(math.Copysign(0, -1)), -0x1p-149}, "0 of 6 elements of " +
			"(2, 3) differ\n"},
		{[]float32{1, 2.5, nan, inf, 0, 0x1p-148}, "2 of 6 elements of (2, 3) differ\n" +
			"largest difference  0.5 at (0, 1): 2 and 2.5\n" +
			"root mean square    0.204\n" +
			"most ULPs           2097152 at (0, 1): 2 and 2.5\n"},
		{[]float32{1, 2, 7, inf, nan, 0x1p-148}, "3 of 6 elements of (2, 3) differ\n" +
			"largest difference  4.2e-45 at (1, 2): -1e-45 and 3e-45\n" +
			"root mean square    2.1e-45\n" +
			"most ULPs           3 at (1, 2): -1e-45 and 3e-45\n" +
			"NaN in one only     2, first at (0, 2)\n"},
		{[]float32{1, 2, nan, -inf, 0, -0x1p-149}, "1 of 6 elements of (2, 3) differ\n" +
			"largest difference  +Inf at (1, 0): +Inf and -Inf\n" +
			"root mean square    +Inf\n" +
			"most ULPs           4278190080 at (1, 0): +Inf and -Inf\n"},
		{[]float32{1, 2, 0, inf, 0, -0x1p-149}, "1 of 6 elements of (2, 3) differ\n" +
			"NaN in one only     1, first at (0, 2)\n"},
	} {
		f.save("a.npy", npyfile.Array[float32]{Shape: []int{2, 3}, Data: a})
		f.save("b.npy", npyfile.Array[float32]{Shape: []int{2, 3}, Data: c.b})
		status, stdout, stderr := call("run", "-compare", f.path("a.npy"), f.path("b.npy"))
		if status != 0 || stderr != "" || stdout != c.want {
			t.Errorf("status %d, stderr %q, stdout\n%s, want\n%s", status, stderr, stdout, c.want)
		}
	}
}

// Files are compared as they are, float64 without rounding.
func TestCompareFloat64(t *testing.T) {
	d := comparison{shape: []int{1}}
	d.add(0, 1, 1+1e-12)
	var text strings.Builder
	d.print(&text)
	want := "1 of 1 elements of (1,) differ\nlargest difference  1e-12 at (0,): 1 and 1.000000000001\n"
	if !strings.HasPrefix(text.String(), want) || d.ulps.most != 0 {
		t.Errorf("%s, %v ULPs", text.String(), d.ulps.most)
	}
}

func TestCompareRefuses(t *testing.T) {
	f := newFolder(t)
	f.random("a.npy", 1, 2, 3)
	f.random("b.npy", 1, 3, 2)
	a, b := f.path("a.npy"), f.path("b.npy")
	checkRefusalOf(t, 2, "-compare has 1 arguments, want two files", "run", "-compare", a)
	checkRefusalOf(t, 2, "-compare has 3 arguments, want two files", "run", "-compare", a, a, a)
	checkRefusalOf(t, 2, "-compare goes with no other flag", "run", "-q", a, "-compare", a, a)
	checkRefusalOf(t, 1, "a.npy is (2, 3) and "+b+" is (3, 2), want one shape", "run", "-compare", a,
		b)
	checkRefusalOf(t, 1, "none.npy: no such file", "run", "-compare", a, f.path("none.npy"))
}
