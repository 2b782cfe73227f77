package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// The last steps of the largest tiles with 16 lanes are done for a few rows at a time, each
// followed by the stores of its sums. If all stores of a tile came at once, the next instructions
// would wait for them.

const (
	avx512Last   = 4 // steps of a tile
	rowsTogether = 2 // enough chains for two units
)

// endsByRows reports whether a tile of r rows × n panels ends so.
func endsByRows(r, n int) bool { return r == 6 && n == 4 }

// findLast says how many steps these are: none where tiles have no others, or prefetch along.
func (w *avx512Program) findLast() {
	none := unique("noneLast")
	MOVQ(I32(0), w.last)
	CMPQ(w.request, Imm(0))
	JNE(LabelRef(none))
	CMPQ(w.steps, imm(2*avx512Last))
	JL(LabelRef(none))
	MOVQ(I32(avx512Last), w.last)
	Label(none)
}

// endByRows does the last steps and stores.
func (w *avx512Program) endByRows(r, n int) {
	plain, done := unique("plain"), unique("done")
	CMPQ(w.last, Imm(0))
	JE(LabelRef(plain))
	from := stepsLeft
	MOVQ(b0, from)
	for first := 0; first < r; first += rowsTogether {
		if first > 0 {
			MOVQ(from, b0)
			LEAQ(Mem{Base: b0, Index: avx512PanelStride, Scale: 1}, b1)
		}
		for u := range avx512Last {
			w.step(first, first+rowsTogether, n, 4*u)
		}
		for i := first; i < first+rowsTogether; i++ {
			for v := range n {
				VMOVUPS(zmm[i*n+v], Mem{Base: cPtr, Disp: v * avx512Vector})
			}
			ADDQ(w.cStride, cPtr)
		}
	}
	JMP(LabelRef(done))
	Label(plain)
	w.store(r, n)
	Label(done)
}
