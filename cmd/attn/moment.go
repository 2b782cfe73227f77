package main

import "github.com/seed-1415985d/attn/cmd/attn/internal/limits"

// A shared machine changes from moment to moment: its clock, and whether somebody else is on
// the same core. So the moments before and after each repetition are measured.

// moment is what the machine could do just before or after a repetition.
type moment struct {
	fma   float64 // operations per second
	quiet bool    // nobody else uses the core
}

const (
	momentBurst = limits.Burst / 4

	// quietLoads is how much of the rate of multiply-adds those with loads have on a quiet core,
	// at least. It is all of it, or 98 % for 512 bits, but the clock may change between the two.
	// Beside another program it is 80 to 95 %.
	quietLoads = 0.95

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
		now.fma = max(now.fma, alone)
		now.quiet = now.quiet && loads >= quietLoads*alone
	}
	return now
}

// sample is one repetition.
type sample struct {
	nanoseconds float64 // per call
	percent     float64 // of the mean of multiply-adds just before and after
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
	return sampleBetween(before, m.moment(threads), c.work(), perCall)
}

// sampleBetween is a repetition between two moments; flops is the work of a call.
func sampleBetween(before, after moment, flops, nanoseconds float64) sample {
	limit, same := (before.fma+after.fma)/2, min(before.fma, after.fma) >= sameClock*max(before.fma, after.fma)
	return sample{nanoseconds, 100 * flops / nanoseconds * 1e9 / limit, same && before.quiet && after.quiet}
}
