//go:build amd64 || 386

package tuning

import "github.com/klauspost/cpuid/v2"

// caches returns the bytes of a core's caches for data, less than 1 if unknown. cpuid is not linked
// for other CPUs: it is large and knows no caches there.
func caches() (l1, l2 int) { return cpuid.CPU.Cache.L1D, cpuid.CPU.Cache.L2 }
