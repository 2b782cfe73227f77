package measure

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/seed-1415985d/attn/internal/limits"
)

// A Trial is a call on a number of threads, while it is measured.
type Trial struct {
	Result
	Bound Bound
	Huge  bool         // the call reads huge pages, if there are any
	Work  float64      // operations of a call, or bytes of memory that it reads
	Call  func() error // it has succeeded before
	Wake  func()       // wakes workers before a call that waits for memory; nil: there are none

	samples []sample
}

// NewTrial returns a trial. Calls that memory does not limit are repeated for about a millisecond
// each time; a second call in a row would find data in the caches.
func NewTrial(r Result, b Bound, work float64, call func() error) *Trial {
	t := &Trial{Result: r, Bound: b, Work: work, Call: call}
	t.Unit, t.LimitOf, t.Calls = b.unit(), b.name(), 1
	if b != Memory {
		t.Calls = max(1, int(1e6/max(1, repetition(call, 1))))
	}
	return t
}

// turn alternates between a call and its limit, so that both have the same conditions.
func (m *Meter) turn(t *Trial) {
	for start := time.Now(); ; {
		s := m.sample(t)
		t.samples = append(t.samples, s)
		t.Limit = max(t.Limit, s.limit)
		m.clock[t.Threads] = max(m.clock[t.Threads], s.before.clock, s.after.clock)
		if time.Since(start) >= turnTime {
			break
		}
	}
	t.Quiet = len(m.quiet(t))
}

// slowest returns the least clock of threads that do not wait for a core, all together.
func (m *Meter) slowest(threads int) float64 {
	return max(fullClock*m.clock[threads], ownClock*m.clock[1]*float64(threads))
}

// quiet returns the repetitions of quiet moments: the limit was near its best, and no other program
// used the core.
func (m *Meter) quiet(t *Trial) (list []sample) {
	slowest := m.slowest(t.Threads)
	for _, s := range t.samples {
		if s.limit >= sameLimit*t.Limit && (t.Bound == Memory || s.undisturbed(slowest)) {
			list = append(list, s)
		}
	}
	return list
}

// Results has the best of all trials that were measured, and of their limits.
func (m *Meter) Results(trials []*Trial) (results []Result) {
	trials = slices.DeleteFunc(trials, func(t *Trial) bool { return len(t.samples) == 0 })
	reading := map[pages]float64{}
	for _, t := range trials {
		if t.Bound == Memory {
			reading[t.pages()] = max(reading[t.pages()], t.Limit)
		}
	}
	for _, t := range trials {
		t.summarize(m.quiet(t), m.perCycle)
		t.AllocsPerCall = allocations(t.Call, t.Calls)
		alone := t.pages()
		alone.threads = 1 // several read as much at least
		t.compare(t.Bound == Memory && t.Limit < sameMemory*max(reading[t.pages()], reading[alone]))
		results = append(results, t.Result)
	}
	return results
}

// pages returns the kind of memory that a call reads.
func (t *Trial) pages() pages { return pages{t.Threads, t.Huge} }

// compare sets the fraction of its limit that a call reached. It sets busy instead if too few
// moments were quiet, if the limit is too low, or if the call was faster: then other programs used
// the machine whenever the limit was measured. A call that is slightly faster than the loop for the
// limit becomes the limit.
func (t *Trial) compare(low bool) {
	t.Rate = t.Work / t.Nanoseconds
	t.Busy = low || t.Quiet < min(fewQuiet, t.Repetitions) || t.Rate > beyond*t.Limit
	if t.Busy {
		t.Limit, t.AtItsClock = 0, 0
		return
	}
	t.Limit = max(t.Limit, t.Rate)
	t.Percent = 100 * t.Rate / t.Limit
}

// repetition returns nanoseconds per call. The call succeeded before, so it does now.
func repetition(call func() error, calls int) float64 {
	start := limits.Now()
	for range calls {
		if err := call(); err != nil {
			panic(err)
		}
	}
	return float64(limits.Now()-start) / float64(calls)
}

func allocations(call func() error, calls int) float64 {
	repetition(call, 1) // garbage collection may have freed memory that calls keep
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	repetition(call, calls)
	runtime.ReadMemStats(&after)
	return math.Floor(float64(after.Mallocs-before.Mallocs) / float64(calls))
}

// fewQuiet is the least number of quiet repetitions: one or two may have been disturbed between
// their moments.
const fewQuiet = 3

// summarize sets the times of all repetitions, and the median per cent of the fastest tenth of the
// quiet ones, of three at least: the others were disturbed.
func (t *Trial) summarize(quiet []sample, perCycle float64) {
	byTime := func(a, b sample) int { return cmp.Compare(a.nanoseconds, b.nanoseconds) }
	slices.SortFunc(t.samples, byTime)
	t.Repetitions, t.Quiet = len(t.samples), len(quiet)
	t.Nanoseconds = t.samples[0].nanoseconds
	t.Median = t.samples[len(t.samples)/2].nanoseconds
	if t.Bound == Memory || len(quiet) == 0 {
		return
	}
	if t.Bound != Floats {
		perCycle = 0 // not a whole number
		for _, s := range quiet {
			perCycle = max(perCycle, s.limit*1e9/s.clock())
		}
	}
	slices.SortFunc(quiet, byTime)
	var percents []float64
	for _, s := range quiet[:min(len(quiet), max(fewQuiet, len(quiet)/10))] {
		percents = append(percents, 100*t.Work/perCycle/s.nanoseconds*1e9/s.clock())
	}
	t.AtItsClock = Median(percents)
}
