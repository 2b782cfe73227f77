package attn

import "github.com/seed-1415985d/attn/internal/kernel/int4"

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
func (x *levelScratch) fit(s *packedKV) {
	x.forget()
	if s.k.format == I4 {
		x.keys = grow(x.keys, Block*roundUp(s.d, 8)) // upper halves may be behind the last
	}
	if s.v.format == I4 && !s.valuesInKeys {
		x.values = grow(x.values, Block*s.cols)
	}
}

// forget says that none are there.
func (x *levelScratch) forget() { x.keysPlace, x.valuePlace = -1, -1 }

// levelKeys returns the levels of the keys of the block at a place, which are codes.
func (w *scratch) levelKeys(s *packedKV, codes []byte, place int) []byte {
	if x := &w.levels; x.keysPlace != place {
		x.keysPlace = place
		int4.LookUp(tuned.ISA, x.keys, codes, &int4.LevelLayout{Rows: Block / panel,
			Vectors: (s.d + 7) / 8,
			Row:     roundUp(s.d, 4) * panel, Step: 8 * panel, Upper: 4 * panel}, w.layout.PrefetchOne)
	}
	return w.levels.keys
}

// levelValues is levelKeys of values.
func (w *scratch) levelValues(s *packedKV, codes []byte, place int) []byte {
	if x := &w.levels; x.valuePlace != place {
		x.valuePlace = place
		int4.LookUp(tuned.ISA, x.values, codes, &int4.LevelLayout{Rows: Block / 8,
			Vectors: s.cols / panel,
			Row:     8 * s.cols, Step: 4 * panel, Upper: 4 * s.cols}, w.layout.PrefetchOne)
	}
	return w.levels.values
}
