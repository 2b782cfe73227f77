package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-1415985d/attn/internal/measure"
)

// measurement is the output of attn bench -json.
type measurement struct{ measure.Benchmark }

// measurements returns a function that reads docs/bench-NAME.json below a folder.
func measurements(folder string) func(name string) (*measurement, error) {
	return func(name string) (*measurement, error) {
		path := filepath.Join(folder, "docs", "bench-"+name+".json")
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		m := new(measurement)
		if err := json.Unmarshal(text, m); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if err := m.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return m, nil
	}
}

// mostPercent allows for noise.
const mostPercent = 103

// check fails if data for tables is missing, for example because attn bench renamed it, and if per
// cents show that the machine was busy.
func (m *measurement) check() error {
	if m.CPU == "" || m.Go == "" || len(m.Reports) == 0 {
		return fmt.Errorf("cpu is %q, go %q, and there are %d reports, want all of them", m.CPU, m.Go,
			len(m.Reports))
	}
	if m.Early {
		return fmt.Errorf("the measurement was ended early: measure again")
	}
	var busy []string
	for _, r := range m.Reports {
		if r.Implementation == "" || len(r.Results) == 0 {
			return fmt.Errorf("a report of implementation %q has %d results, want a name and results",
				r.Implementation, len(r.Results))
		}
		for _, c := range r.Results {
			if c.Case == "" || c.Shape == "" || c.Threads < 1 || c.Unit == "" {
				return fmt.Errorf("%s: a result has case %q, shape %q, threads %d and unit %q, "+
					"want all of them", r.Implementation, c.Case, c.Shape, c.Threads, c.Unit)
			}
			if c.Busy {
				busy = append(busy, fmt.Sprintf("%s on %d threads with %s", c.Case, c.Threads,
					r.Implementation))
				continue
			}
			if c.Nanoseconds <= 0 || c.Rate <= 0 || c.Percent <= 0 {
				return fmt.Errorf("%s: %s has ns_per_call %g, rate %g and percent %g, want more than 0",
					r.Implementation, c.Case, c.Nanoseconds, c.Rate, c.Percent)
			}
			if c.Percent > mostPercent {
				return fmt.Errorf("%s: %s has percent %g, want at most %d: its limit was measured when "+
					"the machine was busy", r.Implementation, c.Case, c.Percent, mostPercent)
			}
		}
	}
	if busy != nil {
		return fmt.Errorf("the machine was busy and the limit unknown for %s: measure again",
			strings.Join(busy, ", "))
	}
	return nil
}

// of returns the report on an implementation.
func (m *measurement) of(implementation string) *measure.Report {
	for i := range m.Reports {
		if m.Reports[i].Implementation == implementation {
			return &m.Reports[i]
		}
	}
	return nil
}

// resultOf returns the result of a case on a number of threads, nil if it was not measured.
func resultOf(r *measure.Report, name string, threads int) *measure.Result {
	for i := range r.Results {
		if c := &r.Results[i]; c.Case == name && c.Threads == threads {
			return c
		}
	}
	return nil
}
