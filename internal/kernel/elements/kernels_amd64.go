//go:build !purego

package elements

import "github.com/seed-1415985d/attn/internal/tuning"

func geluStep(isa tuning.ISA, dst, x *float32, n int) {
	if isa.Lanes16() {
		geluAVX512(dst, x, n)
		return
	}
	geluSIMD(dst, x, n)
}

func geluTanhStep(isa tuning.ISA, dst, x *float32, n int) {
	if isa.Lanes16() {
		geluTanhAVX512(dst, x, n)
		return
	}
	geluTanhSIMD(dst, x, n)
}

func softplusStep(isa tuning.ISA, dst, x *float32, n int) {
	if isa.Lanes16() {
		softplusAVX512(dst, x, n)
		return
	}
	softplusSIMD(dst, x, n)
}

//go:noescape
func softplusSIMD(dst, x *float32, n int)

// Those with 16 lanes.

//go:noescape
func geluAVX512(dst, x *float32, n int)

//go:noescape
func geluTanhAVX512(dst, x *float32, n int)

//go:noescape
func softplusAVX512(dst, x *float32, n int)
