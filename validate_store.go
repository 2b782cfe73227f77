package attn

import (
	"math"

	"github.com/seed-1415985d/attn/internal/operand"
)

// What caches and stores want of their configuration, and of tokens.

// namedSize is a size of a configuration, by name.
type namedSize struct {
	name string
	n    int
}

// openPacked validates a configuration and returns packed blocks of so many tokens for each head of
// a batch. Its sizes are named; those that the blocks depend on come once more.
func openPacked(config string, f Format, sizes []namedSize, batch, heads, d, dv, blocks int,
	valuesInKeys bool) (s packedKV, err error) {
	if !f.valid() {
		return s, fail(ErrOption, "%s.Format is %v, want F32, F16, BF16 or I8", config, f)
	}
	for _, size := range sizes {
		if size.n < 1 || size.n > maxLength {
			return s, fail(ErrShape, "%s.%s is %d, want 1 to %d", config, size.name, size.n, maxLength)
		}
	}
	if valuesInKeys && dv > d {
		return s, fail(ErrShape, "%s.ValueDim is %d with ValuesInKeys, want at most HeadDim, %d",
			config, dv, d)
	}
	s = newPackedKV(f, heads, d, dv, valuesInKeys)
	if valuesInKeys {
		dv = 0 // none are kept
	}
	if !s.fits(batch, blocks) {
		return s, fail(ErrShape, "%s is %d×%d×%d×%d×(%d+%d) elements of %v, want at most %d bytes",
			config, batch, heads, blocks, Block, d, dv, f, 4*maxElements)
	}
	if err := s.allocate(batch, blocks); err != nil {
		return s, fail(ErrMemory, "%s is %d×%d×%d×%d×(%d+%d) elements of %v: %v",
			config, batch, heads, blocks, Block, d, dv, f, err)
	}
	return s, nil
}

// fits reports whether so many blocks of each head of a batch are at most maxElements words of four
// bytes. It does not use block, which may have overflowed.
func (s *packedKV) fits(batch, blocks int) bool {
	scale := s.scaleBytes / Block // in I8, where an element is a byte
	elements := roundUp(s.d, 4) + scale
	if !s.valuesInKeys {
		elements += s.cols + scale
	}
	_, ok := product(batch, s.heads, blocks, Block*s.bytes/4, elements)
	return ok
}

// checkTokens makes sure that k and v are tokens of so many sequences.
func (s *packedKV) checkTokens(k, v *Tensor, batch int) error {
	if err := checkView("k", k); err != nil {
		return err
	}
	if s.valuesInKeys {
		return s.checkLatent(k, v, batch)
	}
	if err := checkView("v", v); err != nil {
		return err
	}
	switch {
	case k.B != batch || k.H != s.heads || k.D != s.d:
		return fail(ErrShape, "k is [%d %d … %d], want [%d %d … %d]", k.B, k.H, k.D, batch, s.heads, s.d)
	case v.B != batch || v.H != s.heads || v.L != k.L || v.D != s.dv:
		return fail(ErrShape, "v is [%d %d %d %d], want [%d %d %d %d]",
			v.B, v.H, v.L, v.D, batch, s.heads, k.L, s.dv)
	}
	return nil
}

// checkLatent is checkTokens where values are part of keys.
func (s *packedKV) checkLatent(k, v *Tensor, batch int) error {
	switch {
	case k.B != batch || k.H != s.heads || k.D != s.d:
		return fail(ErrShape, "k is [%d %d … %d], want [%d %d … %d]", k.B, k.H, k.D, batch, s.heads, s.d)
	case !v.none():
		return fail(ErrShape, "v is [%d %d %d %d] and has %d elements, want the zero Tensor: values are "+
			"part of keys", v.B, v.H, v.L, v.D, len(v.Data))
	}
	return nil
}

// checkFinite makes sure that tokens have scales, if the format has some.
func (s *packedKV) checkFinite(k, v *Tensor) error {
	if !s.scaled {
		return nil
	}
	limit := math.MaxFloat32 / float32(max(s.rotation, s.rotationRest)) // sums of so many are finite
	if err := checkScales("k", k, limit); err != nil {
		return err
	}
	return checkScales("v", v, math.MaxFloat32)
}

// checkScales makes sure that tokens have a scale. The error names the first one that has none.
func checkScales(name string, x *Tensor, limit float32) error {
	for b := range x.B {
		for i := range x.L {
			for h := range x.H {
				if top := largest(x.row(b, h, i)); !(top <= limit) {
					return fail(ErrOption, "%s has an element of size %v in token %d of head %d, batch entry %d, "+
						"want at most %v for I8", name, top, i, h, b, limit)
				}
			}
		}
	}
	return nil
}

// checkOutputs makes sure that decoded tokens have elements of their own.
func checkOutputs(k, v *Tensor) error {
	if err := checkDistinct("k", k); err != nil {
		return err
	}
	if err := checkDistinct("v", v); err != nil {
		return err
	}
	out := [...]extent{extentOf("k", k), extentOf("v", v)}
	for i, at := range [len(out)]uintptr{operand.Address(k.Data, 0), operand.Address(v.Data, 0)} {
		out[i].begin = at
	}
	return checkApart(out[:], nil)
}
