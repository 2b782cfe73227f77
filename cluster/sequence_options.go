package cluster

import (
	"reflect"

	"github.com/seed-1415985d/attn"
)

// obeyed are the options that mean what they mean on one machine, or that have an error of their
// own. Any other that is set is refused, also one that attn learns later.
var obeyed = map[string]bool{
	"Scale": true, "Causal": true, "Offset": true, "Window": true, "Softcap": true, "Mask": true,
	"Blocks": true, "Bias": true, "Slopes": true, "Sinks": true, "QueryLens": true, "KeyLens": true,
	"LSE": true, "Weights": true, "Integers": true,
}

// others are the fields of all other options.
var others = func() (fields []reflect.StructField) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[attn.Options]()) {
		if !obeyed[f.Name] {
			fields = append(fields, f)
		}
	}
	return fields
}()

// refused is the name of an option that is set and not obeyed, if there is one.
func refused(o *attn.Options) (name string, is bool) {
	v := reflect.ValueOf(o).Elem()
	for i := range others {
		if !v.FieldByIndex(others[i].Index).IsZero() {
			return others[i].Name, true
		}
	}
	return "", false
}

// checkOptions makes sure that the options can travel, and mean on workers what they mean here. The
// others are checked with the queries.
func (c *attendCall) checkOptions() error {
	o := c.opt
	if name, is := refused(o); is {
		return fail(attn.ErrOption, "%s is set, want its zero value: it does not travel", name)
	}
	switch {
	case o.KeyLens != nil:
		return fail(attn.ErrUnsupported, "KeyLens is set, want nil: a sequence knows its length")
	case o.QueryLens != nil:
		return fail(attn.ErrUnsupported, "QueryLens is set, want nil and q of as many rows")
	case !none(&o.Weights):
		return fail(attn.ErrUnsupported, "Weights is set, want the zero View: weights do not travel")
	case o.Integers && !c.shape.integers():
		return fail(attn.ErrOption, "Integers is set over keys in %v and values in %v, want I8 or I4",
			c.shape.format, c.shape.valueFormat)
	case o.Causal < attn.Full || o.Causal > attn.BottomRight:
		return fail(attn.ErrOption, "Causal is %v, want Full, TopLeft or BottomRight", o.Causal)
	case o.Causal == attn.BottomRight && o.Offset != 0:
		return fail(attn.ErrOption, "Offset is %d with BottomRight, want 0", o.Offset)
	case o.Offset < -most || o.Offset > most:
		return fail(attn.ErrOption, "Offset is %d, want %d to %d", o.Offset, -most, most)
	}
	return nil
}

// none reports whether a view is the zero View: an argument that is not given.
func none[T any](x *attn.View[T]) bool {
	return x.Data == nil && x.B|x.H|x.L|x.D|x.SB|x.SH|x.SL == 0
}

// checkPairs checks what has an element for each pair of query and key: its shape here, the rest by
// package attn, which validates a call of no batch entries and computes nothing.
func (c *attendCall) checkPairs() error {
	mask, bias, blocks := &c.opt.Mask, &c.opt.Bias, &c.opt.Blocks
	if none(mask) && none(bias) && none(blocks) {
		return nil
	}
	if err := checkPairShape(c, "Mask", mask); err != nil {
		return err
	}
	if err := checkPairShape(c, "Bias", bias); err != nil {
		return err
	}
	if err := c.checkBlocksShape(); err != nil {
		return err
	}
	config := c.stateConfig(c.q.L)
	config.Batch = 0
	s, err := attn.NewState(config)
	if err != nil {
		return err
	}
	h := &c.shape
	q, k := sameRow(c.q.H, c.q.L, h.headDim), sameRow(h.kvHeads, c.keys, h.headDim)
	v := sameRow(h.kvHeads, c.keys, h.valueDim)
	q.B, k.B, v.B = 0, 0, 0
	if err := s.Update(q, k, v, &attn.Options{Mask: *mask, Bias: *bias, Blocks: *blocks}); err != nil {
		return err
	}
	c.expandBlocks()
	return nil
}

// blockSize is how many queries, and keys, an element of Options.Blocks is for.
const blockSize = attn.Block

func (c *attendCall) checkBlocksShape() error {
	x, rows := &c.opt.Blocks, (c.q.L+blockSize-1)/blockSize
	cols := (c.keys + blockSize - 1) / blockSize
	if none(x) || x.B == 1 && (x.H == 1 || x.H == c.q.H) && x.L == rows && x.D == cols {
		return nil
	}
	return fail(attn.ErrShape, "Blocks is [%d %d %d %d], want [1 1 or %d %d %d]", x.B, x.H, x.L, x.D,
		c.q.H, rows, cols)
}

// expandBlocks makes Blocks, whose parts begin where parts of the context do not, a mask of pairs.
func (c *attendCall) expandBlocks() {
	blocks, mask := &c.opt.Blocks, &c.opt.Mask
	if none(blocks) {
		return
	}
	heads := blocks.H
	if !none(mask) {
		heads = max(heads, mask.H)
	}
	x := attn.BHLD(make([]bool, heads*c.q.L*c.keys), 1, heads, c.q.L, c.keys)
	for at := range heads * c.q.L {
		h, i := at/c.q.L, at%c.q.L
		row, seen := x.Row(0, h, i), blocks.Row(0, h%blocks.H, i/blockSize)
		for j := range row {
			row[j] = seen[j/blockSize]
		}
		if none(mask) {
			continue
		}
		for j, e := range mask.Row(0, h%mask.H, i) {
			row[j] = row[j] && e
		}
	}
	c.opt.Mask, c.opt.Blocks = x, attn.Mask{}
}

func checkPairShape[T any](c *attendCall, name string, x *attn.View[T]) error {
	if none(x) || x.B == 1 && (x.H == 1 || x.H == c.q.H) && x.L == c.q.L && x.D == c.keys {
		return nil
	}
	return fail(attn.ErrShape, "%s is [%d %d %d %d], want [1 1 or %d %d %d]", name, x.B, x.H, x.L,
		x.D, c.q.H, c.q.L, c.keys)
}

// clampWindow bounds a window at more than any distance of a query and a key, so that it can be
// added to positions and travel. What is negative stays, for package attn to judge.
func clampWindow(w attn.Window) attn.Window {
	return attn.Window{Left: min(w.Left, 2*most), Right: min(w.Right, 2*most)}
}

// wire are the options that travel. Those of an option that scores depend on are the same for all
// parts, so that the states have one unit.
func (c *attendCall) wire() attendOptions {
	o := c.opt
	return attendOptions{scale: o.Scale, softcap: o.Softcap, causal: o.Causal != attn.Full,
		integers: o.Integers, window: c.window, slopes: o.Slopes, sinks: o.Sinks}
}
