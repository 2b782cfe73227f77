package pairs

import (
	"encoding/binary"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
)

// Group is the inputs whose products are two chains, of even and of odd ones.
const Group = 32

// accumulateGeneric is o_rc = o_rc + Σ p_rk·v_kc, o_rc beginning with +0 if b.Overwrite, for whole
// groups of inputs.
func accumulateGeneric(x *kernel.Sums, v []byte, b *kernel.PanelLayout) {
	for r := range x.Rows {
		out := x.O[r*x.OStride:][:b.Cols]
		if b.Overwrite {
			clear(out)
		}
		for k := 0; k < b.Keys; k += Group {
			row := x.P[r*x.PStride+k:][:Group]
			for c := range out {
				at := 2 * kernel.PlaceOf(kernel.Pairs, b, k, c)
				out[c] = addGroupGeneric(out[c], row, v[at:], 2*b.Stride)
			}
		}
		for c := range out {
			out[c] += 0
		}
	}
}

// addGroupGeneric is c + (e + o) for a group of inputs and a column, whose pairs are stride bytes
// apart.
func addGroupGeneric(c float32, row []float32, v []byte, stride int) float32 {
	var e, o float32
	for k := 0; k < Group; k += 2 {
		pair := v[k/2*stride:][:4]
		e = f32.FlushedFMA(row[k], f32.FromBF16(binary.NativeEndian.Uint16(pair)), e)
		o = f32.FlushedFMA(row[k+1], f32.FromBF16(binary.NativeEndian.Uint16(pair[2:])), o)
	}
	return f32.FlushedAdd(c, f32.FlushedAdd(e, o))
}

// roundGeneric rounds numbers to bfloat16.
func roundGeneric(dst, x []float32) {
	for i, e := range x {
		dst[i] = f32.FromBF16(f32.FlushedBF16(e))
	}
}

// ofPanelGeneric makes a panel of pairs of a panel of float32.
func ofPanelGeneric(dst []uint16, x []float32) {
	const line = 2 * kernel.Panel
	for i, e := range x[:len(dst)] {
		dst[i/line*line+i%kernel.Panel*2+i/kernel.Panel%2] = f32.FlushedBF16(e)
	}
}

// finishPairTilesGeneric makes outputs of sums of two panels that lie in tiles.
func finishPairTilesGeneric(dst, sums []float32, rows, cols, stride int) {
	for r := range rows {
		for c := range cols {
			at := (2*(r/TileRows)+c/kernel.Panel)*TileRows*kernel.Panel + r%TileRows*kernel.Panel
			dst[r*stride+c] = sums[at+c%kernel.Panel] + 0
		}
	}
}
