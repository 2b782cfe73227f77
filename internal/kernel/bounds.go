package attn

import (
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/sanitize"
	"github.com/seed-1415985d/attn/internal/stop"
)

// Assembly cannot be preempted, and the garbage collector waits for it. So no
// assembly call may last longer than 100 µs on the slowest CPU that the
// assembly is for: one with a single 4-lane FMA a cycle at 1.5 GHz, which reads 2 GB/s from
// memory. On arm64 it takes cycles of their own for loads, as small cores do that execute in
// order. Larger calls are split; where does not change a bit.
// callProducts, of each architecture, bounds the multiply-adds of one call: 87 µs on that CPU,
// on arm64 66.
//
// Not so if products or sums are subnormal: an Intel CPU then takes far longer for an
// operation, and a call up to 4 ms. To bound that, all calls would have to be so much shorter.
const (
	// callMasked bounds those with values that are masked one by one: NEON does that with two more
	// operations for each multiply-add.
	callMasked = callProducts / 4

	// callInPlaceProducts bounds those of scoreRows, which goes through keys in rows and transposes
	// them. Fewer than inPlaceRows rows count as inPlaceRows: they wait for memory.
	callInPlaceProducts = 1 << 16

	// inPlaceDim is the dimension up to which keys are read in rows: there, a panel of
	// them times inPlaceRows queries is one call.
	inPlaceDim = callInPlaceProducts / panel / inPlaceRows

	// callCopies bounds the elements that one call writes packed, where it may have to read
	// them and what it overwrites from memory.
	callCopies = 1 << 14

	// callElements bounds the elements of a vector function, with up to eight
	// cycles for each: four times as many would do, if numbers were never subnormal.
	callElements = 1 << 12

	// callSoftcaps bounds those of softcap, whose squares are subnormal sooner.
	callSoftcaps = callElements / 8

	// callRows: fewer rows wait for memory and not for multiply-adds, so a call of them counts
	// as one of callRows. It reads 2¹⁵ elements at most: 65 µs.
	callRows = 16

	// callSteps is the length of chains of few rows and a whole block that one call takes: more
	// panels side by side wait less than longer chains of one panel.
	callSteps = callProducts / callRows / Block

	// callInner bounds the length of a chain of multiply-adds, each of which waits
	// about four cycles for the one before, and is what a call with one panel may take.
	callInner = callProducts / callRows / panel

	// splitRows: calls are split at multiples of it where possible, so that all but
	// the last have whole tiles of registers.
	splitRows = 12
)

// nextPiece is where the next piece of n elements begins, after one of step from one on. The
// garbage collector may stop the goroutine between pieces.
func nextPiece(from, step, n int) int {
	if from += step; from < n {
		stop.Point()
	}
	return from
}

// productsOf is how many multiply-adds a call counts as that goes through some elements for each
// row.
func productsOf(rows, elements int) int { return max(rows, callRows) * elements }

// reads tells a sanitizer of the build that a kernel reads the values of a block, panel by panel.
func (b *panelLayout) reads(v []float32) {
	last := (b.cols - 1) / panel
	operand.Need(v, last*b.panelStride+(b.keys-1)*b.stride+b.cols-last*panel)
	if sanitize.Enabled {
		for c := 0; c < b.cols; c += panel {
			operand.ReadsRows(v[c/panel*b.panelStride:], b.keys, b.stride, min(panel, b.cols-c))
		}
	}
}
