package main

import (
	"math"

	"github.com/seed-1415985d/attn/limits"
)

// A shared machine changes from moment to moment: its clock, and whether somebody else is on
// the same core. So the moments before and after each repetition are measured.

// moment is what the machine could do just before or after a repetition.
type moment struct {
	clock float64 // cycles per second, of all threads together
	quiet bool    // nobody else uses the core
}

const (
	momentBurst = limits.Burst / 4

	// quietFMA is how much of the multiply-adds of a cycle a quiet core does, at least, with loads
	// and without. It does all, or 98 % with loads of 512 bits. Beside another program it does 60
	// to 95 %, and which of the two suffers more depends on that program.
	quietFMA = 0.95

	// sameClock is how much the slower one of two moments has of the faster one, at least,
	// if the clock was the same: it changes by steps of 4 %.
	sameClock = 0.97
)

// moment looks twice: what disturbs comes and goes.
func (m *measurement) moment(threads int) moment {
	now := moment{quiet: true}
	for range 2 {
		alone := limits.FMA(m.vectors, threads, momentBurst)
		loads := limits.FMAWithLoads(m.vectors, threads, momentBurst)
		clock := limits.Cycles(threads, momentBurst)
		now.clock = max(now.clock, clock)
		now.quiet = now.quiet && min(alone, loads) >= quietFMA*m.perCycle*clock
	}
	return now
}

// operationsPerCycle is the most floating-point operations of a cycle, by the best rates of
// each. Multiply-adds of vectors are a whole number on every processor.
func operationsPerCycle(v limits.Vectors, fma, clock float64) float64 {
	if v == limits.Scalar {
		return fma / clock // of what the compiler made
	}
	one := 2 * float64(v.Lanes())
	return one * max(1, math.Round(fma/clock/one))
}

// sample is one repetition.
type sample struct {
	nanoseconds float64 // per call
	percent     float64 // of the FMA peak at the mean clock of just before and after
	quiet       bool    // before and after, and their clock is the same
}

// sample measures one repetition. Where memory is the limit, nothing says whether it was quiet.
func (m *measurement) sample(c *benchCase, call func() error, calls, threads int) sample {
	if c.memory() {
		return sample{nanoseconds: repetition(call, calls), quiet: true}
	}
	repetition(call, calls) // when the next one begins, clock and caches are those of the case
	before := m.moment(threads)
	perCall := repetition(call, calls)
	perCycle := m.perCycle
	if c.integers {
		perCycle = m.integersPerCycle
	}
	return sampleBetween(before, m.moment(threads), c.work()/perCycle, perCall)
}

// sampleBetween is a repetition between two moments; cycles is what a call takes at the FMA peak.
func sampleBetween(before, after moment, cycles, nanoseconds float64) sample {
	clock, same := (before.clock+after.clock)/2, min(before.clock,
		after.clock) >= sameClock*max(before.clock, after.clock)
	return sample{nanoseconds, 100 * cycles / nanoseconds * 1e9 / clock,
		same && before.quiet && after.quiet}
}
