package kernel

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
// CallProducts, of each architecture, bounds the multiply-adds of one call: 87 µs on that CPU,
// on arm64 66.
//
// Not so if products or sums are subnormal: an Intel CPU then takes far longer for an
// operation, and a call up to 4 ms. To bound that, all calls would have to be so much shorter.
const (
	// CallMasked bounds those with values that are masked one by one: NEON does that with two more
	// operations for each multiply-add.
	CallMasked = CallProducts / 4

	// CallInPlaceProducts bounds those of floats.ScoreRows, which goes through keys in rows and
	// transposes them. Fewer than InPlaceRows rows count as InPlaceRows: they wait for memory.
	CallInPlaceProducts = 1 << 16

	// InPlaceDim is the dimension up to which keys are read in rows: there, a panel of
	// them times InPlaceRows queries is one call.
	InPlaceDim = CallInPlaceProducts / Panel / InPlaceRows

	// CallCopies bounds the elements that one call writes packed, where it may have to read
	// them and what it overwrites from memory.
	CallCopies = 1 << 14

	// CallElements bounds the elements of a vector function, with up to eight
	// cycles for each: four times as many would do, if numbers were never subnormal.
	CallElements = 1 << 12

	// CallSoftcaps bounds those of softcap, whose squares are subnormal sooner.
	CallSoftcaps = CallElements / 8

	// CallRows: fewer rows wait for memory and not for multiply-adds, so a call of them counts
	// as one of callRows. It reads 2¹⁵ elements at most: 65 µs.
	CallRows = 16

	// CallSteps is the length of chains of few rows and a whole block that one call takes: more
	// panels side by side wait less than longer chains of one panel.
	CallSteps = CallProducts / CallRows / Block

	// CallInner bounds the length of a chain of multiply-adds, each of which waits
	// about four cycles for the one before, and is what a call with one panel may take.
	CallInner = CallProducts / CallRows / Panel

	// SplitRows: calls are split at multiples of it where possible, so that all but
	// the last have whole tiles of registers.
	SplitRows = 12
)

// NextPiece is where the next piece of n elements begins, after one of step from one on. The
// garbage collector may stop the goroutine between pieces.
func NextPiece(from, step, n int) int {
	if from += step; from < n {
		stop.Point()
	}
	return from
}

// ProductsOf is how many multiply-adds a call counts as that goes through some elements for each
// row.
func ProductsOf(rows, elements int) int { return max(rows, CallRows) * elements }

// Reads tells a sanitizer of the build that a kernel reads the values of a block, panel by panel.
func (b *PanelLayout) Reads(v []float32) {
	last := (b.Cols - 1) / Panel
	operand.Need(v, last*b.PanelStride+(b.Keys-1)*b.Stride+b.Cols-last*Panel)
	if sanitize.Enabled {
		for c := 0; c < b.Cols; c += Panel {
			operand.ReadsRows(v[c/Panel*b.PanelStride:], b.Keys, b.Stride, min(Panel, b.Cols-c))
		}
	}
}

// CallIntegers bounds the products of one call of assembly: at 16 a cycle of 1.5 GHz, 44 µs.
const CallIntegers = 1 << 20
