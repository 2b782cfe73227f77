package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The start of outputs: tiles multiply the numbers at an address by factors. To start with 0 the
// address is one of zeros; to start with the outputs unchanged the factors are 1, which changes no
// bit. So one code path serves all three.
const (
	mostFactors = 12                  // rows of a tile
	mostZeros   = wholePanels * panel // columns of a tile
	floatOne    = 0x3f800000          // the bits of 1
)

// zeros is a row of 0.
func zeros() Mem {
	m, ok := wordTables["zeros"]
	if !ok {
		m = GLOBL("zeros", readOnly)
		DATA(4*mostZeros-4, U32(0)) // the last word
		wordTables["zeros"] = m
	}
	return m
}

// noFactors is a factor of 1 for each row of a tile.
func noFactors() Mem {
	w := make([]uint32, mostFactors)
	for i := range w {
		w[i] = floatOne
	}
	return wordTable("ones", w...)
}

// The registers that address the start of outputs and its factors.
var beginFrom, beginAlpha = a0, stepsLeft

// beginning is stack slots that say where the outputs of a call begin.
type beginning struct {
	zeros     Mem // where outputs begin, if that is with 0, else 0
	alpha     Mem // the factor of the tile's first row
	first     Mem // and of the first row
	alphaStep Mem // bytes from a factor to the next one
}

func (o *beginning) slots() []*Mem { return []*Mem{&o.zeros, &o.alpha, &o.first, &o.alphaStep} }

// arguments loads alpha, which may be nil, and from the layout at b whether to overwrite. It
// changes tmp.
func (o *beginning) arguments(b, tmp reg.Register) {
	o.from(b, tmp)
	o.factors(tmp, func() { Load(Param("alpha"), tmp) })
}

// factors sets up alpha, which a function loads into tmp.
func (o *beginning) factors(tmp reg.Register, load func()) {
	given, none := unique("factors"), unique("noFactors")
	XORQ(tmp, tmp)
	CMPQ(o.zeros, Imm(0))
	JNE(LabelRef(none))
	load()
	MOVQ(I32(4), o.alphaStep)
	TESTQ(tmp, tmp)
	JNE(LabelRef(given))
	Label(none)
	MOVQ(tmp, o.alphaStep)
	LEAQ(noFactors(), tmp)
	Label(given)
	MOVQ(tmp, o.first)
}

// from is arguments without alpha.
func (o *beginning) from(b, tmp reg.Register) {
	used := unique("used")
	XORQ(tmp, tmp)
	CMPB(fieldOf(b, "PanelLayout.Overwrite"), Imm(0))
	JE(LabelRef(used))
	LEAQ(zeros(), tmp)
	Label(used)
	MOVQ(tmp, o.zeros)
}

// keep makes outputs start unchanged from now on. It changes tmp.
func (o *beginning) keep(tmp reg.Register) {
	LEAQ(noFactors(), tmp)
	MOVQ(tmp, o.first)
	MOVQ(I32(0), o.alphaStep)
	MOVQ(I32(0), o.zeros)
}

// restart goes back to the first row's factor, by way of a0.
func (o *beginning) restart() { move(o.first, o.alpha) }

// advance moves on by a number of rows, a register that it changes.
func (o *beginning) advance(rows reg.Register) {
	IMULQ(o.alphaStep, rows)
	ADDQ(rows, o.alpha)
}

// at sets from to the address of the start of the outputs at c, and step to the bytes between its
// rows: as in c, or 0.
func (o *beginning) at(c reg.Register, stride Op, from, step reg.Register) {
	ready := unique("begun")
	XORQ(step, step)
	MOVQ(o.zeros, from)
	TESTQ(from, from)
	JNE(LabelRef(ready))
	MOVQ(c, from)
	MOVQ(stride, step)
	Label(ready)
}
