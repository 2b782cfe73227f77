//go:build !purego

package tuning

import "github.com/klauspost/cpuid/v2"

// detect returns this machine's CPU, its caches and the implementations that it can run, best
// first.
func detect() (cpu Microarchitecture, l1, l2 int, possible []ISA) {
	l1, l2 = caches()
	return microarchitectureOf(&cpuid.CPU), l1, l2, possibleISAs(&cpuid.CPU)
}

// possibleISAs requires for each implementation every feature that its kernels use. cpuid reports
// AVX2, FMA3 and F16C only if the operating system saves YMM registers, and AVX-512 only if it
// saves ZMM and mask registers.
func possibleISAs(c *cpuid.CPUInfo) []ISA {
	switch {
	case !c.Supports(cpuid.AVX2, cpuid.FMA3, cpuid.F16C):
		return []ISA{Generic}
	case !c.Supports(cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL):
		return []ISA{AVX2, Generic}
	}
	return []ISA{AVX512, AVX2, Generic}
}

// microarchitectureOf decides by vendor, family and model, as AMD and Intel assign them.
func microarchitectureOf(c *cpuid.CPUInfo) Microarchitecture {
	switch {
	case c.VendorID == cpuid.Intel:
		return Intel
	case c.VendorID != cpuid.AMD:
		return OtherX86
	case c.Family >= 0x1a:
		return Zen5
	case c.Family != 0x19:
		return OtherX86
	case c.Model < 0x10 || c.Model >= 0x20 && c.Model < 0x60:
		return Zen3
	}
	return Zen4
}

// hostDotProduct names the instructions with which kernels of an implementation add products of
// four bytes on this CPU, or "".
func hostDotProduct(i ISA) string { return dotProductOf(&cpuid.CPU, i) }

// dotProductOf: VPDPBUSD exists in EVEX form for AVX-512 and in VEX form for AVX2.
func dotProductOf(c *cpuid.CPUInfo, i ISA) string {
	switch {
	case i == AVX512 && c.Supports(cpuid.AVX512VNNI):
		return "AVX512_VNNI"
	case i == AVX2 && c.Supports(cpuid.AVXVNNI):
		return "AVX-VNNI"
	}
	return ""
}
