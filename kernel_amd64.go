//go:build !purego

package attn

import (
	"math"

	"github.com/klauspost/cpuid/v2"
)

const (
	callProducts = 1 << 19 // see cut.go
	rawTile      = 8       // keys that scoreRows takes together
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

// rowsInOrder: few queries read rows of keys and values in order, and ask for nothing: one query all
// columns of values (gen/tile.go), up to four 8 rows of keys while they touch the next 8
// (gen/touch.go), and first the keys of many blocks, then the values (series.go). On Zen 4
// that is 22 GB/s of 28. Several rows or pages side by side, and requests in any order, get 12. From a cache, two or three
// queries take one panel after the other, and ask as oneAhead and fewAhead say.
// Calls that may have their keys and values in the L2 cache do not (see inOrderBytes).
var rowsInOrder = zen4(&cpuid.CPU)

// oneAhead and fewAhead are how many bytes ahead of reading one or two queries, and 3 to 5, ask for packed
// keys and values.
var oneAhead, fewAhead = packedAhead(&cpuid.CPU)

func packedAhead(c *cpuid.CPUInfo) (one, few int) {
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

// scattered: kernels of few rows ask for a line of each of 8 pages in turn (stream.go).
// On a Xeon (Sapphire Rapids by its caches) a core reads 11 GB/s in order, whatever
// is asked for ahead in order, and 18 so. On Zen 5 order is best; nothing else was measured.
var scattered = cpuid.CPU.VendorID == cpuid.Intel

// wideRows is the least number of rows of score and accumulate with 16 lanes, if there is one. Fewer wait for
// memory where requests are not scattered: then the kernels with 8 lanes ask for it, those with
// 16 do not. Zen 4 splits vectors of 16 lanes in two: with them it is no faster, and with 8 score looks for
// maxima (see topsBeside).
var wideRows = fewestWideRows(scattered, zen4(&cpuid.CPU))

func fewestWideRows(scattered, split bool) int {
	switch {
	case split:
		return math.MaxInt
	case scattered:
		return 2
	}
	return 13 // more than one tile takes
}

// fused: softmax and accumulate are one kernel. That is 2 % faster than two on Zen 5, and 7 %
// slower on Zen 4. On a Xeon, where multiply-adds and most steps of exp go through the
// same two ports, it is 1 % slower, and 8 % when another program runs on the other thread of the core.
var fused = zen5(&cpuid.CPU)

// absorbSIMD takes a block of scores into the state of rows, a multiple of absorbRows,
// and absorbCols columns. It works like absorbGeneric.
//
//go:noescape
func absorbSIMD(s, m, l, alpha, o, v *float32, rows, oStride int, b *values) (dead bool)

// topsBeside: score looks for the maxima of its rows. That is for CPUs on which it takes no time from multiply-adds and on
// which softmax is a kernel of its own.
var topsBeside = zen3or4(&cpuid.CPU)

// scoreTopsSIMD multiplies queries, topRows at a time and of at least topDim dimensions, by packed keys, and asks for what
// comes next. It works like scoreTopsGeneric.
//
//go:noescape
func scoreTopsSIMD(s, q, k, tops *float32, rows, d, panels int, next *ahead)

// softmaxTopsSIMD is one online-softmax step. It works like softmaxTopsGeneric.
//
//go:noescape
func softmaxTopsSIMD(s, m, l, alpha, tops *float32, rows int) (dead bool)

// scoreWide is scoreSIMD for AVX-512 and at least 2 rows.
//
//go:noescape
func scoreWide(s, q, k *float32, rows, d, panels int, next *ahead)

// accumulateWide is accumulateSIMD for AVX-512, at least 2 rows and whole panels: it
// leaves out the last 8 columns if their number is odd.
//
//go:noescape
func accumulateWide(o, p, v, alpha *float32, rows, oStride, pStride int, b *values)

// softmaxWide is softmaxSIMD for AVX-512.
//
//go:noescape
func softmaxWide(s, m, l, alpha *float32, rows int) (dead bool)

// softmaxMaskedWide is softmaxMaskedSIMD for AVX-512.
//
//go:noescape
func softmaxMaskedWide(s, m, l, alpha *float32, live *uint64, rows int) (dead bool)

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
