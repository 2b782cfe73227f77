package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cmd/attn/internal/chart"
	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/internal/measure"
)

const benchAbout = `attn bench [flags]

Measures attention in cases that are typical of inference, and for each the best that this machine
can do at the same time:

- fused multiply-adds per second, with vectors of the same size;
- multiply-adds of 8-bit integers, for cases in integers (Options.Integers);
- bytes read per second from memory, for decode: of float32 keys and values, or of a cache that
  keeps them as f16, bf16, i8 or i4, its scales included; i8+i4 has keys in i8, values in i4.

Case mla decodes with 128 heads over one latent vector a token, whose first 512 channels are values
(CacheConfig.ValuesInKeys). Cases matrix multiply rows by matrices of blocks of GGUF files, in
integers: up to 4 rows compared with memory, more with integers.

Cases are repeated many times in turns, and each repetition follows a measurement of its limit; the
best of the case and the best of the limit count. The last column compares repetitions with the peak
of the core at the clock just before and after each, and is the median of the fastest tenth.

A case says busy, and has no per cent, if fewer than three of its repetitions were quiet: another
program used the core or the memory, so the limit is not known. A core is quiet if it reaches 95 %
of its peak, with loads and without; memory is quiet if the limit is within a tenth of its best.
Wait for a quiet machine, or measure for longer with -time.

Without AVX2, on Arm too, the limits are limits of Go loops, not of the hardware. Each
implementation is measured in a separate process, which prints the expected duration first. An
interrupt ends it early: the results so far are printed, but no picture is drawn.

`

// benchFlags is the command line of attn bench.
type benchFlags struct {
	json, goFormat, quick bool
	pattern, png, isa     string
	threads, count        int
	perCase               time.Duration
}

func benchCommand(args []string, stdout, stderr io.Writer) error {
	var f benchFlags
	fs := flags.New(benchAbout)
	fs.BoolVar(&f.json, "json", false, "print JSON")
	fs.BoolVar(&f.goFormat, "go", false, "print Go's benchmark format, for benchstat")
	fs.BoolVar(&f.quick, "quick", false, "measure for a shorter time")
	fs.DurationVar(&f.perCase, "time", defaultTime,
		"measure each case for this `duration`, and up to four times as long until 8 repetitions of "+
			"each were quiet")
	fs.StringVar(&f.pattern, "run", "", "measure only cases whose name matches this `regexp`")
	fs.StringVar(&f.isa, "isa", "", "comma-separated `list` of implementations, or all (default: "+
		"the implementation in use)")
	fs.IntVar(&f.threads, "threads", min(2, runtime.GOMAXPROCS(0)),
		"measure also on `n` threads; 1 measures only on one")
	fs.IntVar(&f.count, "count", 1, "with -go: measure everything `n` times, each time in a new "+
		"process; benchstat needs 6 or more")
	fs.StringVar(&f.png, "png", "", "draw the per cents of the limits to `file`, a .png, .svg or "+
		".pdf")
	if err := flags.ParseAll(fs, args, stdout); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	x := watchInterrupts()
	b, err := f.measureAll(x, stderr)
	x.stop()
	if err != nil {
		return err
	}
	err = x.err()
	if b.Early = err != nil; b.Early && b.empty() {
		return err
	}
	return errors.Join(f.print(b, stdout), err)
}

// empty reports whether nothing was measured.
func (b *benchmark) empty() bool {
	return !slices.ContainsFunc(b.Reports, func(r measure.Report) bool { return len(r.Results) > 0 })
}

// check finds mistakes before measuring, which needs minutes.
func (f *benchFlags) check() error {
	match, err := regexp.Compile(f.pattern)
	if err != nil {
		return flags.Errorf("-run: %w", err)
	}
	if !slices.ContainsFunc(benchCases, func(c benchCase) bool { return match.MatchString(c.Name) }) {
		return flags.Errorf("no case matches -run %s", f.pattern)
	}
	if f.json && f.goFormat {
		return flags.Errorf("-json and -go exclude each other")
	}
	if f.count < 1 {
		return flags.Errorf("-count is %d, want 1 or more", f.count)
	}
	if f.count > 1 && !f.goFormat {
		return flags.Errorf("-count is %d, want -go with it: only benchstat compares several runs",
			f.count)
	}
	if f.count > 1 && f.png != "" {
		return flags.Errorf("-count is %d, and -png draws one run", f.count)
	}
	if f.perCase <= 0 {
		return flags.Errorf("-time is %v, want more than 0", f.perCase)
	}
	if f.quick && f.perCase != defaultTime {
		return flags.Errorf("-quick and -time exclude each other")
	}
	// more threads cannot run at once, which is what is measured
	if n := runtime.GOMAXPROCS(0); f.threads < 1 || f.threads > n {
		return flags.Errorf("-threads is %d, want 1 to %d (GOMAXPROCS)", f.threads, n)
	}
	if f.png == "" {
		return nil
	}
	return fileFlag{"-png", f.png}.check()
}

// benchmark holds all measurements.
type benchmark struct{ measure.Benchmark }

// known implementations, best first.
var implementations = []string{"avx512", "avx2", "neon", "generic"}

// measureAll measures the implementations, one after another, until there is an interrupt.
func (f *benchFlags) measureAll(x *interrupts, stderr io.Writer) (*benchmark, error) {
	b := &benchmark{measure.Benchmark{Environment: measure.Here(), Procs: runtime.GOMAXPROCS(0)}}
	names, err := f.implementations(x)
	if err != nil {
		return nil, err
	}
	for range f.count {
		for _, name := range names { // in turns, because the machine changes
			if err := b.add(x, f, name, stderr); x.err() != nil {
				return b, nil // with the measurements so far
			} else if err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

// add measures an implementation in a separate process.
func (b *benchmark) add(x *interrupts, f *benchFlags, name string, stderr io.Writer) error {
	args := []string{"-threads", fmt.Sprint(f.threads), "-time", f.perCase.String()}
	if f.quick {
		args = append(args, "-quick")
	}
	command := "ATTN_ISA=" + name + " attn measure " + strings.Join(args, " ")
	if f.pattern != "" {
		args = append(args, "-run", f.pattern)
		command += " -run '" + strings.ReplaceAll(f.pattern, "'", `'\''`) + "'"
	}
	out, err := measureIn(x, name, stderr, append(args, "-until-eof")...)
	if err != nil {
		return err
	}
	var r measure.Report
	if err := json.Unmarshal(out, &r); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	b.Commands = append(b.Commands, command)
	b.Reports = append(b.Reports, r)
	return nil
}

// implementations returns the requested implementations, or the one in use.
func (f *benchFlags) implementations(x *interrupts) ([]string, error) {
	if f.isa == "" {
		return []string{attn.Implementation()}, nil
	}
	have := available(x)
	if err := x.err(); err != nil {
		return nil, err
	}
	if f.isa == "all" && have != nil {
		return have, nil
	}
	names := strings.Split(f.isa, ",")
	for i, name := range names {
		if !slices.Contains(have, name) {
			return nil, flags.Errorf("-isa names %q, this CPU and build have %s", name,
				strings.Join(have, ", "))
		}
		if slices.Contains(names[:i], name) {
			return nil, flags.Errorf("-isa is %q, which names %s twice", f.isa, name)
		}
	}
	return names, nil
}

// available returns the implementations that this CPU and build have.
func available(x *interrupts) (have []string) {
	for _, name := range implementations {
		if out, err := measureIn(x, name, io.Discard, "-name"); err == nil &&
			strings.TrimSpace(string(out)) == name {
			have = append(have, name)
		}
	}
	return have
}

// measureIn runs attn measure with an implementation forced.
func measureIn(x *interrupts, implementation string, stderr io.Writer, args ...string) ([]byte,
	error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	child := exec.Command(self, append([]string{"measure"}, args...)...)
	child.Env = append(os.Environ(), "ATTN_ISA="+implementation)
	child.Stdout, child.Stderr = &out, stderr
	if err := x.run(child); err != nil {
		return nil, fmt.Errorf("measuring %s: %w", implementation, err)
	}
	return out.Bytes(), nil
}

func (f *benchFlags) print(b *benchmark, stdout io.Writer) error {
	switch {
	case f.json:
		text, err := json.MarshalIndent(b, "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s\n", text)
	case f.goFormat:
		b.goFormat(stdout)
	default:
		b.table(stdout)
	}
	if f.png == "" || b.Early {
		return nil
	}
	return writePicture(f.png, b.draw) // last, because the measurements are not lost if it fails
}

// goFormat prints what go test -bench would, for benchstat.
func (b *benchmark) goFormat(w io.Writer) {
	fmt.Fprintf(w, "goos: %s\ngoarch: %s\npkg: github.com/seed-1415985d/attn\ncpu: %s\n", b.GOOS,
		b.GOARCH, b.CPU)
	for _, r := range b.Reports {
		for _, c := range r.Results {
			fmt.Fprintf(w, "%s\t%d\t%.1f ns/op\t%.2f %s", c.Benchmark, c.Repetitions*c.Calls,
				c.Nanoseconds, c.Rate, c.Unit)
			if !c.Busy {
				fmt.Fprintf(w, "\t%.2f %%-of-limit", c.Percent)
			}
			fmt.Fprintf(w, "\t%.0f allocs/op\n", c.AllocsPerCall)
		}
	}
}

// draw writes the bar chart.
func (b *benchmark) draw(w io.Writer, format chart.Format) error {
	var groups []chart.Group
	var names []string
	for _, r := range b.Reports {
		for _, c := range r.Results {
			series := r.Implementation
			if c.Threads > 1 {
				series += fmt.Sprintf(", %d threads", c.Threads)
			}
			if !slices.Contains(names, series) {
				names = append(names, series)
				groups = append(groups, chart.Group{Name: series, Percent: map[string]float64{}})
			}
			percent := c.Percent
			if c.Busy {
				percent = chart.Busy
			}
			groups[slices.Index(names, series)].Percent[c.Case] = percent
		}
	}
	var cases []string
	for _, c := range benchCases {
		if slices.ContainsFunc(groups, func(g chart.Group) bool {
			_, ok := g.Percent[c.Name]
			return ok
		}) {
			cases = append(cases, c.Name)
		}
	}
	return chart.DrawBars(w, format, b.CPU, cases, groups)
}
