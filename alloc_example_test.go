//go:build !race && !asan && !msan

package attn_test

import "testing"

// Example_multiHead says that its Forward does not allocate.
func TestNoAllocationInMultiHead(t *testing.T) {
	m, err := newMultiHead(3)
	check(err)
	n := testing.AllocsPerRun(20, func() {
		var x, dst [3 * 4]float32
		check(m.Forward(dst[:], x[:], 3))
	})
	if n != 0 {
		t.Errorf("%v allocations per call, want 0", n)
	}
}
