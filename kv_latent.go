package attn

// Values that are part of keys (ValuesInKeys): multi-head latent attention keeps one vector a
// token, the first ValueDim channels of which are its value, too. Blocks hold keys and nothing
// else. The kernels read values in another order than keys, so a block is turned from that of keys
// to that of values: once for all rows of a chunk.
//
// In I8 the integers of a key are those of its value, with the same scale. What is rotated must be
// rotated back: the channels of values, and those behind, are rotated apart, and outputs, which are
// sums of rotated values, are rotated back once a row, at the end.

// rotate rotates keys, or back, in rows that follow each other.
func (s *packedKV) rotate(x []float32) {
	if !s.valuesInKeys {
		rotateAll(x, s.rotation)
		return
	}
	rows := len(x) / s.d
	if s.rotation > 1 {
		rotate(x, rows, s.d, s.dv, s.rotation)
	}
	if s.rotationRest > 1 {
		rotate(x[s.dv:], rows, s.d, s.d-s.dv, s.rotationRest)
	}
}
