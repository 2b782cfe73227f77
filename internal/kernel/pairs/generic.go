package pairs

import (
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
)

// Group is the inputs whose products are two chains, of even and of odd ones.
const Group = 32

// accumulateGeneric is o_rc = o_rc + Σ p_rk·v_kc, o_rc beginning with +0 if b.Overwrite, for whole
// groups of inputs, which are pairs, or lines of a format.
func accumulateGeneric(t kernel.Format, x *kernel.Sums, v []byte, b *kernel.PanelLayout) {
	for r := range x.Rows {
		if out := x.O[r*x.OStride:][:b.Cols]; b.Overwrite {
			clear(out)
		}
	}
	for c := range b.Cols {
		for k := 0; k < b.Keys; k += Group {
			column := columnOf(t, v, b, k, c)
			for r := range x.Rows {
				out := &x.O[r*x.OStride+c]
				*out = addGroupGeneric(*out, x.P[r*x.PStride+k:][:Group], &column) + 0 // not −0
			}
		}
	}
}

// columnOf is a group of inputs of a column, from input k on, in bfloat16.
func columnOf(t kernel.Format, v []byte, b *kernel.PanelLayout, k, c int) (x [Group]float32) {
	for i := range x {
		x[i] = narrow.ElementOf(t, v, kernel.PlaceOf(t, b, k+i, c))
		x[i] = f32.FromBF16(f32.FlushedBF16(x[i]))
	}
	return x
}

// addGroupGeneric is c + (e + o) for a group of inputs and a column.
func addGroupGeneric(c float32, row []float32, v *[Group]float32) float32 {
	var e, o float32
	for k := 0; k < Group; k += 2 {
		e = f32.FlushedFMA(row[k], v[k], e)
		o = f32.FlushedFMA(row[k+1], v[k+1], o)
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
