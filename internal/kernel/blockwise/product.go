package blockwise

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/operand"
)

// Product is rows of outputs of a product by a matrix of blocks: o_rc = Σ a·b.
type Product struct {
	Type    blocks.Type
	O       []float32 // outputs, panels of them in a row
	A       []Row     // inputs, N times 32 in a row
	Packed  []byte    // panels of blocks, one after another
	Rows    int       // of outputs and of inputs
	Panels  int
	N       int
	OStride int // from a row of outputs to the next
	AStride int // from a row of inputs to the next
}

// from is the product's rows from one on.
func (x *Product) from(row int) Product {
	y := *x
	y.O, y.A, y.Rows = x.O[row*x.OStride:], x.A[row*x.AStride:], x.Rows-row
	return y
}

// perBlock returns how many groups of 32 inputs a packed block has.
func (x *Product) perBlock() int { return x.Type.Traits().Inputs / blocks.Inputs }

// PanelBytes is the bytes of a panel of packed blocks.
func (x *Product) PanelBytes() int { return panelBytes(x.Type, x.N) }

// operands checks the memory that kernels read and write.
func (x *Product) operands() {
	operand.WritesRows(x.O, x.Rows, x.OStride, x.Panels*panel)
	operand.ReadsRows(x.A, x.Rows, x.AStride, x.N)
	operand.Reads(x.Packed, x.Panels*x.PanelBytes())
}

// Rounded is rows of outputs of a product in bfloat16 by a matrix of blocks.
type Rounded struct {
	Type    blocks.Type
	O       []float32 // outputs, panels of them in a row
	A       []float32 // inputs in bfloat16, N times 32 in a row
	Packed  []byte    // panels of blocks, one after another
	Rows    int       // of outputs and of inputs
	Panels  int
	N       int
	OStride int // from a row of outputs to the next
	AStride int // from a row of inputs to the next
}

// PanelBytes is the bytes of a panel of packed blocks.
func (x *Rounded) PanelBytes() int { return panelBytes(x.Type, x.N) }

// panelBytes is the bytes of a panel of n times 32 inputs.
func panelBytes(t blocks.Type, n int) int {
	of := t.Traits()
	return n * blocks.Inputs / of.Inputs * of.Packed
}

// blockCall is the argument of a call of a product kernel. The generators read the offsets of its
// fields from this declaration (internal/dev/constants). It is set field by field, because a copy
// of a struct that has just been written waits for the stores.
type blockCall struct {
	o       *float32
	a       *Row
	w       *byte // blocks, unpacked or, for few rows, as they lie in memory
	table   *byte // levels, where few rows look them up
	sums    *byte // memory for sums of tiles
	rows    int
	panels  int // of few rows and tiles; else one
	blocks  int // of each panel: times 32 inputs, but for few rows packed blocks
	oStride int
	aStride int
	wStride int // from a panel of unpacked blocks to the next, in bytes
	// Few rows prefetch from request on until before blocks have been read, then from next.
	before        int
	request, next uintptr
	overwrite     bool // outputs are 0 before

	// Few rows in bfloat16 have floats in the place of a, and prefetch from request on. They are 1
	// to 4, of which the fourth one, or the last, has addresses of its own. codes says how to unpack
	// the parts of a block, part bytes each.
	floats, lastFloats, lastO *float32
	codes, part, parts        int
}

// with is the call with levels.
func (x *blockCall) with(levels *[16]byte) *blockCall {
	x.table = &levels[0]
	return x
}

// as is the call with a way to unpack codes.
func (x *blockCall) as(codes int) *blockCall {
	x.codes = codes
	return x
}

// withFields is the call with the entries of a type of indices.
func (x *blockCall) withFields(t blocks.Type) *blockCall {
	x.table = fieldsOf(t)
	return x
}

// fieldsOf is the entries of a type of indices.
func fieldsOf(t blocks.Type) *byte { return (*byte)(unsafe.Pointer(&t.Fields()[0])) }

// withEntries is the call with these as bytes.
func (x *blockCall) withEntries(t blocks.Type) *blockCall {
	eight, four := t.Entries()
	if x.table = (*byte)(unsafe.Pointer(unsafe.SliceData(eight))); eight == nil {
		x.table = (*byte)(unsafe.Pointer(unsafe.SliceData(four)))
	}
	return x
}
