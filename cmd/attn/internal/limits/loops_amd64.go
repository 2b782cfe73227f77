//go:build !purego

package limits

import (
	"math"

	"github.com/klauspost/cpuid/v2"
)

// cpuid reports these only if the operating system saves the registers.
var (
	has256 = cpuid.CPU.Supports(cpuid.AVX2, cpuid.FMA3)
	has512 = has256 && cpuid.CPU.Supports(cpuid.AVX512F)
)

// The factors keep the chains near 1: no overflow, no subnormals.
const factor, summand = 0.5, 0.5

// fmaAVX2 runs steps steps of 12 chains t = FMA(t, factor, summand) in vectors of 8.
//
//go:noescape
func fmaAVX2(steps int, factor, summand float32)

// fmaAVX512 is fmaAVX2 in vectors of 16.
//
//go:noescape
func fmaAVX512(steps int, factor, summand float32)

// readAVX2 loads chunks chunks of 128 floats and returns the bitwise or of
// all, so that no load is for nothing.
//
//go:noescape
func readAVX2(p *float32, chunks int) uint32

func fma(v Vectors, steps int) {
	switch v {
	case AVX512:
		fmaAVX512(steps, factor, summand)
	case AVX2:
		fmaAVX2(steps, factor, summand)
	default:
		fmaGo(steps)
	}
}

// read loads all elements. Wider vectors do not read faster from the levels that matter.
func read(v Vectors, x []float32) {
	if v == Scalar {
		readGo(x)
		return
	}
	const chunksPerCall = 2048 // 1 MiB: assembly cannot be preempted
	for len(x) > 0 {
		n := min(len(x)/chunk, chunksPerCall)
		if readAVX2(&x[0], n) != math.Float32bits(1) {
			panic("limits: the buffer does not hold ones")
		}
		x = x[n*chunk:]
	}
}
