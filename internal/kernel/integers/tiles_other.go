//go:build arm64 && !purego

package integers

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// callProducts bounds the products of a call.
func callProducts(*tuning.Row, *Rows, int, bool) int { return kernel.CallIntegers }
