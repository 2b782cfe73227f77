package attn

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/views"
)

// checkView validates one view, and makes its strides explicit: from then on 0 repeats elements. No
// buffer is needed for a view without elements.
func checkView[T any](name string, v *View[T]) error {
	g := v.geometry()
	if err := g.Check(name); err != nil {
		return err
	}
	v.SB, v.SH, v.SL = g.SB, g.SH, g.SL
	return nil
}

// checkDistinct verifies that no two elements of an output view coincide.
func checkDistinct(name string, v *Tensor) error {
	g := v.geometry()
	return g.CheckDistinct(name)
}

// extentOf describes the memory of a valid view, but not its address: see views.CheckApart.
func extentOf[T any](name string, v *View[T]) views.Extent {
	var element T
	g := v.geometry()
	return g.Extent(name, unsafe.Sizeof(element))
}

// Validation of tokens for caches and stores.

// checkTokens verifies that k and v are tokens of batch sequences.
func checkTokens(s *packed.Blocks, k, v *Tensor, batch int) error {
	if err := checkView("k", k); err != nil {
		return err
	}
	if s.ValuesInKeys {
		return checkLatent(s, k, v, batch)
	}
	if err := checkView("v", v); err != nil {
		return err
	}
	switch {
	case k.B != batch || k.H != s.Heads || k.D != s.D:
		return fail(ErrShape, "k is [%d %d … %d], want [%d %d … %d]", k.B, k.H, k.D, batch, s.Heads, s.D)
	case v.B != batch || v.H != s.Heads || v.L != k.L || v.D != s.DV:
		return fail(ErrShape, "v is [%d %d %d %d], want [%d %d %d %d]",
			v.B, v.H, v.L, v.D, batch, s.Heads, k.L, s.DV)
	}
	return nil
}

// checkLatent is checkTokens for values that are part of keys.
func checkLatent(s *packed.Blocks, k, v *Tensor, batch int) error {
	switch {
	case k.B != batch || k.H != s.Heads || k.D != s.D:
		return fail(ErrShape, "k is [%d %d … %d], want [%d %d … %d]", k.B, k.H, k.D, batch, s.Heads, s.D)
	case !v.none():
		return fail(ErrShape, "v is [%d %d %d %d] and has %d elements, want the zero Tensor: values are "+
			"part of keys", v.B, v.H, v.L, v.D, len(v.Data))
	}
	return nil
}

// checkFinite verifies that tokens have scales, if the format needs them.
func checkFinite(s *packed.Blocks, k, v *Tensor) error {
	if limit := s.KeyLimit(); limit > 0 {
		if err := checkScales("k", k, Format(s.K.Format), limit); err != nil {
			return err
		}
	}
	if limit := s.ValueLimit(); limit > 0 {
		return checkScales("v", v, Format(s.V.Format), limit)
	}
	return nil
}

// checkScales verifies that tokens have a scale. The error names the first token without one.
func checkScales(name string, x *Tensor, f Format, limit float32) error {
	for b := range x.B {
		for i := range x.L {
			for h := range x.H {
				if top := integers.Largest(tuned.ISA, x.row(b, h, i)); !(top <= limit) {
					return fail(ErrOption, "%s has an element of size %v in token %d of head %d, batch entry %d, "+
						"want at most %v for %v", name, top, i, h, b, limit, f)
				}
			}
		}
	}
	return nil
}

// checkOutputs verifies that the outputs of Read share no elements.
func checkOutputs(k, v *Tensor) error {
	if err := checkDistinct("k", k); err != nil {
		return err
	}
	if err := checkDistinct("v", v); err != nil {
		return err
	}
	out := [...]views.Extent{extentOf("k", k), extentOf("v", v)}
	for i, at := range [len(out)]uintptr{operand.Address(k.Data, 0), operand.Address(v.Data, 0)} {
		out[i].Begin = at
	}
	return views.CheckApart(out[:], nil)
}

func errDocuments(opt *Options) error {
	if opt.Documents == nil {
		return fail(ErrOption, "KeyDocuments has %d lengths, want nil without Documents",
			len(opt.KeyDocuments))
	}
	return fail(ErrOption, "Documents has %d lengths, want nil: it is for Attend and Pool.Attend "+
		"over views", len(opt.Documents))
}

func errKeyLens(opt *Options) error {
	return fail(ErrOption, "KeyLens has %d lengths, want nil: a sequence knows its length",
		len(opt.KeyLens))
}
