package lm

import (
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/pbnjay/memory"
)

// freeMemory returns the bytes of free memory of the system, within the limit of the process's
// container. A value that the system does not give is no limit.
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
