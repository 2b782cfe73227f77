package main

import (
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// machineMemory is how many bytes of memory there are for this process: those of the machine, or of
// the container that it is in. What the system does not say is no limit.
func machineMemory() int64 {
	least := uint64(math.MaxInt64)
	for _, limit := range []memlimit.Provider{memlimit.FromSystem, memlimit.FromCgroup} {
		if n, err := limit(); err == nil && n > 0 {
			least = min(least, n)
		}
	}
	return int64(least)
}
