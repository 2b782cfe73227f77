// Package tuning is every policy that depends on the CPU: a table with a row for each
// microarchitecture and implementation that is known. No result depends on it, so a test may put
// any row in the place of another, with kernels that its machine has.
package tuning

import (
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"time"
)

// Microarchitecture is a family of processors that want the same.
type Microarchitecture string

const (
	Zen3     Microarchitecture = "Zen 3"
	Zen4     Microarchitecture = "Zen 4"
	Zen5     Microarchitecture = "Zen 5"
	Intel    Microarchitecture = "Intel"
	OtherX86 Microarchitecture = "other x86-64"
	ARM64    Microarchitecture = "arm64"
	AnyCPU   Microarchitecture = "any" // of the generic code
)

// Reads is what makes kernels of few rows, which wait for memory, read it fast.
type Reads int

const (
	// QueuedReads: the processor's own prefetching is good enough. Score prefetches what comes after
	// its block.
	QueuedReads Reads = iota
	// PagedReads: kernels of few rows prefetch a line of each of 8 pages in turn, see
	// gen/prefetch_pages.go.
	PagedReads
	// SequentialReads: few rows read rows of keys and values in order, and prefetch nothing but
	// packed panels; first the keys of several blocks, then their values. Where heads lie side by
	// side, they prefetch the tokens of all, in order.
	SequentialReads
)

func (r Reads) String() string { return [...]string{"queued", "paged", "inOrder"}[r] }

// Row is the policies of one CPU and implementation.
type Row struct {
	CPU Microarchitecture
	ISA ISA // the kernels

	// Which kernels take full blocks.
	MinRows16 int // from that many rows on, score and accumulate have 16 lanes, if there are such
	// MinTypedRows16 is that over elements of fewer bits, in a row of the table 0 if it is the same.
	MinTypedRows16 int
	// MinHalfRows16 is that over F16 and BF16, in a row of the table 0 if it is the same.
	MinHalfRows16 int
	// MinPacked16 is that over views whose keys the call packs, so that they are in the cache, for
	// eight rows or more in all; in a row of the table 0 if it is the same.
	MinPacked16   int
	MaximaInScore bool // score with 8 lanes finds the maxima of its rows

	// How memory is read.
	Reads         Reads
	FourPanels    bool // one row reads four packed panels side by side, else one after another
	OnePanel      bool // two and three rows read one packed panel after another, else two side by side
	PrefetchOne   int  // how many bytes ahead one or two rows prefetch packed panels,
	PrefetchFew   int  // three to five rows,
	PrefetchRun   int  // and that much further where blocks follow each other, not in a store's pages,
	PrefetchTyped int  // rows over elements of fewer bits, beyond panels that are read side by side,
	// PrefetchScaled is PrefetchTyped over I8 and I4 of a cache or store, in a row of the table 0 if
	// it is the same.
	PrefetchScaled int
	PrefetchBlocks int  // how far few rows prefetch blocks of GGUF files,
	PrefetchRows   int  // and norms and activations, at least to the next row; 0: they do not
	PrefetchInt8   int  // and rows of integers the panels of other matrices and caches,
	WholeBlocks    bool // and these, over a cache or store, at least that far in whole blocks
	FewRows        int  // up to that many rows, heads side by side go together, page by page
	MinPagedRows   int  // with queued reads, views are read page by page from that many rows on,
	MaxPagedRows   int  // and up to how many
	// MinPagedPanels is from how many rows on a cache or store of float32 is read page by page with
	// queued reads, and by kernels that MinPacked16 chooses; 0 if never.
	MinPagedPanels int
	// MinStreamRows is from how many rows on, or for one of more than TileDim dimensions, few rows
	// prefetch views whose heads lie side by side in one stream; 0: none do.
	MinStreamRows int
	QuarterSteps  bool // rows that are prefetched come from four places in turn, a quarter from each

	// Sizes of tiles and chunks.
	TileRows int // rows that go through the kernels together, of at most TileDim dimensions
	MinL1    int // bytes of L1 cache that these need; with less there are MinTileRows
	L2       int // bytes of L2 cache for each core

	DotProduct bool // kernels in integers add products of four bytes in one instruction: [DotProduct]

	AMX              bool // and many rows are multiplied by tiles,
	MinAMXRows       int  // from that many on in attention, 0 if there are no such kernels,
	MinAMXMatrixRows int  // from that many on by a matrix of integers,
	MinAMXBlockRows  int  // and by one of blocks, of which only whole tiles of rows are

	AMXBFloat16    bool // products in bfloat16 go through tiles, too,
	MinAMXPairRows int  // from that many rows on, 0 if there are no such kernels

	// MinInt8Rows16 rows or more over integers have 16 lanes. One row with 8 waits less for memory:
	// its prefetches are further apart.
	MinInt8Rows16 int

	// When a Pool wakes workers.
	FlopsPerNs float64       // multiply-adds count twice
	BytesPerNs float64       // from memory
	SmallCall  float64       // calls of fewer nanoseconds stay on the caller's goroutine
	WakingCall float64       // and calls of fewer wake no workers for themselves
	LongCall   float64       // calls of at least that are always shared
	Backoff    float64       // of calls that workers came late for, before some are not shared
	Spin       time.Duration // how long an idle goroutine spins before it parks
}

const (
	// MinTileRows and MaxTileRows are what Row.TileRows may be.
	MinTileRows, MaxTileRows = 48, 96

	// TileDim is up to how many dimensions Row.TileRows rows stay in the L1 cache with their scores.
	TileDim = 64

	// AMXRows is how many rows a tile of AMX has.
	AMXRows = 16

	// MostAhead is the most that is prefetched ahead: more would leave the L1 cache before it is read.
	MostAhead = 32 << 10

	never = math.MaxInt // more rows than a tile has
)

// Table has a row for each CPU and implementation that is known. docs/decisions/tuning.md says what
// each field decides, and what values were worth. Where a field was not measured, a row has what
// the most similar one has.
func Table() []Row { return slices.Clone(table) }

var table = []Row{
	{CPU: Zen3, ISA: AVX2, MinRows16: never, FewRows: 64, MaximaInScore: true, FourPanels: true,
		PrefetchOne: 6144, PrefetchFew: 8192, PrefetchTyped: 4096, PrefetchInt8: 8192,
		PrefetchBlocks: 6144, PrefetchRows: 4096,
		TileRows: 48},
	{CPU: Zen4, ISA: AVX512, MinRows16: never, MinInt8Rows16: 2, FewRows: 128, MaximaInScore: true,
		Reads:       SequentialReads,
		PrefetchOne: 256, PrefetchFew: 4096, PrefetchTyped: 4096, PrefetchInt8: 8192,
		PrefetchBlocks: 6144, PrefetchRows: 4096,
		MinAMXRows: 9, MinAMXMatrixRows: 5, MinAMXBlockRows: 16, MinAMXPairRows: 5,
		TileRows: 96},
	{CPU: Zen4, ISA: AVX2, MinRows16: never, FewRows: 64, MaximaInScore: true,
		Reads:       SequentialReads,
		PrefetchOne: 256, PrefetchFew: 4096, PrefetchTyped: 4096, PrefetchInt8: 8192,
		PrefetchBlocks: 6144, PrefetchRows: 4096,
		TileRows: 96},
	{CPU: Zen5, ISA: AVX512, MinRows16: 13, MinPacked16: 2, MinTypedRows16: 2, MinInt8Rows16: 1,
		FewRows: 96, OnePanel: true, MinPagedRows: 2, MaxPagedRows: 32, MinStreamRows: 2,
		MinPagedPanels: 6,
		PrefetchOne:    6144, PrefetchFew: 8192, PrefetchRun: 4096, PrefetchTyped: 4096,
		PrefetchScaled: 8192, PrefetchInt8: 8192, WholeBlocks: true,
		PrefetchBlocks: 6144, PrefetchRows: 4096,
		MinAMXRows: 9, MinAMXMatrixRows: 5, MinAMXBlockRows: 16, MinAMXPairRows: 5,
		TileRows: 48},
	{CPU: Zen5, ISA: AVX2, MinRows16: never, FewRows: 64, MaximaInScore: true, OnePanel: true,
		MinPagedRows: 2, MaxPagedRows: 32, MinStreamRows: 2,
		PrefetchOne: 6144, PrefetchFew: 8192, PrefetchRun: 4096, PrefetchTyped: 4096,
		PrefetchInt8: 8192, WholeBlocks: true,
		PrefetchBlocks: 6144, PrefetchRows: 4096,
		TileRows: 48},
	{CPU: Intel, ISA: AVX512, MinRows16: 2, MinHalfRows16: 5, MinInt8Rows16: 2, FewRows: 128,
		Reads: PagedReads, QuarterSteps: true,
		PrefetchOne: 6144, PrefetchFew: 8192, PrefetchTyped: 6144, PrefetchInt8: 9728,
		PrefetchBlocks: 2048, PrefetchRows: 4096,
		MinAMXRows: 9, MinAMXMatrixRows: 5, MinAMXBlockRows: 16, MinAMXPairRows: 5,
		TileRows: 96, MinL1: 48 << 10, BytesPerNs: 16},
	{CPU: Intel, ISA: AVX2, MinRows16: never, FewRows: 64, Reads: PagedReads,
		PrefetchOne: 6144, PrefetchFew: 8192, PrefetchTyped: 6144, PrefetchInt8: 9728,
		PrefetchBlocks: 2048, PrefetchRows: 4096,
		TileRows: 96, MinL1: 48 << 10, BytesPerNs: 16},
	{CPU: OtherX86, ISA: AVX512, MinRows16: 13, MinInt8Rows16: 2, FewRows: 128,
		PrefetchOne: 6144, PrefetchFew: 8192, PrefetchTyped: 4096, PrefetchInt8: 8192,
		PrefetchBlocks: 6144, PrefetchRows: 4096,
		MinAMXRows: 9, MinAMXMatrixRows: 5, MinAMXBlockRows: 16, MinAMXPairRows: 5,
		TileRows: 48},
	{CPU: OtherX86, ISA: AVX2, MinRows16: never, FewRows: 64,
		PrefetchOne: 6144, PrefetchFew: 8192, PrefetchTyped: 4096, PrefetchInt8: 8192,
		PrefetchBlocks: 6144, PrefetchRows: 4096,
		TileRows: 48},
	{CPU: ARM64, ISA: NEON, MinRows16: never, FewRows: 64, TileRows: 48, FlopsPerNs: 60,
		PrefetchBlocks: 6144},
	{CPU: AnyCPU, ISA: Generic, MinRows16: never, FewRows: 64, TileRows: 48, FlopsPerNs: 1.5},
}

// Host returns the row of this machine, or of what the environment variable ATTN_ISA asks for.
func Host() Row {
	cpu, l1, l2, possible := detect()
	row := For(cpu, choose(os.Getenv("ATTN_ISA"), possible...), l1, l2)
	row.DotProduct = HasDotProduct(row.ISA)
	row.AMX = HostTiles().Use && row.MinAMXRows > 0
	row.AMXBFloat16 = HostTiles().BFloat16 && row.MinAMXPairRows > 0
	return row
}

// HostTiles says whether this process may use tiles. The first call asks the system.
var HostTiles = sync.OnceValue(func() Tiles {
	_, _, _, possible := detect()
	isa := choose(os.Getenv("ATTN_ISA"), possible...)
	return tilesAsked(os.Getenv("ATTN_AMX"), isa, func() Tiles {
		if used, why := DotProduct(isa); !used { // which takes the rows that are left
			return Tiles{Why: why}
		}
		return requestTiles()
	})
})

// Possible returns the implementations that this machine can run, best first.
func Possible() []ISA {
	_, _, _, possible := detect()
	return possible
}

// For returns the row of a CPU and an implementation, for caches of some sizes in bytes, 0 or less
// where that is not known. It panics if [Row.Check] refuses the row.
func For(cpu Microarchitecture, i ISA, l1, l2 int) Row {
	for _, row := range table {
		if row.ISA == i && (row.CPU == cpu || row.CPU == AnyCPU) {
			if row.MinTypedRows16 == 0 {
				row.MinTypedRows16 = row.MinRows16
			}
			if row.MinHalfRows16 == 0 {
				row.MinHalfRows16 = row.MinTypedRows16
			}
			if row.MinPacked16 == 0 {
				row.MinPacked16 = row.MinRows16
			}
			if row.PrefetchScaled == 0 {
				row.PrefetchScaled = row.PrefetchTyped
			}
			row = row.WithCaches(l1, l2).withCosts()
			if err := row.Check(); err != nil {
				panic(err)
			}
			return row
		}
	}
	panic(fmt.Sprintf("attn: no tuning for %s with %v", cpu, i))
}

// WithCaches fits the sizes of tiles to caches.
func (t Row) WithCaches(l1, l2 int) Row {
	const (
		unknown  = 512 << 10 // the least of the CPUs that the assembly is for
		smallest = 256 << 10
	)
	if l1 < t.MinL1 {
		t.TileRows = MinTileRows
	}
	if t.L2 = unknown; l2 > 0 {
		t.L2 = max(l2, smallest)
	}
	return t
}

// withCosts fills in what rows do not say of costs.
func (t Row) withCosts() Row {
	if t.FlopsPerNs == 0 {
		t.FlopsPerNs = 90
	}
	if t.BytesPerNs == 0 {
		t.BytesPerNs = 40
	}
	t.SmallCall, t.WakingCall, t.Spin = 20e3, 250e3, 50*time.Microsecond
	t.LongCall, t.Backoff = 4*t.WakingCall, 300e3
	return t
}

// ScratchBytes is what a worker's scratch may take. All rows of a chunk meet each packed block of
// keys, so more rows pack less often, but all of it has to stay in the L2 cache.
func (t *Row) ScratchBytes() int {
	const largest = 1280 << 10 // more rows do not pay, and threads may share a larger cache
	return min(t.L2/32*31, largest)
}

// PrefetchBytes is how much of a block's keys is prefetched, of its values, of a chunk's outputs,
// and of the next one's queries: more would push out of the L2 cache what the chunk works with.
func (t *Row) PrefetchBytes() int { return t.L2 / 8 }

// Stays reports whether an operand of a matrix product stays in the L2 cache, beside the others.
func (t *Row) Stays(bytes int) bool { return bytes <= t.L2/2 }

// Streams reports whether few rows read their bytes in order, or prefetch them in one stream where
// heads lie side by side: fewer may be in the L2 cache, where both take longer.
func (t *Row) Streams(bytes float64, rows, dims int) (inOrder, oneStream bool) {
	if bytes <= float64(t.L2) {
		return false, false
	}
	return t.Reads == SequentialReads,
		t.MinStreamRows > 0 && (rows >= t.MinStreamRows || dims > TileDim)
}

// PagedRows is up to how many rows read the caller's keys and values page by page, where chunks
// have some rows.
func (t *Row) PagedRows(rows int) int {
	switch {
	case t.Reads == PagedReads:
		return t.FewRows
	case t.Reads == QueuedReads && rows >= t.MinPagedRows:
		return t.MaxPagedRows
	}
	return 0
}

// PanelsInOrder is whether packed panels are read in order, which OnePanel says, too.
func (t *Row) PanelsInOrder(bytes float64) bool {
	return (t.OnePanel || t.Reads == SequentialReads) && bytes > float64(t.L2)
}

// PanelsAhead reports whether some rows by a matrix prefetch panels while they multiply by those
// before, each tile a part. With PagedReads only rows that take long enough for that do: fewer
// prefetch page by page, with the first tile.
func (t *Row) PanelsAhead(rows int) bool { return t.Reads != PagedReads || rows >= 48 }

// Ahead is how many bytes ahead rows of integers prefetch blocks of a cache or store. Between the
// keys and the values of a block, and after these, are scales, which kernels do not request: whole
// blocks ahead all lines are requested that kernels request, and else some never, others twice.
func (t *Row) Ahead(block int) int {
	if ahead := (t.PrefetchInt8 + block - 1) / block * block; t.WholeBlocks && ahead <= MostAhead {
		return ahead
	}
	return t.PrefetchInt8
}

// Cost estimates the nanoseconds on one core: of the arithmetic or of reading the operands,
// whichever is longer.
func (t *Row) Cost(flops, bytes float64) float64 {
	return max(flops/t.FlopsPerNs, bytes/t.BytesPerNs)
}

// TasksPerWorker is how many tasks a worker should find at least, so that none waits long for the
// last one.
const TasksPerWorker = 4

// Makespan estimates how long workers take for tasks which take some time each at most, and a part
// of that on average. Tasks of one length go in rounds, and the last worker ends somewhat after the
// others; of different length, small ones fill what large ones leave.
func Makespan(tasks, workers int, each, mean float64) float64 {
	if mean == 1 {
		rounds := (tasks + workers - 1) / workers
		return (float64(rounds) + 1./4) * each
	}
	return max(float64(tasks)*mean/float64(workers), 1)*each + each/4
}
