package distance

import (
	"math"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/views"
)

// What is known of numbers follows from their buckets; what they are is tested with attention.
func TestNumbers(t *testing.T) {
	isa := kerneltest.Tuned.ISA
	row, none := views.Contiguous(make([]float32, 100), 1, 1, 1, 5), views.Tensor{}
	row.SL = 0
	for _, c := range []struct {
		buckets         []int32
		even            bool
		lowest, highest int
	}{
		{nil, true, -2, 2},
		{[]int32{0, 0, 1, 2, 2, 3, 4}, true, -2, 0},
		{[]int32{4, 3, 2, 1, 1}, true, 0, 0},
		{[]int32{0, 2, 3, 4, 4}, false, -1, 1},
	} {
		var x Numbers
		var b Buckets
		if err := x.Init(isa, &row, &none, c.buckets, true); err != nil {
			t.Fatal(err)
		}
		if x.even != c.even || x.lowest != c.lowest || x.highest != c.highest || !x.Slide || !x.Shows {
			t.Errorf("of buckets %d: %+v", c.buckets, x)
		}
		all := c.buckets
		if all == nil {
			all = []int32{0, 1, 2, 3, 4}
		}
		b.Fit(&x, c.buckets, 4, 5, 1000)
		first, last, reach := all[0], all[len(all)-1], len(all)/2
		for d, want := range map[int][]int32{-1000: {first, first, first, first},
			-reach - 2: {first, first, all[0], all[1]}} {
			if is := b.From(d, 4); !slices.Equal(is, want) {
				t.Errorf("from %d on buckets %d are %d, want %d", d, all, is, want)
			}
		}
		if is := b.From(1000, 2); is[0] != last || is[1] != last {
			t.Errorf("far away buckets %d are %d", all, is)
		}
	}
	row.Data[3] = float32(math.Inf(-1))
	var x Numbers
	if err := x.Init(isa, &row, &none, nil, true); err != nil || !x.Slide || x.Shows {
		t.Errorf("with −Inf: %v, %+v", err, x)
	}
	if err := x.Init(isa, &row, &none, nil, false); err != nil || x.Slide || x.Straight(0, 0) {
		t.Errorf("with a bias: %v, %+v", err, x)
	}
}

// Rows whose keys are all far away have the first number, or the last one.
func TestSetFarAway(t *testing.T) {
	const keys, width = 64, 9
	isa := kerneltest.Tuned.ISA
	row, none := views.Contiguous(make([]float32, width), 1, 1, 1, width), views.Tensor{}
	for i := range row.Data {
		row.Data[i] = float32(1 + i)
	}
	var x Numbers
	var b Buckets
	if err := x.Init(isa, &row, &none, nil, true); err != nil {
		t.Fatal(err)
	}
	b.Fit(&x, nil, keys, width, 1<<20)
	dst := make([]float32, floats.DistantRows*keys)
	for d := -2 * keys; d <= 2*keys; d++ {
		b.Set(isa, &x, dst, &Tables{Query: row.Data, Width: width}, floats.DistantRows, keys, d)
		for i, got := range dst {
			want := row.Data[width/2+min(max(d-i/keys+i%keys, -width/2), width/2)]
			if got != want {
				t.Fatalf("from distance %d on, row %d, key %d: %v, want %v", d, i/keys, i%keys, got, want)
			}
		}
	}
}
