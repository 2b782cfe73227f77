//go:build !purego

package tuning

import "github.com/klauspost/cpuid/v2"

// detect returns this machine's CPU, its caches, and the implementations that it can run, best
// first. Advanced SIMD is part of the base architecture of arm64.
func detect() (cpu Microarchitecture, l1, l2 int, possible []ISA) {
	return ARM64, cpuid.CPU.Cache.L1D, cpuid.CPU.Cache.L2, []ISA{NEON, Generic}
}

// hostDotProduct is FEAT_DotProd if this CPU has it, SDOT, or "".
func hostDotProduct(i ISA) string {
	if i == NEON && cpuid.CPU.Supports(cpuid.ASIMDDP) {
		return "FEAT_DotProd"
	}
	return ""
}
