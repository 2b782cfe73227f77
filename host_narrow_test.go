//go:build !amd64 || purego

package attn

import (
	"math/rand/v2"
	"testing"
)

// slowestFMA is the cycles of an FMA with its loads on the slowest CPU that cut.go is for: an arm64 core
// that executes in order takes 44 for loads beside 96 FMAs.
const slowestFMA = 1.5

func anyProcessor(*testing.T, *rand.Rand) {}

func use16Lanes(testing.TB) {}

func anyFused(*rand.Rand) (restore func()) { return func() {} }
