package attn

import (
	"encoding/binary"
	"math"

	"github.com/seed-1415985d/attn/internal/f32"
)

// This file is the specification of the kernels over fewer bits, as kernel_generic.go is of the
// others.

// elementOf widens element i of v.
func elementOf(t Format, v []byte, i int) float32 {
	switch t {
	case F32:
		return math.Float32frombits(binary.NativeEndian.Uint32(v[4*i:]))
	case F16:
		return f32.FromF16(binary.NativeEndian.Uint16(v[2*i:]))
	case BF16:
		return f32.FromBF16(binary.NativeEndian.Uint16(v[2*i:]))
	}
	return float32(int8(v[i]))
}

// placeOf is where step k of column c is, see kernel_typed.go.
func placeOf(t Format, b *panelLayout, k, c int) int {
	if t == I8 {
		return c/panel*b.panelStride + k/4*b.stride + c%panel*4 + k%4
	}
	return c/panel*b.panelStride + k*b.stride + c%panel
}

func accumulateTypedGeneric(t Format, o, p []float32, v []byte, alpha []float32, rows, oStride,
	pStride int, b *panelLayout) {
	for r := range rows {
		for c := range b.cols {
			e := &o[r*oStride+c]
			switch {
			case b.overwrite:
				*e = 0
			case alpha != nil:
				*e *= alpha[r]
			}
			for j := range b.keys {
				*e = f32.FMA(p[r*pStride+j], elementOf(t, v, placeOf(t, b, j, c)), *e)
			}
		}
	}
}

func widenGeneric(t Format, dst []float32, v []byte, steps, stride int) {
	b := panelLayout{stride: stride}
	for k := range steps {
		for c := range panel {
			dst[k*panel+c] = elementOf(t, v, placeOf(t, &b, k, c))
		}
	}
}

func narrowGeneric(t Format, dst []uint16, x []float32) {
	for i, e := range x {
		if t == F16 {
			dst[i] = f32.ToF16(e)
		} else {
			dst[i] = f32.ToBF16(e)
		}
	}
}

func largestGeneric(x []float32) float32 {
	top := float32(0)
	for _, e := range x {
		if e != e {
			return e
		}
		top = max(top, math.Float32frombits(math.Float32bits(e)&^(1<<31)))
	}
	return top
}

func quantizeGeneric(dst []int8, x []float32, scale float32) {
	for i, e := range x {
		if dst[i] = 0; scale != 0 {
			dst[i] = int8(math.RoundToEven(float64(float32(e / scale))))
		}
	}
}

func scaleColumnsGeneric(s, f []float32, rows, stride, n int) {
	for r := range rows {
		for j, e := range f[:n] {
			s[r*stride+j] *= e
		}
	}
}

func rotateGeneric(x []float32, rows, stride, n, block int) {
	for r := range rows {
		for first := 0; first < n; first += block {
			part := x[r*stride+first:][:block]
			for h := 1; h < block; h *= 2 {
				for i := range part {
					if i&h == 0 {
						a, b := part[i], part[i+h]
						part[i], part[i+h] = a+b, a-b
					}
				}
			}
			for i := range part {
				part[i] *= rotateFactor(block)
			}
		}
	}
}
