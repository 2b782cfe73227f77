package pairs

import (
	"encoding/binary"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Pack makes panels of pairs, of some inputs, of panels of float32, whose numbers change: they are
// rounded to a format, and then to bfloat16 as inputs are. Numbers of BF16 stay as they are: sums
// count subnormal ones as zeros. halves is memory for as many numbers.
func Pack(isa tuning.ISA, from kernel.Format, dst []byte, x []float32, inputs int,
	halves []uint16) {
	n := len(dst) / 2 / kernel.RoundUp(inputs, Group) * inputs
	x, halves = x[:n], halves[:n]
	switch from {
	case kernel.F16:
		for i, e := range x {
			x[i] = f32.FromF16(f32.ToF16(e))
		}
	case kernel.F32:
		Round(isa, x, x)
	}
	narrow.Narrow(isa, kernel.BF16, halves, x)
	size := 2 * kernel.RoundUp(inputs, Group) * kernel.Panel
	for p := 0; p < len(dst); p += size {
		interleave(dst[p:][:size], halves[:inputs*kernel.Panel])
		halves = halves[inputs*kernel.Panel:]
	}
}

// interleave brings the inputs of a panel together in pairs. What the last group lacks becomes 0.
func interleave(dst []byte, panel []uint16) {
	const line = 2 * kernel.Panel
	to := kernel.Elements[uint16](dst)
	for ; len(panel) >= line; panel, to = panel[line:], to[line:] {
		pair, even, odd := to[:line], panel[:kernel.Panel], panel[kernel.Panel:line]
		for c := range kernel.Panel {
			pair[2*c], pair[2*c+1] = even[c], odd[c]
		}
	}
	clear(to)
	for c, e := range panel { // an input alone
		to[2*c] = e
	}
}

// Unpack makes a panel of float32 of some inputs of a panel of pairs.
func Unpack(dst []float32, panel []byte, inputs int) {
	for k := range inputs {
		row := dst[k*kernel.Panel:][:kernel.Panel]
		from := panel[k/2*4*kernel.Panel+k%2*2:]
		for c := range row {
			row[c] = f32.FromBF16(binary.NativeEndian.Uint16(from[4*c:]))
		}
	}
}
