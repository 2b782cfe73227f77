package reference

import (
	"math"
	"testing"
)

// A case that can be computed by hand: two keys with scores 0 and ln 3.
func TestByHand(t *testing.T) {
	c := &Call{
		B: 1, H: 1, KVH: 1, Lq: 1, Lk: 2, D: 1, Dv: 1, Left: -1, Right: -1,
		Q: []float32{1}, K: []float32{0, float32(math.Log(3))}, V: []float32{4, 8}, Scale: 1,
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("%s = %v, want %v", what, got, want)
		}
	}
	for _, r := range []*Result{c.Float64(), c.Naive()} {
		near("weight 0", r.Weights[0], 0.25)
		near("weight 1", r.Weights[1], 0.75)
		near("output", r.O[0], 7)
		near("LSE", r.LSE[0], math.Log(4))
	}
	c.Sinks = []float32{float32(math.Log(4))}
	r := c.Float64()
	near("output with a sink", r.O[0], 3.5)
	near("LSE with a sink", r.LSE[0], math.Log(4))
	c.Sinks, c.Mask = nil, []bool{true, false}
	near("output with a mask", c.Float64().O[0], 4)
	c.Mask, c.KeyLens = nil, []int{0}
	if r := c.Float64(); r.O[0] != 0 || !math.IsInf(r.LSE[0], -1) {
		t.Errorf("no key: output %v and LSE %v, want 0 and -Inf", r.O[0], r.LSE[0])
	}
}

func TestLivePositions(t *testing.T) {
	for _, test := range []struct {
		name string
		call Call
		want [3]string // per query, x where a key is visible
	}{
		{"full", Call{}, [3]string{"xxxxx", "xxxxx", "xxxxx"}},
		{"top left", Call{Causal: true}, [3]string{"x....", "xx...", "xxx.."}},
		{"offset", Call{Causal: true, Offset: 1}, [3]string{"xx...", "xxx..", "xxxx."}},
		{"bottom right", Call{BottomRight: true}, [3]string{"xxx..", "xxxx.", "xxxxx"}},
		{"lengths", Call{BottomRight: true, KeyLens: []int{4}, QueryLens: []int{2}},
			[3]string{"xxx..", "xxxx.", "....."}},
	} {
		c := test.call
		c.B, c.H, c.KVH, c.Lq, c.Lk, c.Left, c.Right = 1, 1, 1, 3, 5, -1, -1
		checkLive(t, test.name, &c, test.want)
	}
	c := Call{B: 1, H: 1, KVH: 1, Lq: 3, Lk: 5, Offset: 1, Left: 1, Right: 0}
	checkLive(t, "window", &c, [3]string{"xx...", ".xx..", "..xx."})
}

func checkLive(t *testing.T, name string, c *Call, want [3]string) {
	t.Helper()
	for i, row := range want {
		for j := range row {
			if got := c.Visible(0, 0, i, j); got != (row[j] == 'x') {
				t.Errorf("%s: query %d, key %d: visible is %v", name, i, j, got)
			}
		}
	}
}
