//go:build !purego

package limits

import (
	"math"
	"unsafe"

	"github.com/klauspost/cpuid/v2"
)

// cpuid reports these only if the operating system saves the registers.
var (
	has256 = cpuid.CPU.Supports(cpuid.AVX2, cpuid.FMA3)
	has512 = has256 && cpuid.CPU.Supports(cpuid.AVX512F)

	hasAVXVNNI = has256 && cpuid.CPU.Supports(cpuid.AVXVNNI)

	hasVNNI = has512 && cpuid.CPU.Supports(cpuid.AVX512BW, cpuid.AVX512VNNI)
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

// fmaLoadsAVX2 is fmaAVX2 with 8 loads from p on for every step, 256 bytes in all.
//
//go:noescape
func fmaLoadsAVX2(steps int, p *float32, factor, summand float32)

// fmaLoadsAVX512 is fmaLoadsAVX2 in vectors of 16, of 512 bytes.
//
//go:noescape
func fmaLoadsAVX512(steps int, p *float32, factor, summand float32)

// loaded is the memory that is loaded between multiply-adds: whole cache lines, because loads
// across two are slower.
var loaded = wholeLines(128)

func wholeLines(n int) []float32 {
	const line = 64
	x := make([]float32, n+line/4)
	before := int(-uintptr(unsafe.Pointer(&x[0])) % line / 4)
	return x[before:][:n]
}

// readAVX2 loads chunks chunks of 128 floats and returns the bitwise or of all, so that every load
// is used.
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

func fmaLoads(v Vectors, steps int) {
	switch v {
	case AVX512:
		fmaLoadsAVX512(steps, &loaded[0], factor, summand)
	case AVX2:
		fmaLoadsAVX2(steps, &loaded[0], factor, summand)
	default:
		fmaGo(steps)
	}
}

// integersAVX2 runs steps steps of 12 sums of products of 8-bit integers in vectors of 32, by
// VPMADDUBSW, VPMADDWD and VPADDD.
//
//go:noescape
func integersAVX2(steps int)

// smallIntegersAVX2 is integersAVX2 by VPMADDUBSW and VPADDW, whose sums have 16 bits.
//
//go:noescape
func smallIntegersAVX2(steps int)

// integersAVX512 is integersAVX2 in vectors of 64.
//
//go:noescape
func integersAVX512(steps int)

// integersVNNI is integersAVX512 by VPDPBUSD.
//
//go:noescape
func integersVNNI(steps int)

// integersAVXVNNI is integersAVX2 by VPDPBUSD.
//
//go:noescape
func integersAVXVNNI(steps int)

func integers(v Integers, steps int) {
	switch v {
	case AVXVNNIIntegers:
		integersAVXVNNI(steps)
	case VNNIIntegers:
		integersVNNI(steps)
	case AVX512Integers:
		integersAVX512(steps)
	case AVX2Integers:
		integersAVX2(steps)
	case AVX2SmallIntegers:
		smallIntegersAVX2(steps)
	default:
		integersGo(steps)
	}
}

// readStreamsAVX2 loads 32 floats at a time from each of 8 places that are stride floats apart,
// steps times. Like readAVX2 it returns the bitwise or of all.
//
//go:noescape
func readStreamsAVX2(p *float32, stride, steps int) uint32

// read loads all elements in order. Wider vectors do not read faster from memory. Assembly cannot
// be preempted, so a call reads at most 1 MiB.
func read(v Vectors, x []float32) {
	if v == Scalar {
		readGo(x)
		return
	}
	for len(x) > 0 {
		n := min(len(x)/chunk, 1<<18/chunk)
		checkOnes(readAVX2(&x[0], n))
		x = x[n*chunk:]
	}
}

// readStreams loads all elements from 8 places at once. That way a core can wait for more lines of
// memory than its prefetcher requests in order.
func readStreams(v Vectors, x []float32) {
	if v == Scalar {
		readGo(x)
		return
	}
	stride := len(x) / streams
	for at := 0; at < stride; {
		n := min((stride-at)/streamStep, 1<<18/streams/streamStep)
		checkOnes(readStreamsAVX2(&x[at], stride, n))
		at += n * streamStep
	}
}

func checkOnes(bits uint32) {
	if bits != math.Float32bits(1) {
		panic("limits: the buffer does not hold ones")
	}
}
