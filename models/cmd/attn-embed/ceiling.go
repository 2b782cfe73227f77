package main

import (
	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/measure"
	"github.com/seed-1415985d/attn/models/embed"
)

// ceiling is the best speed of this machine's cores, measured between other calls.
type ceiling struct {
	workers  int
	bound    measure.Bound
	matrices int // bytes
	peaks    *measure.Peaks

	operations float64 // a second, where a multiply-add counts as two
	bytes      float64 // read a second, for as many bytes as the matrices have
}

func newCeiling(m *embed.Model, o embed.Options) *ceiling {
	c := &ceiling{workers: o.Workers}
	if o.Integers {
		c.bound = measure.Integers
	}
	c.matrices, _ = m.Memory()
	c.peaks = measure.NewPeaks(attn.Implementation(), c.matrices)
	c.measure()
	return c
}

// measure measures again and keeps the best.
func (c *ceiling) measure() {
	c.operations = max(c.operations, c.peaks.Burst(c.bound, c.workers))
	c.bytes = max(c.bytes, c.peaks.Memory(c.workers, true).Read())
}

// multiply returns the seconds for multiply-adds.
func (c *ceiling) multiply(multiplyAdds int) float64 {
	return 2 * float64(multiplyAdds) / c.operations
}

// reading returns the seconds to read the matrices once.
func (c *ceiling) reading() float64 { return float64(c.matrices) / c.bytes }
