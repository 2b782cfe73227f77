package attn

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// chosen is the row that the program started with, before any test changed it.
var chosen = tuned

// implementations lists what this machine can run: what was chosen and
// everything below it.
func implementations() []isa {
	switch chosen.isa {
	case generic:
		return []isa{generic}
	case avx512:
		return []isa{avx512, avx2, generic}
	}
	return []isa{chosen.isa, generic}
}

// useTuning puts a row in force until the test ends.
func useTuning(t testing.TB, row tuning) {
	before := tuned
	t.Cleanup(func() { tuned = before })
	tuned = row
}

// use puts an implementation in force until the test ends, with the row that this machine has for it.
func use(t testing.TB, i isa) {
	row := tuned
	if row.isa != i {
		row = tune(chosen.cpu, i, 0, chosen.l2)
		row.smallCall, row.wakingCall = tuned.smallCall, tuned.wakingCall
	}
	useTuning(t, with16Lanes(row))
}

// with16Lanes lets kernels with 16 lanes be used even if the CPU prefers others.
func with16Lanes(row tuning) tuning {
	row.leastRows16 = min(row.leastRows16, 13)
	return row
}

// onThisMachine is the row with the best implementation that this machine has of those that it might ask for.
func (t tuning) onThisMachine() tuning {
	for !slices.Contains(implementations(), t.isa) {
		if t.isa == avx512 {
			t.isa = avx2
		} else {
			t.isa = implementations()[0]
		}
	}
	return t
}

// forEach runs a subtest for each implementation of this machine.
func forEach(t *testing.T, test func(t *testing.T)) {
	for _, i := range implementations() {
		t.Run(i.String(), func(t *testing.T) {
			use(t, i)
			test(t)
		})
	}
}

// forEachTuning runs a subtest for each row of tunings, whatever this machine is.
func forEachTuning(t *testing.T, test func(t *testing.T)) {
	for _, row := range tunings {
		t.Run(string(row.cpu)+"/"+row.isa.String(), func(t *testing.T) {
			useTuning(t, row.withCaches(32<<10, 1<<20).withCosts().onThisMachine())
			test(t)
		})
	}
}

// anyTuning puts random policies in force, but for the implementation, until the test ends: no bit depends on them.
func anyTuning(t *testing.T, r *rand.Rand) {
	coin := func() bool { return r.IntN(2) == 0 }
	row := tunings[r.IntN(len(tunings))].withCaches(48<<10, 1).withCosts()
	row.isa = tuned.isa
	row.l2 = []int{0, 512 << 10, 2 << 20}[r.IntN(3)]
	row.tileRows = []int{leastTileRows, mostTileRows}[r.IntN(2)]
	row.reads = []memoryReads{queuedReads, pagedReads, sequentialReads}[r.IntN(3)]
	row.fewRows = []int{64, 128}[r.IntN(2)]
	row.quarterSteps, row.fourPanels = coin(), coin()
	row.leastRows16 = []int{2, 13, never}[r.IntN(3)]
	row.maximaInScore, row.fusedSoftmax = coin(), coin()
	useTuning(t, row)
}

// readingAs puts a way of reading memory in force, with no cache that calls might stay in, until the test ends.
func readingAs(t testing.TB, reads memoryReads) {
	row := tuned
	row.reads = reads
	if reads == sequentialReads {
		row.l2 = 0
	}
	useTuning(t, row)
}

// slowestFMA is the cycles of an FMA with its loads on the slowest CPU that kernel_split.go is for: an arm64 core
// that executes in order takes 44 for loads beside 96 FMAs.
func slowestFMA() float64 {
	if runtime.GOARCH == "arm64" {
		return 1.5
	}
	return 1
}

// budget is the number of cases that a test tries: fewer with -short, which is
// how the tests run on emulated machines, and fewer where generic code is only
// compared with itself.
func budget(n int) int {
	if testing.Short() {
		n /= 10
	}
	if tuned.isa == generic {
		n /= 4
	}
	return max(n, 1)
}
