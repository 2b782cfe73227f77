//go:build !amd64 || purego

package attn

import (
	"math/rand/v2"
	"testing"
)

// slowestLanes of FMA a cycle is what the slowest CPU has that cut.go is for.
const slowestLanes = 4

func anyProcessor(*testing.T, *rand.Rand) {}

func anyFused(*rand.Rand) (restore func()) { return func() {} }
