package packed

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// ReadKey decodes key j of block x.
func (s *Blocks) ReadKey(isa tuning.ISA, k []float32, x []byte, j int) {
	keys, scales := s.Keys(x)
	layout := kernel.ScoreLayout(s.K.Format, s.D, kernel.Block)
	for x := range k {
		k[x] = narrow.ElementOf(s.K.Format, keys,
			kernel.PlaceOf(s.K.Format, &layout, x, j))
	}
	if scales != nil {
		scaleBy(k, scales[j])
	}
	if s.Rotates {
		s.Rotate(isa, k)
	}
}

// ReadValue decodes value j of block x.
func (s *Blocks) ReadValue(isa tuning.ISA, v []float32, x []byte, j int) {
	values, scales := s.Values(x)
	layout := s.ValueLayout(kernel.Block)
	for c := range v {
		v[c] = narrow.ElementOf(s.V.Format, values,
			kernel.PlaceOf(s.V.Format, &layout, j, c))
	}
	if scales != nil {
		scaleBy(v, scales[j])
	}
	if s.Unrotate > 1 {
		integers.Rotate(isa, v, v, 1, len(v), len(v), len(v), s.Unrotate)
	}
}

// scaleBy multiplies by the scale of a token.
func scaleBy(x []float32, scale float32) {
	for i := range x {
		x[i] *= scale
	}
}
