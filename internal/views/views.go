// Package views checks arguments: strided views, lists of numbers, and that outputs share no
// memory. The packages of this module share its checks, so that their errors have the same words.
package views

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// The kinds of errors; package attn says what they mean.
var (
	ErrShape   = errors.New("attn: shape mismatch")
	ErrStride  = errors.New("attn: invalid stride")
	ErrLength  = errors.New("attn: wrong length")
	ErrOverlap = errors.New("attn: overlapping buffers")
	ErrOption  = errors.New("attn: invalid option")
	ErrMemory  = errors.New("attn: out of memory")
	ErrClosed  = errors.New("attn: already closed")
	ErrFormat  = errors.New("attn: invalid format")
)

// OrOne describes a dimension that must be n or 1; 1 stands for all.
func OrOne(n int) string {
	if n == 1 {
		return "1"
	}
	return fmt.Sprintf("%d or 1", n)
}

const (
	// Broadcast is the stride of a dimension that repeats one element.
	Broadcast = -1

	// shortPitch marks a pitch that is too short: see ShortPitch.
	shortPitch = math.MinInt / 2

	// MaxLength bounds dimensions.
	MaxLength = 1 << 28

	// MaxElements bounds what one object allocates, so that a size beyond the address space is an
	// error, not a panic.
	MaxElements = min(math.MaxInt/8, 1<<44)
)

// Product multiplies, and reports whether the result is at most MaxElements. It is 0 if a factor is
// 0, however large the others are.
func Product(factors ...int) (n int, ok bool) {
	if slices.Contains(factors, 0) {
		return 0, true
	}
	n = 1
	for _, f := range factors {
		hi, lo := bits.Mul64(uint64(n), uint64(f))
		if hi != 0 || lo > MaxElements {
			return 0, false
		}
		n = int(lo)
	}
	return n, true
}

// ShortPitch returns the stride of rows whose pitch is less than the elements of a row. Such rows
// overlap, and this stride makes Check refuse them, also in inputs.
func ShortPitch(pitch int) int { return shortPitch + min(max(pitch, -MaxLength), MaxLength) }

// Step returns how many elements lie between neighbours, for an explicit stride.
func Step(stride int) int {
	if pitch := stride - shortPitch; -MaxLength <= pitch && pitch <= MaxLength {
		stride = pitch
	}
	return max(stride, 0)
}

// Geometry is a view without its elements: dimensions, strides and the length of its buffer.
type Geometry struct {
	B, H, L, D int
	SB, SH, SL int
	Len        int
}

// Explicit returns the strides in the form that a view has before Check.
func (g *Geometry) Explicit() (sb, sh, sl int) {
	if g.SB|g.SH|g.SL == 0 {
		return g.H * g.L * g.D, g.L * g.D, g.D
	}
	return g.SB, g.SH, g.SL
}

// Empty reports whether there are no elements.
func (g *Geometry) Empty() bool { return g.B == 0 || g.H == 0 || g.L == 0 }

// End is the index after the last element of a checked view.
func (g *Geometry) End() int { return (g.B-1)*g.SB + (g.H-1)*g.SH + (g.L-1)*g.SL + g.D }

// Check validates a view and makes its strides explicit; after that 0 repeats elements. A view
// without elements needs no buffer.
func (g *Geometry) Check(name string) error {
	for i, n := range [...]int{g.B, g.H, g.L, g.D} {
		if n < 0 || n > MaxLength || i == 3 && n == 0 {
			return Fail(ErrShape, "%s.%c is %d, want %d to %d", name, "BHLD"[i], n, i/3, MaxLength)
		}
	}
	if g.Empty() {
		g.SB, g.SH, g.SL = 0, 0, 0
		return nil
	}
	if g.SB|g.SH|g.SL == 0 {
		return g.checkContiguous(name)
	}
	if pitch := g.SL - shortPitch; -MaxLength <= pitch && pitch <= MaxLength {
		return Fail(ErrStride, "%s is of Rows with a pitch of %d, want at least h·d, the elements of "+
			"all heads", name, pitch)
	}
	extent := g.D // the index of the last element plus one
	given := [...]int{g.SB, g.SH, g.SL}
	for i, dimension := range [...]struct {
		count  int
		stride *int
	}{{g.B, &g.SB}, {g.H, &g.SH}, {g.L, &g.SL}} {
		span, err := checkStride(name, "BHL"[i], dimension.count, dimension.stride, extent)
		if err != nil {
			return err
		}
		extent += span
	}
	if g.Len < extent {
		return Fail(ErrLength, "len(%s.Data) is %d, want at least %d for [%d %d %d %d] with strides %d",
			name, g.Len, extent, g.B, g.H, g.L, g.D, given)
	}
	return nil
}

// checkStride validates and makes explicit the stride of a dimension of count elements. It returns
// the distance from the first element to the last.
func checkStride(name string, dimension byte, count int, stride *int, extent int) (int, error) {
	switch {
	case count == 1:
		*stride = max(*stride, 0) // any value will do
		return 0, nil
	case *stride == Broadcast:
		*stride = 0
		return 0, nil
	case *stride == 0:
		return 0, Fail(ErrShape, "%s.S%c is 0 and %s.%c %d, want a stride, Broadcast to repeat, or "+
			"three strides of 0 for contiguous elements", name, dimension, name, dimension, count)
	case *stride < 0:
		return 0, Fail(ErrStride, "%s.S%c is %d, want at least 1, or Broadcast", name, dimension, *stride)
	}
	hi, span := bits.Mul64(uint64(count-1), uint64(*stride))
	if hi != 0 || span > uint64(math.MaxInt-extent) {
		return 0, Fail(ErrStride, "%s.S%c is %d, want less: with %s.%c = %d an index overflows",
			name, dimension, *stride, name, dimension, count)
	}
	return int(span), nil
}

// checkContiguous checks a view without strides.
func (g *Geometry) checkContiguous(name string) error {
	n, ok := Product(g.B, g.H, g.L, g.D)
	if !ok || g.Len < n {
		return Fail(ErrLength, "len(%s.Data) is %d, want at least %d·%d·%d·%d: without strides it is "+
			"contiguous [B H L D]", name, g.Len, g.B, g.H, g.L, g.D)
	}
	g.SB, g.SH, g.SL = g.Explicit()
	return nil
}

// CheckDistinct makes sure that no two elements of an output coincide: sorted by stride, each
// dimension must step over all that is inside it.
func (g *Geometry) CheckDistinct(name string) error {
	if g.Empty() {
		return nil
	}
	count := [...]int{g.B, g.H, g.L}
	stride := [...]int{g.SB, g.SH, g.SL}
	for i := 1; i < 3; i++ { // three elements: sort by insertion
		for j := i; j > 0 && stride[j] < stride[j-1]; j-- {
			stride[j], stride[j-1] = stride[j-1], stride[j]
			count[j], count[j-1] = count[j-1], count[j]
		}
	}
	inside := g.D
	for i := range stride {
		if count[i] <= 1 {
			continue
		}
		if stride[i] < inside {
			return Fail(ErrStride, "%s has a stride of %s over %d elements, want at least %d so that no "+
				"two outputs coincide", name, strideName(stride[i]), count[i], inside)
		}
		inside += (count[i] - 1) * stride[i]
	}
	return nil
}

// strideName returns an explicit stride in the form in which it was given.
func strideName(stride int) string {
	if stride == 0 {
		return "Broadcast"
	}
	return strconv.Itoa(stride)
}
