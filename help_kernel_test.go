package attn

import (
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// What tests of this package share with those of kernels, which put rows of the tuning in force.

func init() { kerneltest.Tuned = &tuned }

type (
	trial        = kerneltest.Trial
	distribution = kerneltest.Distribution
	kernelTest   = kerneltest.KernelTest
)

const (
	normal        = kerneltest.Normal
	special       = kerneltest.Special
	zeroes        = kerneltest.Zeroes
	huge          = kerneltest.Huge
	tiny          = kerneltest.Tiny
	coarse        = kerneltest.Coarse
	anyBits       = kerneltest.AnyBits
	distributions = kerneltest.Distributions
)

var (
	anyTuning       = kerneltest.AnyTuning
	budget          = kerneltest.Budget
	compare         = kerneltest.Compare
	chosen          = kerneltest.Chosen
	equalGeneric    = kerneltest.EqualGeneric
	splitVectors    = kerneltest.SplitVectors
	few             = kerneltest.Few
	firstDifference = kerneltest.FirstDifference
	forEach         = kerneltest.ForEach
	forEachTuning   = kerneltest.ForEachTuning
	fuzzPlays       = kerneltest.FuzzPlays
	fuzzTrials      = kerneltest.FuzzTrials
	implementations = kerneltest.Implementations
	must            = kerneltest.Must
	mustEqualBits   = kerneltest.MustEqualBits
	mustFail        = kerneltest.MustFail
	nan32           = kerneltest.Nan32
	nans            = kerneltest.Nans
	random          = kerneltest.Random
	randomFrom      = kerneltest.RandomFrom
	readingAs       = kerneltest.ReadingAs
	sameBits        = kerneltest.SameBits
	seedInputs      = kerneltest.SeedInputs
	specials        = kerneltest.Specials
	switchTo        = kerneltest.SwitchTo
	use             = kerneltest.Use
	use32           = kerneltest.Use32
	useTuning       = kerneltest.UseTuning
	vectorDims      = kerneltest.VectorDims
	with16Lanes     = kerneltest.With16Lanes
)

// fillWith makes all elements the same.
func fillWith[T any](x []T, e T) { kerneltest.FillWith(x, e) }

// rotateGeneric rotates rows in place with the generic code.
func rotateGeneric(x []float32, rows, stride, n, block int) {
	integers.Rotate(tuning.Generic, x, x, rows, n, stride, stride, block)
}

// largestGeneric is the largest magnitude by the generic code.
func largestGeneric(x []float32) float32 { return integers.Largest(tuning.Generic, x) }
