//go:build !amd64 || purego

package attn

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
)

// The kernels that only amd64 has: chooseKernels never chooses them elsewhere.

const onlyAMD64 = "attn: this kernel exists on amd64 only"

// groupsTogether: see integerRows.together.
const groupsTogether = false

func quantizesRotated(n, rotation int) bool { return false }
func quantizeRotatedStep(dst *int8, scales *float32, starts *int32, x *float32, rows, n,
	xStride int) (done int) {
	panic(onlyAMD64)
}

func scoreMaximaSIMD(s, q, k, maxima *float32, rows, d, panels int, next *kernel.PrefetchQueue) {
	panic(onlyAMD64)
}
func softmaxMaximaSIMD(s, m, l, alpha, maxima *float32, rows int, c float32) (masked bool) {
	panic(onlyAMD64)
}

func scoreAVX512(s, q, k *float32, rows, d, panels int,
	next *kernel.PrefetchQueue) {
	panic(onlyAMD64)
}
func accumulateAVX512(o, p, v, alpha *float32, rows, oStride, pStride int, b *kernel.PanelLayout) {
	panic(onlyAMD64)
}
func softmaxAVX512(s, m, l, alpha *float32, rows int, c float32) (masked bool) { panic(onlyAMD64) }
func softmaxScaledSIMD(s, m, l, alpha, keyScales, scales *float32, c float32) (masked bool) {
	panic(onlyAMD64)
}
func softmaxMaskedAVX512(s, m, l, alpha *float32, visible *uint64, rows int,
	c float32) (masked bool) {
	panic(onlyAMD64)
}

func normalizeAVX512(dst, o, l *float32, rows, n, dstStride, oStride int) { panic(onlyAMD64) }

// transposesTyped reports whether there are kernels of transposeHalves and transposeGroups.
func transposesTyped() bool { return false }

// transposeFloatsStep transposes squares as keys are packed, a call for each.
func transposeFloatsStep(dst, k *float32, stride, squares, panels int) {
	for p := range panels {
		for j := range squares {
			to, from := operand.At(dst, (p*Block+j*panel)*panel), operand.At(k, p*panel*panel+j*stride)
			packKeysSIMD(to, from, panel, panel, panel, false)
		}
	}
}

func transposeHalvesSIMD(dst, k *uint16, stride, squares, panels int) { panic(onlyAMD64) }
func transposeGroupsSIMD(dst, k *byte, stride, groups int)            { panic(onlyAMD64) }
