// Peers compares attn with what a program could use instead: other libraries, and compositions of
// matrix products.
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

Measures attn and llama.cpp, ONNX Runtime, PyTorch, OpenBLAS, NumPy and Go libraries. Each runs in
a process of its own. They compute the same cases in turns, after a comparison of their results.
Peers that are missing on this machine are named and left out. Only -setup downloads anything. Set
GOEXPERIMENT=simd: without it gomlx/compute has no vector instructions.

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
	perCase := set.Duration("time", 2*time.Second, "`duration` for each peer in each case")
	pattern := set.String("run", "", "only cases whose name matches this `regexp`; with -o, "+
		"others keep their earlier results")
	threads := set.Int("threads", min(2, runtime.GOMAXPROCS(0)),
		"measure on one thread and on `n`")
	dir := set.String("o", "", "write peers.md, .json, .svg and .png to this `folder`, and not "+
		"only the tables to the terminal")
	cpu := set.String("cpu", "", "`name` of the CPU, if its own says too little")
	note := set.String("note", "", "`sentence` for peers.md, such as other load of the machine")
	again := set.Bool("draw", false, "measure nothing, and write the files of -o again from its "+
		"peers.json")
	key := set.String("worker", "", "for internal use: run this peer")
	if err := flags.ParseAll(set, args, stdout); err != nil {
		return err
	}
	if p := peerOf(*key); p != nil && p.open != nil {
		answers := os.Stdout
		os.Stdout = os.Stderr // for the output of libraries
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
			fmt.Fprintln(stderr, err) // the other peers can be measured
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

// drawAgain writes tables and pictures of an earlier measurement.
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

// measureAndWrite writes the cases that were measured, also before an error.
func measureAndWrite(r *Report, match *regexp.Regexp, counts []int, perCase time.Duration,
	dir string, stdout, stderr io.Writer) error {
	var old *Report
	if dir != "" {
		var err error
		if old, err = read(dir); err != nil {
			return err
		}
	}
	err := measureAll(r, match, counts, perCase, stderr)
	if err != nil && len(r.Results) == 0 {
		return err
	}
	r.markdown(stdout)
	if dir == "" {
		return err
	}
	if old != nil {
		r = old.join(r)
	}
	return errors.Join(err, r.write(dir))
}
