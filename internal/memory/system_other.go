//go:build !unix && !windows

package memory

import "fmt"

// maxHeap bounds one object, because nobody can ask such a system: a heap that cannot grow ends
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
