package kernel

import "testing"

// A panel left over by calls of two would take nearly as long as both.
func TestColumnsOf(t *testing.T) {
	for most, want := range map[int]int{0: 1, Panel: 1, 2*Panel - 1: 1, 2 * Panel: 2, 3 * Panel: 2,
		5*Panel + 1: 4, 6 * Panel: 6} {
		if got := ColumnsOf(most); got != want*Panel {
			t.Errorf("of %d: %d, want %d panels", most, got, want)
		}
	}
}
