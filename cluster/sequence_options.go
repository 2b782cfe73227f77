package cluster

import (
	"reflect"

	"github.com/seed-1415985d/attn"
)

// obeyed are the options with the same meaning as on one machine, or with their own error. Any
// other option that is set is refused, including future options of attn.
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

// refused returns the name of an option that is set and not obeyed, if there is one.
func refused(o *attn.Options) (name string, is bool) {
	v := reflect.ValueOf(o).Elem()
	for i := range others {
		if !v.FieldByIndex(others[i].Index).IsZero() {
			return others[i].Name, true
		}
	}
	return "", false
}

// checkOptions verifies that the options can be sent, and have the same meaning on workers. Other
// properties are checked with the queries.
func (c *call) checkOptions() error {
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
			c.shape.Format, c.shape.ValueFormat)
	case o.Causal < attn.Full || o.Causal > attn.BottomRight:
		return fail(attn.ErrOption, "Causal is %v, want Full, TopLeft or BottomRight", o.Causal)
	case o.Causal == attn.BottomRight && o.Offset != 0:
		return fail(attn.ErrOption, "Offset is %d with BottomRight, want 0", o.Offset)
	case o.Offset < -maxLength || o.Offset > maxLength:
		return fail(attn.ErrOption, "Offset is %d, want %d to %d", o.Offset, -maxLength, maxLength)
	}
	return nil
}

// none reports whether a view is the zero View, an argument that is not given.
func none[T any](x *attn.View[T]) bool {
	return x.Data == nil && x.B|x.H|x.L|x.D|x.SB|x.SH|x.SL == 0
}

// clampWindow bounds a window by more than any distance of a query and a key, so that it can be
// added to positions and encoded. Negative numbers stay, for package attn to refuse.
func clampWindow(w attn.Window) attn.Window {
	return attn.Window{Left: min(w.Left, 2*maxLength), Right: min(w.Right, 2*maxLength)}
}

// travelling returns the options that are sent. Options that change scores are the same for all
// parts, so that all states have the same unit.
func travelling(o *attn.Options) *attn.Options {
	x := &attn.Options{Scale: o.Scale, Softcap: o.Softcap, Integers: o.Integers,
		Window: clampWindow(o.Window), Slopes: o.Slopes, Sinks: o.Sinks}
	if o.Causal != attn.Full {
		x.Causal = attn.TopLeft
	}
	return x
}
