package cluster

import (
	"math"
	"math/bits"

	"github.com/seed-1415985d/attn"
)

// checkOptions makes sure that the options can travel, and mean on workers what they mean here. The
// others are checked with the queries.
func (c *attendCall) checkOptions() error {
	o := c.opt
	switch {
	case o.KeyLens != nil:
		return fail(attn.ErrUnsupported, "KeyLens is set, want nil: a sequence knows its length")
	case o.QueryLens != nil:
		return fail(attn.ErrUnsupported, "QueryLens is set, want nil and q of as many rows")
	case o.Weights != nil:
		return fail(attn.ErrUnsupported, "Weights is set, want nil: weights do not travel")
	case o.Int8 && c.shape.format != attn.I8:
		return fail(attn.ErrOption, "Int8 is set over a sequence of %v, want I8", c.shape.format)
	case o.Causal < attn.Full || o.Causal > attn.BottomRight:
		return fail(attn.ErrOption, "Causal is %d, want Full, TopLeft or BottomRight", o.Causal)
	case o.Causal == attn.BottomRight && o.Offset != 0:
		return fail(attn.ErrOption, "Offset is %d with BottomRight, want 0", o.Offset)
	case o.Offset < -most || o.Offset > most:
		return fail(attn.ErrOption, "Offset is %d, want %d to %d", o.Offset, -most, most)
	}
	return c.checkAllPairs()
}

// checkAllPairs checks what has an element for each pair of query and key.
func (c *attendCall) checkAllPairs() error {
	if c.opt.Mask != nil {
		if err := checkPairs(c, "Mask", c.opt.Mask); err != nil {
			return err
		}
	}
	if c.opt.Bias != nil {
		return checkPairs(c, "Bias", c.opt.Bias)
	}
	return nil
}

func checkPairs[T any](c *attendCall, name string, x *attn.View[T]) error {
	n := end(x.H, x.L, x.D, x.SH, x.SL)
	switch {
	case x.B != 1 || x.H != 1 && x.H != c.q.H || x.L != c.q.L || x.D != c.keys:
		return fail(attn.ErrShape, "%s is [%d %d %d %d], want [1 1 or %d %d %d]", name, x.B, x.H, x.L,
			x.D, c.q.H, c.q.L, c.keys)
	case min(x.SB, x.SH, x.SL) < 0 || n == math.MaxInt:
		return fail(attn.ErrStride, "%s has strides [%d %d %d], want at least 0, and what does not "+
			"overflow", name, x.SB, x.SH, x.SL)
	case len(x.Data) < n:
		return fail(attn.ErrLength, "len(%s.Data) is %d, want at least %d", name, len(x.Data), n)
	}
	return nil
}

// end is how many elements a view of one batch entry reaches over; too many for any memory if a
// stride is negative or they overflow.
func end(h, l, d, sh, sl int) int {
	if sh < 0 || sl < 0 {
		return math.MaxInt
	}
	if h <= 0 || l <= 0 || d <= 0 {
		return 0
	}
	hi, heads := bits.Mul64(uint64(h-1), uint64(sh))
	hi2, rows := bits.Mul64(uint64(l-1), uint64(sl))
	rest := uint64(math.MaxInt - d)
	if hi|hi2 != 0 || heads > rest || rows > rest-heads {
		return math.MaxInt
	}
	return int(heads+rows) + d
}

// clampWindow bounds a window at more than any distance of a query and a key, so that it can be
// added to positions and travel. What is negative stays, for package attn to judge.
func clampWindow(w *attn.Window) *attn.Window {
	if w == nil {
		return nil
	}
	return &attn.Window{Left: min(w.Left, 2*most), Right: min(w.Right, 2*most)}
}

// wire are the options that travel. Those of an option that scores depend on are the same for all
// parts, so that the states have one unit.
func (c *attendCall) wire() attendOptions {
	o := c.opt
	return attendOptions{scale: o.Scale, softcap: o.Softcap, causal: o.Causal != attn.Full,
		int8: o.Int8, window: c.window, slopes: o.Slopes, sinks: o.Sinks}
}
