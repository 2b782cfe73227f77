package measure

import (
	"math"

	"github.com/seed-1415985d/attn/internal/limits"
)

// On a shared machine the clock, and other programs on the same core, change from moment to moment.
// So the moments before and after each repetition are measured.

// moment is the state of the machine just before or after a repetition.
type moment struct {
	clock float64 // cycles per second, of all threads together
	quiet bool    // no other program uses the core
}

const (
	momentBurst = limits.Burst / 4

	// quietFMA is the fraction of the peak of multiply-adds that a quiet core reaches at least, with
	// loads and without. It reaches all, or 98 % with loads of 512 bits; with another program on the
	// core 60 to 95 %.
	quietFMA = 0.95

	// sameClock is the least ratio of two clocks that count as equal: the clock changes by steps of 4
	// %.
	sameClock = 0.97

	// fullClock is the least fraction of the best clock of threads that all run: a thread that waits
	// for a core has half or less. ownClock is the same relative to the clock of one thread, which
	// many may not reach together.
	fullClock, ownClock = 0.85, 0.6

	// sameLimit is the least fraction of a case's best limit that a quiet moment reaches. sameMemory
	// is the same for cases of different sizes that read memory.
	sameLimit, sameMemory = 0.9, 0.8

	// beyond is the largest fraction of its limit that a case seems to reach, if both were measured in
	// quiet moments.
	beyond = 1.03
)

// moment measures twice, because disturbances come and go.
func (m *Meter) moment(threads int) moment {
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

// operationsPerCycle returns the most floating-point operations a cycle, from the best rates. It is
// a whole number of vector multiply-adds on every processor.
func operationsPerCycle(v limits.Vectors, fma, clock float64) float64 {
	if v == limits.Scalar {
		return fma / clock // of what the compiler made
	}
	one := 2 * float64(v.Lanes())
	return one * max(1, math.Round(fma/clock/one))
}

// sample is one repetition.
type sample struct {
	nanoseconds   float64 // per call
	limit         float64 // of the moment before, in units of 10⁹ a second
	before, after moment  // none where memory is the limit
}

// sample measures the limit of a case, and then one repetition.
func (m *Meter) sample(t *Trial) sample {
	s := sample{limit: m.limit(t) / 1e9}
	if t.Bound == Memory {
		if t.Wake != nil {
			t.Wake()
		}
		s.nanoseconds = repetition(t.Call, t.Calls)
		return s
	}
	repetition(t.Call, t.Calls) // clock and caches become the case's
	s.before = m.moment(t.Threads)
	s.nanoseconds = repetition(t.Call, t.Calls)
	s.after = m.moment(t.Threads)
	return s
}

// clock returns the mean of the clocks before and after.
func (s *sample) clock() float64 { return (s.before.clock + s.after.clock) / 2 }

// undisturbed reports whether the core was quiet before and after, at the same clock, which is that
// of threads with a core each.
func (s *sample) undisturbed(slowest float64) bool {
	low, high := min(s.before.clock, s.after.clock), max(s.before.clock, s.after.clock)
	return s.before.quiet && s.after.quiet && low >= sameClock*high && low >= slowest
}
