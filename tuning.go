package attn

import (
	"fmt"
	"math"
	"os"
	"time"

	"github.com/seed-1415985d/attn/internal/forced"
)

// isa names an implementation of the kernels.
type isa int

const (
	generic isa = iota
	avx2
	avx512
	neon
)

func (i isa) String() string { return [...]string{"generic", "avx2", "avx512", "neon"}[i] }

// microarchitecture is a family of processors that want the same.
type microarchitecture string

const (
	zen3     microarchitecture = "Zen 3"
	zen4     microarchitecture = "Zen 4"
	zen5     microarchitecture = "Zen 5"
	intel    microarchitecture = "Intel"
	otherX86 microarchitecture = "other x86-64"
	arm64    microarchitecture = "arm64"
	anyCPU   microarchitecture = "any" // of the generic code
)

// memoryReads is what makes kernels of few rows, which wait for memory, read it fast.
type memoryReads int

const (
	// queuedReads: the processor's own prefetching is good enough. Score prefetches what comes after its block.
	queuedReads memoryReads = iota
	// pagedReads: kernels of few rows prefetch a line of each of 8 pages in turn, see gen/prefetch_pages.go.
	pagedReads
	// sequentialReads: few rows read rows of keys and values in order, and prefetch nothing but packed panels;
	// first the keys of several blocks, then their values. Where heads lie side by side, they prefetch the tokens of all, in order.
	sequentialReads
)

func (r memoryReads) String() string { return [...]string{"queued", "paged", "sequential"}[r] }

// tuning is every policy that depends on the CPU: one row of tunings, chosen when the program starts. No result
// depends on it, so a test may put any row in the place of another, with kernels that its machine has.
type tuning struct {
	cpu microarchitecture
	isa isa // the kernels

	// Which kernels take full blocks; see chooseKernels.
	leastRows16   int  // from so many rows on, score and accumulate have 16 lanes, if there are such
	fusedSoftmax  bool // softmax and P·V are one kernel of 8 lanes: exps run beside multiply-adds
	maximaInScore bool // score with 8 lanes finds the maxima of its rows

	// How memory is read.
	reads         memoryReads
	fourPanels    bool // one row reads four packed panels side by side, else one panel after the other
	prefetchOne   int  // how many bytes ahead one or two rows prefetch packed panels,
	prefetchFew   int  // and three to five rows
	prefetchTyped int  // and rows over elements of fewer bits
	fewRows       int  // up to so many rows are few: heads side by side go together, and prefetch page by page
	quarterSteps  bool // the queue's runs are prefetched from four places in turn, a quarter of the rows from each

	// Sizes of tiles and chunks.
	tileRows int // rows that go through the kernels together, of at most tileDim dimensions
	leastL1  int // bytes of L1 cache that these need; with less there are leastTileRows
	l2       int // bytes of L2 cache for each core

	// When a Pool wakes workers.
	flopsPerNs float64       // multiply-adds count twice
	bytesPerNs float64       // from memory
	smallCall  float64       // calls of fewer nanoseconds stay on the caller's goroutine
	wakingCall float64       // and calls of fewer wake no workers for themselves
	longCall   float64       // calls of so many are always shared
	patience   float64       // of calls that were shared for nothing, before some are left alone: workers that sleep need that long to come
	watch      time.Duration // how long who expects something soon watches for it before it sleeps
}

const (
	// leastTileRows and mostTileRows are what tuning.tileRows may be.
	leastTileRows, mostTileRows = 48, 96

	// tileDim is up to how many dimensions tuning.tileRows rows stay in the L1 cache with their scores.
	tileDim = 64

	never = math.MaxInt // more rows than a tile has
)

// tunings has a row for each CPU and implementation known; docs/performance.md shows it, and docs/decisions.md says what each
// entry was worth. Where a field was not measured, a row has what the most similar one has.
var tunings = []tuning{
	{cpu: zen3, isa: avx2, leastRows16: never, fewRows: 64, maximaInScore: true,
		fourPanels: true, prefetchOne: 6144, prefetchFew: 8192, prefetchTyped: 8192, tileRows: 48},
	{cpu: zen4, isa: avx512, leastRows16: never, fewRows: 128, maximaInScore: true,
		reads: sequentialReads, prefetchOne: 256, prefetchFew: 4096, prefetchTyped: 8192, tileRows: 96},
	{cpu: zen4, isa: avx2, leastRows16: never, fewRows: 64, maximaInScore: true,
		reads: sequentialReads, prefetchOne: 256, prefetchFew: 4096, prefetchTyped: 8192, tileRows: 96},
	{cpu: zen5, isa: avx512, leastRows16: 13, fewRows: 128,
		prefetchOne: 6144, prefetchFew: 8192, prefetchTyped: 8192, tileRows: 48},
	{cpu: zen5, isa: avx2, leastRows16: never, fewRows: 64, fusedSoftmax: true,
		prefetchOne: 6144, prefetchFew: 8192, prefetchTyped: 8192, tileRows: 48},
	{cpu: intel, isa: avx512, leastRows16: 2, fewRows: 128,
		reads: pagedReads, quarterSteps: true, prefetchOne: 6144, prefetchFew: 8192, prefetchTyped: 8192, tileRows: 96, leastL1: 48 << 10},
	{cpu: intel, isa: avx2, leastRows16: never, fewRows: 64,
		reads: pagedReads, prefetchOne: 6144, prefetchFew: 8192, prefetchTyped: 8192, tileRows: 96, leastL1: 48 << 10},
	{cpu: otherX86, isa: avx512, leastRows16: 13, fewRows: 128,
		prefetchOne: 6144, prefetchFew: 8192, prefetchTyped: 8192, tileRows: 48},
	{cpu: otherX86, isa: avx2, leastRows16: never, fewRows: 64,
		prefetchOne: 6144, prefetchFew: 8192, prefetchTyped: 8192, tileRows: 48},
	{cpu: arm64, isa: neon, leastRows16: never, fewRows: 64, tileRows: 48, flopsPerNs: 60},
	{cpu: anyCPU, isa: generic, leastRows16: never, fewRows: 64, tileRows: 48, flopsPerNs: 0.5},
}

// tuned is the row in force.
var tuned = tuneHost()

// tuneHost returns the row of this machine, or of what ATTN_ISA asks for.
func tuneHost() tuning {
	cpu, l1, l2, possible := detect()
	return tune(cpu, chooseISA(possible...), l1, l2)
}

// chooseISA returns the implementation to use: the given ones are what this CPU
// can run, best first, with generic always possible. ATTN_ISA overrides it; to
// ask for what is not there is a mistake that must not pass for a slow machine.
func chooseISA(possible ...isa) isa {
	name := os.Getenv("ATTN_ISA")
	if name == "" {
		return possible[0]
	}
	for _, i := range possible {
		if i.String() == name {
			return i
		}
	}
	mistake := fmt.Sprintf("attn: ATTN_ISA=%s is not available here, want one of %v", name, possible)
	if forced.Unavailable == nil {
		panic(mistake)
	}
	forced.Unavailable(mistake)
	return possible[0]
}

// tune returns the row of a CPU and an implementation, for caches of so many bytes, 0 or less where that is not known.
func tune(cpu microarchitecture, i isa, l1, l2 int) tuning {
	for _, row := range tunings {
		if row.isa == i && (row.cpu == cpu || row.cpu == anyCPU) {
			return row.withCaches(l1, l2).withCosts()
		}
	}
	panic(fmt.Sprintf("attn: no tuning for %s with %v", cpu, i))
}

// withCaches fits the sizes of tiles to caches.
func (t tuning) withCaches(l1, l2 int) tuning {
	const (
		unknown = 512 << 10 // the least of the CPUs that the assembly is for
		least   = 256 << 10
	)
	if l1 < t.leastL1 {
		t.tileRows = leastTileRows
	}
	if t.l2 = unknown; l2 > 0 {
		t.l2 = max(l2, least)
	}
	return t
}

// withCosts fills in what rows do not say of costs.
func (t tuning) withCosts() tuning {
	if t.flopsPerNs == 0 {
		t.flopsPerNs = 90
	}
	t.bytesPerNs, t.smallCall, t.wakingCall, t.watch = 40, 20e3, 250e3, 50*time.Microsecond
	t.longCall, t.patience = 4*t.wakingCall, 300e3
	return t
}

// scratchBytes is what a worker's scratch may take. All rows of a chunk meet each packed block of keys, so more rows pack
// less often, but all of it has to stay in the L2 cache.
func (t *tuning) scratchBytes() int {
	const most = 1280 << 10 // more rows do not pay, and a larger cache may be shared by several threads
	return min(t.l2/32*31, most)
}

// prefetchBytes is how much of a block's keys is prefetched, of its values, of a chunk's outputs, and of the next
// one's queries: more would push out of the L2 cache what the chunk works with.
func (t *tuning) prefetchBytes() int { return t.l2 / 8 }

// stays reports whether so many bytes of an operand of a matrix product stay in the L2 cache, beside the others.
func (t *tuning) stays(bytes int) bool { return bytes <= t.l2/2 }

// sequential reports whether few rows read so many bytes in order: fewer may be in the L2 cache, where computing takes longer so.
func (t *tuning) sequential(bytes float64) bool {
	return t.reads == sequentialReads && bytes > float64(t.l2)
}

// cost estimates the nanoseconds on one core: of the arithmetic or of reading the operands, whichever is longer.
func (t *tuning) cost(flops, bytes float64) float64 {
	return max(flops/t.flopsPerNs, bytes/t.bytesPerNs)
}
