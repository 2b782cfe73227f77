package main

import (
	"fmt"
	"math"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cmd/attn/internal/npyfile"
	"github.com/seed-1415985d/attn/cmd/attn/internal/room"
	"github.com/seed-1415985d/attn/internal/npy"
)

// layout says how the dimensions of a file are read.
//
//	rank 2  [L, D]           with heads: [L, H·D]
//	rank 3  [H, L, D]        with heads: [B, L, H·D]
//	rank 4  [B, H, L, D]
type layout struct {
	rank  int
	heads bool // heads are adjacent in the last dimension
}

// view returns the view of a file with the given number of adjacent heads, 0 if heads are a
// dimension.
func (l layout) view(a npyfile.Array[float32], heads int) attn.Tensor {
	s := a.Shape
	switch {
	case l.heads && l.rank == 2:
		return attn.BLHD(a.Data, 1, s[0], heads, s[1]/heads)
	case l.heads:
		return attn.BLHD(a.Data, s[0], s[1], heads, s[2]/heads)
	case l.rank == 2:
		return attn.BHLD(a.Data, 1, 1, s[0], s[1])
	case l.rank == 3:
		return attn.BHLD(a.Data, 1, s[0], s[1], s[2])
	}
	return attn.BHLD(a.Data, s[0], s[1], s[2], s[3])
}

// output allocates the result for queries and values of the given views, with
// dimensions in the order of the inputs.
func (l layout) output(q, v attn.Tensor) (npyfile.Array[float32], attn.Tensor, error) {
	shape := []int{q.B, q.H, q.L, v.D}
	switch {
	case l.heads && l.rank == 2:
		shape = []int{q.L, q.H * v.D}
	case l.heads:
		shape = []int{q.B, q.L, q.H * v.D}
	default:
		shape = shape[4-l.rank:]
	}
	a, err := allocate("the output", shape)
	if err != nil {
		return a, attn.Tensor{}, err
	}
	return a, l.view(a, q.H), nil
}

// pairs allocates an output with the inputs' batch and head dimensions, and then the given ones.
func (l layout) pairs(name string, b, h int, rest ...int) (npyfile.Array[float32], error) {
	var shape []int
	if l.rank == 4 || l.rank == 3 && l.heads {
		shape = append(shape, b)
	}
	if l.rank > 2 || l.heads {
		shape = append(shape, h)
	}
	return allocate(name, append(shape, rest...))
}

// maxElements bounds an output: 256 GiB. Small files can ask for more by mistake.
const maxElements = 1 << 36

func allocate(name string, shape []int) (npyfile.Array[float32], error) {
	n := 1.0
	for _, d := range shape {
		if d < 0 { // adjacent heads, where an int has 32 bits
			d = math.MaxInt
		}
		n *= float64(d)
	}
	if !(n <= min(maxElements, math.MaxInt/4)) {
		return npyfile.Array[float32]{}, fmt.Errorf("%s of shape %s is too large", name, dims(shape))
	}
	data, err := room.Make[float32](int(n))
	if err != nil {
		return npyfile.Array[float32]{}, fmt.Errorf("%s of shape %s %w", name, dims(shape), err)
	}
	return npyfile.Array[float32]{Shape: shape, Data: data}, nil
}

// dims formats a shape as NumPy does.
func dims(shape []int) string { return npy.Tuple(shape) }

// part returns the view of a slice of heads and positions.
func part[T any](v attn.View[T], s slice) attn.View[T] {
	v = v.Heads(s.h0, s.h1).Slice(s.i0, s.i1)
	if v.H > 0 && v.L > 0 {
		sb, _, _ := v.Strides()
		v.Data = v.Data[s.b*sb:]
	}
	v.B = 1
	return v
}

// partIfGiven is part for an argument that may be the zero View.
func partIfGiven[T any](v attn.View[T], s slice) attn.View[T] {
	if v.Data == nil {
		return v
	}
	return part(v, s)
}
