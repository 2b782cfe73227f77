//go:build race

package memory

import (
	"runtime"
	"testing"
	"unsafe"
)

// The race detector is told of memory that it does not know, as kernels do.
func TestSanitizer(t *testing.T) {
	for _, n := range sizes[1:] {
		m := allocate(t, n)
		p := unsafe.Pointer(unsafe.SliceData(m.Bytes()))
		runtime.RaceWriteRange(p, n)
		runtime.RaceReadRange(p, n)
		must(t, m.Close())
	}
}
