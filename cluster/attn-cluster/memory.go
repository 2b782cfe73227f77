package main

import (
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// machineMemory returns the bytes of memory for this process: of the machine or of its container.
// If the system does not report them, there is no limit.
func machineMemory() int64 {
	least := uint64(math.MaxInt64)
	for _, limit := range []memlimit.Provider{memlimit.FromSystem, memlimit.FromCgroup} {
		if n, err := limit(); err == nil && n > 0 {
			least = min(least, n)
		}
	}
	return int64(least)
}
