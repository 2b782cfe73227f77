package attn

import (
	"fmt"
	"math/bits"
	"strconv"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/packed"
)

// checkView validates one view, and makes its strides explicit: from then on 0 repeats elements. No
// buffer is needed for a view without elements.
func checkView[T any](name string, v *View[T]) error {
	for i, n := range [...]int{v.B, v.H, v.L, v.D} {
		if n < 0 || n > maxLength || i == 3 && n == 0 {
			return fail(ErrShape, "%s.%c is %d, want %d to %d", name, "BHLD"[i], n, i/3, maxLength)
		}
	}
	if v.empty() {
		v.SB, v.SH, v.SL = 0, 0, 0
		return nil
	}
	if v.SB|v.SH|v.SL == 0 {
		return checkContiguous(name, v)
	}
	extent := v.D // the index of the last element plus one
	given := [...]int{v.SB, v.SH, v.SL}
	for i, dimension := range [...]struct {
		count  int
		stride *int
	}{{v.B, &v.SB}, {v.H, &v.SH}, {v.L, &v.SL}} {
		span, err := checkStride(name, "BHL"[i], dimension.count, dimension.stride, extent)
		if err != nil {
			return err
		}
		extent += span
	}
	if len(v.Data) < extent {
		return fail(ErrLength, "len(%s.Data) is %d, want at least %d for [%d %d %d %d] with strides %d",
			name, len(v.Data), extent, v.B, v.H, v.L, v.D, given)
	}
	return nil
}

// checkStride validates the stride of a dimension of count elements, after which it is explicit,
// and returns from the first of them to the last.
func checkStride(name string, dimension byte, count int, stride *int, extent int) (int, error) {
	switch {
	case count == 1:
		*stride = max(*stride, 0) // any will do
		return 0, nil
	case *stride == Broadcast:
		*stride = 0
		return 0, nil
	case *stride == 0:
		return 0, fail(ErrShape, "%s.S%c is 0 and %s.%c %d, want a stride, Broadcast to repeat, or "+
			"three strides of 0 for contiguous elements", name, dimension, name, dimension, count)
	case *stride < 0:
		return 0, fail(ErrStride, "%s.S%c is %d, want at least 1, or Broadcast", name, dimension, *stride)
	}
	hi, span := bits.Mul64(uint64(count-1), uint64(*stride))
	if hi != 0 || span > uint64(maxInt-extent) {
		return 0, fail(ErrStride, "%s.S%c is %d, want less: with %s.%c = %d an index overflows",
			name, dimension, *stride, name, dimension, count)
	}
	return int(span), nil
}

// checkContiguous is the rest of checkView for a view without strides.
func checkContiguous[T any](name string, v *View[T]) error {
	n, ok := product(v.B, v.H, v.L, v.D)
	if !ok || len(v.Data) < n {
		return fail(ErrLength, "len(%s.Data) is %d, want at least %d·%d·%d·%d: without strides it is "+
			"contiguous [B H L D]", name, len(v.Data), v.B, v.H, v.L, v.D)
	}
	v.SB, v.SH, v.SL = v.explicit()
	return nil
}

// checkDistinct makes sure that no two elements of an output view coincide:
// sorted by stride, each dimension must step over all that is inside it.
func checkDistinct(name string, v *Tensor) error {
	if v.empty() {
		return nil
	}
	count := [...]int{v.B, v.H, v.L}
	stride := [...]int{v.SB, v.SH, v.SL}
	for i := 1; i < 3; i++ { // three elements: sort by insertion
		for j := i; j > 0 && stride[j] < stride[j-1]; j-- {
			stride[j], stride[j-1] = stride[j-1], stride[j]
			count[j], count[j-1] = count[j-1], count[j]
		}
	}
	inside := v.D
	for i := range stride {
		if count[i] <= 1 {
			continue
		}
		if stride[i] < inside {
			return fail(ErrStride, "%s has a stride of %s over %d elements, want at least %d so that no "+
				"two outputs coincide", name, strideName(stride[i]), count[i], inside)
		}
		inside += (count[i] - 1) * stride[i]
	}
	return nil
}

// strideName is an explicit stride as it was given.
func strideName(stride int) string {
	if stride == 0 {
		return "Broadcast"
	}
	return strconv.Itoa(stride)
}

// extent is the part of a buffer that one argument touches. The zero value
// touches nothing.
type extent struct {
	name  string
	begin uintptr // address of the first byte
	size  uintptr // bytes to the end of the last element
	row   uintptr // bytes from a position to the next in all rows; 0 if they have no common pitch
	width uintptr // bytes that the view occupies within each pitch
}

// extentOf describes the extent of a valid view, but not where it begins: see checkApart. Views
// whose heads lie side by side in rows of one pitch (BLHD, and slices of it) may share a buffer
// without sharing an element, as the Q, K and V columns of one projection do.
func extentOf[T any](name string, v *View[T]) extent {
	if v.empty() || v.D == 0 {
		return extent{}
	}
	var element T
	size := unsafe.Sizeof(element)
	m := extent{name: name, size: uintptr(v.end()) * size}
	if width := (v.H-1)*v.SH + v.D; v.SL >= width && (v.B == 1 || v.SB%v.SL == 0) {
		m.row, m.width = uintptr(v.SL)*size, uintptr(width)*size
	}
	return m
}

// extentOfSlice describes a plain slice.
func extentOfSlice(name string, s []float32) extent {
	return extent{name: name, size: 4 * uintptr(len(s))}
}

// overlaps reports whether two arguments may share a byte.
func (m *extent) overlaps(o *extent) bool {
	if m.size == 0 || o.size == 0 || m.begin >= o.begin+o.size || o.begin >= m.begin+m.size {
		return false
	}
	if m.row == 0 || m.row != o.row {
		return true
	}
	// Column windows of the same pitch: o starts after m's window and ends before it comes round.
	gap := (o.begin + m.row - m.begin%m.row) % m.row
	return gap < m.width || gap+o.width > m.row
}

// checkApart makes sure that outputs share no memory with each other, nor with inputs. The caller
// takes all addresses together, without a call in between: any call may grow the stack, and buffers
// on it move then.
func checkApart(outputs, inputs []extent) error {
	for i := range outputs {
		out := &outputs[i]
		for _, others := range [...][]extent{inputs, outputs[i+1:]} {
			for j := range others {
				if out.overlaps(&others[j]) {
					return fail(ErrOverlap, "%s overlaps %s, want separate memory", out.name, others[j].name)
				}
			}
		}
	}
	return nil
}

// What caches and stores want of their configuration, and of tokens.

// namedSize is a size of a configuration, by name.
type namedSize struct {
	name string
	n    int
}

// openPacked validates a configuration and returns packed blocks of some tokens for each head of
// a batch. Its sizes are named; those that the blocks depend on come once more.
func openPacked(config string, f, values Format, sizes []namedSize, batch, heads, d, dv,
	blocks int, valuesInKeys bool) (s packed.Blocks, err error) {
	switch {
	case !f.valid():
		return s, fail(ErrOption, "%s.Format is %v, want F32, F16, BF16, I8 or I4", config, f)
	case !values.valid():
		return s, fail(ErrOption, "%s.ValueFormat is %v, want F16, BF16, I8, I4, or 0 for Format", config,
			values)
	case values == F32:
		values = f
	}
	if valuesInKeys && values != f {
		return s, fail(ErrOption, "%s.ValueFormat is %v with ValuesInKeys, want 0 or Format, %v", config,
			values, f)
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
	s = packed.New(kernel.Format(f), kernel.Format(values), heads, d, dv, valuesInKeys)
	if valuesInKeys {
		dv = 0 // none are kept
	}
	if !s.Fits(batch, blocks, maxElements) {
		return s, fail(ErrShape, "%s is %d×%d×%d×%d×(%d+%d) elements of %v, want at most %d bytes",
			config, batch, heads, blocks, Block, d, dv, formatsOf(&s), 4*maxElements)
	}
	if err := s.Allocate(batch, blocks); err != nil {
		return s, fail(ErrMemory, "%s is %d×%d×%d×%d×(%d+%d) elements of %v: %v",
			config, batch, heads, blocks, Block, d, dv, formatsOf(&s), err)
	}
	return s, nil
}

// formatsOf names the formats of keys and values.
func formatsOf(s *packed.Blocks) string {
	if s.K.Format == s.V.Format {
		return Format(s.K.Format).String()
	}
	return Format(s.K.Format).String() + " and " + Format(s.V.Format).String()
}

// shapeOf says of what blocks are.
func shapeOf(s *packed.Blocks) string {
	in := ""
	if s.ValuesInKeys {
		in = ", values in keys"
	}
	return fmt.Sprintf("%d heads of %d and %d dimensions in %s%s", s.Heads, s.D, s.DV, formatsOf(s),
		in)
}

// checkTokens makes sure that k and v are tokens of a number of sequences.
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

// checkLatent is checkTokens where values are part of keys.
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

// checkFinite makes sure that tokens have scales, if the format has some.
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

// checkScales makes sure that tokens have a scale. The error names the first one that has none.
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
