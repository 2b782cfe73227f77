package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/seed-1415985d/attn/internal/measure"
)

// table prints for people, in 100 columns; it is Markdown, too.
func (b *benchmark) table(w io.Writer) {
	fmt.Fprintf(w, "%s, %d usable, %s/%s, %s\n", b.CPU, min(b.NumCPU, b.Procs), b.GOOS, b.GOARCH, b.Go)
	for _, r := range b.Reports {
		printLimits(w, &r.Machine, r.Implementation)
		threads := 0
		for _, c := range r.Results {
			if c.Threads != threads {
				threads = c.Threads
				fmt.Fprintf(w, "\n%s, threads: %d\n\n", r.Implementation, threads)
				fmt.Fprintf(w, tableRow, "case", "time", "rate", "limit", "percent", "at its clock")
				fmt.Fprintln(w, "|-------------------------------|---------:|---------------:"+
					"|------------:|--------:|-------------:|")
			}
			limit, percent, atItsClock := shares(&c)
			fmt.Fprintf(w, tableRow, c.Case, measure.Duration(c.Nanoseconds),
				fmt.Sprintf("%.1f %-7s", c.Rate, c.Unit), fmt.Sprintf("%-4s %6s", c.LimitOf, limit), percent,
				atItsClock)
		}
	}
	b.shapes(w)
}

// tableRow is a row of the table; the limit has the unit of the rate.
const tableRow = "| %-29s | %8s | %14s | %11s | %7s | %12s |\n"

// printLimits prints the limits of one thread.
func printLimits(w io.Writer, m *measure.Machine, implementation string) {
	fmt.Fprintf(w, "\n%s, limits of one thread:\n\n", implementation)
	fmt.Fprintf(w, "- multiply-adds: %.1f GFLOP/s, %.3g a cycle at %.2f GHz (%s)\n", m.FMA, m.PerCycle,
		m.Clock, m.Vectors)
	fmt.Fprintf(w, "- 8-bit integers: %.1f GOP/s (%s)\n", m.Integers, m.IntegersWith)
	fmt.Fprintf(w, "- reading, GB/s: %s (%s)\n", rates(m, "L1", "L2", "L3", "DRAM"),
		strings.ReplaceAll(rates(m, "DRAM, 8 streams", "DRAM, huge pages"), "DRAM, ", ""))
}

// rates returns the measured rates of reading.
func rates(m *measure.Machine, levels ...string) string {
	var read []string
	for _, level := range levels {
		if rate, measured := m.Read[level]; measured {
			read = append(read, fmt.Sprintf("%s %.1f", level, rate))
		}
	}
	return strings.Join(read, ", ")
}

// shapes prints the shapes of cases; cases with the same name before the comma share one.
func (b *benchmark) shapes(w io.Writer) {
	fmt.Fprintf(w, "\nShapes: batch B, heads H, of keys and values KV; queries and keys L, keys Lk; "+
		"dimension D; inputs K,\noutputs N\n\n")
	printed := map[string]bool{}
	for _, r := range b.Reports {
		for _, c := range r.Results {
			name, _, _ := strings.Cut(c.Case, ",")
			if !printed[name] {
				printed[name] = true
				fmt.Fprintf(w, "- %s: %s\n", name, c.Shape)
			}
		}
	}
}

// shares returns the limit and the per cents of it, or that the machine was busy.
func shares(r *measure.Result) (limit, percent, atItsClock string) {
	if r.Busy {
		return "–", "busy", ""
	}
	if r.AtItsClock != 0 { // memory is not the limit
		atItsClock = fmt.Sprintf("%.1f %%", r.AtItsClock)
	}
	return fmt.Sprintf("%.1f", r.Limit), fmt.Sprintf("%.1f %%", r.Percent), atItsClock
}
