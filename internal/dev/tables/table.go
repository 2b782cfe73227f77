package main

import (
	"fmt"
	"strings"

	"github.com/seed-1415985d/attn/internal/measure"
)

// table returns a Markdown table of the mark's kind.
func (m *mark) table() (string, error) {
	switch m.kind {
	case "columns":
		return m.sideBySide()
	case "limits":
		return m.limits(), nil
	}
	return "", fmt.Errorf("a mark is of kind %q, want columns or limits", m.kind)
}

// head returns the first two lines. Columns from right on are aligned to the right.
func head(right int, headings ...string) string {
	line := "|"
	for i := range headings {
		if i < right {
			line += "---|"
		} else {
			line += "---:|"
		}
	}
	return row(headings...) + line + "\n"
}

func row(cells ...string) string {
	var line strings.Builder
	for _, cell := range cells {
		line.WriteString("| " + cell)
		if cell != "" {
			line.WriteString(" ")
		}
	}
	return line.String() + "|\n"
}

// sideBySide has a column of figures for each column of the mark.
func (m *mark) sideBySide() (string, error) {
	cases, err := m.cases()
	if err != nil {
		return "", err
	}
	headings := []string{"case", "shape"}
	for _, c := range m.columns {
		headings = append(headings, c.heading)
	}
	out := head(len(headings), headings...)
	for _, r := range cases {
		cells := []string{r.Case, r.Shape}
		for _, c := range m.columns {
			cells = append(cells, c.cell(r.Case))
		}
		out += row(cells...)
	}
	return out, nil
}

// cell returns a figure, or "" if it was not measured.
func (c *column) cell(name string) string {
	r := resultOf(c.report, name, c.threads)
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%s, %.1f, %.1f %%", measure.Duration(r.Nanoseconds), r.Rate, r.Percent)
}

// limits returns a table of the machines' peak rates.
func (m *mark) limits() string {
	out := head(2, "measurement", "processor, Go", "multiply-adds", "of 8-bit integers",
		"memory, pages of 4 KiB", "huge pages", "median to least time")
	for _, c := range m.columns {
		limits := c.report.Machine
		out += row(c.heading, c.of.CPU+", "+c.of.Go, figure("%.1f GFLOP/s", limits.FMA),
			figure("%.1f GOP/s", limits.Integers), figure("%.1f GB/s", limits.Read["DRAM, 8 streams"]),
			figure("%.1f GB/s", limits.Read["DRAM, huge pages"]), c.noise())
	}
	return out
}

// figure formats a figure, or returns "" if it was not measured.
func figure(format string, x float64) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprintf(format, x)
}

// noise returns how much longer the median repetition was than the fastest, for the cases with the
// least and the most of it.
func (c *column) noise() string {
	least, most := 0.0, 0.0
	for _, r := range c.report.Results {
		if r.Median > 0 && r.Threads == c.threads {
			ratio := r.Median / r.Nanoseconds
			if least == 0 {
				least = ratio
			}
			least, most = min(least, ratio), max(most, ratio)
		}
	}
	if least == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f to %.2f", least, most)
}
