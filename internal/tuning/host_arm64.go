//go:build !purego

package tuning

import "golang.org/x/sys/cpu"

// detect returns this machine's CPU, its caches and the implementations that it can run, best
// first. Advanced SIMD is part of the base architecture of arm64.
func detect() (_ Microarchitecture, l1, l2 int, possible []ISA) {
	l1, l2 = caches()
	return ARM64, l1, l2, []ISA{NEON, Generic}
}

// hostDotProduct returns "SDOT" if this CPU has FEAT_DotProd, otherwise "".
func hostDotProduct(i ISA) string {
	if i == NEON && cpu.ARM64.HasASIMDDP {
		return "FEAT_DotProd"
	}
	return ""
}
