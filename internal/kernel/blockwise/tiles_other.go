//go:build !amd64 || purego

package blockwise

import (
	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// tileRows: only some CPUs of amd64 have tiles.
func tileRows(*tuning.Row, blocks.Type, int) int { return 0 }

const tileMemory = 0

func multiplyTiles(*Product, *blockCall, []byte, int, int) {}
