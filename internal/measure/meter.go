package measure

import (
	"math"
	"time"

	"github.com/seed-1415985d/attn/internal/limits"
)

// A Meter measures trials in turns. A shared machine is quiet for seconds at a time, so with turns
// each trial gets quiet moments, under the same conditions.
type Meter struct {
	*Peaks
	Effort   Effort
	ended    <-chan struct{}
	perCycle float64         // floating-point operations at the peak
	clock    map[int]float64 // the best by number of threads, cycles per second of all together
}

// NewMeter returns a meter for an implementation. Closing ended, which may be nil, ends measuring
// early, with the results so far.
func NewMeter(implementation string, e Effort, ended <-chan struct{}) *Meter {
	return &Meter{Peaks: NewPeaks(implementation, limits.Cold()), Effort: e, ended: ended,
		clock: map[int]float64{}}
}

// Effort bounds the time of measuring; its times are multiplied by the number of trials.
type Effort struct {
	PerTrial time.Duration
	Least    int           // quiet repetitions of each, if there are fewer by then
	Most     time.Duration // for these
}

// expected estimates the total time, if repetitions stay quiet as often as before.
func (e *Effort) expected(quiet int, spent time.Duration) time.Duration {
	if quiet >= e.Least {
		return e.PerTrial
	}
	return min(e.Most, max(e.PerTrial, spent*time.Duration(e.Least)/time.Duration(max(quiet, 1))))
}

// Early reports whether to end with the results so far.
func (m *Meter) Early() bool {
	select {
	case <-m.ended:
		return true
	default:
		return false
	}
}

// Machine measures the limits of one thread, which trials need.
func (m *Meter) Machine() Machine {
	got := Machine{Vectors: m.vectors.String(), Read: map[string]float64{}}
	got.FMA = m.best(func() float64 {
		got.Clock = max(got.Clock, limits.Cycles(1, limits.Burst)/1e9) // in the same moments
		return m.Burst(Floats, 1)
	})
	got.PerCycle = operationsPerCycle(m.vectors, got.FMA, got.Clock)
	m.perCycle, m.clock[1] = got.PerCycle, got.Clock*1e9
	got.IntegersWith = m.integers.String()
	got.Integers = m.best(func() float64 { return m.Burst(Integers, 1) })
	for _, level := range limits.Levels() {
		if m.Early() {
			return got
		}
		memory := limits.NewMemory(m.vectors, 1, level.Bytes)
		got.Read[level.Name] = m.best(memory.Read)
		if level.Name == "DRAM" {
			memory.ReadStreams() // evicts from the caches what Read has left there
			got.Read["DRAM, 8 streams"] = m.best(memory.ReadStreams)
			if huge := limits.NewMemoryInHugePages(m.vectors, 1, level.Bytes); huge != nil {
				got.Read["DRAM, huge pages"] = max(m.best(huge.Read), m.best(huge.ReadStreams))
			}
		}
	}
	return got
}

// best returns the largest of several measurements, in units of 10⁹.
func (m *Meter) best(measure func() float64) float64 {
	top, start := 0.0, time.Now()
	for n := 0; !m.Early() && (n < 3 || time.Since(start) < m.Effort.PerTrial/10); n++ {
		top = max(top, measure()/1e9)
	}
	return top
}

// turnTime is the time of a trial's turn, without its last repetition.
const turnTime = 50 * time.Millisecond

// Rounds gives all trials turns until the time is used, or measuring must end.
func (m *Meter) Rounds(trials []*Trial, progress func(spent, expected time.Duration)) {
	start, each := time.Now(), time.Duration(len(trials))
	for !m.Early() {
		quiet, spent := math.MaxInt, time.Duration(0)
		for _, t := range trials {
			if m.turn(t); m.Early() {
				return
			}
			quiet, spent = min(quiet, t.Quiet), time.Since(start)
			progress(spent, each*m.Effort.expected(quiet, spent/each))
		}
		if spent /= each; spent >= m.Effort.expected(quiet, spent) {
			return
		}
	}
}

// limit measures the limit of a trial: multiply-adds in short bursts, or reading as many bytes as
// its call, of memory in pages like those that the call reads.
func (m *Meter) limit(t *Trial) (top float64) {
	if t.Bound == Memory { // which evicts the call's data from the caches
		return m.Memory(t.Threads, t.Huge).ReadCold(int(t.Work))
	}
	start := time.Now()
	for n := range 6 * t.Threads * t.Threads { // with more threads, quiet moments of all are rarer
		if n >= 6 && time.Since(start) > turnTime {
			break
		}
		top = max(top, m.Burst(t.Bound, t.Threads))
	}
	return top
}
