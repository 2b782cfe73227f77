//go:build !race && !asan && !msan

package attn_test

import "testing"

func TestMultiHeadDoesNotAllocate(t *testing.T) {
	m, err := newMultiHead(3)
	if err != nil {
		t.Fatal(err)
	}
	forward := func() {
		var x, dst [3 * 4]float32
		if err := m.Forward(dst[:], x[:], 3); err != nil {
			t.Error(err)
		}
	}
	forward()
	if n := testing.AllocsPerRun(20, forward); n != 0 {
		t.Errorf("%v allocations per call, want 0", n)
	}
}
