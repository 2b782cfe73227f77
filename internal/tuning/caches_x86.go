//go:build amd64 || 386

package tuning

import "github.com/klauspost/cpuid/v2"

// caches are the bytes of a core's caches for data, less than 1 where that is not known. cpuid is
// not linked for other CPUs: it knows no caches there, and is large.
func caches() (l1, l2 int) { return cpuid.CPU.Cache.L1D, cpuid.CPU.Cache.L2 }
