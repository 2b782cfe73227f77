package main

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/seed-1415985d/attn/internal/limits"
)

// Cases take turns. A shared machine is quiet for seconds, now and then; so each case
// meets some of them, and all of them the same machine.

// trial is a case on a number of threads, while it is being measured.
type trial struct {
	result
	c       benchCase
	call    func() error
	wake    func() // workers, before a call that waits for memory; nil if it has none
	samples []sample
}

// turnTime is how long a case is measured before the next one, but for its last repetition.
const turnTime = 50 * time.Millisecond

// rounds gives all trials a turn, again and again, until there was time enough, or it is to end.
func (m *measurement) rounds(trials []*trial, progress func(spent, expected time.Duration)) {
	start, each := time.Now(), time.Duration(len(trials))
	for !m.early() {
		quiet, spent := math.MaxInt, time.Duration(0)
		for _, t := range trials {
			if m.turn(t); m.early() {
				return
			}
			quiet, spent = min(quiet, t.Quiet), time.Since(start)
			progress(spent, each*m.effort.expected(quiet, spent/each))
		}
		if spent /= each; spent >= m.effort.expected(quiet, spent) {
			return
		}
	}
}

// turn alternates between a case and its limit, so that both see the same machine.
func (m *measurement) turn(t *trial) {
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

// slowest is the least clock of a number of threads, together, that do not wait for each other.
func (m *measurement) slowest(threads int) float64 {
	return max(fullClock*m.clock[threads], ownClock*m.clock[1]*float64(threads))
}

// quiet are the repetitions of moments as good as the best: in that moment the limit was what it is
// at best, and nobody else used the core.
func (m *measurement) quiet(t *trial) (list []sample) {
	slowest := m.slowest(t.Threads)
	for _, s := range t.samples {
		if s.limit >= sameLimit*t.Limit && (t.c.memory() || s.undisturbed(slowest)) {
			list = append(list, s)
		}
	}
	return list
}

// end takes the best of all cases that were measured, and of their limits.
func (m *measurement) end(trials []*trial) (list []result) {
	trials = slices.DeleteFunc(trials, func(t *trial) bool { return len(t.samples) == 0 })
	reading := map[dram]float64{}
	for _, t := range trials {
		if t.c.memory() {
			reading[t.dram()] = max(reading[t.dram()], t.Limit)
		}
	}
	for _, t := range trials {
		t.summarize(m.quiet(t), m.perCycle)
		t.AllocsPerCall = allocations(t.call, t.Calls)
		alone := t.dram()
		alone.threads = 1 // several read as much at least
		t.compare(t.c.memory() && t.Limit < sameMemory*max(reading[t.dram()], reading[alone]))
		list = append(list, t.result)
	}
	return list
}

// dram is the memory that a case reads.
func (t *trial) dram() dram { return dram{t.Threads, t.c.huge()} }

// compare sets what a case reached of its limit. It says busy instead if too few moments were
// quiet, if the limit is too low, or if the case was faster: then something else used the machine
// whenever the limit was measured. A case that is a little faster than the loop beside it is the
// limit.
func (t *trial) compare(low bool) {
	t.Rate = t.c.work() / t.Nanoseconds
	t.Busy = low || t.Quiet < min(fewQuiet, t.Repetitions) || t.Rate > beyond*t.Limit
	if t.Busy {
		t.Limit, t.AtItsClock = 0, 0
		return
	}
	t.Limit = max(t.Limit, t.Rate)
	t.Percent = 100 * t.Rate / t.Limit
}

// trials prepares all cases: each has been called once.
func (m *measurement) trials() (list []*trial, release func(), err error) {
	with := newEquipment(m.threads)
	for _, c := range m.cases() {
		if m.early() {
			break
		}
		t, err := with.trial(c.benchCase, c.threads)
		if err != nil {
			with.release()
			return nil, nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		list = append(list, t)
	}
	return list, with.release, nil
}

// callsPerRepetition makes repetitions of short calls last about a
// millisecond. Memory cases are one call: a second one would find data in the caches.
func callsPerRepetition(c *benchCase, call func() error) int {
	if c.memory() {
		return 1
	}
	return max(1, int(1e6/max(1, repetition(call, 1))))
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
	repetition(call, 1) // a collection of garbage may have freed what calls keep
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	repetition(call, calls)
	runtime.ReadMemStats(&after)
	return math.Floor(float64(after.Mallocs-before.Mallocs) / float64(calls))
}

// fewQuiet is the fewest quiet repetitions that count: of one or two, each may have been disturbed
// between its moments.
const fewQuiet = 3

// summarize takes the times of all repetitions, and the median per cent of the fastest tenth of the
// quiet ones, of three at least: the others were disturbed.
func (t *trial) summarize(quiet []sample, perCycle float64) {
	byTime := func(a, b sample) int { return cmp.Compare(a.nanoseconds, b.nanoseconds) }
	slices.SortFunc(t.samples, byTime)
	t.Repetitions, t.Quiet = len(t.samples), len(quiet)
	t.Nanoseconds = t.samples[0].nanoseconds
	t.Median = t.samples[len(t.samples)/2].nanoseconds
	if t.c.memory() || len(quiet) == 0 {
		return
	}
	if t.c.integers {
		perCycle = 0 // not a whole number
		for _, s := range quiet {
			perCycle = max(perCycle, s.limit*1e9/s.clock())
		}
	}
	slices.SortFunc(quiet, byTime)
	var percents []float64
	for _, s := range quiet[:min(len(quiet), max(fewQuiet, len(quiet)/10))] {
		percents = append(percents, 100*t.c.work()/perCycle/s.nanoseconds*1e9/s.clock())
	}
	slices.Sort(percents)
	t.AtItsClock = percents[(len(percents)-1)/2]
}
