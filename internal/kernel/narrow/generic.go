package narrow

import (
	"encoding/binary"
	"math"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// This file is the specification of the kernels over fewer bits, as floats/generic.go is for
// float32.

// ElementOf widens element i of v.
func ElementOf(t kernel.Format, v []byte, i int) float32 {
	switch t {
	case kernel.F32:
		return math.Float32frombits(binary.NativeEndian.Uint32(v[4*i:]))
	case kernel.F16:
		return f32.FromF16(binary.NativeEndian.Uint16(v[2*i:]))
	case kernel.BF16, kernel.Pairs:
		return f32.FromBF16(binary.NativeEndian.Uint16(v[2*i:]))
	case kernel.I4:
		return float32(kernel.Levels[kernel.CodeAt(v, i)])
	}
	return float32(int8(v[i]))
}

func accumulateTypedGeneric(t kernel.Format, x *kernel.Sums, v []byte, b *kernel.PanelLayout) {
	for r := range x.Rows {
		floats.BeginOutputs(x.O[r*x.OStride:][:b.Cols], x.Alpha, r, b.Overwrite)
	}
	var wide [kernel.Block * kernel.Panel]float32 // some steps of a panel
	for c := 0; c < b.Cols; c += kernel.Panel {
		for k := 0; k < b.Keys; k += kernel.Block {
			steps := min(kernel.Block, b.Keys-k)
			widenGeneric(t, wide[:], v[kernel.PlaceOf(t, b, k, c)*t.Traits().Bits/8:], steps, b.Stride)
			for r := range x.Rows {
				row := x.O[r*x.OStride+c:][:min(kernel.Panel, b.Cols-c)]
				floats.AddValues(row, x.P[r*x.PStride+k:][:steps], wide[:], kernel.Panel, 0)
			}
		}
	}
}

func widenGeneric(t kernel.Format, dst []float32, v []byte, steps, stride int) {
	b := kernel.PanelLayout{Stride: stride}
	for k := range steps {
		to, at := dst[k*kernel.Panel:][:kernel.Panel], kernel.PlaceOf(kernel.Format(t), &b, k, 0)
		switch t {
		case kernel.F16:
			from := v[2*at:][:2*kernel.Panel]
			for c := range to {
				to[c] = f32.FromF16(binary.NativeEndian.Uint16(from[2*c:]))
			}
		case kernel.BF16:
			from := v[2*at:][:2*kernel.Panel]
			for c := range to {
				to[c] = f32.FromBF16(binary.NativeEndian.Uint16(from[2*c:]))
			}
		case kernel.I8:
			from := v[at:][:4*kernel.Panel-3]
			for c := range to {
				to[c] = float32(int8(from[4*c]))
			}
		case kernel.I4:
			from, half := v[at/2:][:4*kernel.Panel-3], uint(at%2*4)
			for c := range to {
				to[c] = float32(kernel.Levels[from[4*c]>>(half&4)&15])
			}
		default:
			for c := range to {
				to[c] = ElementOf(t, v, at+c)
			}
		}
	}
}

func widenSliceGeneric(t kernel.Format, dst []float32, x []uint16) {
	for i, e := range x {
		if t == kernel.F16 {
			dst[i] = f32.FromF16(e)
		} else {
			dst[i] = f32.FromBF16(e)
		}
	}
}

func narrowGeneric(t kernel.Format, dst []uint16, x []float32) {
	for i, e := range x {
		if t == kernel.F16 {
			dst[i] = f32.ToF16(e)
		} else {
			dst[i] = f32.ToBF16(e)
		}
	}
}

// This file is the specification of the kernels in integers.

// MaxRows is the largest number of rows that widen elements as they read them.
const MaxRows = 8

// Score is score of queries by n packed keys of a format of fewer bits, in whole panels.
func Score(cpu *tuning.Row, t kernel.Format, s, q []float32, k []byte, rows, d, n int) {
	of := t.Traits()
	var layout kernel.PanelLayout
	layout.OfKeys(t, d, kernel.RoundUp(n, kernel.Panel))
	layout.SetTyped(cpu, t, rows, layout.PanelStride*of.Bytes, of.Scaled)
	for x := 0; x < d; x += kernel.CallSteps {
		layout.Keys, layout.Overwrite = min(kernel.CallSteps, d-x), x == 0
		sums := kernel.Sums{O: s, P: q[x:], Rows: rows, OStride: kernel.Block, PStride: d}
		Accumulate(cpu, t, &sums, k[x*kernel.Panel*of.Bits/8:], &layout)
	}
}
