package attn

import "github.com/seed-1415985d/attn/internal/operand"

// Keys to values: where values are part of keys, what keys have side by side, 16 keys of one
// channel, values have one after the other, and 16 channels of one key side by side. So squares of
// 16 × 16 elements are transposed.

// transposeFloats brings the first cols channels of n packed keys of d dimensions, in whole panels,
// to the order of packed values: channel c of key j goes from k[(j/panel*d + c)*panel + j%panel] to
// dst[(c/panel*Block + j)*panel + c%panel]. What completes the last panel of channels is 0.
func transposeFloats(dst, k []float32, d, cols, n int) {
	transposes(dst, k, d, cols, n)
	if !tuned.ISA.SIMD() {
		transposeGeneric(dst, k, d, cols, n)
		return
	}
	const step = callCopies / Block / panel
	squares, whole := roundUp(n, panel)/panel, cols/panel
	for c := 0; c < whole; c += step {
		transposeFloatsStep(&dst[c*panel*Block], &k[c*panel*panel], d*panel, squares, min(step, whole-c))
	}
	if last := whole * panel; last < cols {
		transposeGeneric(dst[last*Block:], k[last*panel:], d, cols-last, n)
	}
}

// transposeHalves is transposeFloats for elements of 16 bits.
func transposeHalves(dst, k []uint16, d, cols, n int) {
	transposes(dst, k, d, cols, n)
	if !transposesTyped() {
		transposeGeneric(dst, k, d, cols, n)
		return
	}
	const step = callCopies / Block / panel
	squares, whole := roundUp(n, panel)/panel, cols/panel
	for c := 0; c < whole; c += step {
		transposeHalvesSIMD(&dst[c*panel*Block], &k[c*panel*panel], d*panel, squares, min(step, whole-c))
	}
	if last := whole * panel; last < cols {
		transposeGeneric(dst[last*Block:], k[last*panel:], d, cols-last, n)
	}
}

// transposes tells a sanitizer what transposeFloats and transposeHalves read and write.
func transposes[T float32 | uint16](dst, k []T, d, cols, n int) {
	squares := roundUp(n, panel) / panel
	operand.ReadsRows(k, squares, d*panel, cols*panel)
	operand.WritesRows(dst, roundUp(cols, panel)/panel, Block*panel, squares*panel*panel)
}

func transposeGeneric[T float32 | uint16](dst, k []T, d, cols, n int) {
	for c := range roundUp(cols, panel) {
		for first := 0; first < n; first += panel {
			to := dst[(c/panel*Block+first)*panel+c%panel:]
			if c >= cols {
				for j := range panel {
					to[j*panel] = 0
				}
				continue
			}
			for j, e := range k[first*d+c*panel:][:panel] {
				to[j*panel] = e
			}
		}
	}
}

// transposeGroups is transposeFloats for integers in groups of four, see kernel_typed.go: groups of
// four channels of one key become groups of four keys of one channel. Values have width columns;
// those that are no channel become 0.
func transposeGroups(dst, k []byte, d, cols, width, n int) {
	panels, row := roundUp(n, panel)/panel, roundUp(d, 4)*panel
	operand.ReadsRows(k, panels, row, roundUp(cols, 4)*panel)
	operand.Writes(dst, panels*panel*width)
	whole := 0
	if transposesTyped() {
		whole = cols / 4
	}
	const step = callCopies / Block
	for j := range panels {
		from, to := k[j*row:], dst[j*panel*width:][:panel*width]
		for g := 0; g < whole; g += step {
			transposeGroupsSIMD(&to[g*16], &from[g*64], 4*width, min(step, whole-g))
		}
		transposeGroupsGeneric(to, from, 4*whole, cols, width)
	}
}

// transposeGroupsGeneric transposes channels [first, cols) of a panel of keys, and clears the
// columns behind.
func transposeGroupsGeneric(dst, k []byte, first, cols, width int) {
	for c := first; c < width; c++ {
		for j := range panel {
			var e byte
			if c < cols {
				e = k[c/4*4*panel+4*j+c%4]
			}
			dst[j/4*4*width+4*c+j%4] = e
		}
	}
}
