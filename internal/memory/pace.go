package memory

import (
	"runtime"
	"sync"
)

// The garbage collector does not see mappings. A program that drops large ones and allocates little
// else would run out of memory before it collects, so Allocate starts a collection when new
// mappings outweigh old ones, as the collector does for its heap. Programs that close their
// mappings cause few collections: between two the largest mapped size doubles.

// minFresh bytes are mapped before a collection, however little else is mapped.
const minFresh = 256 << 20

// paces counts the bytes of all mappings.
var paces struct {
	sync.Mutex
	mapped int64 // bytes from the system that are not released
	fresh  int64 // about how many of them were mapped since the last collection
}

// Mapped returns the bytes of all mappings.
func Mapped() int64 {
	paces.Lock()
	defer paces.Unlock()
	return paces.mapped
}

// count records mapped bytes, or released ones if negative. It reports whether to collect.
func count(bytes int64) (collect bool) {
	paces.Lock()
	defer paces.Unlock()
	paces.mapped += bytes
	paces.fresh = max(0, paces.fresh+bytes)
	if paces.fresh <= max(minFresh, paces.mapped-paces.fresh) {
		return false
	}
	paces.fresh = 0
	return true
}

// pace records mapped bytes, and collects if it is time.
func pace(bytes int) {
	if count(int64(bytes)) {
		runtime.GC()
	}
}
