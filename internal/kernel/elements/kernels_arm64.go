//go:build !purego

package elements

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/tuning"
)

func geluStep(_ tuning.ISA, dst, x *float32, n int, a Ahead) { geluSIMD(dst, x, n, a.X, a.Dst) }

func geluTanhStep(_ tuning.ISA, dst, x *float32, n int, a Ahead) {
	geluTanhSIMD(dst, x, n, a.X, a.Dst)
}

// Softplus is computed in float64 by Go code, whose fused multiply-adds are instructions here.
func softplusStep(_ tuning.ISA, dst, x *float32, n int, _ Ahead) {
	activateGeneric(unsafe.Slice(dst, n), unsafe.Slice(x, n), Softplus)
}

// combineStep is Combine of checked operands, in one call: of one sum, or of four.
func combineStep(_ tuning.ISA, x *combineCall, one bool) {
	if one {
		combineSIMD(x)
	} else {
		combineFourSIMD(x)
	}
}
