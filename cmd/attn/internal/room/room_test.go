package room

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

func TestMake(t *testing.T) {
	for _, n := range []int{0, 1, small} {
		if x, err := Make[uint16](n); err != nil || len(x) != n {
			t.Errorf("%d elements: %d, error %v", n, len(x), err)
		}
	}
}

// What no machine has is an error. A sixteenth of the addresses of 32 bits is 1 GiB, which one has.
func TestMakeRefuses(t *testing.T) {
	sizes := []int{math.MaxInt / 8, math.MaxInt/8 + 1, math.MaxInt, -1}
	if strconv.IntSize == 64 {
		sizes = append(sizes, math.MaxInt/16, math.MaxInt/64)
	}
	for _, n := range sizes {
		if _, err := Make[float64](n); err == nil || !strings.Contains(err.Error(), "memory") {
			t.Errorf("%d elements: %v", n, err)
		}
	}
}

func TestSize(t *testing.T) {
	for bytes, want := range map[uint64]string{3 << 20: "3 MiB", 1<<30 - 1: "1024 MiB",
		9 << 29: "4.5 GiB"} {
		if got := size(bytes); got != want {
			t.Errorf("%d bytes are %q, want %q", bytes, got, want)
		}
	}
}

// What a container may not have is an error before the kernel ends the program.
func TestMakeInAGroup(t *testing.T) {
	defer func(was func() (uint64, error)) { groupLimit = was }(groupLimit)
	limit := uint64(0)
	groupLimit = func() (uint64, error) { return limit, nil }
	for _, limit = range []uint64{1, inUse() + 3*small} {
		if _, err := Make[float32](small); err == nil ||
			!strings.Contains(err.Error(), "needs 64 MiB of memory, and the control group") {
			t.Errorf("%d bytes: %v", limit, err)
		}
	}
	limit = inUse() + 10*small
	if _, err := Make[float32](small); err != nil {
		t.Error(err)
	}
}
