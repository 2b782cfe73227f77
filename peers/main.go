// Peers measures attn beside what a program could take instead: other libraries, and compositions
// of matrix products.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"time"

	"github.com/seed-1415985d/attn/internal/flags"
)

const usage = `peers [flags]

Measures attn beside llama.cpp, ONNX Runtime, PyTorch, OpenBLAS, NumPy and Go libraries. Each runs
in a process of its own; all compute the same, compared first, and take turns. What is not on this
machine is named, and left out. Nothing is downloaded but with -setup. Set GOEXPERIMENT=simd, or
gomlx/compute has no vector instructions.

`

func main() {
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
	}
	os.Exit(flags.Status(err))
}

func run(args []string, stdout, stderr io.Writer) error {
	set := flags.New(usage)
	get := set.Bool("setup", false, "download what is missing first: ONNX Runtime and llama.cpp by "+
		"npm (120 MB), and as root a Debian with PyTorch and NumPy by debootstrap (1.5 GB)")
	perCase := set.Duration("time", 2*time.Second, "measure each peer for so long in each case")
	pattern := set.String("run", "", "only cases whose name matches this `regexp`; with -o, "+
		"others stay as they were measured before")
	threads := set.Int("threads", min(2, runtime.GOMAXPROCS(0)),
		"measure on `n` threads too; 1: only on one")
	dir := set.String("o", "", "write peers.md, .json, .svg and .png to this `folder`, and not "+
		"only the tables to the terminal")
	cpu := set.String("cpu", "", "a `name` of the CPU that says more than its own")
	note := set.String("note", "", "a `sentence` for peers.md, such as what else the machine did")
	again := set.Bool("draw", false, "measure nothing, and write what -o writes again, from the "+
		"peers.json of its folder")
	key := set.String("worker", "", "used by itself: be this peer")
	if err := flags.ParseAll(set, args, stdout); err != nil {
		return err
	}
	if p := peerOf(*key); p != nil && p.open != nil {
		answers := os.Stdout
		os.Stdout = os.Stderr // for what libraries print
		return serve(os.Stdin, answers, p.open, *threads)
	}
	if *again {
		return drawAgain(*dir)
	}
	match, err := regexp.Compile(*pattern)
	if err != nil {
		return flags.Errorf("-run: %w", err)
	}
	if !slices.ContainsFunc(cases, func(c Case) bool { return match.MatchString(c.Name) }) {
		return flags.Errorf("no case matches -run %s", *pattern)
	}
	if n := runtime.GOMAXPROCS(0); *threads < 1 || *threads > n {
		return flags.Errorf("-threads is %d, want 1 to %d (GOMAXPROCS)", *threads, n)
	}
	if *get {
		if err := setup(stderr); err != nil {
			fmt.Fprintln(stderr, err) // what there is can be measured
		}
	}
	counts := []int{1}
	if *threads > 1 {
		counts = append(counts, *threads)
	}
	report := newReport(*cpu)
	report.Note = *note
	return measureAndWrite(report, match, counts, *perCase, *dir, stdout, stderr)
}

// drawAgain writes tables and pictures of what was measured before.
func drawAgain(dir string) error {
	if dir == "" {
		return flags.Errorf("-draw needs -o, the folder with peers.json")
	}
	r, err := read(dir)
	if err != nil {
		return err
	}
	if r == nil {
		return fmt.Errorf("-draw: there is no peers.json in %s", dir)
	}
	return r.write(dir)
}

func measureAndWrite(r *Report, match *regexp.Regexp, counts []int, perCase time.Duration,
	dir string, stdout, stderr io.Writer) error {
	var old *Report
	if dir != "" {
		var err error
		if old, err = read(dir); err != nil {
			return err
		}
	}
	if err := measureAll(r, match, counts, perCase, stderr); err != nil {
		return err
	}
	r.markdown(stdout)
	if dir == "" {
		return nil
	}
	if old != nil {
		r = old.join(r)
	}
	return r.write(dir)
}
