package kernel

import "testing"

// TestCallColumns checks that calls have whole pairs of panels, and no more products than they may,
// unless one panel has more.
func TestCallColumns(t *testing.T) {
	const products = 1 << 20
	for _, c := range []struct{ rows, keys, want int }{
		{1, 1, products / CallRows}, {32, 256, 128}, {48, 256, 64}, {50, 256, 64}, {72, 256, 32},
		{128, 256, 32}, {129, 256, Panel}, {products, 256, Panel},
	} {
		if got := CallColumns(products, c.rows, c.keys); got != c.want {
			t.Errorf("%d rows, %d keys: %d columns, want %d", c.rows, c.keys, got, c.want)
		}
	}
}
