package attn

import "math"

// What stores and caches want of their configuration, and of tokens.

// namedSize is a size of a configuration, by name.
type namedSize struct {
	name string
	n    int
}

// checkConfig validates the type and the sizes of a configuration.
func checkConfig(name string, kind Format, sizes []namedSize) error {
	if kind < F32 || kind > I8 {
		return fail(ErrOption, "%s.Type is %v, want F32, F16, BF16 or I8", name, kind)
	}
	for _, f := range sizes {
		if f.n < 1 || f.n > maxLength {
			return fail(ErrShape, "%s.%s is %d, want 1 to %d", name, f.name, f.n, maxLength)
		}
	}
	return nil
}

// checkTokens makes sure that k and v are tokens of some sequences, each with the heads and dimensions of a configuration.
func checkTokens(k, v *Tensor, batch, heads, d, dv int) error {
	if err := checkView("k", k); err != nil {
		return err
	}
	if err := checkView("v", v); err != nil {
		return err
	}
	switch {
	case k.B != batch || k.H != heads || k.D != d:
		return fail(ErrShape, "k is [%d %d … %d], want [%d %d … %d]", k.B, k.H, k.D, batch, heads, d)
	case v.B != batch || v.H != heads || v.L != k.L || v.D != dv:
		return fail(ErrShape, "v is [%d %d %d %d], want [%d %d %d %d]", v.B, v.H, v.L, v.D, batch, heads, k.L, dv)
	}
	return nil
}

// checkScales makes sure that tokens have scales, if the store's type has some.
func (s *blockStore) checkScales(k, v *Tensor) error {
	if s.kind != I8 {
		return nil
	}
	most := float32(math.MaxFloat32)
	if s.rotation > 1 {
		most /= float32(s.rotation) // sums of so many are finite
	}
	if err := checkFinite("k", k, most); err != nil {
		return err
	}
	return checkFinite("v", v, math.MaxFloat32)
}

// checkFinite makes sure that tokens have a scale. The error names the first one that has none.
func checkFinite(name string, x *Tensor, limit float32) error {
	for b := range x.B {
		for i := range x.L {
			for h := range x.H {
				if most := largest(x.row(b, h, i)); !(most <= limit) {
					return fail(ErrOption, "%s has an element of size %v in token %d of head %d, batch entry %d, want at most %v for a cache of I8", name, most, i, h, b, limit)
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
	for i, at := range [len(out)]uintptr{address(k.Data, 0), address(v.Data, 0)} {
		out[i].begin = at
	}
	return checkApart(out[:], nil)
}
