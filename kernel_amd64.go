//go:build !purego

package attn

const (
	callProducts = 1 << 19 // see kernel_split.go
	inPlaceKeys  = 8       // keys that scoreRows takes together
)

// softmaxValuesSIMD takes a block of scores into the state of rows, a multiple of fusedRows,
// and fusedCols columns. It works like softmaxValuesGeneric.
//
//go:noescape
func softmaxValuesSIMD(s, m, l, alpha, o, v *float32, rows, oStride int, b *panelLayout,
	c float32) (masked bool)

// scoreMaximaSIMD multiplies queries, maximaRows at a time and of at least maximaDim dimensions, by
// packed keys, and prefetches what comes next. It works like scoreMaximaGeneric.
//
//go:noescape
func scoreMaximaSIMD(s, q, k, maxima *float32, rows, d, panels int, next *prefetchQueue)

// softmaxMaximaSIMD is one online-softmax step. It works like softmaxMaximaGeneric.
//
//go:noescape
func softmaxMaximaSIMD(s, m, l, alpha, maxima *float32, rows int, c float32) (masked bool)

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
func softmaxAVX512(s, m, l, alpha *float32, rows int, c float32) (masked bool)

// softmaxMaskedAVX512 is softmaxMaskedSIMD for AVX-512.
//
//go:noescape
func softmaxMaskedAVX512(s, m, l, alpha *float32, visible *uint64, rows int,
	c float32) (masked bool)

// normalizeSIMD divides rows by their sums. It works like normalizeGeneric.
//
//go:noescape
func normalizeSIMD(dst, o, l *float32, rows, n, dstStride, oStride int)

// addBiasSIMD adds biases and finds masked keys. It works like addBiasGeneric.
//
//go:noescape
func addBiasSIMD(s, bias *float32, visible *uint64, rows, step, stride, lo, n int,
	u float32) (every uint64)

// maskKeysSIMD packs booleans into bits. It works like maskKeysGeneric.
//
//go:noescape
func maskKeysSIMD(mask *bool, visible *uint64, rows, step, stride, lo, n int) (every uint64)
