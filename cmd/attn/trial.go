package main

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/seed-1415985d/attn/limits"
)

// Cases take turns. A shared machine is quiet for seconds, now and then; so each case
// meets some of them, and all of them the same machine.

// trial is a case on a number of threads, while it is being measured.
type trial struct {
	result
	c       benchCase
	call    func() error
	samples []sample
}

// turnTime is how long a case is measured before the next one, but for its last repetition.
const turnTime = 50 * time.Millisecond

// rounds gives all trials a turn, again and again, until there was time enough.
func (m *measurement) rounds(trials []*trial, progress func(spent, expected time.Duration)) {
	start, each := time.Now(), time.Duration(len(trials))
	for {
		quiet, spent := math.MaxInt, time.Duration(0)
		for _, t := range trials {
			m.turn(t)
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
		t.Limit = max(t.Limit, m.limit(&t.c, t.Threads)/1e9)
		s := m.sample(&t.c, t.call, t.Calls, t.Threads)
		t.samples = append(t.samples, s)
		if s.quiet {
			t.Quiet++
		}
		if time.Since(start) >= turnTime {
			return
		}
	}
}

// end takes the best of the case and of its limit.
func (t *trial) end() result {
	t.Repetitions = len(t.samples)
	t.summarize(t.samples)
	t.AllocsPerCall = allocations(t.call, t.Calls)
	t.Rate = t.c.work() / t.Nanoseconds
	t.Percent = 100 * t.Rate / t.Limit
	return t.result
}

// trials prepares all cases: each has been called once.
func (m *measurement) trials() (list []*trial, release func(), err error) {
	with := newEquipment(m.threads)
	for _, c := range m.cases() {
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
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	repetition(call, calls)
	runtime.ReadMemStats(&after)
	return math.Floor(float64(after.Mallocs-before.Mallocs) / float64(calls))
}

// fewQuiet is fewer quiet repetitions than count: of one or two, each may have been disturbed
// between its moments.
const fewQuiet = 3

// summarize takes the median per cent of the fastest tenth of all quiet repetitions, of three at
// least: the others were disturbed. Were too few quiet, it takes those of all.
func (r *result) summarize(samples []sample) {
	slices.SortFunc(samples, func(a, b sample) int {
		return cmp.Compare(a.nanoseconds, b.nanoseconds)
	})
	r.Nanoseconds, r.Median = samples[0].nanoseconds, samples[len(samples)/2].nanoseconds
	if !r.busy() {
		samples = slices.DeleteFunc(samples, func(s sample) bool { return !s.quiet })
	}
	fastest := samples[:min(len(samples), max(3, len(samples)/10))]
	slices.SortFunc(fastest, func(a, b sample) int { return cmp.Compare(a.percent, b.percent) })
	r.AtItsClock = fastest[(len(fastest)-1)/2].percent
}

// busy reports whether somebody else used the core nearly all the time.
func (r *result) busy() bool { return r.Quiet < min(fewQuiet, r.Repetitions) }
