//go:build !amd64 || purego

package attn

// What only amd64 has is never called.

const (
	noAVX512 = "attn: no AVX-512 on this platform"
	noFused  = "attn: softmax and accumulate are two kernels on this platform"
	noMaxima = "attn: softmax looks for maxima on this platform"
)

func softmaxValuesSIMD(s, m, l, alpha, o, v *float32, rows, oStride int, b *panelLayout) (masked bool) {
	panic(noFused)
}

func scoreMaximaSIMD(s, q, k, maxima *float32, rows, d, panels int, next *prefetchQueue) {
	panic(noMaxima)
}
func softmaxMaximaSIMD(s, m, l, alpha, maxima *float32, rows int) (masked bool) { panic(noMaxima) }

func scoreAVX512(s, q, k *float32, rows, d, panels int, next *prefetchQueue) { panic(noAVX512) }
func accumulateAVX512(o, p, v, alpha *float32, rows, oStride, pStride int, b *panelLayout) {
	panic(noAVX512)
}
func softmaxAVX512(s, m, l, alpha *float32, rows int) (masked bool) { panic(noAVX512) }
func softmaxMaskedAVX512(s, m, l, alpha *float32, live *uint64, rows int) (masked bool) {
	panic(noAVX512)
}
