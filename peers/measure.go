package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/seed-1415985d/attn/internal/limits"
	"github.com/seed-1415985d/attn/internal/measure"
)

// Result is the time of one peer for one case.
type Result struct {
	Case    string  `json:"case"`
	Peer    string  `json:"peer"`
	Threads int     `json:"threads"`
	Best    float64 `json:"best_ns"`
	Median  float64 `json:"median_ns"`
	Calls   int     `json:"calls"`
	// the time at the machine's peak rate, measured in the same turns
	Limit      float64 `json:"limit_ns"`
	Difference float64 `json:"difference_from_float32"` // see difference
}

// measurement is the running peers, in the order of peers for each number of threads.
type measurement struct {
	entrants []*entrant
	dir      string
	perCase  time.Duration
	say      io.Writer
	report   *Report
	peaks    []*measure.Peaks
}

// entrant is a peer with a number of threads.
type entrant struct {
	*process
	peer    *peer
	threads int
	times   []time.Duration
	spent   time.Duration
	turns   int
	off     float64
}

// start starts all workers. The report names peers that are missing.
func (m *measurement) start(counts []int) error {
	for i := range peers {
		p := &peers[i]
		info := PeerInfo{Name: p.name, About: p.about}
		for _, threads := range counts {
			w, err := p.start(threads, m.dir)
			var l lacking
			if errors.As(err, &l) {
				info.Missing = string(l)
				break
			}
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			info.Version = w.version
			m.entrants = append(m.entrants, &entrant{process: w, peer: p, threads: threads})
		}
		if info.Missing != "" {
			fmt.Fprintf(m.say, "%s is missing: %s\n", p.name, info.Missing)
		}
		m.report.Peers = append(m.report.Peers, info)
	}
	return nil
}

func (m *measurement) stop() {
	for _, e := range m.entrants {
		e.stop()
	}
}

// run measures the cases whose names match, until an error. The report has whole cases only.
func (m *measurement) run(match *regexp.Regexp, counts []int) error {
	for i := range cases {
		c := &cases[i]
		if !match.MatchString(c.Name) {
			continue
		}
		fmt.Fprintf(m.say, "%s\n", c.Name)
		before := len(m.report.Results)
		if err := m.measure(c, counts); err != nil {
			m.report.Results = m.report.Results[:before]
			return err
		}
	}
	return nil
}

// measure measures a case with each number of threads.
func (m *measurement) measure(c *Case, counts []int) error {
	in := newInputs(c, m.dir)
	if err := in.write(c); err != nil {
		return err
	}
	want, err := in.reference(c)
	if err != nil {
		return err
	}
	for _, threads := range counts {
		entrants, err := m.compare(c, threads, want)
		if err != nil {
			return err
		}
		if err := m.rounds(c, threads, entrants); err != nil {
			return err
		}
	}
	return nil
}

// compare lets all peers that have a case compute it, and fails if a result is wrong, since its
// time would have no meaning.
func (m *measurement) compare(c *Case, threads int, want []float32) (entrants []*entrant,
	err error) {
	for _, e := range m.entrants {
		if e.threads != threads {
			continue
		}
		got, err := e.compute(c, m.dir)
		var l lacking
		if errors.As(err, &l) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", e.peer.name, c.Name, err)
		}
		if want == nil { // a model
			want = got
		}
		e.off = difference(got, want)
		if e.off > c.tolerance() {
			return nil, fmt.Errorf("%s, %s: the result differs by %.2g of the largest element, at most "+
				"%.2g is right", e.peer.name, c.Name, e.off, c.tolerance())
		}
		e.times, e.spent, e.turns = nil, 0, 0
		entrants = append(entrants, e)
	}
	return entrants, nil
}

const (
	turnTime = 60 * time.Millisecond
	// settle is how long other peers' threads may spin after their turn.
	settle     = 30 * time.Millisecond
	leastTurns = 3
)

// rounds gives all peers turns, again and again, until each has had its time, so that all meet the
// same state of the machine.
func (m *measurement) rounds(c *Case, threads int, entrants []*entrant) error {
	rate := 0.0
	for busy := true; busy; {
		busy = false
		time.Sleep(settle)
		rate = max(rate, m.limit(c, threads)/1e9)
		for _, e := range entrants {
			if e.spent >= m.perCase && e.turns >= leastTurns {
				continue
			}
			busy = true
			time.Sleep(settle)
			start := time.Now()
			a, err := e.ask(&request{Seconds: turnTime.Seconds()})
			if err != nil {
				return fmt.Errorf("%s, %s: %w", e.peer.name, c.Name, err)
			}
			e.times = append(e.times, a.Times...)
			e.spent += time.Since(start)
			e.turns++
		}
	}
	for _, e := range entrants {
		best, median := float64(slices.Min(e.times)), float64(measure.Median(e.times))
		m.report.Results = append(m.report.Results,
			Result{c.Name, e.peer.name, threads, best, median, len(e.times), c.work() / rate, e.off})
	}
	return nil
}

// limit returns the peak rate of multiply-adds in short bursts, in integers if the case has them,
// or of reading as many bytes as the case.
func (m *measurement) limit(c *Case, threads int) (top float64) {
	if c.decode() {
		pieces := m.peaks[0].Memory(threads, true)
		for range 3 {
			top = max(top, pieces.ReadCold(int(c.work())), pieces.Read())
		}
		return top
	}
	bound := measure.Floats
	if c.integers() {
		bound = measure.Integers
	}
	for range 12 * threads {
		for _, p := range m.peaks {
			top = max(top, p.Burst(bound, threads))
		}
	}
	return top
}

// newPeaks returns the peaks of AVX2 and of AVX-512: on some machines the first is faster.
func newPeaks() []*measure.Peaks {
	return []*measure.Peaks{measure.NewPeaks("avx2", limits.Cold()),
		measure.NewPeaks("avx512", limits.Cold())}
}

// measureAll starts the peers, measures and stops them.
func measureAll(r *Report, match *regexp.Regexp, counts []int, perCase time.Duration,
	say io.Writer) error {
	dir, err := os.MkdirTemp("", "attn-peers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	m := &measurement{dir: dir, perCase: perCase, say: say, report: r, peaks: newPeaks()}
	defer m.stop()
	if err := m.start(counts); err != nil {
		return err
	}
	return m.run(match, counts)
}

// milliseconds formats with three digits.
func milliseconds(ns float64) string {
	ms := ns / 1e6
	return fmt.Sprintf("%.*f", max(0, 2-int(math.Floor(math.Log10(max(ms, 1e-3))))), ms)
}
