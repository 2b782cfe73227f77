package elements

import (
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
)

func fuzzKernel(f *testing.F, name string) { kerneltest.FuzzOneOf(f, kernelTests, name) }

func FuzzSum(f *testing.F)           { fuzzKernel(f, "sum") }
func FuzzSumSquares(f *testing.F)    { fuzzKernel(f, "sumSquares") }
func FuzzAddSquares(f *testing.F)    { fuzzKernel(f, "addSquares") }
func FuzzScale(f *testing.F)         { fuzzKernel(f, "scale") }
func FuzzScaleWeighted(f *testing.F) { fuzzKernel(f, "scaleWeighted") }
func FuzzNormalize(f *testing.F)     { fuzzKernel(f, "normalize") }
func FuzzAdd(f *testing.F)           { fuzzKernel(f, "add") }
func FuzzMultiply(f *testing.F)      { fuzzKernel(f, "multiply") }
func FuzzMultiplyAdd(f *testing.F)   { fuzzKernel(f, "multiplyAdd") }
func FuzzCombine(f *testing.F)       { fuzzKernel(f, "combine") }
func FuzzColumnMaxima(f *testing.F)  { fuzzKernel(f, "columnMaxima") }
func FuzzGateClamped(f *testing.F)   { fuzzKernel(f, "gateClamped") }
func FuzzRotateHalves(f *testing.F)  { fuzzKernel(f, "rotateHalves") }
func FuzzRotatePairs(f *testing.F)   { fuzzKernel(f, "rotatePairs") }
func FuzzActivate(f *testing.F)      { fuzzKernel(f, "activate") }
func FuzzGate(f *testing.F)          { fuzzKernel(f, "gate") }
