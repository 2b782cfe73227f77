package attn

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/int4"

	"github.com/seed-1415985d/attn/internal/packed"
)

// Codes of I4 become integers of I8 in scratch, once for all rows of a chunk, which then read them
// as they read I8. A few rows read them there while they are in the L1 cache.

// levelScratch is the levels of a block, where I8 has its integers, and where that block begins in
// the memory of the cache or store; −1 if there is none yet.
type levelScratch struct {
	keys, values          []byte
	keysPlace, valuePlace int
}

// fit makes the memory large enough for the blocks of a cache or store, and forgets those of calls
// before.
func (x *levelScratch) fit(s *packed.Blocks) {
	x.forget()
	if s.K.Codes {
		x.keys = grow(x.keys, Block*roundUp(s.D, 8)) // upper halves may be behind the last
	}
	if s.V.Codes && !s.ValuesInKeys {
		x.values = grow(x.values, Block*s.Cols)
	}
}

// forget says that none are there.
func (x *levelScratch) forget() { x.keysPlace, x.valuePlace = -1, -1 }

// readKeys is the keys of the block at a place as kernels read them, and in which format: codes, if
// they look codes up, become levels if not. What is no code stays as it is.
func (w *scratch) readKeys(s *packed.Blocks, keys []byte, place int, codes bool) ([]byte,
	kernel.Format) {
	if s.K.Codes && !codes {
		return w.levelKeys(s, keys, place), s.K.Read
	}
	return keys, s.K.Format
}

// readValues is readKeys of values.
func (w *scratch) readValues(s *packed.Blocks, values []byte, place int, codes bool) ([]byte,
	kernel.Format) {
	if s.V.Codes && !codes {
		return w.levelValues(s, values, place), s.V.Read
	}
	return values, s.V.Format
}

// levelKeys returns the levels of the keys of the block at a place, which are codes.
func (w *scratch) levelKeys(s *packed.Blocks, codes []byte, place int) []byte {
	if x := &w.levels; x.keysPlace != place {
		x.keysPlace = place
		int4.LookUp(tuned.ISA, x.keys, codes, &int4.LevelLayout{Rows: Block / panel,
			Vectors: (s.D + 7) / 8,
			Row:     roundUp(s.D, 4) * panel, Step: 8 * panel, Upper: 4 * panel}, w.layout.PrefetchOne)
	}
	return w.levels.keys
}

// levelValues is levelKeys of values.
func (w *scratch) levelValues(s *packed.Blocks, codes []byte, place int) []byte {
	if x := &w.levels; x.valuePlace != place {
		x.valuePlace = place
		int4.LookUp(tuned.ISA, x.values, codes, &int4.LevelLayout{Rows: Block / 8,
			Vectors: s.Cols / panel,
			Row:     8 * s.Cols, Step: 4 * panel, Upper: 4 * s.Cols}, w.layout.PrefetchOne)
	}
	return w.levels.values
}
