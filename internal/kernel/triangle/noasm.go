//go:build !(amd64 || arm64) || purego

package triangle

import "github.com/seed-1415985d/attn/internal/tuning"

// Without assembly the generic code computes everything, and nothing calls these.

func vectors(tuning.ISA) bool { return false }

const none = "triangle: there are no kernels"

func substituteStep(tuning.ISA, *rowsCall)             { panic(none) }
func outputsStep(tuning.ISA, *rowsCall)                { panic(none) }
func decayRowSIMD(_, _ *float32, _, _ int)             { panic(none) }
func decayedSumsSIMD(_, _, _, _ *float32, _, _, _ int) { panic(none) }
func prefetchRowsSIMD(_ *float32, _, _, _ int)         { panic(none) }
func addChunkStep(*tuning.Row, []float32, []float32, []float32, []float32, int, *Next) {
	panic(none)
}
func twoSumsStep(tuning.ISA, *pairCall) { panic(none) }
