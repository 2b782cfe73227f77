package kernel

import (
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/sanitize"
	"github.com/seed-1415985d/attn/internal/stop"
)

// Assembly cannot be preempted, and the garbage collector waits for it. So no assembly call may
// last longer than 100 µs on the slowest supported CPU: one with a single 4-lane FMA a cycle at 1.5
// GHz, which reads 2 GB/s from memory. On arm64 that CPU needs extra cycles for loads, as small
// in-order cores do. Larger calls are split; the place of the split changes no bit. CallProducts,
// one for each architecture, bounds the multiply-adds of one call: 87 µs on that CPU, 66 µs on
// arm64.
//
// The bound does not hold if products or sums are subnormal: an Intel CPU is then far slower, and a
// call lasts up to 4 ms. To bound that, all calls would have to be as much shorter.
const (
	// CallMasked bounds calls that mask values one by one: NEON needs two more operations for each
	// multiply-add.
	CallMasked = CallProducts / 4

	// CallInPlaceProducts bounds the multiply-adds of floats.ScoreRows, which reads keys in rows and
	// transposes them. Fewer than InPlaceRows rows count as InPlaceRows, because they wait for memory.
	CallInPlaceProducts = 1 << 16

	// InPlaceDim is the dimension up to which keys are read in rows: there, a panel of
	// them times InPlaceRows queries is one call.
	InPlaceDim = CallInPlaceProducts / Panel / InPlaceRows

	// CallCopies bounds the elements that one call packs; both they and their destination may have to
	// be read from memory.
	CallCopies = 1 << 14

	// CallSums bounds the elements that a call of elements.Combine reads, and twice the elements that
	// it writes; it multiplies each of them four times at most.
	CallSums = 2 * CallCopies

	// CallElements bounds the elements of a vector function, with up to eight
	// cycles for each: four times as many would do, if numbers were never subnormal.
	CallElements = 1 << 12

	// CallSoftcaps bounds the elements of softcap, whose squares are subnormal sooner.
	CallSoftcaps = CallElements / 8

	// CallRows: fewer rows wait for memory and not for multiply-adds, so a call of them counts
	// as one of callRows. It reads 2¹⁵ elements at most: 65 µs.
	CallRows = 16

	// CallSteps bounds the chains of a call with few rows and a whole block: more panels side by side
	// wait less than longer chains of one panel.
	CallSteps = CallProducts / CallRows / Block

	// CallInner bounds the length of a chain of multiply-adds, each of which waits about four cycles
	// for the one before, in a call with one panel.
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

// ProductsOf returns the multiply-adds for which a call counts that processes some elements for
// each row.
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

// ColumnsOf returns the columns of a call that may have so many: a panel, or an even number of
// panels, since kernels multiply by two at a time and need as long for one alone.
func ColumnsOf(most int) int { return max(Panel, most/(2*Panel)*(2*Panel)) }
