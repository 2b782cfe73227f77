package attn

import "github.com/seed-1415985d/attn/internal/operand"

// Keys to values: where values are part of keys, what keys have side by side, 16 keys of one
// channel, values have one after the other, and 16 channels of one key side by side. So squares of
// 16 × 16 elements are transposed.

// turn brings the first cols channels of n packed keys of d dimensions, in whole panels, to the
// order of packed values: channel c of key j goes from k[(j/panel*d + c)*panel + j%panel] to
// dst[(c/panel*Block + j)*panel + c%panel]. What completes the last panel of channels is 0.
func turn[T float32 | uint16](t Format, dst, k []T, d, cols, n int) {
	keyPanels, panels := roundUp(n, panel)/panel, roundUp(cols, panel)/panel
	operand.ReadsRows(k, keyPanels, d*panel, cols*panel)
	operand.WritesRows(dst, panels, Block*panel, keyPanels*panel*panel)
	for j := range keyPanels {
		for c := 0; c < cols; c += panel {
			from := k[(j*d+c)*panel:][:min(panel, cols-c)*panel]
			turnSquare(dst[(c*Block + j*panel*panel):][:panel*panel], from)
		}
	}
}

// turnSquare transposes up to panel rows of panel elements. The columns of rows that are missing
// become 0.
func turnSquare[T float32 | uint16](dst, k []T) {
	if len(k) < len(dst) {
		clear(dst)
	}
	for c := 0; c < len(k); c += panel {
		row, to := k[c:][:panel], dst[c/panel:]
		for j, e := range row {
			to[j*panel] = e
		}
	}
}

// turnGroups is turn for integers in groups of four, see kernel_typed.go: groups of four channels
// of one key become groups of four keys of one channel. Values have width columns; those that are
// no channel become 0.
func turnGroups(dst, k []byte, d, cols, width, n int) {
	panels := roundUp(n, panel) / panel
	d = roundUp(d, 4)
	operand.ReadsRows(k, panels, d*panel, roundUp(cols, 4)*panel)
	operand.Writes(dst, panels*panel*width)
	for j := range panels {
		to := dst[j*panel*width:][:panel*width]
		if cols < width {
			clear(to)
		}
		for c := range cols {
			from := k[(j*d+c/4*4)*panel+c%4:]
			for i := range panel {
				to[i/4*4*width+4*c+i%4] = from[4*i]
			}
		}
	}
}
