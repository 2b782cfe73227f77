//go:build !purego

package elements

import "github.com/seed-1415985d/attn/internal/tuning"

func geluStep(isa tuning.ISA, dst, x *float32, n int, a Ahead) {
	if isa.Lanes16() {
		geluAVX512(dst, x, n, a.X, a.Dst)
		return
	}
	geluSIMD(dst, x, n, a.X, a.Dst)
}

func geluTanhStep(isa tuning.ISA, dst, x *float32, n int, a Ahead) {
	if isa.Lanes16() {
		geluTanhAVX512(dst, x, n, a.X, a.Dst)
		return
	}
	geluTanhSIMD(dst, x, n, a.X, a.Dst)
}

func softplusStep(isa tuning.ISA, dst, x *float32, n int, a Ahead) {
	if isa.Lanes16() {
		softplusAVX512(dst, x, n, a.X, a.Dst)
		return
	}
	softplusSIMD(dst, x, n, a.X, a.Dst)
}

// combineStep is Combine of checked operands, in one call: of one sum, or of four.
func combineStep(isa tuning.ISA, x *combineCall, one bool) {
	switch wide := isa.Lanes16(); {
	case wide && one:
		combineAVX512(x)
	case wide:
		combineFourAVX512(x)
	case one:
		combineSIMD(x)
	default:
		combineFourSIMD(x)
	}
}

//go:noescape
func softplusSIMD(dst, x *float32, n, xAhead, dstAhead int)

// Kernels with 16 lanes.

//go:noescape
func geluAVX512(dst, x *float32, n, xAhead, dstAhead int)

//go:noescape
func geluTanhAVX512(dst, x *float32, n, xAhead, dstAhead int)

//go:noescape
func softplusAVX512(dst, x *float32, n, xAhead, dstAhead int)

//go:noescape
func combineAVX512(x *combineCall)

//go:noescape
func combineFourAVX512(x *combineCall)
