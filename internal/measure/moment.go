package measure

import (
	"math"

	"github.com/seed-1415985d/attn/internal/limits"
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

	// fullClock is how much of the best clock threads have, at least, that all run: whoever waits
	// for a core that another one uses has half or less. ownClock is the same beside the clock of
	// one thread, which many may not reach together.
	fullClock, ownClock = 0.85, 0.6

	// sameLimit is how much of a case's best limit a measurement of it has, at least, if both were
	// of quiet moments. sameMemory is the same for cases of different sizes that read memory.
	sameLimit, sameMemory = 0.9, 0.8

	// beyond is the most that a case seems to do of its limit, if both were of quiet moments.
	beyond = 1.03
)

// moment looks twice: what disturbs comes and goes.
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
	repetition(t.Call, t.Calls) // when the next one begins, clock and caches are those of the case
	s.before = m.moment(t.Threads)
	s.nanoseconds = repetition(t.Call, t.Calls)
	s.after = m.moment(t.Threads)
	return s
}

// clock is the mean clock of just before and after.
func (s *sample) clock() float64 { return (s.before.clock + s.after.clock) / 2 }

// undisturbed reports whether the core was quiet before and after, at one clock that is not below
// what threads reach that have a core each.
func (s *sample) undisturbed(slowest float64) bool {
	low, high := min(s.before.clock, s.after.clock), max(s.before.clock, s.after.clock)
	return s.before.quiet && s.after.quiet && low >= sameClock*high && low >= slowest
}
