//go:build unix || windows

package memory

import (
	"runtime"
	"testing"
)

// The garbage collector works as if the memory were not there.
func TestHeapStaysSmall(t *testing.T) {
	const size = 512 << 20
	heap := func() (s runtime.MemStats) {
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s
	}
	before := heap()
	m := allocate(t, size)
	after := heap()
	for name, grown := range map[string]uint64{
		"HeapSys": after.HeapSys - before.HeapSys, "HeapAlloc": after.HeapAlloc -
			before.HeapAlloc, "NextGC": after.NextGC - before.NextGC,
	} {
		if int64(grown) > size/16 {
			t.Errorf("%s is %d MiB more with %d MiB mapped", name, grown>>20, size>>20)
		}
	}
	must(t, m.Close())
}
