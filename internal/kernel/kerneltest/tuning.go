package kerneltest

import (
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/sanitize"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Chosen is the row that the program started with, before any test changed it.
var Chosen = *Tuned

// Implementations lists the implementations that this machine can run: the chosen one and all below
// it.
func Implementations() []tuning.ISA {
	switch Chosen.ISA {
	case tuning.Generic:
		return []tuning.ISA{tuning.Generic}
	case tuning.AVX512:
		return []tuning.ISA{tuning.AVX512, tuning.AVX2, tuning.Generic}
	}
	return []tuning.ISA{Chosen.ISA, tuning.Generic}
}

// UseTuning puts a row in force until the test ends.
func UseTuning(t testing.TB, row tuning.Row) {
	if err := row.Check(); err != nil {
		t.Helper()
		t.Fatal(err)
	}
	before := *Tuned
	t.Cleanup(func() { *Tuned = before })
	*Tuned = row
}

// Use selects an implementation until the test ends, with this machine's row for it.
func Use(t testing.TB, i tuning.ISA) {
	row := *Tuned
	if row.ISA != i {
		row = tuning.For(Chosen.CPU, i, 0, Chosen.L2)
		row.DotProduct = tuning.HasDotProduct(i)
		row.SmallCall, row.WakingCall = Tuned.SmallCall, Tuned.WakingCall
	}
	UseTuning(t, With16Lanes(row))
}

// SwitchTo puts the kernels of another implementation in force, for the row that there is.
func SwitchTo(i tuning.ISA) {
	Tuned.ISA, Tuned.DotProduct = i, Tuned.DotProduct && tuning.HasDotProduct(i)
	Tuned.AMX = Tuned.AMX && i == tuning.AVX512
	Tuned.AMXBFloat16 = Tuned.AMXBFloat16 && i == tuning.AVX512
}

// With16Lanes returns the row with kernels with 16 lanes enabled, even if the CPU prefers others.
func With16Lanes(row tuning.Row) tuning.Row {
	row.MinRows16, row.MinPacked16 = min(row.MinRows16, 13), min(row.MinPacked16, 13)
	return row
}

// OnThisMachine returns the row with the best implementation that both the row and this machine
// allow.
func OnThisMachine(t tuning.Row) tuning.Row {
	for !slices.Contains(Implementations(), t.ISA) {
		if t.ISA == tuning.AVX512 {
			t.ISA = tuning.AVX2
		} else {
			t.ISA = Implementations()[0]
		}
	}
	return t
}

// ForEach runs a subtest for each implementation of this machine. With a sanitizer it skips generic
// code, unless it was chosen: there generic code is ten times slower than all others together, is
// plain Go with checked bounds, and runs on the same operands wherever kernels are compared with
// it.
func ForEach(t *testing.T, test func(t *testing.T)) {
	all := Implementations()
	if sanitize.Enabled && len(all) > 1 {
		all = all[:len(all)-1]
	}
	for _, i := range all {
		t.Run(i.String(), func(t *testing.T) {
			Use(t, i)
			test(t)
		})
	}
}

// ForEachTuning runs a subtest for each row of tunings, whatever this machine is.
func ForEachTuning(t *testing.T, test func(t *testing.T)) {
	for _, row := range tuning.Table() {
		t.Run(string(row.CPU)+"/"+row.ISA.String(), func(t *testing.T) {
			UseTuning(t, OnThisMachine(tuning.For(row.CPU, row.ISA, 32<<10, 1<<20)))
			test(t)
		})
	}
}

// AnyTuning puts random policies in force, but for the implementation, until the test ends: no bit
// depends on them.
func AnyTuning(t *testing.T, r *rand.Rand) {
	coin := func() bool { return r.IntN(2) == 0 }
	table := tuning.Table()
	row := table[r.IntN(len(table))]
	row = tuning.For(row.CPU, row.ISA, 48<<10, 1)
	row.ISA = Tuned.ISA
	row.L2 = []int{0, 512 << 10, 2 << 20}[r.IntN(3)]
	row.TileRows = []int{tuning.MinTileRows, tuning.MaxTileRows}[r.IntN(2)]
	row.Reads = []tuning.Reads{tuning.QueuedReads, tuning.PagedReads,
		tuning.SequentialReads}[r.IntN(3)]
	row.FewRows = []int{64, 128}[r.IntN(2)]
	row.QuarterSteps, row.FourPanels, row.OnePanel = coin(), coin(), coin()
	paged := 0
	row.MinPagedRows, paged = 1+r.IntN(3), r.IntN(4)
	row.MaxPagedRows, row.MinStreamRows = []int{0, 32}[paged%2], paged/2
	from, floats, typed := []int{2, 13, math.MaxInt}, r.IntN(3), r.IntN(3)
	row.MinRows16, row.MinTypedRows16, row.MinHalfRows16 = from[floats], from[typed], from[floats]
	row.MinPacked16 = from[(floats+typed)%3]
	row.MinPagedPanels = []int{0, 1, 6}[(floats+2*typed)%3]
	row.MaximaInScore = coin()
	row.DotProduct = tuning.HasDotProduct(row.ISA) && coin()
	row.MinAMXRows = []int{1, 8, 16}[(floats+typed)%3]
	row.MinAMXMatrixRows, row.MinAMXBlockRows = row.MinAMXRows, 4*row.MinAMXRows
	row.AMX = row.ISA == tuning.AVX512 && row.DotProduct && tuning.HostTiles().Use && coin()
	row.MinAMXPairRows = row.MinAMXRows
	row.AMXBFloat16 = row.ISA == tuning.AVX512 && tuning.HostTiles().BFloat16 && coin()
	if coin() { // a Pool shares even the smallest calls
		row.SmallCall, row.WakingCall = 0, 0
	}
	UseTuning(t, row)
}

// ReadingAs puts a way of reading memory in force, with no cache that calls might stay in, until
// the test ends.
func ReadingAs(t testing.TB, reads tuning.Reads) {
	row := *Tuned
	row.Reads = reads
	if reads == tuning.SequentialReads {
		row.L2 = 0
	}
	UseTuning(t, row)
}

// SlowestFMA returns the cycles of an FMA with its loads on the slowest supported CPU, see package
// kernel: an in-order arm64 core needs 44 cycles of loads for 96 FMAs.
func SlowestFMA() float64 {
	if runtime.GOARCH == "arm64" {
		return 1.5
	}
	return 1
}

// Few reports whether tests run fewer cases, as they do unless ATTN_TEST_FULL is set: all cases
// need minutes. With -short, as on emulated machines, there are even fewer.
func Few() bool { return testing.Short() || os.Getenv("ATTN_TEST_FULL") == "" }

// Budget is the number of cases that a test tries. It is lower, too, where generic code is only
// compared with itself.
func Budget(n int) int {
	if testing.Short() {
		n /= 10
	} else if Few() {
		n /= 5
	}
	if Tuned.ISA == tuning.Generic {
		n /= 4
	}
	return max(n, 1)
}
