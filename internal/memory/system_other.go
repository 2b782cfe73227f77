//go:build !unix && !windows

package memory

import (
	"errors"
	"fmt"
	"os"
)

// maxHeap bounds one object, because such a system cannot be asked: a heap that cannot grow ends
// the program.
const maxHeap = 1 << 30

// take allocates on the Go heap.
func take(bytes int) ([]byte, error) {
	if bytes > maxHeap {
		return nil, fmt.Errorf("want at most %d", maxHeap)
	}
	return onHeap(bytes), nil
}

// giveBack leaves the memory to the garbage collector.
func giveBack([]byte) error { return nil }

// mapFile cannot be done.
func mapFile(*os.File, int) ([]byte, error) { return nil, errors.ErrUnsupported }

// unmapFile has nothing to do.
func unmapFile([]byte) error { return nil }

// forget has nothing to do.
func forget([]byte) {}
