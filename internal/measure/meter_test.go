package measure

import (
	"io"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/seed-1415985d/attn/internal/limits"
)

// Memory in ordinary pages is one buffer, of which each number of threads has pieces.
func TestMemoryOfThreads(t *testing.T) {
	p := NewPeaks("avx2", 1<<20)
	two := p.Memory(2, false)
	if two == nil || two != p.Memory(2, false) || two == p.Memory(1, false) ||
		len(p.memory) != 2 {
		t.Errorf("there are %d buffers, want one for one thread and one for two", len(p.memory))
	}
}

// Calls that memory limits and other calls alternate, on one thread and on more, until each has had
// its time.
func TestRounds(t *testing.T) {
	m := NewMeter("avx2", Effort{time.Millisecond, 2, 100 * time.Millisecond}, nil)
	m.perCycle = 1
	x := make([]float32, 1<<10)
	call := func() error { clear(x); return nil }
	var trials []*Trial
	for _, threads := range []int{1, 2} {
		for _, b := range []Bound{Floats, Integers, SmallIntegers, Memory} {
			one := NewTrial(Result{Threads: threads}, b, 1<<10, call)
			one.Wake = func() {}
			trials = append(trials, one)
		}
	}
	reached := 0.0
	m.Rounds(trials, func(spent, expected time.Duration) {
		reached = float64(spent) / float64(expected)
	})
	if reached < 0.99 { // of 1: a turn is the last thing that took time
		t.Errorf("ended at %.2f of the expected time", reached)
	}
	for i, r := range m.Results(trials) {
		memory := trials[i].Bound == Memory
		switch {
		case r.Repetitions < 1 || r.Nanoseconds <= 0 || r.Rate <= 0 || r.Quiet > r.Repetitions:
			t.Errorf("%+v", r)
		case r.Busy != (r.Limit == 0) || r.Busy != (r.Percent == 0) || r.Percent > 100.001:
			t.Errorf("a limit without a per cent, or the other way round: %+v", r)
		case memory && (r.Unit != "GB/s" || r.Calls != 1 || r.AtItsClock != 0):
			t.Errorf("memory: %+v", r)
		case !memory && (r.Calls < 2 || r.Busy == (r.AtItsClock > 0)):
			t.Errorf("multiply-adds: %+v", r)
		}
	}
}

// What ends early has what was measured until then.
func TestEarly(t *testing.T) {
	ended := make(chan struct{})
	close(ended)
	m := NewMeter("avx2", Effort{time.Hour, 2, time.Hour}, ended)
	if got := m.Machine(); got.FMA != 0 {
		t.Errorf("%+v was measured after the end", got)
	}
	one := trialOf(nil)
	m.Rounds([]*Trial{one}, nil)
	if got := m.Results([]*Trial{one}); len(got) != 0 {
		t.Errorf("%+v was measured after the end", got)
	}
}

// A call that begins to fail does not go unnoticed.
func TestRepetitionFails(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	repetition(func() error { return io.EOF }, 1)
}

// Every trial is measured once, however long that takes, and quiet repetitions are not waited for
// for hours.
func TestExpected(t *testing.T) {
	e := Effort{PerTrial: 5, Least: 8, Most: 20}
	for _, c := range []struct {
		quiet       int
		spent, want time.Duration
	}{{0, 0, 5}, {0, 1, 8}, {0, 4, 20}, {4, 1, 5}, {4, 5, 10}, {7, 7, 8}, {8, 1, 5}, {8, 9, 5}, {1, 20,
		20}, {7, 30, 20}} {
		if got := e.expected(c.quiet, c.spent); got != c.want {
			t.Errorf("%d quiet in %d: %v, want %v", c.quiet, c.spent, got, c.want)
		}
	}
}

// at is a repetition of some nanoseconds, between quiet moments of a clock at which the core could
// do 100 operations in each of them.
func at(nanoseconds float64) sample {
	quiet := moment{1e9, true}
	return sample{nanoseconds: nanoseconds, limit: 100, before: quiet, after: quiet}
}

// trialOf is a call of 160 operations, of which some repetitions were measured.
func trialOf(samples []sample) *Trial {
	t := &Trial{Work: 160, Call: func() error { return nil }, samples: samples}
	t.Threads, t.Calls = 1, 1
	for _, s := range samples {
		t.Limit = max(t.Limit, s.limit)
	}
	return t
}

// A case has a per cent if its limit was measured in the quiet moments of some of its repetitions.
func TestBusy(t *testing.T) {
	change := func(change func(s *sample)) sample {
		s := at(2)
		change(&s)
		return s
	}
	disturbed := map[string]sample{
		"the core before":   change(func(s *sample) { s.before.quiet = false }),
		"the core after":    change(func(s *sample) { s.after.quiet = false }),
		"another clock":     change(func(s *sample) { s.after.clock = 0.96e9 }),
		"less than a core":  change(func(s *sample) { s.before.clock, s.after.clock = 0.8e9, 0.8e9 }),
		"a limit too low":   change(func(s *sample) { s.limit = 85 }),
		"a limit of a half": change(func(s *sample) { s.limit = 50 }),
	}
	for name, d := range disturbed {
		for _, c := range []struct {
			samples []sample
			quiet   int
			busy    bool
		}{
			{[]sample{at(2)}, 1, false}, {[]sample{at(2), at(3)}, 2, false},
			{[]sample{at(2), d, at(3), d, at(4)}, 3, false},
			{[]sample{at(2), d, at(3), d}, 2, true},
			{[]sample{at(2), d}, 1, true},
		} {
			m := Meter{perCycle: 100, clock: map[int]float64{1: 1e9}}
			one := trialOf(c.samples)
			r := m.Results([]*Trial{one})[0]
			if r.Quiet != c.quiet || r.Busy != c.busy || c.busy != (r.Percent == 0) ||
				c.busy != (r.AtItsClock == 0) || c.busy != (r.Limit == 0) || r.Nanoseconds != 2 {
				t.Errorf("%s, %d repetitions: %+v, want %d quiet, busy %v", name, len(c.samples), r,
					c.quiet, c.busy)
			}
		}
	}
}

// No case says that it did more than the machine can: a little more is the limit, and what is far
// beyond it shows that no quiet moment was met.
func TestNothingIsBeyondTheLimit(t *testing.T) {
	m := Meter{perCycle: 100, clock: map[int]float64{1: 1e9}}
	for ns, want := range map[float64]float64{3.2: 50, 2: 80, 1.6: 100, 1.57: 100, 1.5: 0, 0.2: 0} {
		r := m.Results([]*Trial{trialOf([]sample{at(ns), at(ns), at(ns)})})[0]
		if math.Abs(r.Percent-want) > 0.01 || r.Busy != (want == 0) || r.Rate > r.Limit && !r.Busy {
			t.Errorf("%g ns of 1.6: %+v, want %g %%", ns, r, want)
		}
	}
}

// Calls that read memory of one kind on as many threads have about one limit.
func TestLimitsOfMemoryAgree(t *testing.T) {
	m := Meter{clock: map[int]float64{}}
	reading := func(threads int, huge bool, limit float64) *Trial {
		s := sample{nanoseconds: 1e9, limit: limit}
		one := trialOf([]sample{s, s, s})
		one.Threads, one.Bound, one.Huge = threads, Memory, huge
		return one
	}
	for i, r := range m.Results([]*Trial{reading(1, true, 40), reading(1, true, 30),
		reading(1, true, 35), reading(2, true, 80), reading(1, false, 30), reading(2, false, 20)}) {
		if r.Busy != (i == 1 || i == 5) {
			t.Errorf("trial %d: %+v", i, r)
		}
	}
}

// The per cent at its clock is the median of the fastest tenth of the quiet repetitions.
func TestAtItsClock(t *testing.T) {
	m := Meter{perCycle: 100, clock: map[int]float64{1: 1e9}}
	slow := func(ns, clock float64) sample {
		s := at(ns)
		s.before.clock, s.after.clock = clock, clock
		return s
	}
	for name, c := range map[string]struct {
		samples []sample
		want    float64
	}{
		"one":   {[]sample{at(2)}, 80},
		"three": {[]sample{at(4), slow(2, 0.9e9), at(2)}, 80},
		"four":  {[]sample{at(4), slow(2, 0.9e9), at(2), at(5)}, 80},
		"fifty": {append([]sample{at(2), at(2), at(2), at(4), at(4)},
			slices.Repeat([]sample{at(8)}, 45)...), 80},
	} {
		if r := m.Results([]*Trial{trialOf(c.samples)})[0]; math.Abs(r.AtItsClock-c.want) > 0.01 {
			t.Errorf("%s: %g, want %g", name, r.AtItsClock, c.want)
		}
	}
}

// Multiply-adds of a cycle are whole, and one at least, also on a machine that was never quiet.
func TestOperationsPerCycle(t *testing.T) {
	for _, c := range []struct {
		vectors    limits.Vectors
		fma, clock float64
		want       float64
	}{
		{limits.AVX2, 64e9, 2e9, 32}, {limits.AVX2, 66e9, 2e9, 32}, {limits.AVX2, 50e9, 2e9, 32},
		{limits.AVX2, 31e9, 2e9, 16},
		{limits.AVX2, 1e6, 2e9, 16}, {limits.AVX512, 120e9, 2e9, 64}, {limits.AVX512, 64e9, 2e9, 32},
		{limits.Scalar, 3e9, 2e9, 1.5},
	} {
		if got := operationsPerCycle(c.vectors, c.fma, c.clock); got != c.want {
			t.Errorf("%v, %g a second at %g Hz: %g, want %g", c.vectors, c.fma, c.clock, got, c.want)
		}
	}
}
