//go:build !(amd64 || arm64) || purego

package elements

import "github.com/seed-1415985d/attn/internal/tuning"

// Without assembly the generic code computes everything, and nothing calls these.

func vectors(tuning.ISA) bool { return false }

const none = "elements: there are no kernels"

func sumSIMD(*[Lanes]float32, *float32, int) float32                            { panic(none) }
func sumSquaresSIMD(*[Lanes]float32, *float32, int, float32) float32            { panic(none) }
func addSquaresSIMD(*[Lanes]float32, *float32, *float32, *float32, int) float32 { panic(none) }
func scaleSIMD(_, _ *float32, _ int, _ float32, _, _ int)                       { panic(none) }
func scaleWeightedSIMD(_, _, _ *float32, _ int, _ float32, _, _ int)            { panic(none) }
func normalizeSIMD(_, _, _, _ *float32, _ int, _, _ float32, _, _ int)          { panic(none) }
func addSIMD(_, _, _ *float32, _, _, _ int)                                     { panic(none) }
func multiplySIMD(_, _, _ *float32, _, _, _ int)                                { panic(none) }
func multiplyAddSIMD(_, _, _ *float32, _ int)                                   { panic(none) }
func columnMaximaSIMD(_, _ *float32, _, _, _ int)                               { panic(none) }
func combineStep(tuning.ISA, *combineCall, bool)                                { panic(none) }
func gateClampedSIMD(_, _, _ *float32, _ int, _, _ float32, _, _ int)           { panic(none) }
func rotateHalvesSIMD(_, _, _, _ *float32, _, _ int, _ float32)                 { panic(none) }
func rotatePairsSIMD(_, _, _, _ *float32, _ int, _ float32)                     { panic(none) }
func siluGateSIMD(_, _, _ *float32, _, _, _ int)                                { panic(none) }
func siluSIMD(_, _ *float32, _, _, _ int)                                       { panic(none) }
func sigmoidSIMD(_, _ *float32, _, _, _ int)                                    { panic(none) }
func reluSIMD(_, _ *float32, _, _, _ int)                                       { panic(none) }
func reluSquaredSIMD(_, _ *float32, _, _, _ int)                                { panic(none) }
func tanhSIMD(_, _ *float32, _, _, _ int)                                       { panic(none) }
func expAllSIMD(_, _ *float32, _, _, _ int)                                     { panic(none) }
func geluStep(_ tuning.ISA, _, _ *float32, _ int, _ Ahead)                      { panic(none) }
func geluTanhStep(_ tuning.ISA, _, _ *float32, _ int, _ Ahead)                  { panic(none) }
func softplusStep(_ tuning.ISA, _, _ *float32, _ int, _ Ahead)                  { panic(none) }
