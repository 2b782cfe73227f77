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

// Softplus is in float64: Go, whose fused multiply-adds are instructions here.
func softplusStep(_ tuning.ISA, dst, x *float32, n int, _ Ahead) {
	activateGeneric(unsafe.Slice(dst, n), unsafe.Slice(x, n), Softplus)
}
