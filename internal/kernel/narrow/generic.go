package attn

import (
	"encoding/binary"
	"math"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/stop"
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
	case I4:
		return float32(levels[codeAt(v, i)])
	}
	return float32(int8(v[i]))
}

func accumulateTypedGeneric(t Format, o, p []float32, v []byte, alpha []float32, rows, oStride,
	pStride int, b *kernel.PanelLayout) {
	for r := range rows {
		floats.BeginOutputs(o[r*oStride:][:b.Cols], alpha, r, b.Overwrite)
	}
	var wide [Block * panel]float32 // some steps of a panel
	for c := 0; c < b.Cols; c += panel {
		for k := 0; k < b.Keys; k += Block {
			steps := min(Block, b.Keys-k)
			widenGeneric(t, wide[:], v[kernel.PlaceOf(kernel.Format(t), b, k, c)*formats[t].bits/8:], steps,
				b.Stride)
			for r := range rows {
				row := o[r*oStride+c:][:min(panel, b.Cols-c)]
				floats.AddValues(row, p[r*pStride+k:][:steps], wide[:], panel, 0)
			}
		}
	}
}

func widenGeneric(t Format, dst []float32, v []byte, steps, stride int) {
	b := kernel.PanelLayout{Stride: stride}
	for k := range steps {
		to, at := dst[k*panel:][:panel], kernel.PlaceOf(kernel.Format(t), &b, k, 0)
		switch t {
		case F16:
			from := v[2*at:][:2*panel]
			for c := range to {
				to[c] = f32.FromF16(binary.NativeEndian.Uint16(from[2*c:]))
			}
		case BF16:
			from := v[2*at:][:2*panel]
			for c := range to {
				to[c] = f32.FromBF16(binary.NativeEndian.Uint16(from[2*c:]))
			}
		case I8:
			from := v[at:][:4*panel-3]
			for c := range to {
				to[c] = float32(int8(from[4*c]))
			}
		case I4:
			from, half := v[at/2:][:4*panel-3], uint(at%2*4)
			for c := range to {
				to[c] = float32(levels[from[4*c]>>(half&4)&15])
			}
		default:
			for c := range to {
				to[c] = elementOf(t, v, at+c)
			}
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

func rotateGeneric(x []float32, rows, stride, n, block int) {
	factor := float32(1 / math.Sqrt(float64(block)))
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
				part[i] *= factor
			}
		}
	}
}

// This file is the specification of the kernels in integers.

// integerSums is the exact sums of products of a row in the order of inGroupOrder with the columns
// of a panel: b.keys steps of integers, or of codes of them, in groups of four.
func integerSums(t Format, row []int16, v []byte, b *kernel.PanelLayout) (sums [panel]int32) {
	var unpacked [4 * panel]byte
	for k := 0; k < b.Keys; k += 4 {
		var group []byte
		if t == I4 {
			group = unpacked[:]
			for i, codes := range v[k/8*b.Stride:][:4*panel] {
				group[i] = byte(levels[codes>>(k%8)&15])
			}
		} else {
			group = v[k/4*b.Stride:][:4*panel]
		}
		w := row[k:][:4]
		e0, e2, e1, e3 := int32(w[0]), int32(w[1]), int32(w[2]), int32(w[3])
		for c := range sums {
			x := group[4*c:][:4]
			sums[c] += e0*int32(int8(x[0])) + e1*int32(int8(x[1])) +
				e2*int32(int8(x[2])) + e3*int32(int8(x[3]))
		}
	}
	return sums
}

// scoreInt8Generic is s_rj = float32(Σ q_rx·k_jx)·scale_j.
func scoreInt8Generic(s []float32, q []int16, k []byte, scales []float32, rows int,
	b *kernel.PanelLayout) {
	scoreIntegers(I8, s, q, k, scales, rows, b)
}

// scoreIntegers is scoreInt8Generic of keys in I8 or I4.
func scoreIntegers(t Format, s []float32, q []int16, k []byte, scales []float32, rows int,
	b *kernel.PanelLayout) {
	d := roundUp(b.Keys, 4)
	for r := range rows {
		for j := 0; j < b.Cols; j += panel {
			sums := integerSums(t, q[r*d:], k[j/panel*b.PanelStride:], b)
			for i := range min(panel, b.Cols-j) {
				s[r*Block+j+i] = float32(float32(sums[i]) * scales[j+i])
			}
		}
	}
}

// softmaxInt8Generic is softmax, of visible keys if that is not nil, with a factor c for each
// row, and makes integers of the products of weights and the scales of their values. Products stay
// in s, 0 where no key is visible.
func softmaxInt8Generic(w []int16, f, s, m, l, alpha, c, scales []float32, visible []uint64,
	rows int) (masked bool) {
	for r := range rows {
		p, seen, none := s[r*Block:][:Block], ^uint64(0), false
		if visible == nil {
			none = floats.Softmax(&tuned, p, m[r:], l[r:], alpha[r:], nil, 1, c[r])
		} else {
			seen = visible[r]
			none = floats.Softmax(&tuned, p, m[r:], l[r:], alpha[r:], visible[r:], 1, c[r])
		}
		masked = masked || none
		for j := range p {
			if p[j] *= scales[j]; seen>>j&1 == 0 {
				p[j] = 0
			}
		}
	}
	integersOfProducts(w, f, s, rows)
	return masked
}

// integersOfProducts makes integers rint(x_j·(32767/t)) and the scale t/32767 of each row of
// products, of which t is the largest. All integers are 0 where t is 0 or not finite. Where 32767/t
// might overflow, both are first multiplied by 2⁶⁴, which is exact.
func integersOfProducts(w []int16, f, s []float32, rows int) {
	for r := range rows {
		x := s[r*Block:][:Block]
		top := largestProduct(x)
		w := w[r*Block:][:Block]
		clear(w)
		if f[r] = float32(top / 32767); top == 0 || !(top <= math.MaxFloat32) {
			continue
		}
		up := float32(1)
		if top < 0x1p-100 {
			up = 0x1p64
		}
		factor := float32(32767 / (top * up))
		for j, e := range x {
			n := math.RoundToEven(float64(float32(float32(e*up) * factor)))
			w[j/4*4+[4]int{0, 2, 1, 3}[j%4]] = int16(n)
		}
	}
}

// largestProduct is the largest of x, or NaN if one is.
func largestProduct(x []float32) (top float32) {
	for _, e := range x {
		switch {
		case e != e:
			return e
		case e > top:
			top = e
		}
	}
	return top
}

// accumulateInt8Generic is o_rc = FMA(float32(Σ w_rj·v_jc), f_r, o_rc·alpha_r), with 0 in the place
// of o_rc·alpha_r if b.overwrite, or o_rc if alpha is nil.
func accumulateInt8Generic(o []float32, w []int16, v []byte, alpha, f []float32, rows, oStride,
	wStride, fStride int, b *kernel.PanelLayout) {
	accumulateIntegers(I8, o, w, v, alpha, f, rows, oStride, wStride, fStride, b)
}

// accumulateIntegers is accumulateInt8Generic of values in I8 or I4.
func accumulateIntegers(t Format, o []float32, w []int16, v []byte, alpha, f []float32, rows,
	oStride, wStride, fStride int, b *kernel.PanelLayout) {
	for r := range rows {
		row := o[r*oStride:][:b.Cols]
		floats.BeginOutputs(row, alpha, r, b.Overwrite)
		for c := 0; c < b.Cols; c += panel {
			sums := integerSums(t, w[r*wStride:], v[c/panel*b.PanelStride:], b)
			for i := range min(panel, b.Cols-c) {
				row[c+i] = f32.FMA(float32(sums[i]), f[r*fStride], row[c+i])
			}
		}
	}
}

// copyRowsGeneric brings rows together.
func copyRowsGeneric(dst, x []float32, rows, n, stride int) {
	for r := range rows {
		stop.Copy(dst[r*n:][:n], x[r*stride:])
	}
}

// interleaveGeneric brings elements of four rows and a column together.
func interleaveGeneric(dst, src []byte, cols, n int) {
	for j := range n {
		for c := range cols {
			dst[j/4*4*cols+4*c+j%4] = src[j*cols+c]
		}
	}
}

// levels are the integers of the codes of I4: the sign is the highest bit. They are the Lloyd-Max
// points of normal data scaled by their maximum.
var levels = [16]int8{5, 16, 28, 40, 54, 69, 89, 117, -5, -16, -28, -40, -54, -69, -89, -117}

// codeAt is code i of x: the lower half of byte i/2 if i is even, else the upper half.
func codeAt(x []byte, i int) byte { return x[i/2] >> (i % 2 * 4) & 15 }
