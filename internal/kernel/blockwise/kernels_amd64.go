//go:build !purego

package blockwise

import (
	"math"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Which instruction set's kernels a CPU runs. Which of them are a type's is in types_amd64.go.

// hasProducts reports whether there are kernels of products by blocks.
func hasProducts(cpu *tuning.Row) bool { return cpu.ISA.Integers() }

// vnni reports whether they are kernels with VNNI and 16 lanes.
func vnni(cpu *tuning.Row) bool { return cpu.ISA.Lanes16() && cpu.DotProduct }

// avxVNNI reports whether they are kernels with VNNI and 8 lanes.
func avxVNNI(cpu *tuning.Row) bool { return !cpu.ISA.Lanes16() && cpu.DotProduct }

// unpackBlocksStep unpacks n blocks of a panel for multiplyBlocksStep.
func unpackBlocksStep(cpu *tuning.Row, t blocks.Type, dst, packed *byte, n int) {
	if t.Traits().Codes == blocks.Indices {
		unpackOdd(cpu, t, dst, packed, n)
		return
	}
	switch {
	case vnni(cpu):
		unpackAVX512(t, dst, packed, n)
	case avxVNNI(cpu):
		unpackAVXVNNI(t, dst, packed, n)
	default:
		unpackAVX2(t, dst, packed, n)
	}
}

// unpackOdd unpacks n blocks of indices: for VNNI to bytes without sign.
func unpackOdd(cpu *tuning.Row, t blocks.Type, dst, packed *byte, n int) {
	flip := uint64(0)
	if cpu.DotProduct {
		flip = 0x8080808080808080
	}
	if vnni(cpu) {
		unpackBooksAVX512(t, dst, packed, fieldsOf(t), n, flip)
		return
	}
	unpackBooksAVX2(t, dst, packed, fieldsOf(t), n, flip)
}

// hasDecoding reports whether there are kernels for weights as float32.
func hasDecoding(isa tuning.ISA) bool { return isa.Integers() }

// unpackSigned unpacks n blocks of a panel into bytes with sign.
func unpackSigned(isa tuning.ISA, t blocks.Type, dst, packed *byte, n int) {
	switch {
	case t.Traits().Codes == blocks.Indices && isa.Lanes16():
		unpackBooksAVX512(t, dst, packed, fieldsOf(t), n, 0)
		return
	case t.Traits().Codes == blocks.Indices:
		unpackBooksAVX2(t, dst, packed, fieldsOf(t), n, 0)
		return
	}
	unpackLevels(t, dst, packed, n)
	less := uint64(kernelsOf[t].addedAVX2)
	for i := 0; less > 0 && i < n*t.Traits().Inputs/blocks.Inputs; i++ {
		to := unsafe.Add(unsafe.Pointer(dst), i*unpackedSize(t))
		takeOff((*[unpackedBytes / 8]uint64)(to), less)
	}
}

// oddScale is a scale of a type of indices: with 8 lanes a pair of words.
func oddScale(isa tuning.ISA, x float32) float32 {
	if isa.Lanes16() {
		return x
	}
	return float32(uint16(math.Float32bits(x)))
}

// takeOff subtracts a number from bytes less than 128, so that none borrows from the next.
func takeOff(x *[unpackedBytes / 8]uint64, less uint64) {
	const each = 0x0101010101010101
	less *= each
	for i := 0; i < len(x); i += 4 {
		y := (*[4]uint64)(x[i:])
		y[0] = (y[0] | 0x80*each) - less ^ 0x80*each
		y[1] = (y[1] | 0x80*each) - less ^ 0x80*each
		y[2] = (y[2] | 0x80*each) - less ^ 0x80*each
		y[3] = (y[3] | 0x80*each) - less ^ 0x80*each
	}
}

// multiplyBlocksStep adds products of rows and some unpacked blocks to outputs, in one call.
func multiplyBlocksStep(cpu *tuning.Row, t blocks.Type, x *blockCall) {
	switch {
	case vnni(cpu):
		multiplyAVX512(t.Traits().Scaling, x)
	case avxVNNI(cpu):
		multiplyAVXVNNI(t.Traits().Scaling, x)
	default:
		multiplyAVX2(t, x)
	}
}

// rowsOfTile is how many rows, or multiples of them, multiplyBlocksStep multiplies.
func rowsOfTile(cpu *tuning.Row, t blocks.Type) int {
	switch {
	case t.Traits().Codes == blocks.Indices:
		return 1
	case vnni(cpu):
		return 4
	case avxVNNI(cpu) && t.Traits().Scaling == blocks.Halves: // sums of halves need more registers
		return 3
	case avxVNNI(cpu):
		return 4
	}
	return int(kernelsOf[t].rowsAVX2)
}

// Few reports whether MultiplyFew is for a type and a number of rows.
func Few(cpu *tuning.Row, t blocks.Type, rows int) bool {
	most := fewRows
	if t.Traits().Codes == blocks.Indices { // more of them wait longer for entries
		most = fewTile(cpu, t, fewRows)
	}
	return rows <= most && hasProducts(cpu)
}

// fewTile is how many of some rows fewRowsStep multiplies: unpacking is half of the work for four.
func fewTile(cpu *tuning.Row, t blocks.Type, rows int) int {
	if !vnni(cpu) {
		return min(int(kernelsOf[t].fewAVX2), rows)
	}
	if most := int(kernelsOf[t].fewAVX512); rows >= most {
		return most
	}
	return min(4, rows)
}

// fewRowsStep adds products of fewTile rows and some panels to outputs, in one call.
func fewRowsStep(cpu *tuning.Row, t blocks.Type, x *blockCall) {
	switch {
	case vnni(cpu):
		fewAVX512(t, x)
	case avxVNNI(cpu):
		fewAVXVNNI(t, x)
	default:
		fewAVX2(t, x)
	}
}

func sumBlocksStep(rows *Row, scales *float32, n int) { sumBlocksSIMD(rows, scales, n) }

// sumBlocksSIMD works like sumBlocksGeneric.
//
//go:noescape
func sumBlocksSIMD(rows *Row, scales *float32, n int)
