package stop

import (
	"bytes"
	"slices"
	"testing"
	"unsafe"
)

// Lengths around the end of a piece.
func lengths[T any]() (list []int) {
	var e T
	n := Bytes / int(unsafe.Sizeof(e))
	return []int{0, 1, n - 1, n, n + 1, 3 * n, 3*n + 5}
}

func numbers(n int) []uint32 {
	x := make([]uint32, n)
	for i := range x {
		x[i] = uint32(i) + 1
	}
	return x
}

// Copy is copy, whichever of the two slices is shorter, and Clear is clear.
func TestCopyAndClear(t *testing.T) {
	for _, n := range lengths[uint32]() {
		for _, m := range []int{n, n + 7, max(0, n-7)} {
			src, dst, want := numbers(n), make([]uint32, m), make([]uint32, m)
			copy(want, src)
			if Copy(dst, src); !slices.Equal(dst, want) {
				t.Errorf("Copy of %d elements to %d is not what copy does", n, m)
			}
		}
		x := numbers(n + 2)
		if Clear(x[1 : n+1]); x[0] != 1 || x[n+1] != uint32(n+2) {
			t.Errorf("Clear of %d elements changes one beside them", n)
		}
		if i := slices.IndexFunc(x[1:n+1], func(e uint32) bool { return e != 0 }); i >= 0 {
			t.Errorf("Clear of %d elements leaves element %d", n, i)
		}
	}
}

func TestIndexByte(t *testing.T) {
	for _, n := range lengths[byte]() {
		x := make([]byte, n)
		if got := IndexByte(x, 1); got != -1 {
			t.Errorf("IndexByte of %d zeros is %d, want -1", n, got)
		}
		for _, at := range []int{0, Bytes - 1, Bytes, 2 * Bytes, n - 1} {
			if at < 0 || at >= n {
				continue
			}
			x[at] = 1
			if got, want := IndexByte(x, 1), bytes.IndexByte(x, 1); got != want {
				t.Errorf("IndexByte of %d bytes with one at %d is %d, want %d", n, at, got, want)
			}
			x[at] = 0
		}
	}
}
