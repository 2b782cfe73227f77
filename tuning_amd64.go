//go:build !purego

package attn

import "github.com/klauspost/cpuid/v2"

// detect returns this machine's CPU, its caches, and the implementations that it can run, best first.
func detect() (cpu microarchitecture, l1, l2 int, possible []isa) {
	c := &cpuid.CPU
	return microarchitectureOf(c), c.Cache.L1D, c.Cache.L2, possibleISAs(c)
}

// possibleISAs gates each implementation on every feature its kernels use. cpuid
// reports AVX2, FMA3 and F16C only if the operating system saves YMM registers, and AVX-512 only
// if it saves ZMM and mask registers.
func possibleISAs(c *cpuid.CPUInfo) []isa {
	switch {
	case !c.Supports(cpuid.AVX2, cpuid.FMA3, cpuid.F16C):
		return []isa{generic}
	case !c.Supports(cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL):
		return []isa{avx2, generic}
	}
	return []isa{avx512, avx2, generic}
}

// microarchitectureOf goes by vendor, family and model, as AMD and Intel assign them.
func microarchitectureOf(c *cpuid.CPUInfo) microarchitecture {
	switch {
	case c.VendorID == cpuid.Intel:
		return intel
	case c.VendorID != cpuid.AMD:
		return otherX86
	case c.Family >= 0x1a:
		return zen5
	case c.Family != 0x19:
		return otherX86
	case c.Model < 0x10 || c.Model >= 0x20 && c.Model < 0x60:
		return zen3
	}
	return zen4
}
