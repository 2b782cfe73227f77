// Package stoptest measures how long stops of the world wait for functions. Only tests import it.
package stoptest

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
)

// longest bounds how long the garbage collector may wait for a goroutine that computes, in seconds.
const longest = 100e-6

// Check measures calls of public functions of the package in the current folder, over so much
// memory that they run for milliseconds. Each public function has to be among them, methods with
// the name of their type, or in short. If other programs use the cores, stops also wait for the
// operating system. Therefore the best first quartile of several tries counts, and a call is too
// slow only if it is in five tries in which a plain loop of Go is quick. Unless ATTN_TEST_FULL is
// set, one call of each function is measured.
func Check(t *testing.T, short string,
	calls func(yield func(function, of string, run func() error))) {
	unmeasured := map[string]bool{}
	for _, name := range publicFunctions(t) {
		unmeasured[name] = !slices.Contains(strings.Fields(short), name)
	}
	calls(func(function, of string, run func() error) {
		if left, known := unmeasured[function]; known && !left && kerneltest.Few() {
			return
		}
		best, quiet := math.Inf(1), 0
		for try := 0; try < 30 && best > longest && quiet < 5; try++ {
			if best = min(best, beside(t, run)); best > longest && isQuiet(t) {
				quiet++
			}
		}
		t.Logf("%s %s: %.0f µs", function, of, best*1e6)
		switch {
		case best <= longest:
		case quiet < 5:
			t.Logf("%s %s is not decided: stops wait as long for a loop of Go's, since other programs "+
				"have the cores", function, of)
		default:
			t.Errorf("%s %s: three of four stops of the world wait for %.0f µs or more, want at most %.0f",
				function, of, best*1e6, longest*1e6)
		}
		unmeasured[function] = false
	})
	for name, is := range unmeasured {
		if is {
			t.Errorf("%s is neither measured nor among the short functions", name)
		}
	}
}

// publicFunctions returns the package's public functions, methods with the name of their type.
func publicFunctions(t *testing.T) (names []string) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		syntax, err := parser.ParseFile(gotoken.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range syntax.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() {
				continue
			}
			name := f.Name.Name
			if f.Recv != nil {
				of := receiverName(f.Recv.List[0].Type)
				if !ast.IsExported(of) {
					continue
				}
				name = of + "." + name
			}
			names = append(names, name)
		}
	}
	return names
}

// receiverName returns the type of a receiver.
func receiverName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiverName(x.X)
	case *ast.IndexExpr:
		return receiverName(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// isQuiet reports whether stops of the world wait at most half as long for a loop that the compiler
// lets stop anywhere.
func isQuiet(t *testing.T) bool {
	sum := 0
	return beside(t, func() error {
		for i := range 1 << 20 {
			sum += i & sum
		}
		return nil
	}) <= longest/2
}

// beside returns the first quartile of how long stops of the world wait while a function runs.
func beside(t *testing.T, run func() error) (seconds float64) {
	var end atomic.Bool
	var calls atomic.Int32
	var wait sync.WaitGroup
	wait.Go(func() {
		for !end.Load() {
			if err := run(); err != nil {
				t.Error(err)
				end.Store(true)
			}
			calls.Add(1)
		}
	})
	for calls.Load() == 0 { // the first call differs from others: its memory is new
		time.Sleep(100 * time.Microsecond)
	}
	var ignored runtime.MemStats
	before := stopTimes()
	for range 32 {
		time.Sleep(time.Duration(200+rand.IntN(600)) * time.Microsecond)
		runtime.ReadMemStats(&ignored) // stops the world
	}
	after := stopTimes()
	end.Store(true)
	wait.Wait()
	return percentile(before, after, 0.25)
}

// stopTimes returns how long the program's stops of the world, except those of collections, waited
// until all goroutines had stopped.
func stopTimes() *metrics.Float64Histogram {
	sample := []metrics.Sample{{Name: "/sched/pauses/stopping/other:seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64Histogram()
}

// percentile returns the upper end of the bucket that holds a quantile of the stops between two
// histograms.
func percentile(before, after *metrics.Float64Histogram, part float64) float64 {
	all, below := uint64(0), uint64(0)
	for i := range after.Counts {
		all += after.Counts[i] - before.Counts[i]
	}
	for i := range after.Counts {
		if below += after.Counts[i] - before.Counts[i]; float64(below) >= part*float64(all) {
			return after.Buckets[i+1]
		}
	}
	return math.Inf(1)
}
