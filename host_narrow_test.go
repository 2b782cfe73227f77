//go:build !amd64 || purego

package attn

import (
	"math/rand/v2"
	"testing"
)

func anyProcessor(*testing.T, *rand.Rand) {}
