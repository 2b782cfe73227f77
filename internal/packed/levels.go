package packed

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/int4"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Levels is memory for the levels of one block of codes, in the layout of I8. Many rows read them
// like I8, and each block is looked up once for all. A few rows read them while they are in the L1
// cache.
type Levels struct {
	isa                   tuning.ISA
	hint                  *kernel.PrefetchHint // prefetch distances of the current kernels
	keys, values          []byte
	keysPlace, valuePlace int // offset of the block in the memory of blocks; −1: none yet
}

// Fit allocates memory for each of some blocks, and forgets earlier ones. Looking codes up then
// prefetches as far as the hint says.
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

// Forget marks the levels as missing.
func (x *Levels) Forget() { x.keysPlace, x.valuePlace = -1, -1 }

// ReadKeys returns the keys of the block at a place in the form that kernels read, and its format:
// codes stay codes if kernels look them up, and become levels if not. Other formats do not change.
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

// ReadValues is ReadKeys for values.
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
