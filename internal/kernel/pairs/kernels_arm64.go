//go:build !purego

package pairs

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// callProducts bounds the multiply-adds of a call.
func callProducts(tuning.ISA) int { return kernel.CallProducts }

// hasKernel reports whether there is a kernel of sums.
func hasKernel(tuning.ISA) bool { return false }

// accumulateStep has no kernel here.
func accumulateStep(tuning.ISA, *kernel.Sums, *byte, *kernel.PanelLayout) {}

// putSome is putGroups of at most CallElements numbers.
func putSome(_ tuning.ISA, dst []uint16, x []float32, stride int) { putGroupsGeneric(dst, x, stride) }

// round is Round of at most CallElements numbers.
func round(_ tuning.ISA, dst, x []float32) { roundGeneric(dst, x) }
