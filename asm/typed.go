package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

// The micro-kernel of tile.go over values of fewer bits: b is widened in registers, once for all
// rows of a tile, and then goes into the same chains. A tile has up to 4 rows × 16 columns, which
// leaves 12 registers for widening.

// element is the type of the elements of b.
type element int

const (
	elementF32 element = iota
	elementF16
	elementBF16
	elementI8
)

// shift is log₂ of the size in bytes.
func (e element) shift() int { return [...]int{2, 1, 1, 0}[e] }

// wide holds one step of a panel, or four steps of four columns, in float32.
var wide = from(16, 4)

func (p *program) accumulateTyped(name string, e element) {
	p.kernelLike("accumulateTypedGeneric", name, 0, "o p v alpha rows oStride pStride b", "")
	p.accumulateArgs(e)
	if e == elementI8 {
		p.i8Constants()
	}
	t := tileKernel{program: p, accumulates: true, element: e, sizes: []int{4, 3, 2, 1}}
	t.emitPanels()
	t.Ret()
}

// emitPanels writes the loops over panels and row tiles for columns that are whole panels.
func (t *tileKernel) emitPanels() {
	t.Comment("Few rows: several panels at once, so that there are enough chains.")
	t.panelGroups(1, 4)
	t.panelGroups(2, 2)
	t.panelLoop("panel", panel/lanes)
}

// stepHalf is step for panel i of elements of 16 bits.
func (t *tileKernel) stepHalf(r, n, i, lane int) {
	t.LdpQ(bLow, bHigh, tileB(i), 0)
	t.widenHalves(t.element, wide[:2], bLow)
	t.widenHalves(t.element, wide[2:], bHigh)
	for v, b := range wide {
		t.multiply(r, n, i*len(wide)+v, b, lane)
	}
	t.Add(tileB(i), tileB(i), bStride)
}

// multiply adds b times a lane of a to vector v of each row.
func (t *tileKernel) multiply(r, n, v int, b Vec, lane int) {
	for row := range r {
		t.FmlaLane(acc(row, v, n*len(wide)), b, aVec(row), lane)
	}
}

// stepsI8 emits the loop over the chain: four steps, which lie together, at once; then single ones
// of the last four.
func (t *tileKernel) stepsI8(r, n int) {
	loop, tail, one, end := t.label("loop"), t.label("tail"), t.label("one"), t.label("end")
	t.SubsImm(stepsLeft, steps, unroll)
	t.Bcond(LT, tail)
	t.Label(loop)
	for i := range r {
		t.LdrQPost(aVec(i), tileA(i, n))
	}
	for i := range n {
		for v := range len(wide) {
			t.widenFour(wide, tileB(i), v*vector)
			for lane, b := range wide {
				t.multiply(r, n, i*len(wide)+v, b, lane)
			}
		}
		t.Add(tileB(i), tileB(i), bStride)
	}
	t.SubsImm(stepsLeft, stepsLeft, unroll)
	t.Bcond(GE, loop)
	t.Label(tail)
	t.AddImm(stepsLeft, stepsLeft, unroll)
	t.Cbz(stepsLeft, end)
	index, next := wide[2], wide[3]
	t.MovV(index, i8Index[0])
	t.constant(next, t.words("1", 1, 1, 1, 1))
	t.Label(one)
	for i := range r {
		t.LdrSPost(aVec(i), tileA(i, n))
	}
	for i := range n {
		for v := range len(wide) {
			t.loadFour(tileB(i), v*vector)
			t.widenOne(wide[0], index)
			t.multiply(r, n, i*len(wide)+v, wide[0], 0)
		}
	}
	t.AddI(index, index, next)
	t.SubImm(stepsLeft, stepsLeft, 1)
	t.Cbnz(stepsLeft, one)
	t.Label(end)
}
