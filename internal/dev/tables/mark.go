package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/seed-1415985d/attn/internal/measure"
)

// mark is the comment in the line before a table:
//
//	<!-- bench columns; run: ^prefill; skip: integers; Zen 5, AVX2: zen5 avx2 1 -->
//
// The first part names the kind of table. run and skip are regular expressions of cases. Each other
// part is a column's heading, its measurement, implementation and number of threads.
type mark struct {
	kind      string
	run, skip *regexp.Regexp
	columns   []column
}

// column is a column of figures.
type column struct {
	heading string
	of      *measurement
	report  *measure.Report
	threads int
}

var (
	begin = regexp.MustCompile(`(?m)^<!-- bench (.*) -->\n`)
	lines = regexp.MustCompile(`\A(\|.*\n)*`) // the old table
)

// fill returns a document with new tables.
func fill(name, text string, read func(string) (*measurement, error)) (string, error) {
	var out strings.Builder
	read = ofOneMachine(read)
	for {
		at := begin.FindStringSubmatchIndex(text)
		if at == nil {
			out.WriteString(text)
			return out.String(), nil
		}
		m, err := parse(text[at[2]:at[3]], read)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		table, err := m.table()
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		out.WriteString(text[:at[1]] + table)
		text = text[at[1]:]
		text = text[len(lines.FindString(text)):]
	}
}

// ofOneMachine refuses a second measurement: a document shows the newest machine only, and older
// measurements stay in their files.
func ofOneMachine(read func(string) (*measurement, error)) func(string) (*measurement, error) {
	shown := ""
	return func(name string) (*measurement, error) {
		if shown == "" {
			shown = name
		}
		if name != shown {
			return nil, fmt.Errorf("measurement %q after %q, want one machine in a document", name, shown)
		}
		return read(name)
	}
}

// parse reads the parts of a mark.
func parse(text string, read func(string) (*measurement, error)) (m *mark, err error) {
	parts := strings.Split(text, "; ")
	m = &mark{kind: parts[0]}
	for _, part := range parts[1:] {
		key, value, found := strings.Cut(part, ": ")
		if !found {
			return nil, fmt.Errorf("%q in a mark, want a key or heading, a colon and a value", part)
		}
		switch key {
		case "run":
			m.run, err = regexp.Compile(value)
		case "skip":
			m.skip, err = regexp.Compile(value)
		default:
			err = m.addColumn(key, value, read)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	if len(m.columns) == 0 {
		return nil, fmt.Errorf("a mark of kind %s has no columns", m.kind)
	}
	return m, nil
}

// addColumn adds a column of a measurement, an implementation and a number of threads.
func (m *mark) addColumn(heading, value string, read func(string) (*measurement, error)) error {
	fields := strings.Fields(value)
	if len(fields) != 3 {
		return fmt.Errorf("%q, want a measurement, an implementation and a number of threads", value)
	}
	threads, err := strconv.Atoi(fields[2])
	if err != nil {
		return fmt.Errorf("threads: %w", err)
	}
	of, err := read(fields[0])
	if err != nil {
		return err
	}
	text := of.of(fields[1])
	if text == nil {
		return fmt.Errorf("%s has no report on %q", fields[0], fields[1])
	}
	m.columns = append(m.columns, column{heading, of, text, threads})
	return nil
}

// cases returns the cases that the mark selects, in the order of measurement.
func (m *mark) cases() (list []*measure.Result, err error) {
	seen := map[string]bool{}
	for _, c := range m.columns {
		for i := range c.report.Results {
			r := &c.report.Results[i]
			if seen[r.Case] || r.Threads != c.threads || m.run != nil && !m.run.MatchString(r.Case) ||
				m.skip != nil && m.skip.MatchString(r.Case) {
				continue
			}
			seen[r.Case] = true
			list = append(list, r)
		}
	}
	if list == nil {
		return nil, fmt.Errorf("no case that was measured matches %v", m.run)
	}
	return list, nil
}
