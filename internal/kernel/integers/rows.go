package integers

import (
	"encoding/binary"
	"math"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Rows are rows of integers of 8 bits, in the form that kernels multiply.
type Rows struct {
	Words []int16 // in the order of InGroupOrder

	// Used in place of words if one instruction adds products of four bytes. With VNNI, kernels add
	// 128 to the other factor, which must be unsigned, and sums begin with −128 times the sum of the
	// row, or of each of its groups.
	Bytes  []int8
	Starts []int32

	// In the place of both, where one instruction multiplies bytes without sign by bytes with one: of
	// each four elements their magnitudes, then −1 where one is negative and else 0. Sums begin with
	// starts, here the sum of the magnitudes of negative elements: see addSigned in gen.
	Magnitudes []int8
}

// Fit allocates memory, for calls of at least that number of rows.
func (x *Rows) Fit(cpu *tuning.Row, elements, groups, rows int) {
	was := *x
	*x = Rows{} // kernels choose by which memory exists
	switch {
	case cpu.DotProduct && rows >= cpu.MinInt8Rows16:
		x.Bytes, x.Starts = growLines(was.Bytes, elements), kernel.Grow(was.Starts, groups)
	case cpu.ISA.Integers():
		x.Magnitudes, x.Starts = kernel.Grow(was.Magnitudes, 2*elements), kernel.Grow(was.Starts, groups)
	default:
		x.Words = kernel.Grow(was.Words, elements)
	}
}

// growLines is kernel.Grow of memory that begins at a cache line: loading a tile is several times
// slower if its rows span two lines.
func growLines(x []int8, n int) []int8 {
	if len(x) >= n {
		return x
	}
	x = make([]int8, n+kernel.CacheLine-1)
	return x[-operand.Address(x, 0)%kernel.CacheLine:][:n]
}

// Pitch is the elements between the rows of a matrix's inputs: whole cache lines, and an odd number
// of them, so that rows do not meet in the same sets of a cache.
func Pitch(inputs int) int {
	return ((inputs+kernel.CacheLine-1)/kernel.CacheLine | 1) * kernel.CacheLine
}

// startOf is −128 times the sum of a row.
func startOf(row []int8) int32 {
	const (
		signs = 0x8080808080808080
		lanes = 0x00ff00ff00ff00ff
		most  = 128 // words: a lane of 16 bits holds the sums of two bytes
	)
	var sum int32
	bytes := kernel.RawBytes(row)
	for len(bytes) >= 8 {
		var sums uint64
		words := min(most, len(bytes)/8)
		for range words {
			x := binary.NativeEndian.Uint64(bytes) ^ signs // bytes + 128
			sums += x&lanes + x>>8&lanes
			bytes = bytes[8:]
		}
		for ; sums > 0; sums >>= 16 {
			sum += int32(sums & 0xffff)
		}
		sum -= int32(words) * 8 * 128
	}
	for _, e := range bytes {
		sum += int32(int8(e))
	}
	return -128 * sum
}

// From is the rows from an element and a group on.
func (x *Rows) From(at, group int) Rows {
	switch {
	case x.Words != nil:
		return Rows{Words: x.Words[at:]}
	case x.Magnitudes != nil:
		return Rows{Magnitudes: x.Magnitudes[2*at:], Starts: x.Starts[group:]}
	}
	return Rows{Bytes: x.Bytes[at:], Starts: x.Starts[group:]}
}

// Copy copies n elements and some groups.
func (x *Rows) Copy(to, from, n, toGroup, fromGroup, groups int) {
	switch {
	case x.Words != nil:
		stop.Copy(x.Words[to:][:n], x.Words[from:][:n])
		return
	case x.Magnitudes != nil:
		stop.Copy(x.Magnitudes[2*to:][:2*n], x.Magnitudes[2*from:][:2*n])
	default:
		stop.Copy(x.Bytes[to:][:n], x.Bytes[from:][:n])
	}
	copy(x.Starts[toGroup:][:groups], x.Starts[fromGroup:])
}

// Reads: rows from one on, of n elements and some groups.
func (x *Rows) Reads(row, rows, stride, groupStride, n, groups int) {
	if x.Words != nil {
		operand.ReadsRows(x.Words[row*stride:], rows, stride, n)
		return
	}
	operand.ReadsRows(x.Starts[row*groupStride:], rows, groupStride, groups)
	if x.Magnitudes != nil {
		operand.ReadsRows(x.Magnitudes[2*row*stride:], rows, 2*stride, 2*n)
	} else {
		operand.ReadsRows(x.Bytes[row*stride:], rows, stride, n)
	}
}

// InGroupOrder widens a row to 16 bits, in the order of kernels: in each group of four, elements 0,
// 2, 1, 3. So pairs are multiplied by the even and the odd bytes of a group, which shifts separate.
// The padding of the last group is 0.
func InGroupOrder(dst []int16, row []int8) {
	whole := len(row) / 4 * 4
	for i := 0; i < whole; i += 4 {
		from, to := row[i:][:4], dst[i:][:4]
		to[0], to[1], to[2], to[3] = int16(from[0]), int16(from[2]), int16(from[1]), int16(from[3])
	}
	if whole < len(dst) {
		var last [4]int8
		copy(last[:], row[whole:])
		InGroupOrder(dst[whole:], last[:])
	}
}

// Products reports whether there are kernels of weights and values in integers, and of rows
// of bytes.
func Products(cpu *tuning.Row) bool { return cpu.ISA.Integers() || cpu.DotProduct }

// Group inputs of a matrix have one scale: a sum of that many products is below 2²⁴, so float32
// holds it.
const Group = 128

// Together reports whether kernels of such rows handle several groups of inputs in a call.
func (x *Rows) Together() bool { return groupsTogether && x.Words == nil }

// Groups is the number of scales of a row of inputs.
func Groups(inputs int) int { return (inputs + Group - 1) / Group }

// Put sets a row, or the group of a row with that number, from element at on. The padding of the
// last four elements is 0.
func (x *Rows) Put(isa tuning.ISA, at, group int, row []int8) {
	switch n := kernel.RoundUp(len(row), 4); {
	case x.Words != nil:
		InGroupOrder(x.Words[at:][:n], row)
	case x.Magnitudes != nil:
		x.Starts[group] = magnitudes(isa, x.Magnitudes[2*at:][:2*n], row)
	default:
		to := x.Bytes[at:][:n]
		clear(to[copy(to, row):])
		x.Starts[group] = startOf(row)
	}
}

// PutRotated sets 16 rows, from row on, from rows of n elements that are stride apart, and rotates
// each group by itself. It reports whether it did: there may be no kernel for it, or a scale that
// needs more care.
func (x *Rows) PutRotated(cpu *tuning.Row, row int, scales, a []float32, n, stride int) bool {
	if x.Bytes == nil || n%Group != 0 {
		return false
	}
	var bytes [kernel.Panel * Group]int8
	var own [kernel.Panel]float32
	var starts [kernel.Panel]int32
	for g := range n / Group {
		if QuantizeRotated(cpu, bytes[:], own[:], starts[:], a[g*Group:], kernel.Panel, Group, stride,
			Group) == 0 {
			return false
		}
		for r := range kernel.Panel {
			at, group := (row+r)*Pitch(n)+g*Group, (row+r)*Groups(n)+g
			*(*[Group]int8)(x.Bytes[at:]) = [Group]int8(bytes[r*Group:])
			scales[group], x.Starts[group] = own[r], starts[r]
		}
	}
	return true
}

// QuantizeToken is dst = rint(x/scale), and returns the scale: NaN if some element is not finite.
func QuantizeToken(isa tuning.ISA, dst []int8, x []float32) (scale float32) {
	top := Largest(isa, x)
	if !(top <= math.MaxFloat32) {
		clear(dst)
		return float32(math.NaN())
	}
	scale = ScaleOf(top)
	Quantize(isa, dst, x, scale)
	return scale
}

// quantizeFourRows is QuantizeGroups of a group.
func quantizeFourRows(isa tuning.ISA, dst []int8, scales, x []float32, n, cols, xStride int,
	four []int8) {
	clear(four[:4*cols])
	for r := range 4 {
		scales[r] = QuantizeToken(isa, four[r*cols:][:n], x[r*xStride:][:n])
	}
	Interleave(isa, kernel.RawBytes(dst), kernel.RawBytes(four), cols, 4)
}

// Quantize quantizes rows of n elements into x, from an element and a group on, as QuantizeRows
// does. The padding of the last four elements of a row is 0. spare is memory for at least one row;
// the stride of rows in x is n rounded up to a multiple of 4.
func (x *Rows) Quantize(isa tuning.ISA, at, group int, scales, a []float32, rows, n, stride int,
	spare []int8) {
	width := kernel.RoundUp(n, 4)
	if x.Bytes == nil {
		together := len(spare) / n
		for r := 0; r < rows; r += together {
			m := min(together, rows-r)
			QuantizeRows(isa, spare, scales[r:], nil, a[r*stride:], m, n, n, stride)
			for i := range m {
				x.Put(isa, at+(r+i)*width, group+r+i, spare[i*n:][:n])
			}
		}
		return
	}
	if n < width {
		clear(x.Bytes[at:][:rows*width])
	}
	QuantizeRows(isa, x.Bytes[at:], scales, x.Starts[group:], a, rows, n, width, stride)
}

// ScaleOf returns the scale of numbers with the largest magnitude top: top/127. If that is
// subnormal and was rounded down, the scale is so much larger that no number becomes more than 127.
// If 127 scales would be infinite, it is the next smaller number.
func ScaleOf(top float32) float32 {
	scale := top / 127
	for scale > 0 && top/scale >= 127.5 {
		scale = math.Nextafter32(scale, 1)
	}
	if top > 0 && scale == 0 {
		scale = math.SmallestNonzeroFloat32
	}
	if 127*scale > math.MaxFloat32 {
		scale = math.Nextafter32(scale, 0)
	}
	return scale
}

// RotateAll rotates rows that follow each other: so do their blocks.
func RotateAll(isa tuning.ISA, x []float32, block int) {
	Rotate(isa, x, x, 1, len(x), len(x), len(x), block)
}
