//go:build !(amd64 || arm64) || purego

package attn

import "github.com/klauspost/cpuid/v2"

// detect returns this machine's caches: without assembly, nothing else matters.
func detect() (cpu microarchitecture, l1, l2 int, possible []isa) {
	return anyCPU, cpuid.CPU.Cache.L1D, cpuid.CPU.Cache.L2, []isa{generic}
}
