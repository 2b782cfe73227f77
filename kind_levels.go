package attn

// A block of I4 becomes integers of I8 in scratch, once for all rows of a chunk, which then read it
// as they read I8. Kernels of a few rows read it there while it is in the L1 cache.

// levelScratch is memory for the levels of a block, where I8 has its integers.
type levelScratch struct{ keys, values []byte }

// fitLevels makes the memory large enough for the blocks of a cache or store.
func (w *scratch) fitLevels(s *packedKV) {
	if s.k.format == I4 {
		w.levels.keys = grow(w.levels.keys, Block*roundUp(s.d, 8)) // upper halves may be behind the last
	}
	if s.v.format == I4 && !s.valuesInKeys {
		w.levels.values = grow(w.levels.values, Block*s.cols)
	}
}

// lookUpKeys looks up the keys of a block, which are codes.
func (w *scratch) lookUpKeys(s *packedKV, x []byte) {
	codes, _ := s.keys(x)
	lookUp(w.levels.keys, codes, &levelLayout{rows: Block / panel, vectors: (s.d + 7) / 8,
		row: roundUp(s.d, 4) * panel, step: 8 * panel, upper: 4 * panel})
}

// lookUpValues looks up the values of a block, which are codes.
func (w *scratch) lookUpValues(s *packedKV, x []byte) {
	codes, _ := s.values(x)
	lookUp(w.levels.values, codes, &levelLayout{rows: Block / 8, vectors: s.cols / panel,
		row: 8 * s.cols, step: 4 * panel, upper: 4 * s.cols})
}
