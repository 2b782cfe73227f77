package integers

import (
	"math"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/tuning"
)

func magnitudesGeneric(dst, row []int8) (start int32) {
	clear(dst)
	for i, e := range row {
		group := dst[i/4*8:][:8]
		if group[i%4] = e; e < 0 {
			group[i%4], group[4+i%4] = -e, -1
			start -= int32(e)
		}
	}
	return start
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

// integerSums is the exact sums of products of a row in the order of InGroupOrder with the columns
// of a panel: b.keys steps of integers, or of codes of them, in groups of four.
func integerSums(t kernel.Format, row []int16, v []byte,
	b *kernel.PanelLayout) (sums [kernel.Panel]int32) {
	var unpacked [4 * kernel.Panel]byte
	for k := 0; k < b.Keys; k += 4 {
		var group []byte
		if t == kernel.I4 {
			group = unpacked[:]
			for i, codes := range v[k/8*b.Stride:][:4*kernel.Panel] {
				group[i] = byte(kernel.Levels[codes>>(k%8)&15])
			}
		} else {
			group = v[k/4*b.Stride:][:4*kernel.Panel]
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
	ScoreGeneric(kernel.I8, s, q, k, scales, rows, b)
}

// ScoreGeneric is scoreInt8Generic of keys in I8 or I4.
func ScoreGeneric(t kernel.Format, s []float32, q []int16, k []byte, scales []float32, rows int,
	b *kernel.PanelLayout) {
	d := kernel.RoundUp(b.Keys, 4)
	for r := range rows {
		for j := 0; j < b.Cols; j += kernel.Panel {
			sums := integerSums(t, q[r*d:], k[j/kernel.Panel*b.PanelStride:], b)
			for i := range min(kernel.Panel, b.Cols-j) {
				s[r*kernel.Block+j+i] = float32(float32(sums[i]) * scales[j+i])
			}
		}
	}
}

// softmaxInt8Generic is softmax, of visible keys if visible is not nil, with a factor c for each
// row, and quantizes the products of weights and the scales of their values. Products stay in s, 0
// where no key is visible.
func softmaxInt8Generic(cpu *tuning.Row, w []int16, f, s, m, l, alpha, c, scales []float32,
	visible []uint64,
	rows int) (masked bool) {
	for r := range rows {
		p, seen, none := s[r*kernel.Block:][:kernel.Block], ^uint64(0), false
		if visible == nil {
			none = floats.Softmax(cpu, p, m[r:], l[r:], alpha[r:], nil, 1, c[r])
		} else {
			seen = visible[r]
			none = floats.Softmax(cpu, p, m[r:], l[r:], alpha[r:], visible[r:], 1, c[r])
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

// integersOfProducts computes integers rint(x_j·(32767/t)) and the scale t/32767 of each row of
// products, t being the largest. All integers are 0 where t is 0 or not finite. Where 32767/t might
// overflow, both are first multiplied by 2⁶⁴, which is exact.
func integersOfProducts(w []int16, f, s []float32, rows int) {
	for r := range rows {
		x := s[r*kernel.Block:][:kernel.Block]
		top := largestProduct(x)
		w := w[r*kernel.Block:][:kernel.Block]
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
func accumulateInt8Generic(x *Sums, v []byte, b *kernel.PanelLayout) {
	AccumulateGeneric(kernel.I8, x, v, b)
}

// AccumulateGeneric is accumulateInt8Generic of values in I8 or I4.
func AccumulateGeneric(t kernel.Format, x *Sums, v []byte, b *kernel.PanelLayout) {
	for r := range x.Rows {
		row := x.O[r*x.OStride:][:b.Cols]
		floats.BeginOutputs(row, x.Alpha, r, b.Overwrite)
		for c := 0; c < b.Cols; c += kernel.Panel {
			sums := integerSums(t, x.W.Words[r*x.WStride:], v[c/kernel.Panel*b.PanelStride:], b)
			for i := range min(kernel.Panel, b.Cols-c) {
				row[c+i] = f32.FMA(float32(sums[i]), x.F[r*x.FStride], row[c+i])
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
