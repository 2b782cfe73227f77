package blockwise

import (
	"encoding/binary"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/pairs"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Products by matrices of blocks: plain loops, which kernels equal. Package blocks describes the
// offsets.

// weights is 32 inputs of an output: of each half d·(scale·n) − dmin·min.
type weights struct {
	n      [blocks.Inputs]int8
	d      [2]float32
	scales [2]int32
	dmin   float32
	minima [2]int32
}

// unpackBlockGeneric sets x to the weights of output number output of the panel, for inputs number
// block, from the packed block of type t.
func unpackBlockGeneric(t blocks.Type, x *weights, packed []byte, block, output int) {
	of := t.Traits()
	half := func(at int) uint16 { return binary.LittleEndian.Uint16(packed[2*(at*panel+output):]) }
	part := packed[of.Header()+block*of.Part():]
	scale := func(i int) byte { return part[i*panel+output] }
	both := func(n int32) [2]int32 { return [2]int32{n, n} }
	*x = weights{scales: both(1)}
	if of.Codes == blocks.Indices {
		x.setNumbers(of, part, output, f32.FromF16(half(0)))
		return
	}
	switch of.Scaling {
	case blocks.Offset:
		x.dmin, x.minima = -f32.FromF16(half(1)), both(1)
	case blocks.Scaled:
		x.scales = both(int32(int8(scale(0))))
	case blocks.Minima:
		x.dmin = f32.FromF16(half(1))
		x.scales, x.minima = both(int32(scale(0))), both(int32(scale(1)))
	case blocks.Halves:
		x.scales = [2]int32{int32(int8(scale(0))), int32(int8(scale(1)))}
	case blocks.Pairs:
		x.dmin = f32.FromF16(half(1))
		x.scales = [2]int32{int32(scale(0) & 15), int32(scale(1) & 15)}
		x.minima = [2]int32{int32(scale(0) >> 4), int32(scale(1) >> 4)}
	}
	switch {
	case of.Scaling == blocks.Floats:
		x.d = [2]float32{blocks.HalfOfFloat(scale(0)), blocks.HalfOfFloat(scale(1))}
	case of.PowerOf2:
		d := f32.FromBF16(half(0))
		x.d = [2]float32{d, d}
	default:
		d := f32.FromF16(half(0))
		x.d = [2]float32{d, d}
	}
	for i := range x.n {
		code := unpackCode(of, part[of.Scales():], output, block, i)
		if of.Levels != nil {
			x.n[i] = of.Levels[code]
		} else {
			x.n[i] = code - of.Less
		}
	}
}

// setNumbers sets the numbers and scales of types with indices.
func (x *weights) setNumbers(of *blocks.Traits, part []byte, output int, d float32) {
	var numbers blocks.Numbers
	of.Numbers(&numbers, part, output)
	for i := range x.n {
		x.n[i] = int8(numbers.Bytes[i/8] >> (i % 8 * 8))
	}
	d *= of.Form().Unit // exact
	x.d = [2]float32{d, d}
	x.scales = [2]int32{int32(numbers.Scales[0]), int32(numbers.Scales[1])}
}

// unpackCode returns the code of input i of blocks.Inputs of an output, from its words.
func unpackCode(of *blocks.Traits, words []byte, output, block, i int) int8 {
	group, in := i/4, 4*output+i%4
	byteOf := func(word int) int8 { return int8(words[4*panel*word+in]) }
	bit := func(word int) int8 { return byteOf(word) >> group & 1 }
	pair := func(word int) int8 { return byteOf(word+group/4) >> (group % 4 * 2) & 3 }
	nibble := func() int8 { return byteOf(group%4) >> (group / 4 * 4) & 15 }
	switch {
	case of.Codes == blocks.EightBits:
		return byteOf(group)
	case of.Codes == blocks.FiveBits:
		return nibble() + bit(4)<<4
	case of.Codes == blocks.SixBits:
		return nibble() + pair(4)<<4
	case of.Codes == blocks.TwoBits:
		return pair(0)
	case of.Codes == blocks.ThreeBits:
		return pair(0) + bit(2)<<2
	case of.Codes == blocks.OneBit:
		return bit(0) << 1
	case of.Codes == blocks.Trits:
		return tritOf(words, output, block, i)
	case of.Scaling == blocks.Floats: // halves of the inputs after each other
		return byteOf(group/4*2+group%2) >> (group / 2 % 2 * 4) & 15
	}
	return nibble()
}

// tritOf returns the digit of input i of the 32 inputs number block of 256. Bytes have five digits:
// 32 bytes for the first 160 inputs, 16 bytes for the next 80; the last 4 bytes have four each.
func tritOf(words []byte, output, block, i int) int8 {
	at, count := block*blocks.Inputs+i, blocks.Inputs // bytes with one digit each
	first := 0
	switch {
	case at >= 240:
		at, first, count = at-240, 48, 4
	case at >= 160:
		at, first, count = at-160, 32, 16
	}
	b := first + at%count
	code := words[4*panel*(b/4)+4*output+b%4] ^ 0x80
	for range at / count {
		code *= 3
	}
	return int8(int(code) * 3 >> 8)
}

// decodeBlocksGeneric sets dst to the weights of the first 32·n inputs of a panel of outputs: the
// weight of input k and output c is at k·panel + c. Products are exact. The order of operations is
// that of ggml's dequantize_row functions, so that zeros have the same signs.
func decodeBlocksGeneric(t blocks.Type, dst []float32, packed []byte, n int) {
	var x weights
	per, size := t.Traits().Inputs/blocks.Inputs, t.Traits().Packed
	for c := range panel {
		for k := range n {
			unpackBlockGeneric(t, &x, packed[k/per*size:], k%per, c)
			for i, e := range x.n {
				half := 2 * i / blocks.Inputs
				less := float32(x.dmin * float32(x.minima[half]))
				scale := float32(x.d[half] * float32(x.scales[half]))
				dst[(k*blocks.Inputs+i)*panel+c] = float32(scale*float32(e)) - less
			}
		}
	}
}

// decodePairsGeneric sets dst to the weights of the first 32·n inputs of a panel of outputs in
// bfloat16, in pairs of inputs. floats is memory for as many weights.
func decodePairsGeneric(t blocks.Type, dst []uint16, packed []byte, n int, floats []float32) {
	decodeBlocksGeneric(t, floats, packed, n)
	pairs.OfPanel(tuning.Generic, dst[:n*blocks.Inputs*panel], floats)
}

// multiplyRoundedGeneric computes a product in bfloat16, by weights that it unpacks first.
func multiplyRoundedGeneric(x *Rounded) {
	n := x.N * blocks.Inputs * panel
	halves, floats := make([]uint16, n), make([]float32, n)
	cpu := tuning.Row{ISA: tuning.Generic}
	sums := kernel.Sums{P: x.A, Rows: x.Rows, OStride: x.OStride, PStride: x.AStride}
	layout := kernel.ScoreLayout(kernel.Pairs, x.N*blocks.Inputs, panel)
	layout.Overwrite = true
	for p := range x.Panels {
		decodePairsGeneric(x.Type, halves, x.Packed[p*x.PanelBytes():], x.N, floats)
		sums.O = x.O[p*panel:]
		pairs.Accumulate(&cpu, &sums, kernel.RawBytes(halves), &layout, false)
	}
}

// multiplyBlocksGeneric computes a product in integers with scales.
func multiplyBlocksGeneric(x *Product) {
	var w weights
	of, per := x.Type.Traits(), x.perBlock()
	for r := range x.Rows {
		clear(x.O[r*x.OStride:][:x.Panels*panel])
	}
	for c := range x.Panels * panel {
		packed := x.Packed[c/panel*x.PanelBytes():]
		for k := range x.N {
			unpackBlockGeneric(x.Type, &w, packed[k/per*of.Packed:], k%per, c%panel)
			for r := range x.Rows {
				sum := &x.O[r*x.OStride+c]
				*sum = w.add(*sum, &x.A[r*x.AStride+k], of)
			}
		}
	}
}

// add adds the products of a row to a sum.
func (x *weights) add(sum float32, row *Row, of *blocks.Traits) float32 {
	var n, total [2]int32
	for i, e := range x.n {
		n[2*i/blocks.Inputs] += int32(e) * int32(row.integers[i])
		total[2*i/blocks.Inputs] += int32(row.integers[i])
	}
	if of.Scaling == blocks.Floats {
		sum = f32.FMA(float32(n[0]), float32(row.scale*x.d[0]), sum)
		return f32.FMA(float32(n[1]), float32(row.scale*x.d[1]), sum)
	}
	products := x.scales[0]*n[0] + x.scales[1]*n[1]
	sum = f32.FMA(float32(products), float32(row.scale*x.d[0]), sum)
	if of.HasMinima() {
		minima := x.minima[0]*total[0] + x.minima[1]*total[1]
		sum = f32.FMA(float32(minima), -float32(row.scale*x.dmin), sum)
	}
	return sum
}

func sumBlocksGeneric(dst []Row, scales []float32) {
	for i := range dst {
		b := &dst[i]
		var sums [2]int32
		for k, e := range b.integers {
			sums[2*k/blocks.Inputs] += int32(e)
		}
		b.scale, b.sum = scales[i], sums[0]+sums[1]
		b.start, b.halves = -128*b.sum, [2]int32{-32 * sums[0], -32 * sums[1]}
		b.eighths = [2]int16{int16(-8 * sums[0]), int16(-8 * sums[1])}
	}
}
