//go:build !purego

package attn

import (
	"math"

	"github.com/klauspost/cpuid/v2"
)

const (
	callProducts = 1 << 19 // see cut.go
	inPlaceKeys  = 8       // keys that scoreRows takes together
)

var active = choose(possible()...)

// possible gates each implementation on every feature its kernels use. cpuid
// reports AVX2 and FMA3 only if the operating system saves YMM registers, and AVX-512 only
// if it saves ZMM and mask registers.
func possible() []isa {
	has := cpuid.CPU.Supports
	return bestFirst(has(cpuid.AVX2, cpuid.FMA3), has(cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL))
}

// bestFirst lists implementations by the lanes of the vectors that there are.
func bestFirst(eight, sixteen bool) []isa {
	switch {
	case !eight:
		return []isa{generic}
	case !sixteen:
		return []isa{avx2, generic}
	}
	return []isa{avx512, avx2, generic}
}

// panelsAbreast: one row of queries takes four packed panels side by side instead of one
// behind the other. On Zen 3 that is 24 GB/s, where a loop of nothing but loads in order
// reads 20; on Zen 5 it is 27 against 38.
var panelsAbreast = zen3(&cpuid.CPU)

// sequentialReads: few queries read rows of keys and values in order, and ask for nothing: one query all
// columns of values (gen/tile.go), up to four 8 rows of keys while they touch the next 8
// (gen/touch.go), and first the keys of many blocks, then the values (series.go). On Zen 4
// that is 22 GB/s of 28. Several rows or pages side by side, and requests in any order, get 12. From a cache, two or three
// queries take one panel after the other, and ask as prefetchOne and prefetchFew say.
// Calls that may have their keys and values in the L2 cache do not (see sequentialBytes).
var sequentialReads = zen4(&cpuid.CPU)

// prefetchOne and prefetchFew are how many bytes ahead of reading one or two queries, and 3 to 5, ask for packed
// keys and values.
var prefetchOne, prefetchFew = prefetchDistances(&cpuid.CPU)

func prefetchDistances(c *cpuid.CPUInfo) (one, few int) {
	if zen4(c) {
		return 256, 4096
	}
	return 6144, 8192
}

func zen3(c *cpuid.CPUInfo) bool {
	return zen3or4(c) && (c.Model < 0x10 || c.Model >= 0x20 && c.Model < 0x60)
}

func zen4(c *cpuid.CPUInfo) bool { return zen3or4(c) && !zen3(c) }

func zen5(c *cpuid.CPUInfo) bool { return c.VendorID == cpuid.AMD && c.Family >= 0x1a }

func zen3or4(c *cpuid.CPUInfo) bool { return c.VendorID == cpuid.AMD && c.Family == 0x19 }

// pagedPrefetch: kernels of few rows ask for a line of each of 8 pages in turn (stream.go).
// On a Xeon (Sapphire Rapids by its caches) a core reads 11 GB/s in order, whatever
// is asked for ahead in order, and 18 so. On Zen 5 order is best; nothing else was measured.
var pagedPrefetch = cpuid.CPU.VendorID == cpuid.Intel

// leastRows16 is the least number of rows of score and accumulate with 16 lanes, if there is one. Fewer wait for
// memory where requests are not pagedPrefetch: then the kernels with 8 lanes ask for it, those with
// 16 do not. Zen 4 splits vectors of 16 lanes in two: with them it is no faster, and with 8 score looks for
// maxima (see maximaInScore).
var leastRows16 = fewestRows16(pagedPrefetch, zen4(&cpuid.CPU))

func fewestRows16(pagedPrefetch, split bool) int {
	switch {
	case split:
		return math.MaxInt
	case pagedPrefetch:
		return 2
	}
	return 13 // more than one tile takes
}

// fused: softmax and accumulate are one kernel. That is 2 % faster than two on Zen 5, and 7 %
// slower on Zen 4. On a Xeon, where multiply-adds and most steps of exp go through the
// same two ports, it is 1 % slower, and 8 % when another program runs on the other thread of the core.
var fused = zen5(&cpuid.CPU)

// softmaxValuesSIMD takes a block of scores into the state of rows, a multiple of fusedRows,
// and fusedCols columns. It works like softmaxValuesGeneric.
//
//go:noescape
func softmaxValuesSIMD(s, m, l, alpha, o, v *float32, rows, oStride int, b *panelLayout) (masked bool)

// maximaInScore: score looks for the maxima of its rows. That is for CPUs on which it takes no time from multiply-adds and on
// which softmax is a kernel of its own.
var maximaInScore = zen3or4(&cpuid.CPU)

// scoreMaximaSIMD multiplies queries, maximaRows at a time and of at least maximaDim dimensions, by packed keys, and asks for what
// comes next. It works like scoreMaximaGeneric.
//
//go:noescape
func scoreMaximaSIMD(s, q, k, maxima *float32, rows, d, panels int, next *prefetchQueue)

// softmaxMaximaSIMD is one online-softmax step. It works like softmaxMaximaGeneric.
//
//go:noescape
func softmaxMaximaSIMD(s, m, l, alpha, maxima *float32, rows int) (masked bool)

// scoreAVX512 is scoreSIMD for AVX-512 and at least 2 rows.
//
//go:noescape
func scoreAVX512(s, q, k *float32, rows, d, panels int, next *prefetchQueue)

// accumulateAVX512 is accumulateSIMD for AVX-512, at least 2 rows and whole panels: it
// leaves out the last 8 columns if their number is odd.
//
//go:noescape
func accumulateAVX512(o, p, v, alpha *float32, rows, oStride, pStride int, b *panelLayout)

// softmaxAVX512 is softmaxSIMD for AVX-512.
//
//go:noescape
func softmaxAVX512(s, m, l, alpha *float32, rows int) (masked bool)

// softmaxMaskedAVX512 is softmaxMaskedSIMD for AVX-512.
//
//go:noescape
func softmaxMaskedAVX512(s, m, l, alpha *float32, live *uint64, rows int) (masked bool)

// normalizeSIMD divides rows by their sums. It works like normalizeGeneric.
//
//go:noescape
func normalizeSIMD(dst, o, l *float32, rows, n, dstStride, oStride int)

// addBiasSIMD adds biases and finds masked keys. It works like addBiasGeneric.
//
//go:noescape
func addBiasSIMD(s, bias *float32, live *uint64, rows, step, stride, lo, n int) (every uint64)

// maskKeysSIMD packs booleans into bits. It works like maskKeysGeneric.
//
//go:noescape
func maskKeysSIMD(mask *bool, live *uint64, rows, step, stride, lo, n int) (every uint64)
