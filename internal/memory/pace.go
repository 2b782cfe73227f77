package memory

import (
	"runtime"
	"sync"
)

// The garbage collector does not see mappings. A program that drops large ones and allocates little
// else would run out of memory before it collects, so Allocate asks for a collection when new
// mappings outweigh old ones, as the collector does for its heap. Programs that close what they do
// not need any more cause few: each doubles what was mapped at most before.

// minFresh bytes are mapped before a collection is asked for, however little else is mapped.
const minFresh = 256 << 20

// paces is what all mappings take together.
var paces struct {
	sync.Mutex
	mapped int64 // bytes that the system has given and not got back
	fresh  int64 // of them, about those mapped since a collection was asked for
}

// Mapped returns how many bytes all mappings together have from the system.
func Mapped() int64 {
	paces.Lock()
	defer paces.Unlock()
	return paces.mapped
}

// count notes that bytes were mapped, or given back if they are less than 0. It reports whether it
// is time to collect.
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

// pace notes that so much was mapped, and collects if it is time to.
func pace(bytes int) {
	if count(int64(bytes)) {
		runtime.GC()
	}
}
