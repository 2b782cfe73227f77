//go:build !amd64 || purego

package attn

// What only amd64 has is never called.

const (
	wideRows    = 0
	scattered   = false
	rowsInOrder = false
	fused       = false
	topsBeside  = false
)

const (
	noAVX512 = "attn: no AVX-512 on this platform"
	noFused  = "attn: softmax and accumulate are two kernels on this platform"
	noTops   = "attn: softmax looks for maxima on this platform"
)

func absorbSIMD(s, m, l, alpha, o, v *float32, rows, oStride int, b *values) (dead bool) {
	panic(noFused)
}

func scoreTopsSIMD(s, q, k, tops *float32, rows, d, panels int, next *ahead) { panic(noTops) }
func softmaxTopsSIMD(s, m, l, alpha, tops *float32, rows int) (dead bool)    { panic(noTops) }

func scoreWide(s, q, k *float32, rows, d, panels int, next *ahead) { panic(noAVX512) }
func accumulateWide(o, p, v, alpha *float32, rows, oStride, pStride int, b *values) {
	panic(noAVX512)
}
func softmaxWide(s, m, l, alpha *float32, rows int) (dead bool) { panic(noAVX512) }
func softmaxMaskedWide(s, m, l, alpha *float32, live *uint64, rows int) (dead bool) {
	panic(noAVX512)
}
