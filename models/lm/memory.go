package lm

import (
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/pbnjay/memory"
)

// freeMemory is how many bytes of memory the system has free, within the limit of the container
// that the process is in. What the system does not say is no limit.
func freeMemory() int64 {
	free := memory.FreeMemory()
	if limit, err := memlimit.FromCgroup(); err == nil && limit > 0 {
		free = min(free, limit)
	}
	if free == 0 || free > math.MaxInt64 {
		return 0
	}
	return int64(free)
}
