//go:build !(amd64 || arm64) || purego

package tuning

import "github.com/klauspost/cpuid/v2"

// detect returns this machine's caches: without assembly, nothing else matters.
func detect() (cpu Microarchitecture, l1, l2 int, possible []ISA) {
	return AnyCPU, cpuid.CPU.Cache.L1D, cpuid.CPU.Cache.L2, []ISA{Generic}
}

// hostDotProduct: no kernel here has an instruction for products of four bytes.
func hostDotProduct(ISA) string { return "" }
