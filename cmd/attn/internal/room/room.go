// Package room allocates memory for files and flags, and returns an error if there is too little:
// the runtime would end the program with a trace, and the kernel without a message.
package room

import (
	"fmt"
	"math"
	"runtime/metrics"
	"unsafe"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Make is make([]T, n), or an error if the system does not grant this process that much memory.
func Make[T any](n int) ([]T, error) {
	var one T
	if uint64(n) > math.MaxInt/uint64(max(1, unsafe.Sizeof(one))) {
		return nil, fmt.Errorf("%d elements of %d bytes need more memory than there are addresses", n,
			unsafe.Sizeof(one))
	}
	if err := check(n * int(unsafe.Sizeof(one))); err != nil {
		return nil, err
	}
	return make([]T, n), nil
}

const (
	small  = 16 << 20 // smaller sizes are not probed
	beside = 64 << 20 // the runtime's overhead besides a sixteenth: it allocates whole arenas
)

var groupLimit = memlimit.FromCgroup // which tests replace

func check(bytes int) error {
	if bytes <= small {
		return nil
	}
	if limit, err := groupLimit(); err == nil {
		if free := limit - min(limit, inUse()); uint64(bytes) > free {
			return fmt.Errorf("needs %s of memory, and the control group of this process has %s left",
				size(uint64(bytes)), size(free))
		}
	}
	if bytes > math.MaxInt-bytes/16-beside {
		return fmt.Errorf("needs %s of memory, more than a process of this kind has",
			size(uint64(bytes)))
	}
	if err := probe(bytes + bytes/16 + beside); err != nil {
		return fmt.Errorf("needs %s of memory, which the system does not give: %w", size(uint64(bytes)),
			err)
	}
	return nil
}

// inUse returns the memory that the runtime has from the system.
func inUse() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}

// size prints bytes for people.
func size(bytes uint64) string {
	if bytes >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20))
}
