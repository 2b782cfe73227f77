//go:build !purego

package elements

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/tuning"
)

// Activations in float64 are Go, whose fused multiply-adds are instructions here.

func geluStep(_ tuning.ISA, dst, x *float32, n int) { activateInGo(dst, x, n, GELU) }

func geluTanhStep(_ tuning.ISA, dst, x *float32, n int) { activateInGo(dst, x, n, GELUTanh) }

func softplusStep(_ tuning.ISA, dst, x *float32, n int) { activateInGo(dst, x, n, Softplus) }

func activateInGo(dst, x *float32, n int, f Function) {
	activateGeneric(unsafe.Slice(dst, n), unsafe.Slice(x, n), f)
}
