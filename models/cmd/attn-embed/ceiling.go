package main

import (
	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/limits"
	"github.com/seed-1415985d/attn/models/embed"
)

// ceiling is what this machine's cores do at best, as measured between other calls.
type ceiling struct {
	workers  int
	integers bool
	matrices int // bytes
	memory   *limits.Memory

	operations float64 // a second, two for each multiply-add
	bytes      float64 // a second, of as many as the matrices have
}

func newCeiling(m *embed.Model, o embed.Options) *ceiling {
	c := &ceiling{workers: o.Workers, integers: o.Integers}
	c.matrices, _ = m.Memory()
	v := limits.For(attn.Implementation())
	if c.memory = limits.NewMemoryInHugePages(v, 1, c.matrices); c.memory == nil {
		c.memory = limits.NewMemory(v, 1, c.matrices)
	}
	c.memory = c.memory.Split(c.workers)
	c.measure()
	return c
}

// measure keeps the best.
func (c *ceiling) measure() {
	rate := 0.0
	if c.integers {
		rate = limits.MultiplyIntegers(limits.IntegersFor(attn.Implementation()), c.workers, limits.Burst)
	} else {
		rate = limits.FMA(limits.For(attn.Implementation()), c.workers, limits.Burst)
	}
	c.operations, c.bytes = max(c.operations, rate), max(c.bytes, c.memory.Read())
}

// multiply is the seconds that multiply-adds take.
func (c *ceiling) multiply(multiplyAdds int) float64 {
	return 2 * float64(multiplyAdds) / c.operations
}

// reading is the seconds that it takes to read the matrices once.
func (c *ceiling) reading() float64 { return float64(c.matrices) / c.bytes }
