package pairs

import (
	"slices"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Rows is rows of inputs in bfloat16 as kernels read them: float32 numbers, or halves for tiles.
type Rows struct {
	// Floats are Pitch apart, with zeros after the last input.
	Floats []float32
	Pitch  int
	leasts []Least // of each row, where kernels need it

	// Halves is, in the place of Floats, for each Group of inputs that of all rows, one after the
	// other: so 16 of them, whichever, are a tile.
	Halves []uint16
	Count  int // of rows for which there is memory

	floats []float32 // memory of Floats,
	halves []uint16  // and of Halves
}

// TileRows is the rows of a tile.
const TileRows = tuning.AMXRows

// Fit makes the memory large enough for a number of rows. So many rows go through tiles, or not.
func (x *Rows) Fit(cpu *tuning.Row, rows, inputs int) {
	x.Pitch, x.Floats, x.Halves = kernel.RoundUp(inputs, Group), nil, nil
	if rows >= LeastTileRows(cpu) {
		x.fitTiles(rows)
		return
	}
	x.floats = kernel.Grow(x.floats, rows*x.Pitch)
	x.Floats = x.floats
	if !Flushes {
		x.leasts = kernel.Grow(x.leasts, rows)
	}
}

// FitLoad makes room for as many rows as Load loads. They go through tiles, or not.
func (x *Rows) FitLoad(rows, inputs int, tiles bool) {
	x.Pitch, x.Halves = kernel.RoundUp(inputs, Group), nil
	if tiles {
		x.fitTiles(rows)
	}
}

// fitTiles is Fit for rows that go through tiles.
func (x *Rows) fitTiles(rows int) {
	// A tile may begin with the last row. Groups are an odd number of KiB apart, so that they lie in
	// different sets of a cache.
	x.Count = (kernel.RoundUp(rows, TileRows)/TileRows + 1 | 1) * TileRows
	x.halves = kernel.Grow(x.halves, x.Count*x.Pitch)
	x.Halves = x.halves
}

// Tiles reports whether the rows are for tiles.
func (x *Rows) Tiles() bool { return x.Halves != nil }

// Put rounds a row as row r.
func (x *Rows) Put(isa tuning.ISA, r int, row []float32) {
	if !x.Tiles() {
		to := x.Floats[r*x.Pitch:][:x.Pitch]
		Round(isa, to[:len(row)], row)
		clear(to[len(row):])
		if !Flushes {
			x.leasts[r] = leastOf(to)
		}
		return
	}
	whole := len(row) / Group * Group
	putGroups(isa, x.Halves[r*Group:], row[:whole], x.Count*Group)
	if whole < len(row) {
		var last [Group]float32
		copy(last[:], row[whole:])
		putGroups(isa, x.Halves[r*Group+whole*x.Count:], last[:], x.Count*Group)
	}
}

// Load makes rows of whole groups that are rounded already: where they are, unless they are for
// tiles.
func (x *Rows) Load(isa tuning.ISA, from []float32, rows int) {
	if !x.Tiles() {
		x.Floats = from
		return
	}
	for r := range rows {
		x.Put(isa, r, from[r*x.Pitch:][:x.Pitch])
	}
}

// Copy makes row to what row from is.
func (x *Rows) Copy(to, from int) {
	if !x.Tiles() {
		stop.Copy(x.Floats[to*x.Pitch:][:x.Pitch], x.Floats[from*x.Pitch:])
		if !Flushes {
			x.leasts[to] = x.leasts[from]
		}
		return
	}
	for at := 0; at < x.Pitch; at += Group {
		group := x.Halves[at*x.Count:]
		copy(group[to*Group:][:Group], group[from*Group:])
	}
}

// From is the floats from an input of a row on.
func (x *Rows) From(row, input int) []float32 { return x.Floats[row*x.Pitch+input:] }

// Normal reports whether no number is subnormal in sums over some rows and weights of a least
// magnitude, where kernels need to know.
func (x *Rows) Normal(first, rows int, weights Least) bool {
	if Flushes {
		return true
	}
	return Normal(slices.Min(x.leasts[first:][:rows]), weights)
}

// putGroupsGeneric rounds whole groups to bfloat16 and leaves them stride numbers apart.
func putGroupsGeneric(dst []uint16, x []float32, stride int) {
	for i, e := range x {
		dst[i/Group*stride+i%Group] = f32.FlushedBF16(e)
	}
}
