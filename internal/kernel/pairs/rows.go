package pairs

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Rows is rows of inputs in bfloat16 as kernels read them: as float32, Pitch apart, with zeros
// after the last input.
type Rows struct {
	Floats []float32
	Pitch  int
}

// Fit makes the memory large enough for a number of rows.
func (x *Rows) Fit(rows, inputs int) {
	x.Pitch = kernel.RoundUp(inputs, Group)
	x.Floats = kernel.Grow(x.Floats, rows*x.Pitch)
}

// Put rounds a row as row r.
func (x *Rows) Put(isa tuning.ISA, r int, row []float32) {
	to := x.Floats[r*x.Pitch:][:x.Pitch]
	Round(isa, to[:len(row)], row)
	clear(to[len(row):])
}

// Copy makes row to what row from is.
func (x *Rows) Copy(to, from int) {
	stop.Copy(x.Floats[to*x.Pitch:][:x.Pitch], x.Floats[from*x.Pitch:])
}

// From is the floats from an input of a row on.
func (x *Rows) From(row, input int) []float32 { return x.Floats[row*x.Pitch+input:] }
