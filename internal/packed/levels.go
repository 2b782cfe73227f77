package packed

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/int4"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Levels is memory for the levels of one block of codes, where I8 has its integers. Many rows read
// them there as they read I8, and each block is looked up once for all. A few rows read them while
// they are in the L1 cache.
type Levels struct {
	isa                   tuning.ISA
	hint                  *kernel.PrefetchHint // how far the kernels at hand prefetch
	keys, values          []byte
	keysPlace, valuePlace int // where the block begins in the memory of blocks; −1: none yet
}

// Fit makes the memory large enough for each of some blocks, and forgets those of calls before. To
// look codes up prefetches as far as the hint says then.
func (x *Levels) Fit(isa tuning.ISA, s *Blocks, hint *kernel.PrefetchHint) {
	x.isa, x.hint = isa, hint
	x.Forget()
	if s.K.Codes { // upper halves may be behind the last
		x.keys = kernel.Grow(x.keys, kernel.Block*kernel.RoundUp(s.D, 8))
	}
	if s.V.Codes && !s.ValuesInKeys {
		x.values = kernel.Grow(x.values, kernel.Block*s.Cols)
	}
}

// Forget says that no levels are there.
func (x *Levels) Forget() { x.keysPlace, x.valuePlace = -1, -1 }

// ReadKeys is the keys of the block at a place as kernels read them, and in which format: codes, if
// they look codes up, become levels if not. What is no code stays as it is.
func (x *Levels) ReadKeys(s *Blocks, keys []byte, place int, codes bool) ([]byte, kernel.Format) {
	if !s.K.Codes || codes {
		return keys, s.K.Format
	}
	if x.keysPlace != place {
		x.keysPlace = place
		int4.LookUp(x.isa, x.keys, keys, &int4.LevelLayout{Rows: kernel.Block / kernel.Panel,
			Vectors: (s.D + 7) / 8, Row: kernel.RoundUp(s.D, 4) * kernel.Panel, Step: 8 * kernel.Panel,
			Upper: 4 * kernel.Panel}, x.hint.PrefetchOne)
	}
	return x.keys, s.K.Read
}

// ReadValues is ReadKeys of values.
func (x *Levels) ReadValues(s *Blocks, values []byte, place int, codes bool) ([]byte,
	kernel.Format) {
	if !s.V.Codes || codes {
		return values, s.V.Format
	}
	if x.valuePlace != place {
		x.valuePlace = place
		int4.LookUp(x.isa, x.values, values, &int4.LevelLayout{Rows: kernel.Block / 8,
			Vectors: s.Cols / kernel.Panel, Row: 8 * s.Cols, Step: 4 * kernel.Panel, Upper: 4 * s.Cols},
			x.hint.PrefetchOne)
	}
	return x.values, s.V.Read
}
